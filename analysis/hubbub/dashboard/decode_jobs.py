"""Each decoding is made once, in a thread, however many viewers want it.

What was decoded is found again by the content of its tallies, its candidates and its options. While new counts are
being decoded the last answer to the same question is shown, said to be older: live numbers must not flicker away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from aiohttp import web

from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid

MOST_KEPT = 1000
MOST_ROWS = 4_000_000
MOST_WAITING = 300


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """Work to be done. `question` is what a viewer chose, `content` the fingerprint of the counts it is asked of."""

    question: Hashable
    content: bytes
    decode: Callable[[], Decoding]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoding, or why there is none, and of which counts. Not `fresh`: while newer counts are being decoded."""

    decoding: Decoding | None
    problem: str
    content: bytes
    fresh: bool = True


class DecodeJobs:
    """One thread: linear algebra is told to use one, and that is a setting of the whole process."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        self._kept: OrderedDict[tuple[Hashable, bytes], Decoded] = OrderedDict()
        self._latest: dict[Hashable, bytes] = {}
        self._under_way: dict[Hashable, asyncio.Future[None]] = {}
        self.made = 0

    def get(self, job: DecodeJob) -> Decoded | None:
        """What is known. What is not is begun; None if there is nothing to show meanwhile."""
        key = job.question, job.content
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if job.question not in self._under_way and len(self._under_way) < MOST_WAITING:
            self._begin(job)
        before = self._kept.get((job.question, self._latest.get(job.question, b"")))
        return None if before is None else replace(before, fresh=False)

    async def wait(self, jobs: Sequence[DecodeJob], seconds: float) -> None:
        """Until all of these are known, or so many seconds have passed."""
        for job in jobs:
            self.get(job)
        running = [self._under_way[job.question] for job in jobs if job.question in self._under_way]
        if running:
            await asyncio.wait(running, timeout=seconds)

    def _begin(self, job: DecodeJob) -> None:
        async def finish() -> None:
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, _attempt, job)
                self.made += 1
                self._keep(job, found)
            finally:
                del self._under_way[job.question]

        self._under_way[job.question] = asyncio.ensure_future(finish())

    def _keep(self, job: DecodeJob, found: Decoded) -> None:
        self._kept[job.question, job.content] = found
        self._latest[job.question] = job.content
        while len(self._kept) > MOST_KEPT or (self._rows() > MOST_ROWS and len(self._kept) > 1):
            (question, content), _ = self._kept.popitem(last=False)
            if self._latest.get(question) == content:
                del self._latest[question]

    def _rows(self) -> int:
        return sum(len(found.decoding) for found in self._kept.values() if found.decoding is not None)

    async def close(self) -> None:
        """Waits for nothing: what is being decoded is thrown away."""
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)


DECODE_JOBS = web.AppKey("decode_jobs", DecodeJobs)


def _attempt(job: DecodeJob) -> Decoded:
    try:
        return Decoded(job.decode(), "", job.content)
    except Invalid as error:
        return Decoded(None, str(error), job.content)
    except (ArithmeticError, MemoryError, ValueError) as error:
        return Decoded(None, f"decoding failed: {type(error).__name__}; please report it", job.content)
