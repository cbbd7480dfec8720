"""Ids are remembered in little memory, found whatever they look like, and dropped when their day has come."""

import os
import subprocess
import sys
from random import Random

import pytest

from hubbub.collector.message_layout import day_bytes
from hubbub.collector.storage.batch_ids import Seen


def entry(batch_id, mark=b"mark", day=20_000):
    return batch_id + mark + day_bytes(day)


def test_an_id_is_new_once_and_then_gives_its_mark():
    random = Random(1)
    seen = Seen()
    ids = [random.randbytes(16) for _ in range(20_000)]
    assert all(seen.claim(entry(i, i[:4])) is None for i in ids)
    assert all(seen.claim(entry(i, b"othr")) == i[:4] for i in ids)
    assert len(seen) == 20_000


def test_ids_chosen_to_match_across_records_are_told_apart():
    seen = Seen()
    ids = [bytes([a]) * 16 for a in range(256)] + [bytes(15) + bytes([a]) for a in range(1, 256)]
    ids += [bytes(k) + b"\x4e" * (16 - k) for k in range(1, 15)]
    for batch_id in ids:
        assert seen.claim(entry(batch_id, b"\0\0\0\0", 0x4E4E)) is None
    assert len(seen) == len(ids)


def test_a_sweep_drops_what_is_due_and_nothing_else():
    random = Random(2)
    seen = Seen()
    ids = {day: [random.randbytes(16) for _ in range(1000)] for day in (20_000, 20_001, 20_002)}
    for day, those in ids.items():
        for batch_id in those:
            seen.claim(entry(batch_id, day=day))
    while not seen.sweep(20_000, 7):
        pass
    assert len(seen) == 2000
    assert all(seen.claim(entry(i, b"xxxx", 20_001)) == b"mark" for i in ids[20_001] + ids[20_002])
    assert all(seen.claim(entry(i)) is None for i in ids[20_000])


def test_a_claim_can_be_undone():
    seen = Seen()
    entries = [entry(os.urandom(16)) for _ in range(100)]
    for item in entries:
        seen.claim(item)
    seen.forget(entries[50:])
    assert len(seen) == 50
    assert all(seen.claim(item) is None for item in entries[50:])
    assert all(seen.claim(item) == b"mark" for item in entries)


MEASURE = """
import os, sys
from hubbub.collector.message_layout import day_bytes
from hubbub.collector.storage.batch_ids import Seen
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
count = int(sys.argv[1])
tail = b"mark" + day_bytes(20_000)
seen, before = Seen(), resident()
for _ in range(count):
    seen.claim(os.urandom(16) + tail)
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
