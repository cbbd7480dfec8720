"""What a metric's page is made of: which decodings it needs, and what is known of them within a moment."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from hubbub.dashboard.candidates import CandidateList
from hubbub.dashboard.decode_jobs import Decoded, DecodeJobs
from hubbub.dashboard.query import MOST_EPOCHS, View, decode_job
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInputs:
    """None stands for what is still being decoded."""

    name: str
    snapshot: Snapshot
    view: View
    epochs: list[str]
    whole: Decoded | None
    """Of all epochs together, or of the one that was chosen."""
    series: list[tuple[str, Decoded | None]]
    """The newest epochs, each by itself, if there is more than one."""
    pair: tuple[str, str] | None
    before: Decoded | None
    after: Decoded | None
    segments: list[tuple[str, Decoded | None]]
    """Each value of the key that was chosen, by itself, if there is more than one."""
    candidates: CandidateList | None
    problem: str
    """What is wrong with a list that was uploaded just now."""

    @property
    def key(self) -> Hashable:
        """All that the page depends on."""
        candidates = self.candidates and (self.candidates.digest, self.candidates.origin)
        counts = self.snapshot.fingerprint(self.name)
        known = tuple(decoded and (decoded.content, decoded.fresh) for decoded in self._wanted)
        return self.name, self.view, counts, candidates, self.snapshot.terms_of(self.name), self.problem, known

    @property
    def pending(self) -> bool:
        return bool(self.epochs) and any(decoded is None or not decoded.fresh for decoded in self._wanted)

    @property
    def _wanted(self) -> list[Decoded | None]:
        pair = (self.before, self.after) if self.pair else ()
        return [self.whole, *(decoded for _, decoded in [*self.series, *self.segments]), *pair]


def side_by_side(snapshot: Snapshot, name: str, view: View) -> dict[str, Segment]:
    """The segments that stand beside each other: each value of the key chosen, of the installs that are looked at.
    None where there would be only one."""
    if view.by is None or view.by in dict(view.only):
        return {}
    apart = {value: (*view.only, (view.by, value)) for value in snapshot.segments(name)[view.by]}
    found = {value: only for value, only in apart.items() if snapshot.select(name, view.epoch, only)}
    return found if len(found) > 1 else {}


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
    epochs = snapshot.epochs(name)
    pair = (view.before or epochs[-2], view.after or epochs[-1]) if len(epochs) > 1 else None
    recent = epochs[-MOST_EPOCHS:] if len(epochs) > 1 else []
    of_epoch = {
        epoch: decode_job(snapshot, name, epoch, view.options, candidates, view.only)
        for epoch in {*recent, *(pair or ())}
    }
    of_whole = decode_job(snapshot, name, view.epoch, view.options, candidates, view.only)
    of_segment = {
        value: decode_job(snapshot, name, view.epoch, view.options, candidates, only)
        for value, only in side_by_side(snapshot, name, view).items()
    }
    if epochs:
        in_order = [*(of_epoch[epoch] for epoch in pair or ()), *(of_epoch[epoch] for epoch in reversed(recent))]
        await jobs.wait([of_whole, *of_segment.values(), *in_order], patience)
    whole = jobs.get(of_whole) if epochs else None
    decoding = whole.decoding if whole else None
    if view.series is not None and decoding is not None and view.series not in decoding.values:
        raise Invalid([f"series must be a value of {name}, got {view.series[:60]!r}"])
    return MetricInputs(
        name=name,
        snapshot=snapshot,
        view=view,
        epochs=epochs,
        whole=whole,
        series=[(epoch, jobs.get(of_epoch[epoch])) for epoch in recent],
        pair=pair,
        before=jobs.get(of_epoch[pair[0]]) if pair else None,
        after=jobs.get(of_epoch[pair[1]]) if pair else None,
        segments=[(value, jobs.get(job)) for value, job in of_segment.items()],
        candidates=candidates,
        problem=problem,
    )
