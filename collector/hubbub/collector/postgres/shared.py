"""What the collectors of a database share besides counts: the day, terms, closed epochs and lots, tokens, stop list.

A collector has it in memory and says with every group of batches which `turn` it knows. If another one is in force,
nothing is stored, and it reads all of this again first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

from hubbub.collector.catalog import CountedPair, with_known_names
from hubbub.collector.message_layout import LOT_CADENCES
from hubbub.collector.postgres.session import Connection, check_version, one
from hubbub.collector.storage.checkpoint import ENDED
from hubbub.collector.tokens import KnownToken
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.metric import SHORT_HASH_BYTES, Definition, Metric
from hubbub.protocol.pair import Counted, Pair, counted_from_json

NEVER: Multirange[int] = Multirange()
ALWAYS: Multirange[int] = Multirange([Range(0)])


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
    imported: bool  # whether there are ids from before, of an embedded store, which are in no lot
    definitions: Mapping[str, Counted]
    terms: Mapping[str, Terms]
    sealed: Mapping[str, int]
    counted_in: Mapping[str, Multirange[int]]  # of each pair, the turns in which it was and is counted
    lots: Mapping[int, int]  # over how many databases each is spread
    closed_lots: Mapping[int, int]

    def pairs_in(self, turn: int) -> list[Pair]:
        """The pairs that were counted in a turn, up to the present one."""
        return [
            pair
            for metric_hash, pair in self.definitions.items()
            if isinstance(pair, Pair) and any(turn in span for span in self.counted_in[metric_hash])
        ]

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
        check_version(connection)  # collectors of an earlier version may be at work while it is brought up
        turn, day, imported, store, number, databases = one(
            connection, "select turn, day, imported, store::text, number, databases from state"
        )
        rows = connection.execute(
            "select metric_hash, definition, sealed_through, counted_in, "
            "grace, longest_grace, retention_days, keep_reports from metrics"
        ).fetchall()
        lots = connection.execute("select lot, databases from lots").fetchall()
        closed = connection.execute("select cadence, through from closed_lots").fetchall()
    return Shared(
        store=store,
        number=number,
        databases=databases,
        turn=turn,
        day=day,
        imported=imported,
        definitions={row[0]: _definition(known.get(row[0]), row[1]) for row in rows},
        terms={row[0]: Terms(*row[4:]) for row in rows},
        sealed={row[0]: row[2] for row in rows},
        counted_in={row[0]: row[3] for row in rows},
        lots=dict(lots),
        closed_lots=dict(closed),
    )


def _definition(known: Counted | None, text: str) -> Counted:
    """As it was saved; the very object that is known, unless a spare place was named since."""
    return known if known is not None and _saved(known) == text else counted_from_json(json.loads(text))


def _saved(metric: Counted) -> str:
    return json.dumps(metric.described())


class Stale(Exception):
    """What this collector knows is no longer so: it must be read again first."""


def check_turn(connection: Connection, shared: Shared) -> None:
    """Once batches were read: the definitions they need were there before them, in this turn or an earlier one."""
    (turn,) = one(connection, "select turn from state")
    if turn != shared.turn:
        raise Stale


def adopt(connection: Connection, counted: Sequence[Metric | CountedPair], min_reports: int) -> None:
    """Take note of metrics, pairs and their terms, and how counts are handed out: what was said last holds for all.

    So a pair that is not among them is no longer counted, from the next turn on.
    """
    with connection.transaction():
        next_turn = one(connection, "select turn from state for update")[0] + 1
        pairs = [pair.metric_hash for pair in counted if isinstance(pair, CountedPair)]
        changed = connection.execute(
            "update metrics set grace = %s, counted_in = counted_in * int8multirange(int8range(null, %s)) "
            "where upper_inf(counted_in) and metric_hash <> all(%s)",
            (ENDED, next_turn, pairs),
        ).rowcount
        for metric in counted:
            keep_reports = isinstance(metric, Metric) and metric.keep_reports
            terms = (metric.grace, metric.grace, metric.retention_days, keep_reports)
            cadence = LOT_CADENCES.index(metric.every)
            counted_in = _from(next_turn) if isinstance(metric, CountedPair) else NEVER
            definition = _saved(_with_saved_names(connection, metric) if isinstance(metric, Metric) else metric)
            changed += connection.execute(
                "insert into metrics values (%s, %s, %s, %s, %s, %s, %s, %s, -1, %s) "
                "on conflict (metric_hash) do update "
                "set grace = excluded.grace, longest_grace = greatest(metrics.longest_grace, excluded.grace), "
                "retention_days = excluded.retention_days, keep_reports = excluded.keep_reports, "
                "definition = excluded.definition, counted_in = case when upper_inf(metrics.counted_in) "
                "then metrics.counted_in else metrics.counted_in + excluded.counted_in end "
                "where (metrics.grace, metrics.retention_days, metrics.keep_reports, metrics.definition) is distinct "
                "from (excluded.grace, excluded.retention_days, excluded.keep_reports, excluded.definition)",
                (metric.metric_hash, short_hash(metric.metric_hash), definition, cadence, *terms, counted_in),
            ).rowcount
        connection.execute("update state set min_reports = %s where min_reports <> %s", (min_reports, min_reports))
        if changed:
            connection.execute("update state set turn = %s", (next_turn,))


def _from(turn: int) -> Multirange[int]:
    return Multirange([Range(turn)])


def _with_saved_names(connection: Connection, metric: Metric) -> Metric:
    """A collector with an older registry takes no name of a spare place away."""
    if not metric.shape.spare and not metric.shape.later_names:
        return metric
    query = "select definition from metrics where metric_hash = %s"
    found = connection.execute(query, (metric.metric_hash,)).fetchone()
    return metric if found is None else with_known_names(metric, Definition.from_json(json.loads(found[0])))


def short_hash(metric_hash: str) -> bytes:
    """What the wire has of a metric's hash; of a pair's nothing is on the wire, but the column has it, too."""
    return bytes.fromhex(metric_hash)[:SHORT_HASH_BYTES]


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
