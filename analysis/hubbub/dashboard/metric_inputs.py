"""What a metric's page is made of: which decodings it needs, and what is known of them within a moment."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from hubbub.analysis.result import Decoding
from hubbub.dashboard.candidates import CandidateList
from hubbub.dashboard.decode_jobs import Decoded, DecodeJob, DecodeJobs
from hubbub.dashboard.periods import MOST_SPARK, chosen_periods, periods_before
from hubbub.dashboard.query import MOST_EPOCHS, View, decode_job
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import Segment
from hubbub.protocol.vocabulary import Cadence

MOST_LINES = 6
"""So many segments are drawn over time; the table has all."""
MOST_CROSSED = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInputs:
    """None stands for what is still being decoded."""

    name: str
    snapshot: Snapshot
    view: View
    every: Cadence
    epochs: list[str]
    chosen: tuple[str, ...]
    """The periods that are looked at, together."""
    earlier: tuple[str, ...]
    """As many before them, if there are."""
    whole: Decoded | None
    previous: Decoded | None
    series: list[tuple[str, Decoded | None]]
    """The newest epochs, each by itself, if there is more than one."""
    pair: tuple[str, str] | None
    before: Decoded | None
    after: Decoded | None
    segments: list[tuple[str, Decoded | None]]
    """Each value of the key that was chosen, by itself, if there is more than one."""
    segment_previous: dict[str, Decoded | None] = field(default_factory=dict)
    segment_series: dict[str, list[tuple[str, Decoded | None]]] = field(default_factory=dict)
    crossed: dict[Segment, Decoded | None] = field(default_factory=dict)
    """Each pair of values of two keys."""
    candidates: CandidateList | None
    problem: str
    """What is wrong with a list that was uploaded just now."""

    @property
    def key(self) -> Hashable:
        """All that the page depends on."""
        candidates = self.candidates and (self.candidates.digest, self.candidates.origin)
        counts = self.snapshot.fingerprint(self.name), self.snapshot.withheld_of(self.name)
        known = tuple(decoded and (decoded.content, decoded.fresh) for decoded in self._wanted)
        return self.name, self.view, counts, candidates, self.snapshot.terms_of(self.name), self.problem, known

    @property
    def pending(self) -> bool:
        return bool(self.epochs) and any(decoded is None or not decoded.fresh for decoded in self._wanted)

    @property
    def decoding(self) -> Decoding | None:
        return self.whole.decoding if self.whole else None

    @property
    def _wanted(self) -> list[Decoded | None]:
        pair = (self.before, self.after) if self.pair else ()
        earlier = (self.previous,) if self.earlier else ()
        lines = [decoded for series in self.segment_series.values() for _, decoded in series]
        apart = [*self.segment_previous.values(), *lines, *self.crossed.values()]
        return [self.whole, *earlier, *(decoded for _, decoded in [*self.series, *self.segments]), *pair, *apart]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Every decoding that a page asks for, as jobs; the same one is made once."""

    snapshot: Snapshot
    name: str
    view: View
    candidates: CandidateList | None

    def of(self, epochs: tuple[str, ...], only: Segment = (), asked: str | None = None) -> DecodeJob:
        whom = only or self.view.only
        return decode_job(self.snapshot, self.name, epochs, self.view.options, self.candidates, whom, asked)

    def by_segment(self, epochs: tuple[str, ...], apart: Mapping[str, Segment]) -> dict[str, DecodeJob]:
        return {value: self.of(epochs, only) for value, only in list(apart.items())[:MOST_LINES]}

    def by_epoch(self, epochs: Sequence[str], only: Segment) -> dict[str, DecodeJob]:
        """One for each of these in which such installs reported."""
        return {epoch: self.of((epoch,), only) for epoch in epochs if self.snapshot.select(self.name, (epoch,), only)}


def side_by_side(snapshot: Snapshot, name: str, view: View, chosen: tuple[str, ...]) -> dict[str, Segment]:
    """The segments that stand beside each other: each value of the key chosen, of the installs that are looked at.
    None where there would be only one."""
    if view.by is None or view.by in dict(view.only):
        return {}
    apart = {value: (*view.only, (view.by, value)) for value in snapshot.segments(name)[view.by]}
    found = {value: only for value, only in apart.items() if snapshot.select(name, chosen, only)}
    return found if len(found) > 1 else {}


