"""What somebody learns who sees only these figures, as plain values: the statement of `hubbub label --installs`, with
as many installs as did report. It supposes a trusted collector, and is kept apart from the device's own promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from hubbub.analysis.publishing.reader import ANY_HISTORIES, ReaderBound, reader_bound
from hubbub.dashboard.periods import UNITS
from hubbub.dashboard.sentences import Fact, several
from hubbub.dashboard.snapshot import Snapshot, Terms
from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.metric import Definition

DELTA = 1e-9
MOST = 100  # beyond such an epsilon there is nothing to say


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """What can be said, or why nothing can; and the conditions under which it holds."""

    said: tuple[Fact, ...] = ()
    why_not: str = ""
    conditions: tuple[str, ...] = ()


def readers(definition: Definition, terms: Terms | None, snapshot: Snapshot) -> Readers:
    """Of the counts of this definition, each epoch beside as many installs as reported in it; in its smallest segment,
    where it is counted by segments: figures of that hide an install among no others."""
    tallies = snapshot.tallies.get(definition.name, ())
    counted = [tally for tally in tallies if tally.metric.undivided.metric_hash == definition.metric_hash]
    fewest: dict[int, int] = {}
    for tally in counted:
        for epoch, counts in tally.epochs.items():
            reports = sum(counts.num_reports)
            if reports:
                fewest[epoch] = min(reports, fewest.get(epoch, reports))
    installs = sorted(map(_rounded_down, fewest.values()))
    if not installs:
        return Readers(why_not="No statement: no report has been counted yet.")
    delta = min(DELTA, 0.1 / installs[-1])  # a chance of one install in all of them would be no promise
    bound = _bound(definition, tuple(sorted(Counter(installs).items())), delta)
    if bound is None:
        return Readers(
            why_not="No statement: a single message is as clear as the kept answer behind it, so other people's "
            "messages hide nothing."
        )
    period = UNITS[definition.every]
    one_answer, life = _epsilons(definition, terms, bound, len(installs))
    changes = "" if bound.holds_for == ANY_HISTORIES else "; that an answer changed may show"
    where = " in the smallest segment" if any(tally.metric.segment for tally in counted) else ""
    some = f"{installs[0]:,}" if installs[0] == installs[-1] else f"{installs[0]:,} to {installs[-1]:,}"
    conditions = [
        f"Counted on: {several(len(installs), period)} of {some} installs, as many as reported{where}, rounded "
        f"down; the figures of a {period} published once, when no more reports arrive; but for a chance of {delta:g}.",
        "Broken if the collector shows anybody single messages or counts by group. That an install took part is not "
        "hidden.",
    ]
    if len(tallies) > len(counted):
        conditions.append("Figures of earlier definitions of this metric tell more.")
    return Readers(
        said=(
            Fact("Which of two kept answers is yours", _sure(one_answer)),
            Fact(f"All your answers, in {several(len(installs), period)}", _sure(life) + changes),
        ),
        conditions=tuple(conditions),
    )


def _epsilons(
    definition: Definition, terms: Terms | None, bound: ReaderBound, epochs: int
) -> tuple[Fraction | None, Fraction | None]:
    """About one kept answer, and about all answers: no reader learns more than the device itself gives away. None where
    nothing limits it."""
    life = Fraction(bound.life) if bound.life < MOST else None
    if terms is not None:
        most = (1 if definition.hold else terms.max_values) * definition.epsilon_permanent
        life = most if life is None else min(life, most)
    return Fraction(min(bound.one_answer, float(definition.epsilon_permanent))), life


def _sure(epsilon: Fraction | None) -> str:
    return "no limit is known" if epsilon is None else f"at most {certainty(epsilon)} sure (ε {show(epsilon, 3)})"


def _rounded_down(number: int) -> int:
    """To its first digit: fewer installs hide less, and while counts grow the same bound serves many pages."""
    unit: int = 10 ** (len(str(number)) - 1)
    return number // unit * unit


@lru_cache(maxsize=256)
def _bound(definition: Definition, crowds: tuple[tuple[int, int], ...], delta: float) -> ReaderBound | None:
    return reader_bound(definition, dict(crowds), delta)
