"""Batches: there and back in both forms; any bytes give a batch or a worded refusal, in bounded memory."""

from __future__ import annotations

import gc
import itertools
import json
import string
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import LATER, STATUS, Refused
from hubbub.protocol.report import MAX_BLOCKS, Batch, Block, Report, by_short_hash
from hubbub.protocol.wire import MAX_JSON_BYTES, check_block, from_json, pack, to_json, unpack
from tests.protocol.toml import SHAPES, registry

METRICS = [registry(kind)["it"] for kind in SHAPES] + [registry("string", num_bits="9", num_cohorts="512")["it"]]
KNOWN = by_short_hash(METRICS)
FLAG, CHOICE, STRING = METRICS[0], METRICS[1], METRICS[2]
ID = bytes(range(16))


@st.composite
def reports(draw: Any) -> Report:
    metric = draw(st.sampled_from(METRICS))
    cohort = draw(st.integers(0, metric.shape.num_cohorts - 1))
    width = metric.shape.width(cohort)
    bits = 1 << draw(st.integers(0, width - 1)) if metric.one_hot else draw(st.integers(0, 2**width - 1))
    return Report(metric, draw(st.integers(2960, 2963) | st.integers(-(2**31), 2**31 - 1)), cohort, bits)


batches = st.builds(Batch.of, st.binary(min_size=16, max_size=16), st.lists(reports(), min_size=1, max_size=12))


def sealed(message: bytes) -> bytes:
    """The message with length and checksum made right, so that what lies behind them is reached."""
    if len(message) < 32:
        return message
    head = message[:24] + struct.pack("<I", len(message) - 32) + bytes(4)
    return head[:28] + zlib.crc32(head + message[32:]).to_bytes(4, "little") + message[32:]


def batch_or_refusal(read: Callable[..., Batch], message: bytes) -> Batch | Refused:
    """Any other exception is an error of the reader."""
    try:
        return read(message, KNOWN)
    except Refused as error:
        refusal = error
    assert refusal.reason in STATUS
    assert refusal.detail.isprintable()
    assert len(refusal.detail) < 400
    return refusal


# --- there and back -----------------------------------------------------------------------------------------------


@given(batches)
def test_a_batch_survives_both_forms(batch: Batch) -> None:
    assert unpack(pack(batch), KNOWN) == batch
    assert from_json(json.dumps(to_json(batch)).encode(), KNOWN) == batch


@given(batches)
def test_a_batch_holds_the_reports_it_was_made_of(batch: Batch) -> None:
    again = Batch.of(batch.batch_id, batch.reports)
    assert again == batch
    assert sum(block.count for block in batch.blocks) == len(list(batch.reports))


@given(st.lists(reports(), min_size=1, max_size=12))
def test_reports_are_grouped_by_metric_and_epoch_wherever_they_stand(given_reports: list[Report]) -> None:
    batch = Batch.of(ID, given_reports)
    keys = [(block.metric.metric_hash, block.epoch) for block in batch.blocks]
    assert len(keys) == len(set(keys))

    def key(report: Report) -> tuple[str, int, int, int]:
        return report.metric.metric_hash, report.epoch, report.cohort, report.bits

    assert sorted(map(key, batch.reports)) == sorted(map(key, given_reports))


def test_a_weekly_message_of_six_metrics_is_small() -> None:
    batch = Batch.of(ID, [Report(metric, 2968, 0, 1) for metric in METRICS[:6]])
    assert len(pack(batch)) == 32 + 6 * 16 + 6 + sum(metric.vector_bytes(0) for metric in METRICS[:6])


def test_the_same_batch_has_the_same_bytes() -> None:
    made = [pack(Batch.of(ID, [Report(FLAG, 2968, 0, 1), Report(STRING, 2968, 7, 5)])) for _ in range(2)]
    assert made[0] == made[1]


