"""Where the numbers come from: a collector, asked over HTTP with its read token, or tally files. Nothing is kept."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import aiohttp

from hubbub.dashboard.health import Health, parse_health
from hubbub.dashboard.settings import Settings
from hubbub.dashboard.snapshot import Snapshot, parse_answer, parse_pairs, parse_terms, snapshot_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally_files import is_pair_file, read_pair_tallies, read_tallies

_FETCH_ANYWAY = 20
"""Counts also shrink, when their retention is over: every so often tallies are read though no report has come."""


class Unavailable(Exception):
    """The source cannot be read now; says why, in words for a page."""


class TokenRefused(Exception):
    """The collector does not accept this token."""


class Source(Protocol):
    async def read(self, token: str | None) -> tuple[Snapshot, Health | None]:
        """The newest there is. Raises `Unavailable` or `TokenRefused`."""

    async def check(self, token: str) -> None:
        """Whether a token is still accepted. Raises `Unavailable` or `TokenRefused`."""

    async def close(self) -> None: ...


def open_source(settings: Settings) -> Source:
    if settings.url is None:
        return FileSource(settings.source, settings.merge)
    return CollectorSource(settings.url, settings.trust, settings.patience)


class CollectorSource:
    """One collector. Its tallies are fetched only when it has counted something since."""

    def __init__(self, url: str, trust: Path | None, patience: float) -> None:
        self._url = url
        context = ssl.create_default_context(cafile=None if trust is None else str(trust))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=4),
            timeout=aiohttp.ClientTimeout(total=300, connect=patience, sock_read=patience),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._snapshot: Snapshot | None = None
        self._counted: tuple[int, int] | None = None
        self._reads = 0
        self._body = b""

    async def read(self, token: str | None) -> tuple[Snapshot, Health | None]:
        if token is None:
            raise TokenRefused
        health = parse_health((await self._get("/metrics", token)).decode("utf-8", "replace"))
        counted = health.reports, health.stored
        self._reads += 1
        if self._snapshot is None or counted != self._counted or self._reads % _FETCH_ANYWAY == 0:
            tallies, terms = await self._get("/v1/tallies", token), await self._get("/v1/metrics", None)
            pairs = await self._get("/v1/pairs", token, missing=b"")  # an older collector knows of none
            content = hashlib.blake2b(tallies + b"\0" + terms + b"\0" + pairs).digest()
            if self._snapshot is None or content != self._body:
                self._snapshot = await asyncio.to_thread(_parse, tallies, terms, pairs)
                self._body = content
            self._counted = counted
        return self._snapshot, health

    async def check(self, token: str) -> None:
        await self._get("/metrics", token)

    async def _get(self, path: str, token: str | None, missing: bytes | None = None) -> bytes:
        """`missing` is what is had where there is no such address."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.get(self._url + path, headers=headers, allow_redirects=False) as answer:
                if answer.status == 401:
                    raise TokenRefused
                if answer.status == 404 and missing is not None:
                    return missing
                if answer.status != 200:
                    raise Unavailable(f"it answers with status {answer.status}")
                return await answer.read()
        except TimeoutError:
            raise Unavailable("it does not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(_in_words(error)) from None

    async def close(self) -> None:
        await self._session.close()


def _parse(tallies: bytes, terms: bytes, pairs: bytes) -> Snapshot:
    try:
        found = parse_answer(tallies)
    except Invalid as error:
        raise Unavailable(str(error)) from None
    app, agreed = parse_terms(terms)
    return snapshot_of(found.tallies, agreed, app, found.withheld, parse_pairs(pairs))


def _in_words(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate is not trusted here; --trust names one that is"
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorError():
            return "nothing listens at that address"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return "it closed the connection"
    return "the connection failed"


class FileSource:
    """Tally files, read again when one of them has changed."""

    def __init__(self, paths: Sequence[str], merge: bool) -> None:
        self._paths = tuple(paths)
        self._merge = merge
        self._stamp: object = None
        self._snapshot: Snapshot | None = None

    async def read(self, token: str | None) -> tuple[Snapshot, Health | None]:
        try:
            return await asyncio.to_thread(self._read), None
        except OSError as error:
            raise Unavailable(f"{error.filename}: {error.strerror}") from None
        except Invalid as error:
            raise Unavailable(str(error)) from None

    async def check(self, token: str) -> None:
        return None

    def _read(self) -> Snapshot:
        stats = [Path(path).stat() for path in self._paths]
        stamp = [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]
        if self._snapshot is None or stamp != self._stamp:
            of_pairs = [path for path in self._paths if is_pair_file(path)]
            folders = [path for path in self._paths if Path(path).is_dir()]
            self._snapshot = snapshot_of(
                read_tallies(*(path for path in self._paths if path not in of_pairs), merge=self._merge),
                pairs=read_pair_tallies(*of_pairs, *folders, merge=self._merge),
            )
            self._stamp = stamp
        return self._snapshot

    async def close(self) -> None:
        return None
