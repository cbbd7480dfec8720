"""What was read from a source at one moment: tallies by metric, and what the registry says besides, if anybody does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hubbub.protocol.cadence import epoch_text, parse_epoch
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import PairTally
from hubbub.protocol.segments import Segment, segment_order
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import HandedOut, Withheld, withheld_from_data
from hubbub.protocol.vocabulary import Cadence


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What people agreed to, as the collector's public registry tells it; a tally does not carry it."""

    definition: Definition
    why: str
    owner: str
    expires: str
    max_values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Tallies by name, each definition once, and their fingerprints: what is decoded once need not be again."""

    tallies: Mapping[str, tuple[Tally, ...]]
    terms: Mapping[str, Terms] = field(default_factory=dict)
    app: str = ""
    fingerprints: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    withheld: tuple[Withheld, ...] = ()
    pairs: Mapping[str, tuple[PairTally, ...]] = field(default_factory=dict)
    """Two metrics at once, by the name of the pair."""

    @property
    def names(self) -> list[str]:
        """Every metric that was counted, or that the registry asks and nobody has answered yet."""
        return sorted({*self.tallies, *(terms.definition.name for terms in self.terms.values())})

    @property
    def num_reports(self) -> int:
        return sum(tally.num_reports for tallies in self.tallies.values() for tally in tallies)

    def definitions(self, name: str) -> tuple[Definition, ...]:
        """The definitions of a metric, whatever their segments, the one still asked last."""
        found = {tally.metric.undivided.metric_hash: tally.metric.undivided for tally in self.tallies.get(name, ())}
        for terms in self.terms.values():
            if terms.definition.name == name:
                found.pop(terms.definition.metric_hash, None)
                found[terms.definition.metric_hash] = terms.definition
        return tuple(found.values())

    @property
    def key(self) -> Hashable:
        """All that was read, in short."""
        return self.app, tuple(self.fingerprints.items()), self.withheld, tuple(self.terms)

    def withheld_of(self, name: str) -> tuple[int, int]:
        """How many reports of a metric the collector does not show yet, and the smallest step in which it does."""
        found = [item for item in self.withheld if item.metric == name]
        return sum(item.num_reports for item in found), max((item.min_reports for item in found), default=0)

    def terms_of(self, name: str) -> Terms | None:
        return next((terms for terms in self.terms.values() if terms.definition.name == name), None)

    def epochs(self, name: str) -> list[str]:
        """The epochs in which a metric was counted, ascending."""
        found = {(epoch, tally.metric.every) for tally in self.tallies.get(name, ()) for epoch in tally.epochs}
        return list(dict.fromkeys(_text(every, epoch) for epoch, every in sorted(found)))

    def segments(self, name: str) -> dict[str, list[str]]:
        """The keys by which a metric was counted apart, and the values of each, in their order."""
        found: dict[str, set[str]] = {}
        for tally in self.tallies.get(name, ()):
            for key, value in tally.metric.segment:
                found.setdefault(key, set()).add(value)
        return {key: sorted(found[key], key=segment_order) for key in sorted(found)}

    def fingerprint(self, name: str, epochs: tuple[str, ...] | None = None, only: Segment = ()) -> bytes:
        """Of exactly the counts that `select` gives."""
        digest = hashlib.blake2b(digest_size=16)
        for tally in self._within(name, only):
            digest.update(tally.metric.metric_hash.encode())
            digest.update(repr(tally.metric.shape.later_names).encode())
            for number in _chosen(tally, epochs):
                digest.update(self.fingerprints[tally.metric.metric_hash, number])
        return digest.digest()

    def _within(self, name: str, only: Segment) -> list[Tally]:
        return [tally for tally in self.tallies.get(name, ()) if set(only) <= set(tally.metric.segment)]

    def has(self, name: str, epochs: tuple[str, ...], only: Segment) -> bool:
        """Whether `select` gives anything."""
        return any(_chosen(tally, epochs) for tally in self._within(name, only))

    def select(self, name: str, epochs: tuple[str, ...] | None = None, only: Segment = ()) -> tuple[Tally, ...]:
        """The tallies of a metric, of all its epochs or of some, of all installs or of those of a segment."""
        found = []
        for tally in self._within(name, only):
            chosen = _chosen(tally, epochs)
            if len(chosen) == len(tally.epochs):
                found.append(tally)
            elif chosen:
                found.append(Tally(tally.metric, {number: tally.epochs[number] for number in chosen}))
        return tuple(found)


def _chosen(tally: Tally, epochs: tuple[str, ...] | None) -> list[int]:
    if epochs is None:
        return list(tally.epochs)
    return [number for number in _numbers(tally.metric.every, epochs) if number in tally.epochs]


@lru_cache(maxsize=1 << 12)
def _numbers(every: Cadence, epochs: tuple[str, ...]) -> tuple[int, ...]:
    """The epochs with these names, ascending, of those that can be of this cadence."""
    found = []
    for name in epochs:
        with suppress(ValueError):
            found.append(parse_epoch(every, name))
    return tuple(sorted(found))


_text = lru_cache(maxsize=1 << 16)(epoch_text)  # asked for every epoch of every tally, on every view


def snapshot_of(
    tallies: Iterable[Tally],
    terms: Iterable[Terms] = (),
    app: str = "",
    withheld: Iterable[Withheld] = (),
    pairs: Iterable[PairTally] = (),
) -> Snapshot:
    by_name: dict[str, tuple[Tally, ...]] = {}
    fingerprints: dict[tuple[str, int], bytes] = {}
    for tally in tallies:
        by_name[tally.metric.name] = (*by_name.get(tally.metric.name, ()), tally)
        for epoch, counts in tally.epochs.items():
            content = repr((epoch, counts.num_reports, counts.bit_counts)).encode()
            fingerprints[tally.metric.metric_hash, epoch] = hashlib.blake2b(content, digest_size=16).digest()
    together: dict[str, tuple[PairTally, ...]] = {}
    for pair in pairs:
        together[pair.pair.name] = (*together.get(pair.pair.name, ()), pair)
        for epoch, both in pair.epochs.items():
            content = repr((epoch, both.num_batches, both.both)).encode()
            fingerprints[pair.pair.metric_hash, epoch] = hashlib.blake2b(content, digest_size=16).digest()
    return Snapshot(
        tallies=by_name,
        terms={found.definition.metric_hash: found for found in terms},
        app=app,
        fingerprints=fingerprints,
        withheld=tuple(withheld),
        pairs=together,
    )


def parse_answer(body: bytes) -> HandedOut:
    """The answer to GET /v1/tallies. Raises `Invalid` for anything else."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid(["the collector must answer with JSON; is something else at that address?"]) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("tallies"), list):
        raise Invalid(["the collector must answer with tallies; is something else at that address?"])
    return HandedOut([Tally.from_data(item) for item in answer["tallies"]], withheld_from_data(answer))


def parse_pairs(body: bytes) -> list[PairTally]:
    """The answer to GET /v1/pairs. What cannot be read is left out: it is an addition."""
    try:
        return [PairTally.from_data(item) for item in json.loads(body)["pairs"]]
    except (ValueError, KeyError, TypeError, RecursionError):  # Invalid is a ValueError
        return []


def parse_terms(body: bytes) -> tuple[str, list[Terms]]:
    """The answer to GET /v1/metrics: the app and its terms. What cannot be read is left out: it is an addition."""
    try:
        answer = json.loads(body)
        return str(answer["app"]), [_terms(item) for item in answer["metrics"]]
    except (ValueError, KeyError, TypeError, RecursionError):  # Invalid is a ValueError
        return "", []


def _terms(item: dict[str, Any]) -> Terms:
    keys = ("name", "kind", "every", "accumulate", "sample", "shape", "named", "permanent", "instantaneous", "history")
    return Terms(
        definition=Definition.from_json({key: item[key] for key in keys if key in item}),
        why=str(item["why"]),
        owner=str(item["owner"]),
        expires=str(item["expires"]),
        max_values=int(item["max_values"]),
    )
