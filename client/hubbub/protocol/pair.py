"""Pairs: two metrics that are counted together, and the counts. `[together.NAME]` in metrics.toml declares one.

Of every batch with exactly one report of both metrics for one epoch, the collector adds up which bits came together:
the outer product of the two reports. Nothing more leaves a device than without, and no batch is kept. A batch with
several reports of a metric, as relays send them, is not counted here: nobody knows which two came from one install.

A pair carries both definitions whole, so that its counts can be decoded by themselves. Two pair tallies of one pair
merge by addition. The counting here is plain Python, one batch at a time; a collector gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from hubbub.protocol.channel import SubsetChannel
from hubbub.protocol.fields import list_of, read_fields, text
from hubbub.protocol.invalid import Invalid, brief, require
from hubbub.protocol.metric import Definition, canonical, hash_of
from hubbub.protocol.names import METRIC, is_metric
from hubbub.protocol.pair_shape import PairShape
from hubbub.protocol.report import Batch
from hubbub.protocol.segments import Segment, in_words
from hubbub.protocol.tally import (
    MAX_COUNT,
    added,
    check_head,
    epochs_named,
    file_text,
    key_list,
    merged_epochs,
    parsed,
    whole_numbers,
)
from hubbub.protocol.value import Value, cached_property

if TYPE_CHECKING:
    from hubbub.protocol.vocabulary import Cadence

FORMAT = "hubbub.pair_tally"
VERSION = 1
MAX_PAIR_CELLS = 1 << 20
"""Counters of one pair and epoch, 8 MB: a sixteenth of what one metric may take, as each batch touches all of them."""

_KEYS = {"format", "version", "pair_hash", "pair", "epochs"}
_EPOCH_KEYS = {"epoch", "num_batches", "first", "second", "both"}
_BitCounts = tuple[int, ...]


class Pair(Value):
    """Two metrics that are counted together. `metric_hash` is BLAKE2b-128 of its canonical JSON, in hex."""

    name: str  # that of [together.NAME]
    metrics: tuple[Definition, Definition]  # both asked as often, and of the same segment

    def __init__(self, name: str, metrics: tuple[Definition, Definition], **terms: Any) -> None:
        first, second = map(_without_terms, metrics)
        super().__init__(name=name, metrics=(first, second), **terms)

    def _broken_rules(self) -> Iterator[str]:
        first, second = self.metrics
        if not is_metric(self.name):
            yield f"a pair's name must match {METRIC}, got {self.name!r}"
        if first.name == second.name:
            yield f"metrics must be two different ones, got {first.name} twice"
        if first.every != second.every:
            got = f"{first.every!r} ({first.name}) and {second.every!r} ({second.name})"
            yield f"metrics must have the same every, for only what comes in one message is counted, got {got}"
        if first.segment != second.segment:
            got = f"{in_words(first.segment) or 'none'} and {in_words(second.segment) or 'none'}"
            yield f"metrics must have the same segment, got {got}"
        yield from self._never_seen()
        if self.shape.num_cells > MAX_PAIR_CELLS:
            bits = " x ".join(str(max(map(m.shape.width, range(m.shape.num_cohorts)))) for m in self.metrics)
            yield (
                f"metrics must have at most {MAX_PAIR_CELLS:,} cells together, got {self.shape.num_cells:,} "
                f"({bits} bits, {self.shape.num_cohorts:,} cohort pairs)"
            )

    def _never_seen(self) -> Iterator[str]:
        """Pairs of which some or nearly all combinations would never arrive, or whose answers a table cannot name."""
        first, second = self.metrics
        for metric in self.metrics:
            if metric.shape.spare or metric.shape.later_names:
                yield f"metrics must have no reserve: a pair has no place for names that come later, got {metric.name}"
            if metric.shape.asks_absence:
                yield f"metrics must not ask absence apart, as {metric.name} does: a pair is of answers"
            if metric.sample < 1:
                yield f"metrics must be asked of all installs, got sample = {metric.sample} of {metric.name}"
            if isinstance(metric.noise.permanent, SubsetChannel):
                yield (
                    f"metrics must not be sent as a subset of answers, as {metric.name} is: "
                    'its every must not be "once", or its noise be given by prob_f, prob_p and prob_q'
                )
        if all(metric.shape.asks_part and metric.shape.num_cohorts > 1 for metric in self.metrics):
            yield (
                "metrics must have at most one of which an install is asked a part, "
                f"or some answers never come together, got {first.name} and {second.name}"
            )
        if first.hold is not None and second.hold is not None:
            yield (
                "metrics must have at most one with hold: each is asked in an epoch drawn by itself, and both in one "
                f"epoch out of {first.hold * second.hold} only, got {first.name} and {second.name}"
            )

    @property
    def every(self) -> Cadence:
        """The cadence that both metrics have."""
        return self.metrics[0].every

    @property
    def segment(self) -> Segment:
        """The installs that are counted, by facts of their build; empty: all."""
        return self.metrics[0].segment

    @cached_property
    def shape(self) -> PairShape:
        """Where its counters lie."""
        return PairShape(self.metrics[0].shape, self.metrics[1].shape)

    @property
    def cohort_pairs(self) -> tuple[tuple[int, int], ...]:
        """The cohorts of both metrics that an install can have, ascending: in this order counts are kept."""
        return self.shape.cohort_pairs

    @cached_property
    def metric_hash(self) -> str:
        """The hash of its name and both definitions, in hex."""
        return hash_of(canonical(self.to_json()))

    @cached_property
    def undivided(self) -> Self:
        """The same without its segment."""
        return self.in_segment(())

    def in_segment(self, segment: Segment) -> Self:
        """The same pair, counted for these installs."""
        if segment == self.segment:
            return self
        return self.replace(metrics=tuple(metric.in_segment(segment) for metric in self.metrics))

    def to_json(self) -> dict[str, Any]:
        """The form that is hashed."""
        return {"name": self.name, "metrics": [metric.to_json() for metric in self.metrics]}

    def described(self) -> dict[str, Any]:
        """As a definition's; a pair has nothing that is no part of its hash."""
        return self.to_json()

    @classmethod
    def from_json(cls, data: Any) -> Pair:
        """The pair that a pair tally carries. Raises `Invalid` for anything that is none."""
        if not isinstance(data, dict):
            raise Invalid([f"the pair must be a table of keys and values, got {brief(data)}"])
        problems: list[str] = []
        readers = {"name": text, "metrics": list_of(lambda metric: metric)}
        top = read_fields(data, readers, readers, problems)
        require(f"the pair: {problem}" for problem in problems)
        if len(top["metrics"]) != 2:
            raise Invalid([f"the pair: metrics must be two definitions, got {len(top['metrics'])}"])
        first, second = map(Definition.from_json, top["metrics"])
        return Pair(top["name"], (first, second))


