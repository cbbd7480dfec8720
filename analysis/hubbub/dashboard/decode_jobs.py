"""Each decoding is made once, in a thread, for however many viewers ask for it.

What was decoded is found again by the content of its tallies, its candidates and its options. While new counts are
being decoded the last answer to the same question is shown, said to be older: live numbers must not flicker away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid

MOST_KEPT = 1000
MOST_ROWS = 4_000_000
MOST_WAITING = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """`question` is what a viewer chose; `content` the fingerprint of the counts it is asked of."""

    question: Hashable
    content: bytes
    decode: Callable[[], Decoding]


@dataclass(frozen=True, slots=True)
class Found:
    """A decoding, or why there is none, and of which counts. Not `fresh`: while newer counts are being decoded."""

    decoding: Decoding | None
    problem: str
    content: bytes
    fresh: bool = True


class Decodings:
    """One thread: linear algebra is told to use one, and that is a setting of the whole process."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        self._kept: OrderedDict[tuple[Hashable, bytes], Found] = OrderedDict()
        self._latest: dict[Hashable, bytes] = {}
        self._under_way: dict[Hashable, asyncio.Future[None]] = {}
        self.made = 0

    def get(self, asked: Asked) -> Found | None:
        """What is known. What is not is begun; None if there is nothing to show meanwhile."""
        key = asked.question, asked.content
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if asked.question not in self._under_way and len(self._under_way) < MOST_WAITING:
            self._begin(asked)
        before = self._kept.get((asked.question, self._latest.get(asked.question, b"")))
        return None if before is None else replace(before, fresh=False)

    async def wait(self, asked: Sequence[Asked], seconds: float) -> None:
        """Until all of these are known, or so many seconds have passed."""
        for one in asked:
            self.get(one)
        running = [self._under_way[one.question] for one in asked if one.question in self._under_way]
        if running:
            await asyncio.wait(running, timeout=seconds)

    def _begin(self, asked: Asked) -> None:
        async def finish() -> None:
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, _attempt, asked)
                self.made += 1
                self._keep(asked, found)
            finally:
                del self._under_way[asked.question]

        self._under_way[asked.question] = asyncio.ensure_future(finish())

    def _keep(self, asked: Asked, found: Found) -> None:
        self._kept[asked.question, asked.content] = found
        self._latest[asked.question] = asked.content
        while len(self._kept) > MOST_KEPT or (self._rows() > MOST_ROWS and len(self._kept) > 1):
            (question, content), _ = self._kept.popitem(last=False)
            if self._latest.get(question) == content:
                del self._latest[question]

    def _rows(self) -> int:
        return sum(len(found.decoding) for found in self._kept.values() if found.decoding is not None)

    async def close(self) -> None:
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)


def _attempt(asked: Asked) -> Found:
    try:
        return Found(asked.decode(), "", asked.content)
    except Invalid as error:
        return Found(None, str(error), asked.content)
    except (ArithmeticError, MemoryError, ValueError) as error:
        return Found(None, f"decoding failed: {type(error).__name__}; please report it", asked.content)