def crossed(snapshot: Snapshot, name: str, view: View, chosen: tuple[str, ...]) -> list[Segment]:
    """The pairs of values of the key chosen and of the other one, if there are two and neither is fixed."""
    keys = [key for key, values in snapshot.segments(name).items() if len(values) > 1]
    if view.only or view.by not in keys or len(keys) != 2:
        return []
    other = next(key for key in keys if key != view.by)
    values = snapshot.segments(name)
    pairs: list[Segment] = [((view.by, one), (other, two)) for one in values[view.by] for two in values[other]]
    found = [pair for pair in pairs if snapshot.select(name, chosen, pair)]
    return found if len(found) <= MOST_CROSSED else []


async def gather(
    snapshot: Snapshot,
    name: str,
    view: View,
    candidates: CandidateList | None,
    jobs: DecodeJobs,
    *,
    patience: float,
    problem: str = "",
) -> MetricInputs:
    """Waits at most `patience` seconds for decodings. Raises `Invalid` if the value to follow is none of the metric."""
    definition = snapshot.definitions(name)[-1]
    epochs = snapshot.epochs(name)
    chosen = chosen_periods(view.epoch, epochs, definition.every)
    earlier = periods_before(chosen, epochs)
    each = epochs if len(epochs) > 1 and not definition.shape.discovers else []  # a search of each would take seconds
    pair = (view.before or each[-2], view.after or each[-1]) if each else None
    recent = each[-MOST_EPOCHS:]
    want = _Wanted(snapshot, name, view, candidates)
    of_whole, of_earlier = want.of(chosen, asked=view.epoch), want.of(earlier)
    of_epoch = {epoch: want.of((epoch,)) for epoch in {*recent, *(pair or ())}}
    apart = side_by_side(snapshot, name, view, chosen)
    of_segment = {value: want.of(chosen, only, view.epoch) for value, only in apart.items()}
    lines = dict(list(apart.items())[:MOST_LINES]) if definition.shape.one_figure and recent else {}
    of_line = {value: want.by_epoch(recent[-MOST_SPARK:], only) for value, only in lines.items()}
    of_previous = want.by_segment(earlier, apart) if earlier and not definition.shape.open_list else {}
    pairs = crossed(snapshot, name, view, chosen) if definition.shape.one_figure else []
    of_cross = {segments: want.of(chosen, segments) for segments in pairs}
    if epochs:
        in_order = [*(of_epoch[epoch] for epoch in pair or ()), *(of_epoch[epoch] for epoch in reversed(recent))]
        side = [*of_segment.values(), *of_previous.values(), *of_cross.values()]
        late = [job for series in of_line.values() for job in series.values()]
        await jobs.wait([of_whole, *([of_earlier] if earlier else []), *side, *in_order, *late], patience)
    whole = jobs.get(of_whole) if epochs else None
    decoding = whole.decoding if whole else None
    if view.series is not None and decoding is not None and view.series not in decoding.values:
        raise Invalid([f"series must be a value of {name}, got {view.series[:60]!r}"])
    return MetricInputs(
        name=name,
        snapshot=snapshot,
        view=view,
        every=definition.every,
        epochs=epochs,
        chosen=chosen,
        earlier=earlier,
        whole=whole,
        previous=jobs.get(of_earlier) if earlier else None,
        series=[(epoch, jobs.get(of_epoch[epoch])) for epoch in recent],
        pair=pair,
        before=jobs.get(of_epoch[pair[0]]) if pair else None,
        after=jobs.get(of_epoch[pair[1]]) if pair else None,
        segments=[(value, jobs.get(job)) for value, job in of_segment.items()],
        segment_previous=_known(of_previous, jobs),
        segment_series={
            value: [(epoch, jobs.get(job)) for epoch, job in series.items()] for value, series in of_line.items()
        },
        crossed={pair: jobs.get(job) for pair, job in of_cross.items()},
        candidates=candidates,
        problem=problem,
    )


def _known(wanted: Mapping[str, DecodeJob], jobs: DecodeJobs) -> dict[str, Decoded | None]:
    return {value: jobs.get(job) for value, job in wanted.items()}
