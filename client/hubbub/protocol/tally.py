"""Tallies: how often each bit arrived, per epoch and cohort. All that decoding needs, and all a collector keeps.

A tally is one metric's. Two tallies of one definition merge by addition; another definition is refused. The counting
here is plain Python, one report at a time; a collector counts faster and gives the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar

from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.invalid import Invalid, brief, require
from hubbub.protocol.metric import Definition
from hubbub.protocol.report import Report
from hubbub.protocol.segments import NOT_SAID, Segment, segment_order
from hubbub.protocol.strict_json import loads
from hubbub.protocol.value import Value

FORMAT = "hubbub.tally"
VERSION = 1
MAX_COUNT = 2**63 - 1
_KEYS = {"format", "version", "metric_hash", "metric", "epochs"}
_EPOCH_KEYS = {"epoch", "num_reports", "bit_counts"}


class Counts(Value):
    """One epoch: reports per cohort, and per cohort how many of them had each bit set."""

    num_reports: tuple[int, ...]  # reports of each cohort
    bit_counts: tuple[tuple[int, ...], ...]  # for each cohort, how many of its reports had each bit set

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            added(self.num_reports, other.num_reports),
            tuple(added(a, b) for a, b in zip(self.bit_counts, other.bit_counts, strict=True)),
        )


class Tally(Value):
    """The counts of one metric, by epoch, ascending."""

    metric: Definition  # what was asked, and through which noise
    epochs: Mapping[int, Counts]  # the counts of each epoch, by its number (see `hubbub.protocol.cadence`)

    def __init__(self, metric: Definition, epochs: Mapping[int, Counts]) -> None:
        super().__init__(metric, MappingProxyType(dict(sorted(epochs.items()))))

    def _broken_rules(self) -> Iterator[str]:
        for epoch, counts in self.epochs.items():
            for problem in _broken_rules(self.metric, epoch, counts):
                yield f"metric {self.metric.name}, epoch {epoch}: {problem}"

    @property
    def num_reports(self) -> int:
        """All reports, over all epochs and cohorts."""
        return sum(sum(counts.num_reports) for counts in self.epochs.values())

    def counted_as(self, metric: Definition) -> Tally:
        """The same counts, taken to be of this definition."""
        return Tally(metric, self.epochs)

    def only(self, *periods: str | int) -> Tally:
        """These epochs alone, named as the metric's cadence does or by their numbers, the keys of `epochs`:
        `tally.only("2026-W46")`, `tally.only(2966)`. Raises `Invalid` for one that was not counted."""
        return Tally(self.metric, epochs_named(self, periods))

    def __add__(self, other: Tally) -> Tally:
        """Both together: the same reports counted in one place. Raises `Invalid` for another definition."""
        merged = merged_epochs(self, other, "tallies must be of one definition")
        return Tally(self.metric.with_names_of(other.metric), merged)

    def to_json(self) -> str:
        """The tally file: one epoch a line, so that files diff well."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "metric_hash": self.metric.metric_hash,
            "metric": self.metric.described(),
        }
        return file_text(head, self.epochs)

    @classmethod
    def from_json(cls, source: str | bytes) -> Tally:
        """Read a tally file; raises `Invalid` with the field, the rule and the value for anything else."""
        return cls.from_data(parsed(source, "a tally"))

    @classmethod
    def from_data(cls, data: Any) -> Tally:
        """The tally that parsed JSON holds; raises `Invalid` for anything else."""
        check_head(data, "a tally", FORMAT, VERSION, _KEYS)
        metric = Definition.from_json(data["metric"])
        if data["metric_hash"] != metric.metric_hash:
            got = brief(data["metric_hash"])
            raise Invalid([f"metric_hash must be {metric.metric_hash}, that of its metric, got {got}"])
        return cls(metric, _epochs_from_json(data["epochs"]))


# --- what the files of tallies and of pair tallies share -------------------------------------------------------------


def epochs_named(tally: Any, periods: Iterable[str | int]) -> dict[int, Any]:
    """The counts of these epochs. Raises `Invalid` for one that was not counted."""
    wanted = {p: parse_epoch(tally.metric.every, p) if isinstance(p, str) else p for p in periods}
    require(
        f"epoch {period} of {tally.metric.name} must be one that was counted"
        for period, epoch in wanted.items()
        if epoch not in tally.epochs
    )
    return {epoch: tally.epochs[epoch] for epoch in wanted.values()}


