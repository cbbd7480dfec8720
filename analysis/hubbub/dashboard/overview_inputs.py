"""What the overview is made of: the choices in its address, which decodings its cards need, what is known of them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from hubbub.analysis.options import Options
from hubbub.dashboard.candidates import CandidateList, CandidateLists
from hubbub.dashboard.decode_jobs import Decoded, DecodeJob, DecodeJobs
from hubbub.dashboard.periods import ALL, LAST, MOST_SPARK, chosen_periods, periods_before
from hubbub.dashboard.query import ONLY, chosen_of, decode_job
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.segments import NOT_SAID, OTHER, Segment

LONGEST_LIST = 2000
"""Longer lists of candidates, and texts that are searched for, are decoded for the figure of a card, and not again for
each point of its small line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewChoice:
    """The choices in the overview's address, checked."""

    epoch: str = ""
    only: Segment = ()

    @classmethod
    def of(cls, query: Mapping[str, str], segments: Mapping[str, Sequence[str]]) -> OverviewChoice:
        """Raises `Invalid` with field, rule and value."""
        allowed: dict[str, Sequence[str]] = {"epoch": (*LAST, ALL)}
        allowed |= {f"{ONLY}{key}": values for key, values in segments.items()}
        chosen = chosen_of(query, allowed)
        only = tuple((key, chosen[f"{ONLY}{key}"]) for key in segments if f"{ONLY}{key}" in chosen)
        return cls(epoch=chosen.get("epoch", ""), only=only)

    def query(self, keys: Sequence[str]) -> str:
        """For a link to a metric that is counted by these keys."""
        chosen = {"epoch": self.epoch} if self.epoch else {}
        chosen |= {f"{ONLY}{key}": value for key, value in self.only if key in keys}
        return f"?{urlencode(chosen)}" if chosen else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardJobs:
    """The decodings that one card asks for."""

    chosen: tuple[str, ...]
    earlier: tuple[str, ...]
    whole: DecodeJob | None
    before: DecodeJob | None
    spark: tuple[DecodeJob, ...]
    apart: tuple[tuple[str, DecodeJob], ...]
    """Of a single value: by platform, then by release."""

    @property
    def all(self) -> list[DecodeJob]:
        first = [job for job in (self.whole, self.before) if job is not None]
        return [*first, *(job for _, job in self.apart), *self.spark]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardInputs:
    """None stands for what is still being decoded."""

    chosen: tuple[str, ...]
    earlier: tuple[str, ...]
    whole: Decoded | None
    before: Decoded | None
    spark: tuple[Decoded | None, ...]
    apart: tuple[tuple[str, Decoded | None], ...]

    @property
    def known(self) -> list[Decoded | None]:
        before = [self.before] if self.earlier else []
        return [*([self.whole] if self.chosen else []), *before, *self.spark, *(decoded for _, decoded in self.apart)]

    @property
    def pending(self) -> bool:
        return any(decoded is None or not decoded.fresh for decoded in self.known)

    @property
    def key(self) -> Hashable:
        return self.chosen, tuple(decoded and (decoded.content, decoded.fresh) for decoded in self.known)


def all_segments(snapshot: Snapshot) -> dict[str, list[str]]:
    """Every key that any metric is counted by, and its values."""
    found: dict[str, dict[str, None]] = {}
    for name in snapshot.tallies:
        for key, values in snapshot.segments(name).items():
            found.setdefault(key, {}).update(dict.fromkeys(values))
    return {key: list(found[key]) for key in sorted(found)}


def card_jobs(snapshot: Snapshot, choice: OverviewChoice, lists: CandidateLists) -> dict[str, CardJobs]:
    return {name: _of_card(snapshot, name, choice, lists.of(name)) for name in snapshot.names}


def _of_card(snapshot: Snapshot, name: str, choice: OverviewChoice, listed: CandidateList | None) -> CardJobs:
    definition = snapshot.definitions(name)[-1]
    segments = snapshot.segments(name)
    only = tuple((key, value) for key, value in choice.only if value in segments.get(key, ()))
    epochs = [] if len(only) < len(choice.only) else snapshot.epochs(name)
    chosen = chosen_periods(choice.epoch, epochs, definition.every)
    earlier = periods_before(chosen, epochs)

    def job(periods: tuple[str, ...], whom: Segment = only, asked: str | None = None) -> DecodeJob:
        return decode_job(snapshot, name, periods, Options(), listed, whom, asked)

    is_long = definition.shape.discovers or (listed is not None and len(listed.texts) > LONGEST_LIST)
    recent = epochs[-MOST_SPARK:] if len(epochs) > 1 and definition.every != "once" and not is_long else []
    rows = _apart(segments, only) if definition.shape.one_figure and chosen else []
    apart = [(value, whom) for value, whom in rows if snapshot.has(name, chosen, whom)]
    return CardJobs(
        chosen=chosen,
        earlier=earlier,
        whole=job(chosen, asked=choice.epoch) if chosen else None,
        before=job(earlier) if earlier else None,
        spark=tuple(job((epoch,)) for epoch in recent),
        apart=tuple((value, job(chosen, whom, choice.epoch)) for value, whom in apart),
    )


def _apart(segments: Mapping[str, Sequence[str]], only: Segment) -> list[tuple[str, Segment]]:
    """Five rows: values of the first key, and then of the others the newest. `other` is not among them."""
    rows: list[tuple[str, Segment]] = []
    free = [key for key, values in segments.items() if key not in dict(only) and len(values) > 1]
    for place, key in enumerate(free):
        named = [value for value in segments[key] if value not in (OTHER, NOT_SAID)]
        room = 5 - len(rows)
        some = named[:3] if place == 0 and len(free) > 1 else list(reversed(named))[:room]
        label = "{}" if place == 0 else f"{key.capitalize()} {{}}"
        rows += [(label.format(value), (*only, (key, value))) for value in some[:room]]
    return rows


async def known_cards(jobs: Mapping[str, CardJobs], decoded: DecodeJobs) -> dict[str, CardInputs]:
    """What is known now. Others are served between the cards."""
    found = {}
    for name, wanted in jobs.items():
        found[name] = CardInputs(
            chosen=wanted.chosen,
            earlier=wanted.earlier,
            whole=decoded.get(wanted.whole) if wanted.whole else None,
            before=decoded.get(wanted.before) if wanted.before else None,
            spark=tuple(decoded.get(job) for job in wanted.spark),
            apart=tuple((value, decoded.get(job)) for value, job in wanted.apart),
        )
        await asyncio.sleep(0)
    return found