Counted = Definition | Pair
"""What a collector counts."""


def counted_from_json(data: Any) -> Counted:
    """The definition of a metric, or a pair of them: whichever it is. Raises `Invalid` for anything else."""
    return Pair.from_json(data) if isinstance(data, dict) and "metrics" in data else Definition.from_json(data)


class PairCounts(Value):
    """One epoch: batches with one report of both, per cohort pair, and how many of them had which bits."""

    num_batches: tuple[int, ...]  # for each cohort pair
    first: tuple[tuple[int, ...], ...]  # for each cohort pair: how many had each bit of the first report
    second: tuple[tuple[int, ...], ...]  # and of the second
    both: tuple[tuple[tuple[int, ...], ...], ...]  # [i][j]: bit i of the first report and bit j of the second

    def __add__(self, other: PairCounts) -> PairCounts:
        return PairCounts(
            added(self.num_batches, other.num_batches),
            tuple(map(added, self.first, other.first)),
            tuple(map(added, self.second, other.second)),
            tuple(tuple(map(added, a, b)) for a, b in zip(self.both, other.both, strict=True)),
        )


class PairTally(Value):
    """The counts of one pair, by epoch, ascending."""

    pair: Pair  # which two metrics
    epochs: Mapping[int, PairCounts]  # the counts of each epoch, by its number (see `hubbub.protocol.cadence`)

    def __init__(self, pair: Pair, epochs: Mapping[int, PairCounts]) -> None:
        super().__init__(pair, MappingProxyType(dict(sorted(epochs.items()))))

    def _broken_rules(self) -> Iterator[str]:
        for epoch, counts in self.epochs.items():
            for problem in _broken_rules(self.pair, epoch, counts):
                yield f"pair {self.pair.name}, epoch {epoch}: {problem}"

    @property
    def metric(self) -> Pair:
        """The pair: what a `Tally` has in this place."""
        return self.pair

    @property
    def num_batches(self) -> int:
        """All batches, over all epochs and cohort pairs."""
        return sum(sum(counts.num_batches) for counts in self.epochs.values())

    def counted_as(self, pair: Pair) -> PairTally:
        """The same counts, taken to be of this pair."""
        return PairTally(pair, self.epochs)

    def only(self, *periods: str | int) -> PairTally:
        """These epochs alone, named as the cadence does or by their numbers, the keys of `epochs`. Raises `Invalid`
        for one that was not counted."""
        return PairTally(self.pair, epochs_named(self, periods))

    def __add__(self, other: PairTally) -> PairTally:
        """Both together: the same batches counted in one place. Raises `Invalid` for another pair."""
        return PairTally(self.pair, merged_epochs(self, other, "pair tallies must be of one pair"))

    def to_json(self) -> str:
        """The file: one epoch a line, as a tally file has them."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "pair_hash": self.pair.metric_hash,
            "pair": self.pair.to_json(),
        }
        return file_text(head, self.epochs)

    @classmethod
    def from_json(cls, source: str | bytes) -> PairTally:
        """Read a file; raises `Invalid` with the field, the rule and the value for anything else."""
        return cls.from_data(parsed(source, "a pair tally"))

    @classmethod
    def from_data(cls, data: Any) -> PairTally:
        """The pair tally that parsed JSON holds; raises `Invalid` for anything else."""
        check_head(data, "a pair tally", FORMAT, VERSION, _KEYS)
        pair = Pair.from_json(data["pair"])
        if data["pair_hash"] != pair.metric_hash:
            got = brief(data["pair_hash"])
            raise Invalid([f"pair_hash must be {pair.metric_hash}, that of its pair, got {got}"])
        return cls(pair, _epochs_from_json(data["epochs"]))


def count_pairs(pair: Pair, batches: Iterable[Batch]) -> PairTally:
    """The pair tally of these batches. One with a report of each metric whose cohorts no install can have is not
    counted: its sender made them up."""
    hashes = [metric.metric_hash for metric in pair.metrics]
    epochs: dict[int, _Adding] = {}
    for batch in batches:
        found = {(block.metric.metric_hash, block.epoch): block for block in batch.blocks if block.count == 1}
        for (metric_hash, epoch), block in found.items():
            other = found.get((hashes[1], epoch))
            if metric_hash == hashes[0] and other is not None:
                if epoch not in epochs:
                    epochs[epoch] = _Adding(pair.shape)
                epochs[epoch].add(*block, *other)
    return PairTally(pair, {epoch: adding.counts() for epoch, adding in epochs.items() if any(adding.num_batches)})


class _Adding:
    def __init__(self, shape: PairShape) -> None:
        self._shape = shape
        self._widths = [shape.widths(place) for place in range(shape.num_cohorts)]
        self.num_batches = [0] * shape.num_cohorts
        self._first = [[0] * width for width, _ in self._widths]
        self._second = [[0] * width for _, width in self._widths]
        self._both = [[[0] * second for _ in range(first)] for first, second in self._widths]

    def add(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        place = self._shape.place(first[0], second[0])
        if place is None:
            return
        self.num_batches[place] += 1
        ones, others = ([bit for bit in range(bits.bit_length()) if bits >> bit & 1] for _, bits in (first, second))
        for i in ones:
            self._first[place][i] += 1
            for j in others:
                self._both[place][i][j] += 1
        for j in others:
            self._second[place][j] += 1

    def counts(self) -> PairCounts:
        first, second = (tuple(map(tuple, rows)) for rows in (self._first, self._second))
        both = tuple(tuple(map(tuple, table)) for table in self._both)
        return PairCounts(tuple(self.num_batches), first, second, both)


def _without_terms(metric: Definition) -> Definition:
    """The definition of a metric, without what people agree to besides."""
    if type(metric) is Definition:
        return metric
    return Definition(**{field: getattr(metric, field) for field in Definition.fields})


def _epochs_from_json(data: Any) -> dict[int, PairCounts]:
    epochs: dict[int, PairCounts] = {}
    for item in _list("epochs", data):
        if not isinstance(item, dict) or set(item) != _EPOCH_KEYS:
            got = key_list(item) if isinstance(item, dict) else brief(item)
            raise Invalid([f"an epoch must have exactly the keys {key_list(_EPOCH_KEYS)}, got {got}"])
        epoch = item["epoch"]
        if type(epoch) is not int or epoch in epochs:
            raise Invalid([f"epoch must be a whole number that comes once, got {brief(epoch)}"])
        epochs[epoch] = PairCounts(
            whole_numbers("num_batches", item["num_batches"]),
            _rows("first", item["first"]),
            _rows("second", item["second"]),
            tuple(_rows("both", table) for table in _list("both", item["both"])),
        )
    return epochs


def _rows(field: str, raw: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(whole_numbers(f"the rows of {field}", row) for row in _list(field, raw))


def _list(field: str, raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise Invalid([f"{field} must be a list, got {brief(raw)}"])
    return raw


def _broken_rules(pair: Pair, epoch: int, counts: PairCounts) -> Iterator[str]:
    shape = pair.shape
    if not -(2**31) <= epoch < 2**31:
        yield "epoch must fit 32 bits"
    for field, rows in counts.to_dict().items():
        if len(rows) != shape.num_cohorts:
            yield f"{field} must have {shape.num_cohorts} cohort pairs, got {len(rows)}"
            return
    for place, (i, j) in enumerate(pair.cohort_pairs):
        table = (rows[place] for rows in counts.to_dict().values())
        for field, rule in _broken_table(pair, shape.widths(place), *table):
            yield f"{field} of cohorts {i} and {j} {rule}"


def _broken_table(
    pair: Pair, widths: tuple[int, int], total: int, first: _BitCounts, second: _BitCounts, both: tuple[_BitCounts, ...]
) -> Iterator[tuple[str, str]]:
    """What cannot be true of the counts of one cohort pair: the field and the rule that it breaks."""
    if not 0 <= total <= MAX_COUNT:
        yield "num_batches", f"must be in [0, {MAX_COUNT}], got {total}"
        return
    for field, row, width in (("first", first, widths[0]), ("second", second, widths[1])):
        if len(row) != width:
            yield field, f"must have {width} bits, got {len(row)}"
            return
        if not 0 <= min(row) <= max(row) <= total:
            yield field, f"must be in [0, num_batches={total}], got {min(row)} to {max(row)}"
            return
    for field, row, metric in (("first", first, pair.metrics[0]), ("second", second, pair.metrics[1])):
        if metric.one_hot and sum(row) != total:
            yield field, f"must add up to num_batches={total}, got {sum(row)}"
    if len(both) != widths[0] or any(len(row) != widths[1] for row in both):
        yield (
            "both",
            f"must be a table of {widths[0]} by {widths[1]}, got {len(both)} rows of {sorted(set(map(len, both)))}",
        )
        return
    for i, row in enumerate(both):
        for j, number in enumerate(row):
            # Of n batches a had the one bit and b the other: at least a + b - n had both, at most the fewer of them.
            least, most = max(0, first[i] + second[j] - total), min(first[i], second[j])
            if not least <= number <= most:
                yield "both", f"must be in [{least}, {most}] for bits {i} and {j}, got {number}"
                return
    if pair.metrics[1].one_hot and any(sum(row) != first[i] for i, row in enumerate(both)):
        yield "both", "must add up to first, because every second report has one bit"
    if pair.metrics[0].one_hot and any(sum(column) != second[j] for j, column in enumerate(zip(*both, strict=True))):
        yield "both", "must add up to second, because every first report has one bit"