def merged_epochs(one: Any, other: Any, rule: str) -> dict[int, Any]:
    """The counts of both, added up. Raises `Invalid` with the rule where they are not of the same."""
    if one.metric.metric_hash != other.metric.metric_hash:
        got = " and ".join(f"{tally.metric.name} {tally.metric.metric_hash}" for tally in (one, other))
        raise Invalid([f"{rule} to be merged, got {got}"])
    merged = dict(one.epochs)
    for epoch, counts in other.epochs.items():
        merged[epoch] = merged[epoch] + counts if epoch in merged else counts
    return merged


def file_text(head: Mapping[str, Any], epochs: Mapping[int, Value]) -> str:
    """A file: one epoch a line, so that files diff well."""
    lines = ",\n  ".join(json.dumps({"epoch": epoch, **counts.to_dict()}) for epoch, counts in epochs.items())
    return json.dumps(head, ensure_ascii=False)[:-1] + f', "epochs": [\n  {lines}\n]}}\n'


def parsed(source: str | bytes, what: str) -> Any:
    try:
        return loads(source)
    except (ValueError, RecursionError) as error:
        raise Invalid([f"not {what}: not JSON: {error}"]) from None


def check_head(data: Any, what: str, form: str, version: int, keys: set[str]) -> None:
    """Raises `Invalid` for what is no file of this form and version, or has other keys."""
    if not isinstance(data, dict) or data.get("format") != form:
        got = data.get("format") if isinstance(data, dict) else data
        raise Invalid([f"not {what}: format must be {form!r}, got {brief(got)}"])
    if type(data.get("version")) is not int or data["version"] != version:
        raise Invalid([f"version must be {version}, got {brief(data.get('version'))}"])
    if set(data) != keys:
        raise Invalid([f"{what} must have exactly the keys {key_list(keys)}, got {key_list(data)}"])


def count(metric: Definition, reports: Iterable[Report]) -> Tally:
    """The tally of these reports of one metric."""
    shape = metric.shape
    epochs: dict[int, tuple[list[int], list[list[int]]]] = {}
    for report in reports:
        if report.metric.metric_hash != metric.metric_hash:
            raise Invalid([f"a tally of {metric.name} cannot count a report of {report.metric.name}"])
        if report.epoch not in epochs:
            epochs[report.epoch] = ([0] * shape.num_cohorts, [[0] * shape.width(c) for c in range(shape.num_cohorts)])
        num_reports, bit_counts = epochs[report.epoch]
        num_reports[report.cohort] += 1
        row, bits = bit_counts[report.cohort], report.bits
        while bits:
            lowest = bits & -bits
            row[lowest.bit_length() - 1] += 1
            bits ^= lowest
    return Tally(metric, {epoch: Counts(tuple(n), tuple(map(tuple, rows))) for epoch, (n, rows) in epochs.items()})


class TallyLike(Protocol):
    """Counts of anything that has a hash and a segment: a `Tally`, or those of a pair (`hubbub.protocol.pair`)."""

    @property
    def metric(self) -> Any:
        """What was counted."""

    def counted_as(self, metric: Any, /) -> Self:
        """The same counts, taken to be of this."""

    def __add__(self, other: Any, /) -> Self:
        """Both together."""


AnyTally = TypeVar("AnyTally", bound=TallyLike)
"""A `Tally` or a `PairTally`: whichever is given is returned."""


def merge(tallies: Iterable[AnyTally]) -> dict[str, AnyTally]:
    """All tallies of each definition added up, by metric_hash."""
    merged: dict[str, AnyTally] = {}
    for tally in tallies:
        key = tally.metric.metric_hash
        merged[key] = merged[key] + tally if key in merged else tally
    return merged


def undivided(tallies: Iterable[AnyTally]) -> list[AnyTally]:
    """The same counts without segments: those of each question, whatever its installs run on, added up."""
    return list(merge(tally.counted_as(tally.metric.undivided) for tally in tallies).values())


def by_segment(tallies: Iterable[AnyTally], key: str) -> dict[str, list[AnyTally]]:
    """The counts of each value of a key, such as each release, in their order; what else differs is added up. A
    definition that does not say counts as `NOT_SAID`. Raises `Invalid` for a key that none of them has."""
    given = list(tallies)
    common = dict(common_segment(given)) if given else {}
    found = {}
    for value, some in _apart(given, key).items():
        segment = tuple(sorted((common | ({key: value} if value != NOT_SAID else {})).items()))
        found[value] = list(merge(t.counted_as(t.metric.in_segment(segment)) for t in some).values())
    return found


