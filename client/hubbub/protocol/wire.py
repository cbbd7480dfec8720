"""The bytes of a batch: packed, and as JSON. The one place that knows where something lies in a message.

    header   32 bytes   "HUBB", version u8 = 1, flags u8 = 0, num_blocks u16, batch_id 16, body_length u32, crc32 u32
    table    16 bytes per block: first 8 of the metric's hash, epoch i32, count u32
    blocks   count cohorts (u8, or u16 where num_cohorts > 256), then count vectors of ceil(width / 8) bytes

All little-endian. body_length counts the bytes after the header; the crc is that of the whole message with its own
field zero. Bit i of a vector is position i; unused bits are zero. The JSON form carries the same fields, with
vectors in hex. Any byte string gives a Batch or a `Refused` with words, in memory of a small multiple of its size.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from hubbub.protocol.invalid import brief
from hubbub.protocol.metric import SHORT_HASH_BYTES, Definition
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import BATCH_ID_BYTES, MAX_BLOCKS, Batch, Block, Metrics, Report, broken_rules, cohort_rule
from hubbub.protocol.strict_json import loads

MEDIA_TYPE = "application/vnd.hubbub.reports"
MEDIA_TYPE_JSON = "application/json"
VERSION = 1
MAX_JSON_BYTES = 1 << 20

_MAGIC = b"HUBB"
_HEADER = struct.Struct(f"<4sBBH{BATCH_ID_BYTES}sII")
_ENTRY = struct.Struct(f"<{SHORT_HASH_BYTES}siI")
HEADER_BYTES = _HEADER.size
ENTRY_BYTES = _ENTRY.size
NUM_BLOCKS = slice(6, 8)
BATCH_ID = slice(NUM_BLOCKS.stop, NUM_BLOCKS.stop + BATCH_ID_BYTES)
BODY_LENGTH = slice(BATCH_ID.stop, BATCH_ID.stop + 4)
CRC = slice(BODY_LENGTH.stop, HEADER_BYTES)
_BYTES_PER_OBJECT = 64  # a report in JSON has more, however short its name


def pack(batch: Batch) -> bytes:
    """The message, byte for byte as it travels."""
    table = b"".join(_ENTRY.pack(block.metric.short_hash, block.epoch, block.count) for block in batch.blocks)
    body = table + b"".join(part for block in batch.blocks for part in (block.cohorts, block.vectors))
    header = _HEADER.pack(_MAGIC, VERSION, 0, len(batch.blocks), batch.batch_id, len(body), 0)
    crc = zlib.crc32(body, zlib.crc32(header))
    return header[: CRC.start] + crc.to_bytes(4, "little") + body


def crc_of(message: bytes) -> int:
    """The crc that a message ought to have: of all of it, with its own field zero."""
    return zlib.crc32(memoryview(message)[HEADER_BYTES:], zlib.crc32(message[: CRC.start] + b"\0\0\0\0"))


def renamed(message: bytes, batch_id: bytes) -> bytes:
    """The same message under another id, and so with another crc."""
    changed = message[: BATCH_ID.start] + batch_id + message[BATCH_ID.stop :]
    return changed[: CRC.start] + crc_of(changed).to_bytes(4, "little") + changed[CRC.stop :]


def is_whole(message: bytes) -> bool:
    """Whether these bytes are one message as it was sent, by its beginning and its crc."""
    return message.startswith(_MAGIC) and message[CRC] == crc_of(message).to_bytes(4, "little")


def message_end(data: bytes, at: int) -> int:
    """Where a message that begins at `at` ends, by what its header says."""
    length = data[at + BODY_LENGTH.start : at + BODY_LENGTH.stop]
    return at + HEADER_BYTES + int.from_bytes(length, "little")


def check_block(block: Block) -> None:
    """Refuse a block with a report that its metric cannot have made. (A collector may bring a faster one.)"""
    for number, (cohort, bits) in enumerate(block):
        for problem in broken_rules(block.metric, block.epoch, cohort, bits):
            raise Refused("report-impossible", f"report {number} of metric {block.metric.name}: {problem}")


def unpack(message: bytes, metrics: Metrics, check: Callable[[Block], None] = check_block) -> Batch:
    """The batch that a packed message holds; raises `Refused` for any defect, before anything is used."""
    batch_id, num_blocks = _read_header(message)
    at = HEADER_BYTES + num_blocks * ENTRY_BYTES
    if at > len(message):
        raise _malformed(f"num_blocks must fit the message of {len(message)} bytes, got {num_blocks}")
    blocks = []
    seen = set()
    for entry in _ENTRY.iter_unpack(message[HEADER_BYTES:at]):
        block, at = _read_block(message, at, entry, metrics)
        if (entry[0], block.epoch) in seen:
            raise _malformed(f"a batch must have one block per metric and epoch, got two of {block.metric.name}")
        seen.add((entry[0], block.epoch))
        check(block)
        blocks.append(block)
    if at != len(message):
        raise _malformed(f"the blocks must fill the message of {len(message)} bytes, got {at}")
    return Batch(batch_id, tuple(blocks))


def _read_header(message: bytes) -> tuple[bytes, int]:
    if len(message) < HEADER_BYTES:
        raise _malformed(f"a message must have at least {HEADER_BYTES} bytes, got {len(message)}")
    magic, version, flags, num_blocks, batch_id, body_length, crc = _HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise _malformed(f"a message must begin with {_MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise Refused("version-unsupported", f"version must be {VERSION}, got {version}")
    if flags != 0:
        raise _malformed(f"flags must be 0, got {flags}")
    if body_length != len(message) - HEADER_BYTES:
        raise _malformed(f"body_length must be {len(message) - HEADER_BYTES}, the bytes that follow, got {body_length}")
    expected = crc_of(message)
    if crc != expected:
        raise _malformed(f"crc32 must be {expected:08x}, that of the message, got {crc:08x}")
    if not 1 <= num_blocks <= MAX_BLOCKS:
        raise _malformed(f"num_blocks must be in [1, {MAX_BLOCKS}], got {num_blocks}")
    return batch_id, num_blocks


def _read_block(message: bytes, at: int, entry: tuple[bytes, int, int], metrics: Metrics) -> tuple[Block, int]:
    short_hash, epoch, count = entry
    metric = metrics.get(short_hash)
    if metric is None:
        raise Refused("metric-unknown", f"metric_hash {short_hash.hex()}... is not that of a metric known here")
    if count == 0:
        raise _malformed(f"count must be at least 1, got 0 for metric {metric.name}")
    vectors_at = at + count * metric.cohort_bytes
    if vectors_at > len(message):
        raise _malformed(f"count must fit the message of {len(message)} bytes, got {count} for metric {metric.name}")
    cohorts = message[at:vectors_at]
    end = vectors_at + _vectors_length(metric, cohorts, count)
    if end > len(message):
        raise _malformed(f"the vectors of metric {metric.name} must end within {len(message)} bytes, got {end}")
    return Block(metric, epoch, cohorts, message[vectors_at:end]), end


def _vectors_length(metric: Definition, cohorts: bytes, count: int) -> int:
    if metric.shape.equal_widths:
        return count * metric.vector_bytes(0)
    levels = metric.shape.num_cohorts
    by_level = [cohorts.count(level) for level in range(levels)]  # a tree has few levels: its cohorts are single bytes
    if sum(by_level) != count:
        raise Refused("report-impossible", f"metric {metric.name}: {cohort_rule(metric, max(cohorts))}")
    return sum(number * metric.vector_bytes(level) for level, number in enumerate(by_level))


# --- JSON ---------------------------------------------------------------------------------------------------------


def to_json(batch: Batch) -> dict[str, Any]:
    """The same fields for curl, browsers and other languages."""
    return {
        "version": VERSION,
        "batch_id": batch.batch_id.hex(),
        "reports": [
            {
                "metric": block.metric.name,
                "metric_hash": block.metric.metric_hash,
                "epoch": block.epoch,
                "cohort": cohort,
                "bits": bits.to_bytes(block.metric.vector_bytes(cohort), "little").hex(),
            }
            for block in batch.blocks
            for cohort, bits in block
        ],
    }


def from_json(message: bytes, metrics: Metrics) -> Batch:
    """The batch that a JSON message holds; raises `Refused` for any defect."""
    if len(message) > MAX_JSON_BYTES:
        raise Refused("too-large", f"a JSON message must have at most {MAX_JSON_BYTES} bytes, got {len(message)}")
    # An object of two letters becomes one of 200 bytes: without this, a message could fill forty times its size.
    nested = message.count(b"{") + message.count(b"[")
    if nested > 2 + len(message) // _BYTES_PER_OBJECT:
        raise _malformed(
            f"a JSON message must have at most 2 objects and lists and one more per {_BYTES_PER_OBJECT} bytes, "
            f"got {nested}"
        )
    try:
        data = loads(message.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _malformed(f"a JSON message must be JSON in UTF-8, each key once: {type(error).__name__}") from None
    _expect_keys(data, {"version", "batch_id", "reports"}, "the message")
    if type(data["version"]) is not int or data["version"] != VERSION:
        raise Refused("version-unsupported", f"version must be {VERSION}, got {brief(data['version'])}")
    batch_id = _read_hex(data["batch_id"], BATCH_ID_BYTES, "batch_id")
    if not isinstance(data["reports"], list) or not data["reports"]:
        raise _malformed(f"reports must be a list of at least one report, got {brief(data['reports'])}")
    reports = [_report_from_json(number, item, metrics) for number, item in enumerate(data["reports"])]
    try:
        return Batch.of(batch_id, reports)
    except ValueError as error:
        raise _malformed(str(error)) from None


_REPORT_KEYS = {"metric", "metric_hash", "epoch", "cohort", "bits"}


def _report_from_json(number: int, data: Any, metrics: Metrics) -> Report:
    where = f"report {number}"
    _expect_keys(data, _REPORT_KEYS, where)
    metric_hash = _read_hex(data["metric_hash"], 16, f"{where}: metric_hash")
    metric = metrics.get(metric_hash[:SHORT_HASH_BYTES])
    if metric is None or metric.metric_hash != metric_hash.hex():
        raise Refused("metric-unknown", f"{where}: metric_hash {metric_hash.hex()} is not that of a metric known here")
    if data["metric"] != metric.name:
        got = brief(data["metric"])
        raise _malformed(f"{where}: metric must be {metric.name!r}, the name behind its hash, got {got}")
    epoch, cohort = data["epoch"], data["cohort"]
    for key, value in (("epoch", epoch), ("cohort", cohort)):
        if type(value) is not int:
            raise _malformed(f"{where}: {key} must be a whole number, got {brief(value)}")
    if not 0 <= cohort < metric.shape.num_cohorts:
        raise Refused("report-impossible", f"{where} of metric {metric.name}: {cohort_rule(metric, cohort)}")
    vector = _read_hex(data["bits"], metric.vector_bytes(cohort), f"{where}: bits")
    try:
        return Report(metric, epoch, cohort, int.from_bytes(vector, "little"))
    except ValueError as error:
        raise Refused("report-impossible", f"{where} of metric {metric.name}: {error}") from None


def _expect_keys(data: Any, keys: set[str], where: str) -> None:
    if not isinstance(data, dict) or set(data) != keys:
        got = ", ".join(brief(key) for key in list(data)[:8]) if isinstance(data, dict) else brief(data)
        raise _malformed(f"{where} must have exactly the keys {', '.join(sorted(keys))}, got {got}")


def _read_hex(raw: Any, size: int, where: str) -> bytes:
    if isinstance(raw, str) and len(raw) == 2 * size and set(raw) <= set("0123456789abcdef"):
        return bytes.fromhex(raw)
    raise _malformed(f"{where} must be {2 * size} lower-case hex digits, got {brief(raw)}")


def _malformed(detail: str) -> Refused:
    return Refused("malformed", detail)
