"""Many viewers and a long list at full size: what they cost, and how long anybody is kept waiting."""

from __future__ import annotations

import asyncio
import time

import pytest

from hubbub.dashboard.decode_jobs import DECODE_JOBS
from hubbub.simulations.demo.people import CANDIDATES
from tests.dashboard.kit import text_of, visiting, words, write_samples

VIEWERS = 100
LISTED = 100_000


@pytest.mark.anyio
@pytest.mark.proof
async def test_a_hundred_viewers_of_a_hundred_thousand_candidates_cost_one_decode(tmp_path, figure) -> None:
    """The pooled decoding and one for each of three days, whoever asks; the loop goes on meanwhile."""
    listed = [*CANDIDATES, *(f"https://{i}.example/" for i in range(LISTED - len(CANDIDATES)))]
    stalls: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            stalls.append(time.perf_counter() - before - 0.005)

    async with visiting(*write_samples(tmp_path), candidates=listed) as client:
        ticking = asyncio.create_task(tick())
        began = time.perf_counter()
        pages = await asyncio.gather(*(text_of(client, "/metric/homepage") for _ in range(VIEWERS)))
        seconds = time.perf_counter() - began
        ticking.cancel()
        made = client.app_[DECODE_JOBS].made
    assert len({words(page).partition("UTC")[2] for page in pages}) == 1
    assert made == 4
    assert "8 of 100,000 candidates are detected" in words(pages[0])
    stalls.sort()
    figure("viewers, candidates, decodings made", f"{VIEWERS}, {LISTED:,}, {made}")
    figure("until all had their numbers", f"{seconds:.1f} s")
    figure("the loop's longest stall, and that of 99 of 100 ticks", f"{1e3 * stalls[-1]:.0f} ms, "
           f"{1e3 * stalls[int(0.99 * len(stalls))]:.0f} ms")  # fmt: skip
