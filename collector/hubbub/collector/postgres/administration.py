"""What an operator does with a shared store: make one, look after it, say who may read and what is stopped.

Each is one connection and one transaction, beside running collectors, which take a change up within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import sql

from hubbub.collector.postgres.cells_rows import Table, read_cells, revisions
from hubbub.collector.postgres.journal import JournalReader, unfolded
from hubbub.collector.postgres.keeping import read_purged, restore_purged
from hubbub.collector.postgres.reading import CellsReader
from hubbub.collector.postgres.session import (
    VERSION,
    Connection,
    Unreachable,
    check_server,
    check_version,
    connect,
    one,
    shown,
    translated,
)
from hubbub.collector.postgres.shared import Stale, accept_clock, look, read_shared
from hubbub.collector.stopped import check_name, not_stopped
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.checkpoint import RECOVERABLE_DAYS
from hubbub.collector.storage.counting import Cells, MetricEpoch
from hubbub.collector.storage.handing_out import Condition, Lent
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.purge import Purged
from hubbub.collector.tokens import KnownToken, Role, draw_token, no_such_token
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid

_SCHEMA = Path(__file__).with_name("schema.sql")
Result = TypeVar("Result")


@contextmanager
def opened(address: str) -> Iterator[Connection]:
    """A connection to a store of this version. Raises `Invalid` with words for whatever goes wrong."""
    with _connected(address) as connection:
        check_version(connection)
        yield connection


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    try:
        connection = connect(address)
    except Unreachable as error:
        raise Invalid([f"{shown(address)}: cannot be reached: {error}"]) from None
    try:
        check_server(connection)
        yield connection
    except psycopg.Error as error:
        words = str(translated(error, connection)).splitlines()[0]
        raise Invalid([f"{shown(address)}: {words}"]) from None
    except Damaged as error:
        raise Invalid([f"{shown(address)}: {error}"]) from None
    finally:
        connection.close()


def create_store(address: str, role: str | None) -> str:
    """Make the tables and functions, let a role count, and make the first read token, which is returned."""
    with _connected(address) as connection:
        (there,) = one(connection, "select to_regnamespace('hubbub') is not null")
        if there:
            raise Invalid([f"{shown(address)}: the schema hubbub must not be there yet"])
        with connection.transaction():
            connection.execute(_SCHEMA.read_bytes())
            if role is not None:
                for statement in (
                    "grant usage on schema hubbub to {}",
                    "grant select, insert, update, delete on all tables in schema hubbub to {}",
                    "grant usage on all sequences in schema hubbub to {}",
                ):
                    connection.execute(sql.SQL(statement).format(sql.Identifier(role)))
            return _insert_token(connection, "read", "first")


def migrate_store(address: str) -> tuple[int, int]:
    """Bring the schema to this program's version; from which, to which."""
    with _connected(address) as connection:
        check_version(connection)  # there is only one version yet, so whatever is not of it is refused
        return VERSION, VERSION


def check_start(address: str) -> list[str]:
    """Whether a collector could start here; what was found."""
    with opened(address):
        return [f"{shown(address)}: schema version {VERSION}"]


def check_store(address: str) -> list[str]:
    """Look at every row of the counts and every batch of the journal; what was found. Raises `Invalid` for damage."""
    with opened(address) as connection:
        definitions = read_shared(connection).definitions
        lines = []
        tables: tuple[Table, ...] = ("counts", "handed_out")
        for table in tables:
            cells = read_cells(connection, table, revisions(connection, table), definitions)
            lines.append(f"{table}: {len(cells)} rows, {sum(found.total for found in cells.values())} reports")
        lines.append(f"purged: {len(_settled(connection, lambda shared: read_purged(connection, shared)))} rows")
        reader = JournalReader()
        waiting = _settled(connection, lambda shared: unfolded(connection, reader, shared, lambda key: True))
        lines.append(f"journal: {sum(found.total for found in waiting.values())} reports that are not in counts yet")
        lines.append(f"kept: {_check_kept(connection)} rows")
        for name, words in (
            ("data_checksums", "whether the server notices damaged pages"),
            ("synchronous_standby_names", "whether a failover keeps what was answered"),
        ):
            lines.append(f"{name}: {one(connection, 'select current_setting(%s)', (name,))[0] or 'none'} ({words})")
        return lines


