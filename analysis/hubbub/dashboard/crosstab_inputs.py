"""Pages of two answers at once: which there are, what can be chosen in their address, and the decoding it asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from hubbub.analysis import crosstab
from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.options import Options
from hubbub.dashboard.candidates import CandidateLists
from hubbub.dashboard.decode_jobs import Decoded, DecodeJob
from hubbub.dashboard.periods import ALL, LAST, chosen_periods
from hubbub.dashboard.query import ONLY, chosen_of
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.asked_parts import as_sentence
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import PairTally
from hubbub.protocol.segments import Segment, segment_order
from hubbub.protocol.tally import Tally
from hubbub.protocol.vocabulary import Cadence

EVERYBODY = "*"
"""In an address, in place of a factor: shares of all installs. No metric has this name."""
OPTIONS = Options(exclude_absent=True)


@dataclass(frozen=True, slots=True)
class Together:
    """Two answers that can be looked at together: a pair that was counted, or a metric of kind cross."""

    name: str
    tallies: tuple[PairTally, ...] | tuple[Tally, ...]

    @property
    def is_pair(self) -> bool:
        return isinstance(self.tallies[0], PairTally)

    @property
    def every(self) -> Cadence:
        return self.tallies[0].metric.every

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """The metrics that are asked: both of a pair, or the cross."""
        first = self.tallies[0]
        return first.pair.metrics if isinstance(first, PairTally) else (first.metric,)

    @property
    def factors(self) -> tuple[str, str]:
        first = self.tallies[0]
        if isinstance(first, PairTally):
            return first.pair.metrics[0].name, first.pair.metrics[1].name
        return first.metric.shape.factors[0].name, first.metric.shape.factors[1].name

    @property
    def periods(self) -> list[str]:
        """In which it was counted, ascending."""
        found = sorted({epoch for tally in self.tallies for epoch in tally.epochs})
        return [epoch_text(self.every, epoch) for epoch in found]

    @property
    def segments(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for tally in self.tallies:
            for key, value in tally.metric.segment:
                found.setdefault(key, set()).add(value)
        return {key: sorted(found[key], key=segment_order) for key in sorted(found)}

    def select(self, periods: Sequence[str], only: Segment) -> list[PairTally] | list[Tally]:
        """The counts of these periods and installs."""
        found = []
        for tally in self.tallies:
            wanted = [epoch for epoch in tally.epochs if epoch_text(self.every, epoch) in periods]
            if wanted and set(only) <= set(tally.metric.segment):
                found.append(tally.only(*wanted))
        return found  # type: ignore[return-value]  # all of one sort, as they were


def togethers(snapshot: Snapshot) -> dict[str, Together]:
    """By name, pairs first; a pair that has the name of a metric is not told apart from it, and goes before."""
    found = {name: Together(name, tallies) for name, tallies in sorted(snapshot.pairs.items()) if tallies}
    for name, tallies in sorted(snapshot.tallies.items()):
        crosses = tuple(tally for tally in tallies if tally.metric.shape.factors)
        if crosses and name not in found:
            found[name] = Together(name, crosses)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosstabChoice:
    """The choices in a page's address, checked."""

    epoch: str = ""
    given: str = ""
    """A factor, or `EVERYBODY`; empty: the first factor."""
    only: Segment = ()

    @classmethod
    def of(cls, query: Mapping[str, str], of: Together) -> CrosstabChoice:
        """Raises `Invalid` with field, rule and value."""
        allowed: dict[str, Sequence[str]] = {"epoch": (*LAST, ALL, *of.periods), "given": (*of.factors, EVERYBODY)}
        allowed |= {f"{ONLY}{key}": values for key, values in of.segments.items()}
        chosen = chosen_of(query, allowed)
        only = tuple((key, chosen[f"{ONLY}{key}"]) for key in of.segments if f"{ONLY}{key}" in chosen)
        return cls(epoch=chosen.get("epoch", ""), given=chosen.get("given", ""), only=only)

    def query(self, **changed: str) -> str:
        """The part of an address that leads to the same numbers, with some choices changed."""
        chosen = {"epoch": self.epoch, "given": self.given, **changed}
        chosen |= {f"{ONLY}{key}": value for key, value in self.only}
        kept = {key: value for key, value in chosen.items() if value}
        return f"?{urlencode(kept)}" if kept else ""

    def side(self, of: Together) -> int | None:
        """Given the first factor (0), the second (1), or of all installs (None)."""
        if self.given == EVERYBODY:
            return None
        return of.factors.index(self.given) if self.given else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosstabInputs:
    """`decoded` is None while the counts are being decoded."""

    of: Together
    choice: CrosstabChoice
    chosen: tuple[str, ...]
    decoded: Decoded | None
    why: str
    """What the registry says it is for."""

    @property
    def key(self) -> Hashable:
        known = self.decoded and (self.decoded.content, self.decoded.fresh)
        return "crosstab", self.of.name, self.choice, self.chosen, self.why, known

    @property
    def pending(self) -> bool:
        return self.decoded is None or not self.decoded.fresh


def on_overview(of: Together, epoch: str, only: Segment) -> CrosstabChoice | None:
    """What the overview's choices mean here; None where none of these installs was counted."""
    known = of.segments
    if any(value not in known.get(key, ()) for key, value in only):
        return None
    return CrosstabChoice(epoch=epoch, only=only)


def inputs_of(of: Together, choice: CrosstabChoice, decoded: Decoded | None, snapshot: Snapshot) -> CrosstabInputs:
    return CrosstabInputs(
        of=of, choice=choice, chosen=periods_of(of, choice), decoded=decoded, why=why_of(of, snapshot)
    )


def periods_of(of: Together, choice: CrosstabChoice) -> tuple[str, ...]:
    return chosen_periods(choice.epoch, of.periods, of.every)


def crosstab_job(of: Together, choice: CrosstabChoice, lists: CandidateLists, snapshot: Snapshot) -> DecodeJob:
    """The table as `hubbub decode --exclude-absent` makes it of the same counts."""
    periods = periods_of(of, choice)
    listed = {metric.name: found for metric in of.definitions if (found := lists.of(metric.name)) is not None}
    candidates = {m.name: listed[m.name].texts for m in of.definitions if m.shape.open_list and m.name in listed}

    def work() -> Crosstab:
        return crosstab(of.select(periods, choice.only), candidates or None, OPTIONS)

    digest = hashlib.blake2b(digest_size=16)
    for tally in of.select(periods, choice.only):
        for epoch in tally.epochs:
            digest.update(snapshot.fingerprints[tally.metric.metric_hash, epoch])
    lists_used = tuple((name, listed[name].digest) for name in candidates)
    about = "crosstab", of.name, choice.only, lists_used
    return DecodeJob((about, choice.epoch), (about, periods, digest.digest()), work)


def why_of(of: Together, snapshot: Snapshot) -> str:
    """What the registry says of a cross; of a pair, what both metrics are for."""
    terms = [snapshot.terms_of(metric.name) for metric in of.definitions]
    return " ".join(
        f"{each.definition.name}: {as_sentence(each.why)}" if of.is_pair else each.why for each in terms if each
    )
