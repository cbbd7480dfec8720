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

from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid

MOST_KEPT = 8000
MOST_ROWS = 4_000_000
MOST_WAITING = 4000
AT_ONCE = 50
"""So many jobs are looked up before others are served: a page of a hundred metrics has two thousand."""


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """Work to be done. `question` is what a viewer chose; `content` all that the answer depends on, the counts among
    it: two questions of the same content have one answer."""

    question: Hashable
    content: Hashable
    decode: Callable[[], Decoding | Crosstab]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoding, or why there is none, and of which counts. Not `fresh`: while newer counts are being decoded."""

    decoding: Decoding | None
    problem: str
    content: Hashable
    fresh: bool = True
    crosstab: Crosstab | None = None
    """In place of a decoding, where two answers were asked for."""

    @property
    def num_rows(self) -> int:
        if self.crosstab is not None:
            return int(self.crosstab.cells.estimate.size)
        return 0 if self.decoding is None else len(self.decoding)


class DecodeJobs:
    """One thread: linear algebra is told to use one, and that is a setting of the whole process."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        self._kept: OrderedDict[Hashable, Decoded] = OrderedDict()
        self._latest: dict[Hashable, Hashable] = {}
        self._under_way: dict[Hashable, asyncio.Future[None]] = {}
        self._asked: dict[Hashable, Hashable] = {}
        """Which content is being decoded for a question."""
        self._rows = 0
        self.made = 0

    def get(self, job: DecodeJob) -> Decoded | None:
        """What is known. What is not is begun; None if there is nothing to show meanwhile."""
        if job.content in self._kept:
            self._kept.move_to_end(job.content)
            self._latest[job.question] = job.content
            return self._kept[job.content]
        if not self._is_under_way(job) and len(self._under_way) < MOST_WAITING:
            self._begin(job)
        before = self._kept.get(self._latest.get(job.question))
        return None if before is None else replace(before, fresh=False)

    def _is_under_way(self, job: DecodeJob) -> bool:
        """The same counts are being decoded, or older ones for the same question: then newer ones wait."""
        return job.content in self._under_way or job.question in self._asked

    async def wait(self, jobs: Sequence[DecodeJob], seconds: float) -> None:
        """Until all of these are known, or so many seconds have passed."""
        for place, job in enumerate(jobs):
            self.get(job)
            if place % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        contents = {self._asked.get(job.question, job.content) for job in jobs}
        running = [self._under_way[content] for content in contents if content in self._under_way]
        if running:
            await asyncio.wait(running, timeout=seconds)

    def _begin(self, job: DecodeJob) -> None:
        async def finish() -> None:
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, _attempt, job)
                self.made += 1
                self._keep(job, found)
            finally:
                del self._under_way[job.content], self._asked[job.question]

        self._asked[job.question] = job.content
        self._under_way[job.content] = asyncio.ensure_future(finish())

    def _keep(self, job: DecodeJob, found: Decoded) -> None:
        self._kept[job.content] = found
        self._rows += found.num_rows
        self._latest[job.question] = job.content
        while len(self._kept) > MOST_KEPT or (self._rows > MOST_ROWS and len(self._kept) > 1):
            _, oldest = self._kept.popitem(last=False)
            self._rows -= oldest.num_rows
        if len(self._latest) > 2 * MOST_KEPT:
            self._latest = {question: key for question, key in self._latest.items() if key in self._kept}

    async def close(self) -> None:
        """Waits for nothing: what is being decoded is thrown away."""
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)


DECODE_JOBS = web.AppKey("decode_jobs", DecodeJobs)


def _attempt(job: DecodeJob) -> Decoded:
    try:
        found = job.decode()
        if isinstance(found, Crosstab):
            return Decoded(None, "", job.content, crosstab=found)
        return Decoded(found, "", job.content)
    except Invalid as error:
        return Decoded(None, str(error), job.content)
    except (ArithmeticError, MemoryError, ValueError) as error:
        return Decoded(None, f"decoding failed: {type(error).__name__}; please report it", job.content)
