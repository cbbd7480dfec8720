"""How a collector is run: flags, then HUBBUB_* variables, then a TOML file, then defaults that need no thought.

Every setting has one name in three spellings: `min_free_bytes` in TOML, `HUBBUB_MIN_FREE_BYTES`, `--min-free-bytes`.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hubbub.protocol import arguments
from hubbub.protocol.invalid import Invalid, require

PREFIX = "HUBBUB_"
# Of the client, other commands and the tests.
_OTHER_VARIABLES = (
    "MODE",
    "STATE",
    "TOKEN",
    "NEED_BROWSER",
    "NEED_POSTGRES",
    "TEST_POSTGRES",
    "TEST_PGBOUNCER",
    "PICTURES",
)
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
_ADDRESSES = ("postgresql://", "postgres://", "service=")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All there is to set. Checked when it is made."""

    metrics: Path = field(metadata={"help": "the registry to count, a metrics.toml"})
    data: Path = field(default=Path("hubbub-data"), metadata={"help": "where counts are kept; made if it is not there"})
    rehearsal: bool = field(
        default=False,
        metadata={
            "help": "whether this is a rehearsal with made-up installs, on this machine: counts are shown at once, one "
            "address may send as much as it likes, and the last 60 days, weeks and months are open"
        },
    )
    store: str = field(
        default="embedded",
        metadata={
            "help": "embedded: in the data folder; or the postgresql:// address of a store that collectors share; "
            "several addresses, with commas between them, if it is spread over several databases"
        },
    )
    workers: int = field(
        default=1, metadata={"help": "processes that listen on the port together; more than 1 needs a shared store"}
    )
    older_metrics: Path | None = field(
        default=None, metadata={"help": "a folder of earlier metrics.toml files that are still counted"}
    )
    host: str = field(default="127.0.0.1", metadata={"help": "the address to listen on"})
    port: int = field(default=8787, metadata={"help": "the port to listen on; 0 takes a free one"})
    tls_certificate: Path | None = field(
        default=None, metadata={"help": "a certificate chain in PEM; with it the collector speaks TLS"}
    )
    tls_key: Path | None = field(default=None, metadata={"help": "the key of the certificate in PEM"})
    proxies: tuple[Network, ...] = field(default=(), metadata={"help": "networks whose X-Forwarded-For is believed"})
    origins: tuple[str, ...] = field(default=(), metadata={"help": "web origins that may send from a browser"})
    sender_rate: float = field(default=20.0, metadata={"help": "requests a second that one sender may keep up"})
    sender_burst: int = field(default=200, metadata={"help": "requests that one sender may make at once"})
    max_batch_bytes: int = field(default=256 << 10, metadata={"help": "the largest batch of an install, inflated"})
    max_relay_bytes: int = field(default=8 << 20, metadata={"help": "the largest batch of a relay, inflated"})
    max_queue_batches: int = field(default=20_000, metadata={"help": "batches that may wait to be written"})
    max_queue_bytes: int = field(default=256 << 20, metadata={"help": "bytes that may wait to be written"})
    max_reading_bytes: int = field(default=256 << 20, metadata={"help": "bytes of bodies that may be half read"})
    min_reports: int = field(
        default=20,
        metadata={"help": "counts are handed out in steps of at least so many new reports; 0 shows all at once"},
    )
    max_ids: int = field(
        default=20_000_000, metadata={"help": "batch ids of open epochs to remember, in about 33 bytes of memory each"}
    )
    max_connections: int = field(default=10_000, metadata={"help": "connections open at once"})
    known_headers: bool = field(
        default=True,
        metadata={"help": "whether a header block that came before is known by its bytes, not parsed again"},
    )
    request_seconds: float = field(
        default=30.0, metadata={"help": "how long a request may take to arrive; how long an idle connection lives"}
    )
    drain_seconds: float = field(default=5.0, metadata={"help": "how long answers may take once told to stop"})
    min_free_bytes: int = field(default=256 << 20, metadata={"help": "free space below which batches are refused"})
    segment_bytes: int = field(default=64 << 20, metadata={"help": "the size of a log segment"})
    checkpoint_seconds: float = field(
        default=30.0, metadata={"help": "the longest time between checkpoints while there is news"}
    )
    checkpoint_batches: int = field(
        default=100_000, metadata={"help": "batches after which a checkpoint is made earlier"}
    )

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        databases = databases_in(self.store)
        if self.rehearsal and self.host not in _THIS_MACHINE:
            yield f"host must be one of {', '.join(_THIS_MACHINE)} in a rehearsal, got {self.host!r}"
        if self.rehearsal and self.store != "embedded":
            yield f"store must be embedded in a rehearsal, got {self.store!r}"
        if self.store != "embedded" and not self.store.startswith(_ADDRESSES):
            yield f"store must be embedded, a postgresql:// address or service=NAME, got {self.store!r}"
        elif len(set(databases)) < len(databases):
            yield f"store must name each database once, got {self.store!r}"
        if not 1 <= self.workers <= 256:
            yield f"workers must be in [1, 256], got {self.workers}"
        elif self.workers > 1 and self.store == "embedded":
            words = "workers must be 1 with the embedded store, which is one process's own"
            yield f"{words}, got {self.workers}; see --store"
        if not 0 <= self.port <= 65_535:
            yield f"port must be in [0, 65535], got {self.port}"
        if (self.tls_certificate is None) != (self.tls_key is None):
            yield "tls_certificate and tls_key must be given together"
        for name in ("sender_rate", "request_seconds", "drain_seconds", "checkpoint_seconds"):
            if not 0 < getattr(self, name) <= 1e6:
                yield f"{name} must be above 0 and at most 1000000, got {getattr(self, name):g}"
        for name in ("sender_burst", "max_queue_batches", "max_ids", "max_connections", "checkpoint_batches"):
            if getattr(self, name) < 1:
                yield f"{name} must be at least 1, got {getattr(self, name)}"
        for name in ("max_batch_bytes", "max_relay_bytes", "segment_bytes"):
            if not 1024 <= getattr(self, name) <= 1 << 30:
                yield f"{name} must be in [1024, {1 << 30}], got {getattr(self, name)}"
        for name in ("min_free_bytes", "min_reports"):
            if getattr(self, name) < 0:
                yield f"{name} must be at least 0, got {getattr(self, name)}"
        for origin in self.origins:
            if "://" not in origin or origin.endswith("/"):
                yield f"origins must look like https://example.org, got {origin!r}"


