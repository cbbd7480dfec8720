"""How a dashboard is run, checked when it is made: where the numbers come from, who may look, where it listens."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hubbub.protocol.invalid import require

SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the numbers come from, who may look, where it listens. Raises `Invalid` for what cannot be."""

    source: tuple[str, ...]  # the address of one collector, or paths of tally files
    token: str | None = field(default=None, repr=False)
    """Lets the dashboard read the collector; never shown, not even in a traceback."""
    trust: Path | None = None  # certificates to trust, for the collector
    candidates: tuple[str, ...] = ()  # files of strings to look for: FILE or METRIC=FILE
    merge: bool = False  # whether an epoch that several files have is added up
    public: bool = False  # read-only, for anybody, without a token
    host: str = "127.0.0.1"  # where it listens
    port: int = 8788  # on which port; 0 takes a free one
    origin: str | None = None  # the address visitors type, where a proxy stands between
    every: float = 3.0  # seconds between two looks at the source
    patience: float = 10.0  # seconds to wait for the collector

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        urls = [name for name in self.source if name.startswith(SCHEMES)]
        if not self.source:
            yield "--from must name a collector's address or at least one tally file"
        if urls and len(self.source) > 1:
            yield f"--from must be one collector's address or tally files, got {len(self.source)} with {urls[0]}"
        for url in urls:
            yield from _problems_of_url("--from", url)
        if not 0 <= self.port <= 65535:
            yield f"--port must be in [0, 65535], got {self.port}"
        if not 0.2 <= self.every <= 3600:
            yield f"--every must be in [0.2, 3600] seconds, got {self.every:g}"
        if self.origin is not None:
            yield from _problems_of_url("--origin", self.origin)
        if self.public and urls and not self.token:
            yield "--public needs the collector's read token: HUBBUB_TOKEN or --token-file"
        if self.token is not None and not urls:
            yield "a token is for a collector's address; tally files need none"
        if not urls and not self.public and not self.loopback:
            yield (
                f"--host must be a loopback address, got {self.host!r}: nobody would be asked for a token to see these "
                "files. --public says that this is meant"
            )

    @property
    def url(self) -> str | None:
        """The collector's address, if the numbers come from one."""
        return self.source[0].rstrip("/") if self.source[0].startswith(SCHEMES) else None

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the dashboard."""
        return is_loopback(self.host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names a request may call this server by; None is any. On loopback a page of another name is one that had
        its name pointed here (DNS rebinding)."""
        if self.origin is not None:
            return frozenset({str(urlsplit(self.origin).hostname)})
        return frozenset({"localhost", "127.0.0.1", "::1", self.host.lower()}) if self.loopback else None

    @property
    def asks_for_token(self) -> bool:
        """Whether a visitor must show a token that the collector accepts."""
        return self.url is not None and not self.public and not (self.token and self.loopback)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _problems_of_url(option: str, url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        fine = url.startswith(SCHEMES) and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        yield f"{option} must be an address such as https://telemetry.example.org, got {url!r}"
        return
    if parts.username or parts.password:
        yield f"{option} must not hold a name or password"
    elif not fine or parts.query or parts.fragment:
        yield f"{option} must be an address such as https://telemetry.example.org, got {url!r}"
