"""Ids are remembered in little memory, found whatever they look like, and dropped when their day has come."""

import os
import subprocess
import sys
from random import Random

import pytest

from hubbub.collector.message_layout import day_bytes
from hubbub.collector.storage.batch_ids import BatchIds


def record(batch_id, crc=b"crc-", day=20_000):
    return batch_id + crc + day_bytes(day)


def test_an_id_is_new_once_and_then_gives_its_crc():
    random = Random(1)
    batch_ids = BatchIds()
    ids = [random.randbytes(16) for _ in range(20_000)]
    assert all(batch_ids.claim(record(i, i[:4])) is None for i in ids)
    assert all(batch_ids.claim(record(i, b"othr")) == i[:4] for i in ids)
    assert len(batch_ids) == 20_000


def test_ids_chosen_to_match_across_records_are_told_apart():
    batch_ids = BatchIds()
    ids = [bytes([a]) * 16 for a in range(256)] + [bytes(15) + bytes([a]) for a in range(1, 256)]
    ids += [bytes(k) + b"\x4e" * (16 - k) for k in range(1, 15)]
    for batch_id in ids:
        assert batch_ids.claim(record(batch_id, b"\0\0\0\0", 0x4E4E)) is None
    assert len(batch_ids) == len(ids)


def test_a_sweep_drops_what_is_due_and_nothing_else():
    random = Random(2)
    batch_ids = BatchIds()
    ids = {day: [random.randbytes(16) for _ in range(1000)] for day in (20_000, 20_001, 20_002)}
    for day, those in ids.items():
        for batch_id in those:
            batch_ids.claim(record(batch_id, day=day))
    while not batch_ids.sweep(20_000, 7):
        pass
    assert len(batch_ids) == 2000
    assert all(batch_ids.claim(record(i, b"xxxx", 20_001)) == b"crc-" for i in ids[20_001] + ids[20_002])
    assert all(batch_ids.claim(record(i)) is None for i in ids[20_000])


def test_a_claim_can_be_undone():
    batch_ids = BatchIds()
    records = [record(os.urandom(16)) for _ in range(100)]
    for item in records:
        batch_ids.claim(item)
    batch_ids.forget(records[50:])
    assert len(batch_ids) == 50
    assert all(batch_ids.claim(item) is None for item in records[50:])
    assert all(batch_ids.claim(item) == b"crc-" for item in records)


def test_a_day_too_late_for_two_bytes_is_the_last_one_not_an_early_one():
    assert day_bytes(65_534) == b"\xfe\xff"
    assert day_bytes(65_535) == day_bytes(70_000) == b"\xff\xff"


MEASURE = """
import os, sys
from hubbub.collector.message_layout import day_bytes
from hubbub.collector.storage.batch_ids import BatchIds
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
count = int(sys.argv[1])
tail = b"crc-" + day_bytes(20_000)
batch_ids, before = BatchIds(), resident()
for _ in range(count):
    batch_ids.claim(os.urandom(16) + tail)
print((resident() - before) / count)
"""


def bytes_per_id(count):
    done = subprocess.run([sys.executable, "-c", MEASURE, str(count)], check=True, capture_output=True, text=True)
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_id_takes_at_most_64_bytes():
    assert bytes_per_id(200_000) < 64


@pytest.mark.proof
def test_an_id_takes_at_most_64_bytes_at_two_million(figure):
    """A bucket's size does not depend on how many there are, so neither do the bytes for each id: at most twice as
    many lie between two rounds of splitting. Hence the extrapolation."""
    sizes = {count: bytes_per_id(count) for count in (1_000_000, 1_400_000, 2_000_000)}
    assert max(sizes.values()) < 64
    figure("memory per id", ", ".join(f"{size:.1f} bytes at {count}" for count, size in sizes.items()))
    figure("memory of 100 million ids", f"{max(sizes.values()) * 100e6 / 1e9:.1f} GB")
