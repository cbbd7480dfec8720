"""Many viewers and a long list at full size: what they cost, and how long anybody is kept waiting."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hubbub.dashboard.decode_jobs import DECODE_JOBS
from hubbub.dashboard.page_cache import PAGE_CACHE
from hubbub.protocol.tally_files import write_tallies
from hubbub.simulations.demo.people import CANDIDATES
from tests.dashboard.kit import read_again, text_of, visiting, words, write_samples
from tests.dashboard.test_rules import counted, flag

VIEWERS = 100
LISTED = 100_000


async def tick(stalls: list[float], busy: list[float] | None = None) -> None:
    """Notes how late the loop comes, until it is cancelled; and how long it was at work itself between two ticks, which
    is the same however busy the machine is."""
    while True:
        before, worked = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.005)
        stalls.append(time.perf_counter() - before - 0.005)
        if busy is not None:
            busy.append(time.thread_time() - worked)


@pytest.mark.anyio
@pytest.mark.proof
async def test_a_hundred_viewers_of_a_hundred_thousand_candidates_cost_one_decode(tmp_path, figure) -> None:
    """One decoding for each of three days, whoever asks; the loop goes on meanwhile."""
    listed = [*CANDIDATES, *(f"https://{i}.example/" for i in range(LISTED - len(CANDIDATES)))]
    stalls: list[float] = []
    async with visiting(*write_samples(tmp_path), candidates=listed) as client:
        ticking = asyncio.create_task(tick(stalls))
        began = time.perf_counter()
        pages = await asyncio.gather(*(text_of(client, "/metric/homepage") for _ in range(VIEWERS)))
        seconds = time.perf_counter() - began
        ticking.cancel()
        made = client.app_[DECODE_JOBS].made
    assert len({words(page).partition("UTC")[2] for page in pages}) == 1
    assert made == 3
    assert "8 of 100,000 candidates detected" in words(pages[0])
    stalls.sort()
    figure("viewers, candidates, decodings made", f"{VIEWERS}, {LISTED:,}, {made}")
    figure("until all had their numbers", f"{seconds:.1f} s")
    figure("the loop's longest stall, and that of 99 of 100 ticks", f"{1e3 * stalls[-1]:.0f} ms, "
           f"{1e3 * stalls[int(0.99 * len(stalls))]:.0f} ms")  # fmt: skip


SEGMENTS = [(("platform", p), ("release", r)) for p in ("linux", "macos", "windows") for r in ("1", "2", "3", "4")]


def write_weeks(folder: Path, metrics: int, last: int) -> None:
    """Flags of twelve segments over thirteen weeks; `last` is what the newest week has more."""
    tallies = [
        counted(flag(f"metric_{i}", segment), [0.5] * 12 + [0.5 + last / 1000])
        for i in range(metrics)
        for segment in SEGMENTS
    ]
    write_tallies(tallies, folder)


@pytest.mark.anyio
@pytest.mark.proof
async def test_a_hundred_metrics_by_twelve_segments_are_there_soon_after_a_change(tmp_path, figure) -> None:
    write_weeks(tmp_path, 100, 0)
    stalls: list[float] = []
    busy: list[float] = []
    async with visiting(str(tmp_path)) as client:
        await text_of(client, "/")
        write_weeks(tmp_path, 100, 5)
        await read_again(client)
        ticking = asyncio.create_task(tick(stalls, busy))
        began, used = time.perf_counter(), time.process_time()
        page = await text_of(client, "/")
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        ticking.cancel()
    assert page.count('class="card"') == 100
    figure("100 metrics x 12 segments after a change of counts", f"{seconds:.2f} s, {cpu:.2f} s of CPU")
    figure("the loop's longest stall", f"{1e3 * max(stalls):.0f} ms, {1e3 * max(busy):.0f} ms of them its own work")
    assert cpu < 3
    assert max(busy) < 0.15


@pytest.mark.anyio
@pytest.mark.proof
async def test_the_first_view_of_eight_metrics_takes_little_once_decodings_are_at_hand(tmp_path, figure) -> None:
    write_weeks(tmp_path, 8, 0)
    async with visiting(str(tmp_path)) as client:
        await text_of(client, "/")
        client.app_[PAGE_CACHE].__init__()  # the decodings stay, the page does not
        used = time.process_time()
        page = await text_of(client, "/")
        cpu = time.process_time() - used
    figure(
        "CPU of a first view of 8 metrics with decodings at hand", f"{1e3 * cpu:.0f} ms, {len(page.encode()):,} bytes"
    )
    assert cpu < 0.3