def within(tallies: Iterable[AnyTally], wanted: Mapping[str, str]) -> list[AnyTally]:
    """The tallies of these segments: for each key the value that is wanted. Raises `Invalid` for one that none has."""
    left = list(tallies)
    for key, value in wanted.items():
        apart = _apart(left, key)
        if value not in apart:
            raise Invalid([f"{key} must be one of {', '.join(apart)}, which were counted, got {value!r}"])
        left = apart[value]
    return left


def _apart(tallies: Iterable[AnyTally], key: str) -> dict[str, list[AnyTally]]:
    found: dict[str, list[AnyTally]] = {}
    known: set[str] = set()
    for tally in tallies:
        segment = dict(tally.metric.segment)
        known |= segment.keys()
        found.setdefault(segment.get(key, NOT_SAID), []).append(tally)
    if key not in known:
        has = f"one of {', '.join(sorted(known))}" if known else "left out: these tallies have no segments"
        raise Invalid([f"the key of segments must be {has}, got {key!r}"])
    return {value: found[value] for value in sorted(found, key=segment_order)}


def common_segment(tallies: Iterable[TallyLike]) -> Segment:
    """What all these tallies have in common."""
    shared = set.intersection(*(set(tally.metric.segment) for tally in tallies))
    return tuple(sorted(shared))


def _epochs_from_json(data: Any) -> dict[int, Counts]:
    if not isinstance(data, list):
        raise Invalid([f"epochs must be a list, got {brief(data)}"])
    epochs: dict[int, Counts] = {}
    for item in data:
        if not isinstance(item, dict) or set(item) != _EPOCH_KEYS:
            got = key_list(item) if isinstance(item, dict) else brief(item)
            raise Invalid([f"an epoch must have exactly the keys {key_list(_EPOCH_KEYS)}, got {got}"])
        epoch = item["epoch"]
        if type(epoch) is not int or epoch in epochs:
            raise Invalid([f"epoch must be a whole number that comes once, got {brief(epoch)}"])
        rows = item["bit_counts"]
        if not isinstance(rows, list):
            raise Invalid([f"bit_counts must be a list of lists, got {brief(rows)}"])
        fields = "num_reports and the rows of bit_counts"
        num_reports = whole_numbers(fields, item["num_reports"])
        epochs[epoch] = Counts(num_reports, tuple(whole_numbers(fields, row) for row in rows))
    return epochs


def whole_numbers(fields: str, row: Any) -> tuple[int, ...]:
    """A row of counts out of JSON; `fields` says of what."""
    if not isinstance(row, list) or not all(type(number) is int for number in row):
        raise Invalid([f"{fields} must be lists of whole numbers, got {brief(row)}"])
    return tuple(row)


def key_list(keys: Iterable[str]) -> str:
    """Keys that somebody wrote, in few words."""
    return ", ".join(brief(key) for key in sorted(keys)[:8])


def _broken_rules(metric: Definition, epoch: int, counts: Counts) -> Iterator[str]:
    shape = metric.shape
    if not -(2**31) <= epoch < 2**31:
        yield "epoch must fit 32 bits"
    for field, rows in (("num_reports", counts.num_reports), ("bit_counts", counts.bit_counts)):
        if len(rows) != shape.num_cohorts:
            yield f"{field} must have {shape.num_cohorts} cohorts, got {len(rows)}"
            return
    for cohort, (total, row) in enumerate(zip(counts.num_reports, counts.bit_counts, strict=True)):
        if len(row) != shape.width(cohort):
            yield f"bit_counts of cohort {cohort} must have {shape.width(cohort)} bits, got {len(row)}"
        elif not 0 <= total <= MAX_COUNT:
            yield f"num_reports of cohort {cohort} must be in [0, {MAX_COUNT}], got {total}"
        elif row and not 0 <= min(row) <= max(row) <= total:
            yield f"bit_counts of cohort {cohort} must be in [0, num_reports={total}], got {min(row)} to {max(row)}"
        elif metric.weight is not None and sum(row) != metric.weight * total:
            times = "" if metric.weight == 1 else f"{metric.weight} times "
            yield f"bit_counts of cohort {cohort} must add up to {times}num_reports={total}, got {sum(row)}"


def added(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Two rows of counts together."""
    return tuple(x + y for x, y in zip(a, b, strict=True))
