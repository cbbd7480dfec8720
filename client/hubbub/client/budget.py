"""The lifetime budget: slots set aside, slots used, and what that comes to. Runs inside a caller's transaction.

The budget is static. When a metric is first reported, all its slots are set aside, whether they will be needed or not:
what a metric may still spend never depends on what another one was told.
"""

from __future__ import annotations

import sqlite3
from fractions import Fraction

from hubbub.client.facts import Facts, put
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.epsilon import MICRO
from hubbub.protocol.linking import at_most, num_samples
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.registry import Registry


def reserve(db: sqlite3.Connection, facts: Facts, registry: Registry) -> None:
    """Set slots aside for every metric that has none yet. One that finds no room is not asked on this install.

    Metrics are served in the order of the registry, all slots or none, so what is left out depends on the registries
    this install has seen and on nothing else. The smallest lifetime budget ever seen counts, and the cohorts of every
    metric ever asked, because an observer adds up what one line shows. Of segments those of this registry count: which
    release an install runs is no lasting mark of it.
    """
    limit = int(registry.lifetime_epsilon * MICRO)
    if facts.lifetime is not None:
        limit = min(limit, facts.lifetime)
    put(db, "reserved_for", registry.fingerprint)
    put(db, "lifetime", limit)
    room = limit - reserved_micro(db, facts)
    shown, samples = cohorts_shown(facts), samples_shown(facts)
    for metric in registry:
        wanted = metric.charges - slots_reserved(db, metric)
        micro = int(metric.epsilon_permanent * MICRO)
        cohorts = shown | {metric.shape.num_cohorts}
        sampled = samples | ({str(metric.sample)} if metric.sample < 1 else set())
        few = at_most(
            registry.max_identifying_bits, cohorts, registry.num_segments * num_samples(map(Fraction, sampled))
        )
        if wanted > 0 and wanted * micro <= room and few:
            room -= wanted * micro
            shown, samples = cohorts, sampled
            # A history begins with the epoch after the yes, whenever the app next runs: what an older copy of this
            # state would find, if it has a key to draw from at all.
            begins = None if metric.hold is None else epoch_of(metric.every, facts.answered_at) + 1
            db.execute(
                "INSERT INTO ledger VALUES (?, ?, ?, ?) ON CONFLICT (metric_hash) "
                "DO UPDATE SET slots = excluded.slots, micro_epsilon = excluded.micro_epsilon",
                (metric.metric_hash, metric.charges, micro, begins),
            )
    put(db, "cohorts", " ".join(map(str, sorted(shown))))
    put(db, "samples", " ".join(sorted(samples)))


def beyond_micro(db: sqlite3.Connection, facts: Facts, registry: Registry) -> int:
    """What questions that this registry does not ask have set aside or spent here, in millionths of epsilon."""
    ours = {metric.metric_hash for metric in registry}
    rows = db.execute("SELECT metric_hash, slots * micro_epsilon FROM ledger").fetchall()
    return sum(int(micro) for metric_hash, micro in rows if metric_hash not in ours) + facts.carried


def cohorts_shown(facts: Facts) -> frozenset[int]:
    """The numbers of cohorts of every metric ever asked here: what messages have shown in clear."""
    return frozenset(map(int, facts.cohorts.split()))


def samples_shown(facts: Facts) -> frozenset[str]:
    """The samples of every metric ever asked here that asks some installs only."""
    return frozenset(facts.samples.split())


def free_slot(db: sqlite3.Connection, metric: Metric) -> int | None:
    """The number of the slot that the metric's next new answer takes; None when all are taken."""
    used = slots_used(db, metric)
    return used if used < min(metric.max_values, slots_reserved(db, metric)) else None


def slots_used(db: sqlite3.Connection, metric: Definition) -> int:
    query = "SELECT count(*) FROM memos WHERE metric_hash = ?"
    (used,) = db.execute(query, (metric.metric_hash,)).fetchone()
    return int(used)


def slots_reserved(db: sqlite3.Connection, metric: Definition) -> int:
    row = db.execute("SELECT slots FROM ledger WHERE metric_hash = ?", (metric.metric_hash,)).fetchone()
    return 0 if row is None else int(row[0])


def first_asked_in(db: sqlite3.Connection, metric: Definition) -> int | None:
    """The first epoch that asked this metric and was opened; None if there was none yet. Of one with `hold`: the first
    that could have."""
    row = db.execute("SELECT asked_in FROM ledger WHERE metric_hash = ?", (metric.metric_hash,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def note_asked(db: sqlite3.Connection, metric: Definition, epoch: int) -> None:
    """An epoch that asks this metric was opened: from here on it counts as asked, recorded or not."""
    query = "UPDATE ledger SET asked_in = ? WHERE metric_hash = ? AND asked_in IS NULL"
    db.execute(query, (epoch, metric.metric_hash))


def reserved_micro(db: sqlite3.Connection, facts: Facts) -> int:
    """All that is set aside or was spent by earlier lives, in millionths of epsilon."""
    (reserved,) = db.execute("SELECT coalesce(sum(slots * micro_epsilon), 0) FROM ledger").fetchone()
    return int(reserved) + facts.carried


def spent_micro(db: sqlite3.Connection, facts: Facts) -> int:
    """What this install has spent, in millionths of epsilon: its own charges, and what earlier lives left it."""
    query = "SELECT count(*), micro_epsilon FROM memos JOIN ledger USING (metric_hash) GROUP BY metric_hash"
    charges = sum(number * micro for number, micro in db.execute(query))
    return int(charges) + facts.carried


def committed_micro(db: sqlite3.Connection, facts: Facts) -> int:
    """All slots of every metric that was ever asked, used or not, and what earlier lives left: what a later life must
    count as spent. Were it the slots that were used, what that life is still asked would tell what was recorded."""
    query = "SELECT coalesce(sum(slots * micro_epsilon), 0) FROM ledger WHERE asked_in IS NOT NULL"
    (committed,) = db.execute(query).fetchone()
    return int(committed) + facts.carried
