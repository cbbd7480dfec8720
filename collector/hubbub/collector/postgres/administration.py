"""What an operator does with a shared store: make one, look after it, say who may read and what is stopped.

Each is one connection and one transaction for each of the databases it concerns, beside running collectors, which take
a change up within a second. `store` is what `--store` says: an address, or several.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from psycopg import sql

from hubbub.collector.postgres.cells_rows import Table, read_cells, revisions
from hubbub.collector.postgres.journal import JournalReader, unfolded
from hubbub.collector.postgres.keeping import read_purged, restore_purged
from hubbub.collector.postgres.listed import connected, listed, opened
from hubbub.collector.postgres.reading import CellsReader
from hubbub.collector.postgres.session import VERSION, Connection, check_version, one, shown
from hubbub.collector.postgres.shared import Shared, Stale, accept_clock, look, read_shared
from hubbub.collector.settings import databases_in
from hubbub.collector.stopped import check_name, metric_names, not_stopped
from hubbub.collector.storage.checked_rows import checksum
from hubbub.collector.storage.checkpoint import RECOVERABLE_DAYS
from hubbub.collector.storage.counting import Cells, MetricEpoch, sum_of_reports
from hubbub.collector.storage.handing_out import Condition, ReadableCounts
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.purge import Purged
from hubbub.collector.tokens import KnownToken, Role, draw_token, no_such_token
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid

_SCHEMAS = [Path(__file__).with_name(name) for name in ("schema.sql", "schema_2.sql", "schema_3.sql")]
"""Each makes the next version."""
Result = TypeVar("Result")


def create_store(store: str, role: str | None) -> str:
    """Make the tables and functions, let a role count, and make the first read token, which is returned."""
    addresses = databases_in(store)
    for address in addresses:
        _check_empty(address)
    name = str(uuid4())
    for number, address in reversed(list(enumerate(addresses))):  # once the first is there, all are
        with connected(address) as connection, connection.transaction():
            _make(connection, role)
            values = (name, number, len(addresses))
            connection.execute("update hubbub.state set store = %s, number = %s, databases = %s", values)
            token = _insert_token(connection, "read", "first") if number == 0 else ""
    return token


def add_databases(store: str, role: str | None) -> int:
    """Spread a store over more databases: those at the end of the list, which must be empty. Returns how many it has.

    Lots that are open stay as they are; those that open from now on are spread over all.
    """
    addresses = databases_in(store)
    with opened(addresses[0]) as connection:
        name, before = one(connection, "select store::text, databases from state")
    if len(addresses) <= before:
        raise Invalid([f"store must name more databases than the {before} that the store has, got {len(addresses)}"])
    listed(",".join(addresses[:before]))
    for address in addresses[before:]:
        _check_empty(address)
    for number, address in list(enumerate(addresses))[before:]:
        with connected(address) as connection, connection.transaction():
            _make(connection, role)
            connection.execute("update hubbub.state set store = %s, number = %s", (name, number))
    with opened(addresses[0]) as connection:
        values = (len(addresses), before)
        connection.execute("update state set databases = %s, turn = turn + 1 where databases = %s", values)
    return len(listed(store))


def _check_empty(address: str) -> None:
    with connected(address) as connection:
        (there,) = one(connection, "select to_regnamespace('hubbub') is not null")
        if there:
            raise Invalid([f"{shown(address)}: the schema hubbub must not be there yet"])


def _make(connection: Connection, role: str | None) -> None:
    for path in _SCHEMAS:
        connection.execute(path.read_bytes())
    if role is not None:
        for statement in (
            "grant usage on schema hubbub to {}",
            "grant select, insert, update, delete on all tables in schema hubbub to {}",
            "grant usage on all sequences in schema hubbub to {}",
        ):
            connection.execute(sql.SQL(statement).format(sql.Identifier(role)))


def migrate_store(store: str) -> list[tuple[str, int, int]]:
    """Bring the schema of each database to this program's version: where, from which, to which."""
    return [(shown(address), _migrate(address), VERSION) for address in databases_in(store)]


def _migrate(address: str) -> int:
    with connected(address) as connection:
        (there,) = one(connection, "select to_regclass('hubbub.state') is not null")
        version = one(connection, "select version from hubbub.state")[0] if there else VERSION
        with connection.transaction():
            for path in _SCHEMAS[version:]:
                connection.execute(path.read_bytes())
        check_version(connection)
    return int(version)


def check_start(store: str) -> list[str]:
    """Whether a collector could start here; what was found."""
    return [f"{shown(address)}: schema version {VERSION}" for address in listed(store)]


def check_store(store: str) -> list[str]:
    """Look at every row of the counts and every batch of the journal; what was found. Raises `Invalid` for damage."""
    addresses = listed(store)
    lines = []
    for address in addresses:
        with opened(address) as connection:
            lines += [shown(address) + ":"] * (len(addresses) > 1) + _check_database(connection)
    return lines