REHEARSAL: dict[str, Any] = {
    "data": Path("hubbub-rehearsal"),
    "min_reports": 0,
    "sender_rate": 100_000.0,
    "sender_burst": 1_000_000,
}
"""What a rehearsal sets where nothing else is said: nobody's reports are in it, and the whole crowd has one address."""


def databases_in(store: str) -> list[str]:
    """The addresses that a `--store` names. A comma may also stand inside one, between hosts."""
    return re.split(rf",(?={'|'.join(_ADDRESSES)})", store)


def read_settings(flags: Mapping[str, str | None], environment: Mapping[str, str], config: Path | None) -> Settings:
    """The settings of one run; raises `Invalid` with every problem, each naming where the value came from."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, (raw, source) in _layered(flags, environment, _read_config(config)).items():
        if name not in _READERS:
            problems.append(f"{source}: no such setting; there are {', '.join(_READERS)}")
            continue
        try:
            values[name] = _READERS[name](raw)
        except (ValueError, TypeError) as error:
            problems.append(f"{source}: {name} {error}")
    if "metrics" not in values and not problems:
        problems.append("metrics must be given: --metrics FILE, HUBBUB_METRICS or metrics = FILE")
    require(problems)
    return Settings(**({**REHEARSAL, **values} if values.get("rehearsal") else values))


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each HUBBUB_* variable that nothing reads, with the nearest that is. Values stay out of it."""
    known = [*(name.upper() for name in (*_READERS, "config")), *_OTHER_VARIABLES]
    set_names = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX))
    sentences = []
    for name in set_names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
            sentences.append(f"{PREFIX}{name} is set, but hubbub has no such variable{hint}")
    return sentences


def _layered(
    flags: Mapping[str, str | None], environment: Mapping[str, str], config: Mapping[str, object]
) -> dict[str, tuple[object, str]]:
    found: dict[str, tuple[object, str]] = {name: (raw, f"config file: {name}") for name, raw in config.items()}
    for name in _READERS:
        variable = PREFIX + name.upper()
        if variable in environment:
            found[name] = (environment[variable], variable)
    for name, raw in flags.items():
        if raw is not None:
            found[name] = (raw, "--" + name.replace("_", "-"))
    return found


def _read_config(path: Path | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid([f"{path}: not TOML: {error}"]) from None


def _whole(raw: object) -> int:
    if isinstance(raw, str):
        return arguments.whole(raw)
    if type(raw) is not int:
        raise ValueError(f"must be a whole number, got {raw!r}")
    return raw


def _number(raw: object) -> float:
    if isinstance(raw, str):
        return arguments.number(raw)
    if type(raw) not in (int, float):
        raise ValueError(f"must be a number, got {raw!r}")
    return arguments.number(str(raw))


def _yes_or_no(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw not in ("yes", "no"):
        raise ValueError(f"must be yes or no, got {raw!r}")
    return raw == "yes"


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"must be a text, got {raw!r}")
    return raw


def _path(raw: object) -> Path:
    return Path(_text(raw))


def _list(raw: object) -> list[str]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"must be a list of texts, got {raw!r}")
    return [item.strip() for item in items if item.strip()]


def _origins(raw: object) -> tuple[str, ...]:
    return tuple(_list(raw))


def _networks(raw: object) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(item) for item in _list(raw))


_BY_TYPE: dict[str, tuple[Callable[[object], object], str]] = {
    "Path": (_path, "PATH"),
    "Path | None": (_path, "PATH"),
    "str": (_text, "TEXT"),
    "int": (_whole, "N"),
    "float": (_number, "N"),
    "bool": (_yes_or_no, "yes|no"),
    "tuple[Network, ...]": (_networks, "A,B"),
    "tuple[str, ...]": (_origins, "A,B"),
}
_READERS = {item.name: _BY_TYPE[str(item.type)][0] for item in fields(Settings)}
METAVARS = {item.name: _BY_TYPE[str(item.type)][1] for item in fields(Settings)}
HELP: dict[str, str] = {item.name: item.metadata["help"] for item in fields(Settings)}
DEFAULTS: dict[str, object] = {item.name: item.default for item in fields(Settings)}
