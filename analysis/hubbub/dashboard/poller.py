"""Polls the source while somebody looks at a page, and tells every viewer when something has changed.

The newest snapshot stays when the source cannot be read: numbers that were true are shown, marked as old, until it can.
The source is asked nothing while nobody looks.

Every token that somebody signed in with is shown to the source at each poll: one that it no longer accepts is dropped,
and with it the sessions that were opened with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from hubbub.dashboard.health import Health
from hubbub.dashboard.snapshot import Snapshot
from hubbub.dashboard.source import Source, TokenRefused, Unavailable


class Poller:
    """`version` grows with every change a viewer could see."""

    def __init__(
        self, source: Source, token: str | None, every: float, clock: Callable[[], float], *, keep_refused: bool = False
    ) -> None:
        """`keep_refused`: a token that was refused is tried again, as nobody could give another one."""
        self._source = source
        self._given = token
        self._tokens = [] if token is None else [token]
        self._keep_refused = keep_refused
        self._every = every
        self._clock = clock
        self._lock = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._watched = asyncio.Event()
        self._viewers = 0
        self._polled_at: float | None = None
        self.snapshot: Snapshot | None = None
        self.health: Health | None = None
        self.read_at: float | None = None
        self.trouble: str | None = None
        self.refused = False
        self.version = 0

    @property
    def has_token(self) -> bool:
        return bool(self._tokens)

    def accepts(self, token: str) -> bool:
        """Whether the source took this token when it was last asked."""
        return token in self._tokens

    @property
    def stale(self) -> bool:
        """Whether what is shown may no longer be what the source has."""
        return self.trouble is not None or self.refused

    async def refresh(self, patience: float) -> None:
        """Poll, unless that has just been done; wait for it no longer than a visitor would."""
        if self._polled_at is None or self._clock() - self._polled_at >= self._every:
            poll = asyncio.create_task(self._poll())
            await asyncio.wait([poll], timeout=patience)

    async def try_token(self, token: str) -> bool:
        """Try a token; keep it if the source takes it. Raises `Unavailable` if that cannot be known now."""
        async with self._lock:
            try:
                snapshot, health = await self._source.read(token)
            except TokenRefused:
                return False
            if token not in self._tokens:
                self._tokens.append(token)
            await self._note(snapshot, health)
            return True

    def keep_tokens(self, shown: Collection[str]) -> None:
        """Forget all but these and the one given at the start: nobody is left who showed them."""
        self._tokens = [token for token in self._tokens if token in shown or token == self._given]
        if not self._tokens:
            self.snapshot, self.health, self._polled_at = None, None, None

    async def run(self) -> None:
        """For as long as the process lives."""
        while True:
            await self._watched.wait()
            await self._poll()
            await asyncio.sleep(self._every)

    async def _poll(self) -> None:
        async with self._lock:
            before = list(self._tokens)
            try:
                await self._note(*await self._read())
            except TokenRefused:
                if before:
                    await self._fail(None)
            except Unavailable as error:
                await self._fail(str(error))
            if self._tokens != before:  # somebody has to sign in again
                await self.announce()

    async def _read(self) -> tuple[Snapshot, Health | None]:
        """The newest there is, by the first token that is accepted. Those that are not are dropped."""
        if not self._tokens:
            return await self._source.read(None)
        found = None
        for token in list(self._tokens):
            try:
                if found is None:
                    found = await self._source.read(token)
                else:
                    with suppress(Unavailable):  # then it is not known, and stays until it is
                        await self._source.check(token)
            except TokenRefused:
                if not self._keep_refused:
                    self._tokens.remove(token)
        if found is None:
            raise TokenRefused
        return found

    async def _note(self, snapshot: Snapshot, health: Health | None) -> None:
        news = snapshot is not self.snapshot or health != self.health or self.stale
        self.snapshot, self.health, self.trouble, self.refused = snapshot, health, None, False
        self._polled_at = self.read_at = self._clock()
        if news:
            await self.announce()

    async def _fail(self, words: str | None) -> None:
        news = (self.trouble, self.refused) != (words, words is None)
        self.trouble, self.refused = words, words is None
        self._polled_at = self._clock()
        if news:
            await self.announce()

    async def announce(self) -> None:
        """Something has changed that a viewer could see."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    @asynccontextmanager
    async def viewer(self) -> AsyncIterator[None]:
        self._viewers += 1
        self._watched.set()
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._watched.clear()

    async def wait_for_news(self, version: int, seconds: float) -> int:
        """The newest version, once it is later than this one or so many seconds have passed."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.version > version)
        except TimeoutError:
            pass
        return self.version

    async def close(self) -> None:
        await self._source.close()


POLLER = web.AppKey("poller", Poller)