def _check_database(connection: Connection) -> list[str]:
    definitions = read_shared(connection).definitions
    lines = []
    tables: tuple[Table, ...] = ("counts", "handed_out")
    for table in tables:
        cells = read_cells(connection, table, revisions(connection, table), definitions)
        lines.append(f"{table}: {len(cells)} rows, {sum_of_reports(cells.values())} reports")
    lines.append(f"purged: {len(_settled(connection, lambda shared: read_purged(connection, shared)))} rows")
    reader = JournalReader()
    waiting = _settled(connection, lambda shared: unfolded(connection, reader, shared, lambda key: True))
    lines.append(f"journal: {sum_of_reports(waiting.values())} reports that are not in counts yet")
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


def status_of(store: str) -> list[str]:
    """How the store is, in lines."""
    return [line for address in listed(store) for line in _status(address)]


def _status(address: str) -> list[str]:
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
            f"{shown(address)}: schema version {VERSION}, database {shared.number + 1} of its store",
            f"day: {epoch_text('day', shared.day) if shared.day else 'none yet'}",
            f"metrics: {len(shared.definitions)} definitions, {len(seen.stopped)} stopped",
            f"counts: {len(totals)} epochs, {sum_of_reports(totals.values())} reports folded",
            f"journal: {seen.journal_bytes} bytes",
            f"ids: {len(shared.lots)} lots, {ids} bytes",
            f"connections: {connections} (a collector at work has up to 3)",
        ]


def select_from(store: str, wanted: Condition) -> list[ReadableCounts]:
    """Counts as a collector would hand them out, of each database."""
    found = []
    for address in listed(store):
        with opened(address) as connection:
            reader = CellsReader()
            found.append(_settled(connection, partial(reader.select, connection, wanted=wanted)))
    return found


def _settled(connection: Connection, action: Callable[..., Result]) -> Result:
    """With what is shared as it is now."""
    while True:
        try:
            return action(read_shared(connection))
        except Stale:
            continue


# -- tokens and stopped metrics, which are in the first database


def first_of(store: str) -> AbstractContextManager[Connection]:
    return opened(listed(store)[0])


def new_token_in(store: str, role: Role, name: str) -> str:
    with first_of(store) as connection:
        return _insert_token(connection, role, name)


def _insert_token(connection: Connection, role: Role, name: str) -> str:
    token, known = draw_token(role, name)
    connection.execute("insert into hubbub.tokens values (%b, %s, %s)", (known.digest, known.role, known.name))
    return token


def tokens_in(store: str) -> list[KnownToken]:
    with first_of(store) as connection:
        return look(connection).tokens


def revoke_tokens_in(store: str, name: str) -> int:
    with first_of(store) as connection:
        revoked = connection.execute("delete from tokens where name = %s", (name,)).rowcount
        if not revoked:
            raise no_such_token(name, look(connection).tokens)
        return revoked


def stopped_in(store: str) -> list[str]:
    with first_of(store) as connection:
        return look(connection).stopped


def metrics_in(store: str) -> list[str]:
    with first_of(store) as connection:
        return metric_names(json.loads(text) for (text,) in connection.execute("select definition from metrics"))


def stop_metric_in(store: str, name: str) -> None:
    check_name(name)
    with first_of(store) as connection:
        connection.execute("insert into stopped values (%s) on conflict do nothing", (name,))


def undo_stop_in(store: str, name: str) -> None:
    with first_of(store) as connection:
        if not connection.execute("delete from stopped where name = %s", (name,)).rowcount:
            raise not_stopped(name, look(connection).stopped)


# -- the clock, and what was purged


def accept_clock_of(store: str) -> None:
    for address in listed(store):
        with opened(address) as connection:
            accept_clock(connection)


def purged_in(store: str) -> list[Purged]:
    """What can be had back, by metric and epoch."""

    def found(connection: Connection, shared: Shared) -> list[tuple[MetricEpoch, Cells, int]]:
        return [(key, *row) for key, row in read_purged(connection, shared).items()]

    return _purged_of_all(store, found)


def restore_purged_in(store: str, metric: str | None) -> list[Purged]:
    """Put purged counts back, of one metric or of all; which these were."""
    return _purged_of_all(store, lambda connection, shared: restore_purged(connection, shared, metric))


def _purged_of_all(
    store: str, action: Callable[[Connection, Shared], list[tuple[MetricEpoch, Cells, int]]]
) -> list[Purged]:
    """What an action finds in each database, added up."""
    found: dict[tuple[str, str], Purged] = {}
    for address in listed(store):
        with opened(address) as connection:
            shared = read_shared(connection)
            for item in _as_purged(action(connection, shared), shared.day):
                before = found.get((item.metric, item.epoch))
                together = item if before is None else replace(item, reports=item.reports + before.reports)
                found[item.metric, item.epoch] = together
    return [found[key] for key in sorted(found)]


def _as_purged(rows: list[tuple[MetricEpoch, Cells, int]], today: int) -> list[Purged]:
    found = []
    for (_, epoch), cells, day in rows:
        left = max(0, day + RECOVERABLE_DAYS - today)
        found.append(Purged(cells.metric.name, epoch_text(cells.metric.every, epoch), cells.total, left))
    return sorted(found, key=lambda item: (item.metric, item.epoch))
