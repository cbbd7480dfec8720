"""Looks at the source while somebody looks at the page, and tells every viewer when something has changed.

The newest reading stays when the source goes: numbers that were true are shown, marked as old, until it comes back.
Nothing is asked of the source while nobody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hubbub.dashboard.health import Health
from hubbub.dashboard.snapshot import Reading
from hubbub.dashboard.source import Gone, Source, TokenRefused


class Watch:
    """`version` grows with every change a viewer could see."""

    def __init__(
        self, source: Source, token: str | None, every: float, clock: Callable[[], float], *, insist: bool = False
    ) -> None:
        """`insist`: a token that was refused is tried again, for nobody could give another one."""
        self._source = source
        self._token = token
        self._insist = insist
        self._every = every
        self._clock = clock
        self._looking = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._somebody = asyncio.Event()
        self._viewers = 0
        self._looked: float | None = None
        self.reading: Reading | None = None
        self.health: Health | None = None
        self.read_at: float | None = None
        self.trouble: str | None = None
        self.refused = False
        self.version = 0

    @property
    def has_token(self) -> bool:
        return self._token is not None

    @property
    def stale(self) -> bool:
        """Whether what is shown may no longer be what the source has."""
        return self.trouble is not None or self.refused

    async def fresh(self, patience: float) -> None:
        """Look, unless that has just been done; wait for it no longer than a visitor would."""
        if self._looked is None or self._clock() - self._looked >= self._every:
            look = asyncio.create_task(self._look())
            await asyncio.wait([look], timeout=patience)

    async def offer(self, token: str) -> bool:
        """Try a token; keep it if the source takes it. Raises `Gone` if that cannot be known now."""
        async with self._looking:
            try:
                reading, health = await self._source.read(token)
            except TokenRefused:
                return False
            self._token = token
            await self._note(reading, health)
            return True

    def forget_token(self) -> None:
        """Nobody is left who showed it."""
        self._token = None
        self.reading, self.health, self._looked = None, None, None

    async def keep_looking(self) -> None:
        """For as long as the process lives."""
        while True:
            await self._somebody.wait()
            await self._look()
            await asyncio.sleep(self._every)

    async def _look(self) -> None:
        async with self._looking:
            try:
                await self._note(*await self._source.read(self._token))
            except TokenRefused:
                if self._token is not None:
                    await self._fail(None)
            except Gone as gone:
                await self._fail(str(gone))

    async def _note(self, reading: Reading, health: Health | None) -> None:
        news = reading is not self.reading or health != self.health or self.stale
        self.reading, self.health, self.trouble, self.refused = reading, health, None, False
        self._looked = self.read_at = self._clock()
        if news:
            await self.tell()

    async def _fail(self, words: str | None) -> None:
        news = (self.trouble, self.refused) != (words, words is None)
        self.trouble, self.refused = words, words is None
        self._looked = self._clock()
        if self.refused and not self._insist:
            self._token = None
        if news:
            await self.tell()

    async def tell(self) -> None:
        """Something has changed that a viewer could see."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    @asynccontextmanager
    async def viewer(self) -> AsyncIterator[None]:
        self._viewers += 1
        self._somebody.set()
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._somebody.clear()

    async def after(self, version: int, seconds: float) -> int:
        """The newest version, once it is later than this one or so many seconds have passed."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.version > version)
        except TimeoutError:
            pass
        return self.version

    async def close(self) -> None:
        await self._source.close()