def _check_kept(connection: Connection) -> int:
    rows = 0
    for *row, crc in connection.execute("select metric_hash, epoch, cohorts, vectors, crc from kept", binary=True):
        if crc != checksum("kept", row):
            raise Damaged(f"table kept, metric {row[0]}, epoch {row[1]}: damaged, its checksum does not fit")
        rows += 1
    return rows


def status_of(address: str) -> list[str]:
    """How the store is, in lines."""
    with opened(address) as connection:
        shared, seen = read_shared(connection), look(connection)
        (connections,) = one(
            connection,
            "select count(*) from pg_stat_activity "
            "where application_name = 'hubbub' and datname = current_database() and pid <> pg_backend_pid()",
        )
        (ids,) = one(
            connection,
            "select coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint from pg_inherits as i "
            "where i.inhparent = 'hubbub.ids'::regclass",
        )
        totals = read_cells(connection, "counts", revisions(connection, "counts"), shared.definitions)
        return [
            f"{shown(address)}: schema version {VERSION}",
            f"day: {epoch_text('day', shared.day) if shared.day else 'none yet'}",
            f"metrics: {len(shared.definitions)} definitions, {len(seen.stopped)} stopped",
            f"counts: {len(totals)} epochs, {sum(cells.total for cells in totals.values())} reports folded",
            f"journal: {seen.journal_bytes} bytes",
            f"ids: {len(shared.lots)} lots, {ids} bytes",
            f"connections: {connections} (a collector at work has up to 3)",
        ]


def select_from(address: str, wanted: Condition) -> Lent:
    """Counts as a collector would hand them out."""
    with opened(address) as connection:
        reader = CellsReader()
        return _settled(connection, lambda shared: reader.select(connection, shared, wanted))


def _settled(connection: Connection, action: Callable[..., Result]) -> Result:
    """With what is shared as it is now."""
    while True:
        try:
            return action(read_shared(connection))
        except Stale:
            continue


# -- tokens and stopped metrics


def new_token_in(address: str, role: Role, name: str) -> str:
    with opened(address) as connection:
        return _insert_token(connection, role, name)


def _insert_token(connection: Connection, role: Role, name: str) -> str:
    token, known = draw_token(role, name)
    connection.execute("insert into hubbub.tokens values (%b, %s, %s)", (known.digest, known.role, known.name))
    return token


def tokens_in(address: str) -> list[KnownToken]:
    with opened(address) as connection:
        return look(connection).tokens


def revoke_tokens_in(address: str, name: str) -> int:
    with opened(address) as connection:
        revoked = connection.execute("delete from tokens where name = %s", (name,)).rowcount
        if not revoked:
            raise no_such_token(name, look(connection).tokens)
        return revoked


def stopped_in(address: str) -> list[str]:
    with opened(address) as connection:
        return look(connection).stopped


def stop_metric_in(address: str, name: str) -> None:
    check_name(name)
    with opened(address) as connection:
        connection.execute("insert into stopped values (%s) on conflict do nothing", (name,))


def undo_stop_in(address: str, name: str) -> None:
    with opened(address) as connection:
        if not connection.execute("delete from stopped where name = %s", (name,)).rowcount:
            raise not_stopped(name, look(connection).stopped)


# -- the clock, and what was purged


def accept_clock_of(address: str) -> None:
    with opened(address) as connection:
        accept_clock(connection)


def purged_in(address: str) -> list[Purged]:
    """What can be had back, by metric and epoch."""
    with opened(address) as connection:
        shared = read_shared(connection)
        rows = [(key, *found) for key, found in read_purged(connection, shared).items()]
        return _as_purged(rows, shared.day)


def restore_purged_in(address: str, metric: str | None) -> list[Purged]:
    """Put purged counts back, of one metric or of all; which these were."""
    with opened(address) as connection:
        shared = read_shared(connection)
        return _as_purged(restore_purged(connection, shared, metric), shared.day)


def _as_purged(rows: list[tuple[MetricEpoch, Cells, int]], today: int) -> list[Purged]:
    found = []
    for (_, epoch), cells, day in rows:
        left = max(0, day + RECOVERABLE_DAYS - today)
        found.append(Purged(cells.metric.name, epoch_text(cells.metric.every, epoch), cells.total, left))
    return sorted(found, key=lambda item: (item.metric, item.epoch))
