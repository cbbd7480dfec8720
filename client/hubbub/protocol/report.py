"""Reports and batches, and their bytes: what a client sends and a collector reads.

A `Report` is one noisy answer. A `Batch` is what one message carries, in blocks of one metric and epoch each; a block
keeps its cohorts and bit vectors as they lie on the wire, so that a collector can count them without unpacking.

    header   32 bytes   "HUBB", version u8 = 1, flags u8 = 0, num_blocks u16, batch_id 16, body_length u32, crc32 u32
    table    16 bytes per block: first 8 of the metric's hash, epoch i32, count u32
    blocks   count cohorts (u8, or u16 where num_cohorts > 256), then count vectors of ceil(width / 8) bytes

All little-endian. body_length counts the bytes after the header; the crc is that of the whole message with its own
field zero. Bit i of a vector is position i; unused bits are zero. The JSON form carries the same fields, with
vectors in hex. Any byte string gives a Batch or a `Refused` with words, in memory of a small multiple of its size.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hubbub.protocol.invalid import brief, require
from hubbub.protocol.metric import SHORT_HASH_BYTES, Definition
from hubbub.protocol.refusal import Refused

MEDIA_TYPE = "application/vnd.hubbub.reports"
MEDIA_TYPE_JSON = "application/json"
VERSION = 1
BATCH_ID_BYTES = 16
MAX_JSON_BYTES = 1 << 20
MAX_BLOCKS = 4096
"""Far more than an app has metrics; a block costs its reader some 400 bytes beyond those it has in the message."""

_MAGIC = b"HUBB"
_HEADER = struct.Struct("<4sBBH16sII")
_ENTRY = struct.Struct(f"<{SHORT_HASH_BYTES}siI")
_CRC_OFFSET = _HEADER.size - 4
_BYTES_PER_OBJECT = 64  # a report in JSON has more, however short its name

Metrics = Mapping[bytes, Definition]
"""The definitions a reader knows, by `short_hash`."""


def by_short_hash(metrics: Iterable[Definition]) -> dict[bytes, Definition]:
    """The definitions a reader knows, in the form that `unpack` and `from_json` ask for."""
    return {metric.short_hash: metric for metric in metrics}


@dataclass(frozen=True, slots=True)
class Report:
    """One noisy answer: all that leaves a device about one metric and epoch."""

    metric: Definition
    epoch: int
    cohort: int
    bits: int

    def __post_init__(self) -> None:
        require(_broken_rules(self.metric, self.epoch, self.cohort, self.bits))


@dataclass(frozen=True, slots=True)
class Block:
    """The reports of one metric and epoch, as they lie on the wire."""

    metric: Definition
    epoch: int
    cohorts: bytes
    vectors: bytes

    @property
    def count(self) -> int:
        return len(self.cohorts) // cohort_bytes(self.metric)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The cohort and the bits of each report."""
        size = cohort_bytes(self.metric)
        at = 0
        for i in range(0, len(self.cohorts), size):
            cohort = int.from_bytes(self.cohorts[i : i + size], "little")
            end = at + vector_bytes(self.metric, cohort)
            yield cohort, int.from_bytes(self.vectors[at:end], "little")
            at = end


@dataclass(frozen=True, slots=True)
class Batch:
    """What one message carries. The id is random; a message sent again has the same id and the same bytes."""

    batch_id: bytes
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, batch_id: bytes, reports: Iterable[Report]) -> Batch:
        """A batch of these reports, in blocks by metric and epoch in the order in which they first appear."""
        groups: dict[tuple[str, int], list[Report]] = {}
        for report in reports:
            groups.setdefault((report.metric.metric_hash, report.epoch), []).append(report)
        return cls(batch_id, tuple(_block(group) for group in groups.values()))

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if len(self.batch_id) != BATCH_ID_BYTES:
            yield f"batch_id must have {BATCH_ID_BYTES} bytes, got {len(self.batch_id)}"
        if not 1 <= len(self.blocks) <= MAX_BLOCKS:
            yield f"a batch must have from 1 to {MAX_BLOCKS} blocks, got {len(self.blocks)}"

    @property
    def reports(self) -> Iterator[Report]:
        """All reports, block by block."""
        for block in self.blocks:
            for cohort, bits in block:
                yield Report(block.metric, block.epoch, cohort, bits)


def cohort_bytes(metric: Definition) -> int:
    return 1 if metric.shape.num_cohorts <= 256 else 2


def vector_bytes(metric: Definition, cohort: int) -> int:
    return (metric.shape.width(cohort) + 7) // 8


# --- packed -------------------------------------------------------------------------------------------------------


def pack(batch: Batch) -> bytes:
    """The message, byte for byte as it travels."""
    table = b"".join(_ENTRY.pack(block.metric.short_hash, block.epoch, block.count) for block in batch.blocks)
    body = table + b"".join(part for block in batch.blocks for part in (block.cohorts, block.vectors))
    header = _HEADER.pack(_MAGIC, VERSION, 0, len(batch.blocks), batch.batch_id, len(body), 0)
    crc = zlib.crc32(body, zlib.crc32(header))
    return header[:_CRC_OFFSET] + crc.to_bytes(4, "little") + body