# --- rules of a report --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((FLAG, 2**31, 0, 0), "epoch must fit 32 bits, got 2147483648"),
        ((FLAG, 2**100, 0, 0), "epoch must fit 32 bits, got a larger number"),
        ((FLAG, 0, 1, 0), "cohort must be in [0, 0], got 1"),
        ((STRING, 0, -1, 0), "cohort must be in [0, 127], got -1"),
        ((STRING, 0, 0, 1 << 64), "bits must have nothing set beyond the 64 positions of cohort 0"),
        ((FLAG, 0, 0, -1), "bits must have nothing set beyond the 1 positions of cohort 0"),
        ((CHOICE, 0, 0, 3), "bits must have exactly one position set, got 2"),
    ],
)
def test_a_report_that_its_metric_cannot_have_made_is_refused(arguments: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Report(*arguments)
    assert caught.value.problems == (sentence,)


def test_a_batch_has_an_id_and_blocks() -> None:
    block = Batch.of(ID, [Report(FLAG, 1, 0, 1)]).blocks[0]
    with pytest.raises(Invalid, match="batch_id must have 16 bytes, got 3"):
        Batch(b"abc", (block,))
    with pytest.raises(Invalid, match="a batch must have from 1 to 4096 blocks, got 0"):
        Batch.of(ID, [])
    with pytest.raises(Invalid, match="a batch must have from 1 to 4096 blocks, got 4097"):
        Batch.of(ID, [Report(FLAG, epoch, 0, 1) for epoch in range(MAX_BLOCKS + 1)])


def test_a_reader_may_bring_its_own_check_of_blocks() -> None:
    message = pack(Batch.of(ID, [Report(FLAG, 1, 0, 1), Report(STRING, 1, 0, 1)]))
    checked: list[Block] = []
    batch = unpack(message, KNOWN, checked.append)
    assert tuple(checked) == batch.blocks


def test_the_plain_check_names_the_report_that_is_impossible() -> None:
    with pytest.raises(Refused) as caught:
        check_block(Block(STRING, 1, bytes([0, 128]), bytes(16)))
    assert str(caught.value) == "report-impossible: report 1 of metric it: cohort must be in [0, 127], got 128"


def test_a_refusal_is_a_problem_document() -> None:
    refusal = Refused("report-impossible", "cohort must be in [0, 0], got 1")
    assert refusal.to_json() == {
        "type": "urn:hubbub:problem:report-impossible",
        "title": "Report impossible",
        "status": 422,
        "detail": "cohort must be in [0, 0], got 1",
    }
    assert STATUS.keys() >= LATER


# --- any bytes ----------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_refused(message: bytes) -> None:
    assert isinstance(batch_or_refusal(unpack, message), Refused)
    assert isinstance(batch_or_refusal(from_json, message), Refused)


@given(st.binary(max_size=120), st.integers(0, 9))
def test_any_bytes_behind_a_right_header_are_a_batch_or_refused(body: bytes, num_blocks: int) -> None:
    message = sealed(b"HUBB\1\0" + num_blocks.to_bytes(2, "little") + ID + bytes(8) + body)
    found = batch_or_refusal(unpack, message)
    assert isinstance(found, Refused) or pack(found) == message


@given(batches, st.data())
def test_a_mutated_packed_batch_is_another_batch_or_refused(batch: Batch, data: st.DataObject) -> None:
    """Bytes changed, cut out or put in, with the checksum made right again: what is read has exactly these bytes."""
    message = bytearray(pack(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(message)))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                message[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del message[at : at + data.draw(st.integers(1, 20))]
            case "insert":
                message[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    changed = sealed(bytes(message))
    found = batch_or_refusal(unpack, changed)
    assert isinstance(found, Refused) or pack(found) == changed


@given(batches, st.data())
def test_without_its_checksum_no_change_goes_unnoticed(batch: Batch, data: st.DataObject) -> None:
    message = bytearray(pack(batch))
    message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    assert isinstance(batch_or_refusal(unpack, bytes(message)), Refused)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just([]) | st.just({})


@given(batches, st.data())
def test_a_mutated_json_batch_is_another_batch_or_refused(batch: Batch, data: st.DataObject) -> None:
    message = to_json(batch)
    target = data.draw(st.sampled_from([message, *message["reports"]]))
    key = data.draw(st.sampled_from(list(target)) | st.text(max_size=4))
    if data.draw(st.booleans()):
        target[key] = data.draw(LEAVES)
    else:
        target.pop(key, None)
    found = batch_or_refusal(from_json, json.dumps(message).encode())
    assert isinstance(found, Refused) or from_json(json.dumps(to_json(found)).encode(), KNOWN) == found


@given(batches, st.data())
def test_json_cut_or_changed_anywhere_is_a_batch_or_refused(batch: Batch, data: st.DataObject) -> None:
    message = bytearray(json.dumps(to_json(batch)).encode())
    at = data.draw(st.integers(0, len(message) - 1))
    message[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    batch_or_refusal(from_json, bytes(message))


# --- memory -------------------------------------------------------------------------------------------------------

SMALL = 2**16
"""What reading costs whatever the message."""
BLOCK = 400
"""What a block costs beside its bytes. There are at most 4096."""


def peak(read: Callable[..., Batch], message: bytes) -> int:
    """The most memory that reading took at once, beside the message itself."""
    gc.collect()
    tracemalloc.start()
    try:
        batch_or_refusal(read, message)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def blocks_of_one_report(number: int) -> bytes:
    table = b"".join(struct.pack("<8siI", STRING.short_hash, epoch, 1) for epoch in range(number))
    body = table + (b"\1" + bytes(8)) * number
    return sealed(b"HUBB\1\0" + number.to_bytes(2, "little") + ID + bytes(8) + body)


def keys_of_one_object(number: int, value: str) -> bytes:
    names = ("".join(letters) for letters in itertools.product(string.ascii_letters + string.digits, repeat=3))
    return ("{" + ",".join(f'"{name}":{value}' for name in itertools.islice(names, number)) + "}").encode()


def test_reading_a_packed_message_takes_at_most_four_times_its_size() -> None:
    many = pack(Batch.of(ID, [Report(STRING, 1, i % 128, i) for i in range(40_000)]))
    messages = {
        "one block of many reports": many,
        "as many blocks as there may be": blocks_of_one_report(MAX_BLOCKS),
        "more blocks than there may be": blocks_of_one_report(65_535),
        "a count that promises more": sealed(many[:44] + b"\xff\xff\xff\x7f" + many[48:]),
        "nothing but zeros": bytes(2**20),
    }
    for name, message in messages.items():
        assert peak(unpack, message) <= 4 * len(message) + MAX_BLOCKS * BLOCK + SMALL, name


def test_reading_a_json_message_takes_at_most_32_times_its_size() -> None:
    """Each of the texts that Python's objects blow up most."""
    size = 2**16

    def filled(unit: str, opening: str = "[", closing: str = "]") -> bytes:
        return (opening + ",".join([unit] * (size // (len(unit.encode()) + 1))) + closing).encode()

    honest = json.dumps(to_json(Batch.of(ID, [Report(STRING, 1, i % 128, i) for i in range(2_000)])))
    inside = '{"version": 1, "batch_id": "' + ID.hex() + '", "reports": ['
    messages = [
        honest.encode(),
        *(filled(unit) for unit in ("[]", "{}", '{"":0}', '{"":{}}', "1e1", "300", '"ab"', '"\u20ac"', "null")),
        filled('{"":' * 30 + "0" + "}" * 30),
        filled("{}" + " " * 62, inside, "]}"),
        filled('{"a":{}' + " " * 120 + "}", inside, "]}"),
        *(keys_of_one_object(number, value) for number in (21_846, 30_000) for value in ("0", "1e9")),
    ]
    for message in messages:
        assert peak(from_json, message) <= 32 * len(message) + SMALL, message[:60]


def test_without_the_rule_on_objects_json_would_take_more() -> None:
    """The guard earns its place: what it refuses at once, `json.loads` alone would blow up beyond the bound."""
    unit = '{"":' * 30 + "0" + "}" * 30
    message = ("[" + ",".join([unit] * ((MAX_JSON_BYTES - 64) // (len(unit) + 1))) + "]").encode()
    assert peak(lambda text, _: json.loads(text), message) > 32 * len(message)
    assert peak(from_json, message) < len(message)
