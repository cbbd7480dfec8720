"""What the collectors of a database share besides counts: the day, terms, closed epochs and lots, tokens, stop list.

A collector has it in memory and says with every group of batches which `turn` it knows. If another one is in force,
nothing is stored, and it reads all of this again first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hubbub.collector.message_layout import LOT_CADENCES
from hubbub.collector.postgres.session import Connection, one
from hubbub.collector.tokens import KnownToken
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.metric import Definition, Metric


@dataclass(frozen=True, slots=True)
class Terms:
    """How long reports of a metric are taken and counts kept. `longest_grace` is the longest there ever was."""

    grace: int
    longest_grace: int
    retention_days: int
    keep_reports: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """What holds from one turn to the next. `store`, `number` and `databases` say which part of which store it is."""

    store: str
    number: int
    databases: int
    turn: int
    day: int
    definitions: Mapping[str, Definition]
    terms: Mapping[str, Terms]
    sealed: Mapping[str, int]
    lots: Mapping[int, int]  # over how many databases each is spread
    closed_lots: Mapping[int, int]

    def is_closed(self, lot: int) -> bool:
        return lot // 4 <= self.closed_lots.get(lot % 4, -1)

    def sealed_by(self, now: float) -> dict[str, int]:
        """The newest epoch of each metric that has closed at this time."""
        return {
            metric_hash: epoch_of(definition.every, now) - self.terms[metric_hash].grace - 1
            for metric_hash, definition in self.definitions.items()
        }

    def lots_closed_by(self, now: float) -> list[int]:
        """By cadence, the newest epoch whose lot nobody may ask for any more, whatever settings a collector has."""
        graces = [0, 0, 0, 0]
        for metric_hash, definition in self.definitions.items():
            cadence = LOT_CADENCES.index(definition.every)
            graces[cadence] = max(graces[cadence], self.terms[metric_hash].longest_grace)
        return [epoch_of(every, now) - grace - 1 for every, grace in zip(LOT_CADENCES, graces, strict=True)]

    def past_retention(self, metric_hash: str, epoch: int, today: int) -> bool:
        end = epoch_start(self.definitions[metric_hash].every, epoch + 1) // DAY
        return end + self.terms[metric_hash].retention_days <= today


def read_shared(connection: Connection, before: Shared | None = None) -> Shared:
    """As it is now, all of it at one moment."""
    known = {} if before is None else before.definitions
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        turn, day, store, number, databases = one(
            connection, "select turn, day, store::text, number, databases from state"
        )
        rows = connection.execute(
            "select metric_hash, definition, sealed_through, grace, longest_grace, retention_days, keep_reports "
            "from metrics"
        ).fetchall()
        lots = connection.execute("select lot, databases from lots").fetchall()
        closed = connection.execute("select cadence, through from closed_lots").fetchall()
    return Shared(
        store=store,
        number=number,
        databases=databases,
        turn=turn,
        day=day,
        definitions={row[0]: known.get(row[0]) or Definition.from_json(json.loads(row[1])) for row in rows},
        terms={row[0]: Terms(*row[3:]) for row in rows},
        sealed={row[0]: row[2] for row in rows},
        lots=dict(lots),
        closed_lots=dict(closed),
    )


class Stale(Exception):
    """What this collector knows is no longer so: it must be read again first."""


def check_turn(connection: Connection, shared: Shared) -> None:
    """Once batches were read: the definitions they need were there before them, in this turn or an earlier one."""
    (turn,) = one(connection, "select turn from state")
    if turn != shared.turn:
        raise Stale


def adopt(connection: Connection, metrics: Iterable[Metric], min_reports: int) -> None:
    """Take note of metrics and their terms, and how counts are handed out: what was said last holds for all."""
    with connection.transaction():
        connection.execute("select from state for update")
        changed = 0
        for metric in metrics:
            terms = (metric.grace, metric.grace, metric.retention_days, metric.keep_reports)
            cadence = LOT_CADENCES.index(metric.every)
            definition = json.dumps(metric.to_json())
            changed += connection.execute(
                "insert into metrics values (%s, %s, %s, %s, %s, %s, %s, %s, -1) on conflict (metric_hash) do update "
                "set grace = excluded.grace, longest_grace = greatest(metrics.longest_grace, excluded.grace), "
                "retention_days = excluded.retention_days, keep_reports = excluded.keep_reports "
                "where (metrics.grace, metrics.retention_days, metrics.keep_reports) is distinct from "
                "(excluded.grace, excluded.retention_days, excluded.keep_reports)",
                (metric.metric_hash, metric.short_hash, definition, cadence, *terms),
            ).rowcount
        connection.execute("update state set min_reports = %s where min_reports <> %s", (min_reports, min_reports))
        if changed:
            connection.execute("update state set turn = turn + 1")


@dataclass(frozen=True, slots=True)
class Look:
    """What a collector looks at every second."""

    turn: int
    now: float
    accepts: int
    min_reports: int
    journal_bytes: int
    tokens: list[KnownToken]
    stopped: list[str]


def look(connection: Connection) -> Look:
    turn, now, accepts, min_reports, journal_bytes, tokens, stopped = one(
        connection,
        "select turn, wall_seconds(), accepts, min_reports, pg_total_relation_size('journal'), "
        "(select coalesce(json_agg(json_build_array(role, name, encode(hash, 'hex')) order by name, hash), '[]') "
        "from tokens), (select coalesce(json_agg(name order by name), '[]') from stopped) from state",
    )
    known = [KnownToken(role, name, bytes.fromhex(digest)) for role, name, digest in tokens]
    return Look(turn, now, accepts, min_reports, journal_bytes, known, stopped)


def turn_day(connection: Connection, shared: Shared, now: float) -> bool:
    """Close what is over at this time, unless somebody else has done so."""
    sealed = shared.sealed_by(now)
    values = (shared.turn, int(now // DAY), list(sealed), list(sealed.values()), shared.lots_closed_by(now))
    (done,) = one(connection, "select turn_day(%s, %s, %s, %s::int[], %s::int[])", values)
    return bool(done)


def accept_clock(connection: Connection) -> None:
    """The operator says that the database's clock is right."""
    (now,) = one(connection, "select wall_seconds()")
    epochs = [epoch_of(every, now) for every in LOT_CADENCES]
    connection.execute("select accept_clock(%s, %s::int[])", (int(now // DAY), epochs))
