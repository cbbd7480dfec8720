"""Where an operator's command works: the folder of an embedded store, or a database that collectors share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hubbub.collector.database import administration
from hubbub.collector.settings import DEFAULTS
from hubbub.collector.stopped import names_counted, read_stopped, stop_metric, undo_stop
from hubbub.collector.tokens import KnownToken, Role, new_token, read_tokens, revoke_tokens
from hubbub.protocol.invalid import Invalid

if TYPE_CHECKING:
    from hubbub.collector.storage.purge import Purged


class Place(Protocol):
    """What the commands token, stop, clock and purge ask for."""

    name: str

    def new_token(self, role: Role, name: str) -> str: ...
    def tokens(self) -> tuple[list[KnownToken], list[int]]:
        """The tokens, and the numbers of lines that are none."""

    def revoke_tokens(self, name: str) -> int: ...
    def metrics(self) -> list[str]:
        """The names of all metrics there are; none where that cannot be known."""

    def stopped(self) -> list[str]: ...
    def stop_metric(self, name: str) -> None: ...
    def undo_stop(self, name: str) -> None: ...
    def accept_clock(self) -> None: ...
    def purged(self) -> list[Purged]: ...
    def restore_purged(self, metric: str | None) -> list[Purged]: ...


def add_place(parser: ArgumentParser, what: str, required: bool = False) -> None:
    """The arguments --data and --store."""
    chosen = parser.add_mutually_exclusive_group(required=required)
    default = None if required else str(DEFAULTS["data"])
    chosen.add_argument("--data", metavar="DIR", default=default, help=what)
    chosen.add_argument("--store", metavar="URL", help="the postgresql:// address of the store that collectors share")


def place_of(arguments: Namespace) -> Place:
    if arguments.store is not None:
        return DatabasePlace(arguments.store)
    data = Path(arguments.data)
    if not data.is_dir():
        raise Invalid([f"data must be a collector's directory, got {data}"])
    return FolderPlace(data)


class FolderPlace:
    """The folder of an embedded store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def new_token(self, role: Role, name: str) -> str:
        return new_token(self._path / "tokens", role, name)

    def tokens(self) -> tuple[list[KnownToken], list[int]]:
        tokens, bad_lines = read_tokens(self._path / "tokens")
        return tokens, list(bad_lines)

    def revoke_tokens(self, name: str) -> int:
        return revoke_tokens(self._path / "tokens", name)

    def metrics(self) -> list[str]:
        return names_counted(self._path / "store.sqlite")

    def stopped(self) -> list[str]:
        return read_stopped(self._path / "stopped")

    def stop_metric(self, name: str) -> None:
        stop_metric(self._path / "stopped", name)

    def undo_stop(self, name: str) -> None:
        undo_stop(self._path / "stopped", name)

    def accept_clock(self) -> None:
        if not (self._path / "store.sqlite").exists():
            raise Invalid([f"data must be the directory of a collector, got {self._path}, which has no store.sqlite"])
        (self._path / "clock-accepted").touch(mode=0o600)

    def purged(self) -> list[Purged]:
        from hubbub.collector.storage.purge import list_purged  # needs numpy; tokens and stops do not

        return list_purged(self._path)

    def restore_purged(self, metric: str | None) -> list[Purged]:
        from hubbub.collector.storage.purge import restore_purged

        return restore_purged(self._path, metric)


class DatabasePlace:
    """A shared store."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._does = administration()
        self.name = "the store"

    def new_token(self, role: Role, name: str) -> str:
        return str(self._does.new_token_in(self._address, role, name))

    def tokens(self) -> tuple[list[KnownToken], list[int]]:
        return self._does.tokens_in(self._address), []

    def revoke_tokens(self, name: str) -> int:
        return int(self._does.revoke_tokens_in(self._address, name))

    def metrics(self) -> list[str]:
        return list(self._does.metrics_in(self._address))

    def stopped(self) -> list[str]:
        return list(self._does.stopped_in(self._address))

    def stop_metric(self, name: str) -> None:
        self._does.stop_metric_in(self._address, name)

    def undo_stop(self, name: str) -> None:
        self._does.undo_stop_in(self._address, name)

    def accept_clock(self) -> None:
        self._does.accept_clock_of(self._address)

    def purged(self) -> list[Purged]:
        return list(self._does.purged_in(self._address))

    def restore_purged(self, metric: str | None) -> list[Purged]:
        return list(self._does.restore_purged_in(self._address, metric))