def check_block(block: Block) -> None:
    """Refuse a block with a report that its metric cannot have made. (A collector may bring a faster one.)"""
    for number, (cohort, bits) in enumerate(block):
        for problem in _broken_rules(block.metric, block.epoch, cohort, bits):
            raise Refused("report-impossible", f"report {number} of metric {block.metric.name}: {problem}")


def unpack(message: bytes, metrics: Metrics, check: Callable[[Block], None] = check_block) -> Batch:
    """The batch that a packed message holds; raises `Refused` for any defect, before anything is used."""
    batch_id, num_blocks = _read_header(message)
    at = _HEADER.size + num_blocks * _ENTRY.size
    if at > len(message):
        raise _malformed(f"num_blocks must fit the message of {len(message)} bytes, got {num_blocks}")
    blocks = []
    seen = set()
    for entry in _ENTRY.iter_unpack(message[_HEADER.size : at]):
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
    if len(message) < _HEADER.size:
        raise _malformed(f"a message must have at least {_HEADER.size} bytes, got {len(message)}")
    magic, version, flags, num_blocks, batch_id, body_length, crc = _HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise _malformed(f"a message must begin with {_MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise Refused("version-unsupported", f"version must be {VERSION}, got {version}")
    if flags != 0:
        raise _malformed(f"flags must be 0, got {flags}")
    if body_length != len(message) - _HEADER.size:
        raise _malformed(f"body_length must be {len(message) - _HEADER.size}, the bytes that follow, got {body_length}")
    view = memoryview(message)
    expected = zlib.crc32(view[_HEADER.size :], zlib.crc32(b"\0\0\0\0", zlib.crc32(view[:_CRC_OFFSET])))
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
    vectors_at = at + count * cohort_bytes(metric)
    if vectors_at > len(message):
        raise _malformed(f"count must fit the message of {len(message)} bytes, got {count} for metric {metric.name}")
    cohorts = message[at:vectors_at]
    end = vectors_at + _vectors_length(metric, cohorts, count)
    if end > len(message):
        raise _malformed(f"the vectors of metric {metric.name} must end within {len(message)} bytes, got {end}")
    return Block(metric, epoch, cohorts, message[vectors_at:end]), end


def _vectors_length(metric: Definition, cohorts: bytes, count: int) -> int:
    if metric.kind != "range":
        return count * vector_bytes(metric, 0)
    levels = metric.shape.num_cohorts
    by_level = [cohorts.count(level) for level in range(levels)]  # a tree has few levels: its cohorts are single bytes
    if sum(by_level) != count:
        raise Refused("report-impossible", f"metric {metric.name}: {_cohort_rule(metric, max(cohorts))}")
    return sum(number * vector_bytes(metric, level) for level, number in enumerate(by_level))


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
                "bits": bits.to_bytes(vector_bytes(block.metric, cohort), "little").hex(),
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
        data = json.loads(message.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _malformed(f"a JSON message must be JSON in UTF-8: {type(error).__name__}") from None
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
        raise Refused("report-impossible", f"{where} of metric {metric.name}: {_cohort_rule(metric, cohort)}")
    vector = _read_hex(data["bits"], vector_bytes(metric, cohort), f"{where}: bits")
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


# --- rules --------------------------------------------------------------------------------------------------------


def _broken_rules(metric: Definition, epoch: int, cohort: int, bits: int) -> Iterator[str]:
    if not -(2**31) <= epoch < 2**31:
        yield f"epoch must fit 32 bits, got {epoch if epoch.bit_length() < 65 else 'a larger number'}"
    if not 0 <= cohort < metric.shape.num_cohorts:
        yield _cohort_rule(metric, cohort)
    else:
        width = metric.shape.width(cohort)
        if bits < 0 or bits >> width:
            yield f"bits must have nothing set beyond the {width} positions of cohort {cohort}"
        elif metric.one_hot and bits.bit_count() != 1:
            yield f"bits must have exactly one position set, got {bits.bit_count()}"


def _cohort_rule(metric: Definition, cohort: int) -> str:
    got = cohort if cohort.bit_length() < 65 else "a larger number"
    return f"cohort must be in [0, {metric.shape.num_cohorts - 1}], got {got}"


def _block(reports: list[Report]) -> Block:
    metric = reports[0].metric
    size = cohort_bytes(metric)
    return Block(
        metric,
        reports[0].epoch,
        b"".join(report.cohort.to_bytes(size, "little") for report in reports),
        b"".join(report.bits.to_bytes(vector_bytes(metric, report.cohort), "little") for report in reports),
    )


def _malformed(detail: str) -> Refused:
    return Refused("malformed", detail)
