"""Metrics: what is asked, how it is noised, and on what terms.

A `Definition` is everything that encoding and decoding depend on, and nothing else; its hash names it on the wire, in
memos and in tallies, so a tally can never be decoded with other parameters than the client used. A `Metric` is a
definition with the terms people agree to: why, who, until when, how much. Mending a `why` changes no hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from fractions import Fraction

from hubbub.protocol.blake2 import blake2b
from hubbub.protocol.cadence import CADENCES
from hubbub.protocol.channel import BitChannel, Channel, KaryChannel, Noise, SubsetChannel
from hubbub.protocol.encoding import WrongValue, bytes_for, exact_number
from hubbub.protocol.epsilon import log_above, surely_above
from hubbub.protocol.fields import list_of, number, plain_table, read_fields, readers_of, text, whole_number
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.kinds import KINDS, shape_class
from hubbub.protocol.names import METRIC, is_metric, is_retention
from hubbub.protocol.segments import Segment, broken_segment
from hubbub.protocol.shape import ONE_BIT, Shape
from hubbub.protocol.value import Value, cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from hubbub.protocol.history import History
    from hubbub.protocol.vocabulary import Accumulation, Cadence

_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}
SHORT_HASH_BYTES = 8
_SMALLEST_SAMPLE = Fraction(1, 1_000_000)


def canonical(form: Mapping[str, Any]) -> str:
    """The one text for what has this form in JSON, which is hashed: sorted keys and no spaces."""
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_of(text: str) -> str:
    """BLAKE2b-128 in hex: what a definition, a pair and a registry are known by."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


class Definition(Value, kw_only=True):
    """What decoding depends on. `metric_hash` is BLAKE2b-128 of its canonical JSON, in hex."""

    name: str  # what `record` and every table call it
    every: Cadence  # how often it is asked: once, day, week or month
    shape: Shape  # what is asked: its kind, cohorts and bits
    noise: Noise  # the two channels that an answer crosses, with exact probabilities
    accumulate: Accumulation = "first"  # what counts of several records of one epoch
    segment: Segment = ()  # the part of all installs it is counted for, such as one release; empty: undivided
    sample: Fraction = Fraction(1)  # the share of installs that are asked at all, drawn once by each of them

    def _broken_rules(self) -> Iterator[str]:
        if not is_metric(self.name):
            yield f"a metric's name must match {METRIC}, got {self.name!r}"
        if self.every not in CADENCES:
            yield f"every must be one of {', '.join(CADENCES)}, got {self.every!r}"
        yield from self._broken_accumulation()
        yield from broken_segment(self.segment)
        if self.sample != 1 and not _SMALLEST_SAMPLE <= self.sample <= 1:
            yield f"sample must be at least {_SMALLEST_SAMPLE} and at most 1, got {say(self.sample)}"
        yield from self._broken_history()
        if isinstance(self.noise.permanent, KaryChannel) and self.shape.categories != self.noise.permanent.categories:
            yield f"a k-ary channel of {self.noise.permanent.categories} needs a choice of as many categories"
        if self.shape.only_categories and not isinstance(self.noise.permanent, KaryChannel):
            yield (
                f"a {self.kind} with {self.shape.slots_in_words} is sent as one of {self.shape.categories} categories: "
                "its noise must be given by epsilon_one_report and epsilon_permanent, or points must be 2 and absent a "
                "number"
            )
        if isinstance(self.noise.permanent, SubsetChannel):
            if self.shape.categories != self.noise.permanent.categories:
                yield f"a subset channel of {self.noise.permanent.categories} needs a choice of as many categories"
            if self.every != "once":
                again = "a subset that is shown again would tell installs apart"
                yield f'a subset channel needs every = "once", because {again}, got {self.every!r}'

    def _broken_history(self) -> Iterator[str]:
        history, shape = self.noise.history, self.shape
        if history is None:
            return
        if self.every == "once" and not (shape.kept_by_bit and history.hold == history.answers == 1):
            yield f'hold must be left out where every = "once", got {history.hold}'
        if shape.num_hashes > 1:
            yield f"num_hashes must be 1 where hold is set: a flag is seen as one bit, got {shape.num_hashes}"
        elif history.items != shape.flags_per_answer or self.noise != shape.history_noise(history):
            yield "a history must have the flags and the channel of its question"
        elif (history.categories or 0) != (shape.categories or 0):
            yes_or_no = shape.flips == ONE_BIT or shape.kept_by_bit
            if history.categories != (2 if yes_or_no else None):
                yield f"a history of a {self.kind} like this cannot be of {history.categories or 'bits'}"

    def _broken_accumulation(self) -> Iterator[str]:
        known = self.shape.accumulations
        if self.accumulate not in known:
            yield f"accumulate must be one of {', '.join(known)} for a {self.kind}, got {self.accumulate!r}"
        elif self.accumulate == "sum" and self.shape.limits is not None:
            low, high = self.shape.limits
            if not low <= 0 <= high:
                yield (
                    'the limits must hold 0 where accumulate = "sum", because that is the sum of an epoch in which '
                    f"nothing was added, got {say(low)} to {say(high)}"
                )
            if self.shape.asks_absence:
                yield 'absent must be a number where accumulate = "sum": an epoch in which nothing was added answers 0'

    @property
    def kind(self) -> str:
        """The kind of question, as metrics.toml has it: `flag`, `choice`, ..."""
        return self.shape.kind

    @cached_property
    def metric_hash(self) -> str:
        """The hash of all that decoding depends on, in hex: the metric's name on the wire, in memos and in tallies."""
        return hash_of(canonical(self.to_json()))

    @cached_property
    def undivided(self) -> Self:
        """The same without its segment: what is asked, whatever an install runs on. Memos and budget are kept by it."""
        return self.in_segment(())

    def in_segment(self, segment: Segment) -> Self:
        """The same question, counted for these installs."""
        return self if segment == self.segment else self.replace(segment=segment)

    @property
    def short_hash(self) -> bytes:
        """What the packed wire format carries of the hash."""
        return bytes.fromhex(self.metric_hash)[:SHORT_HASH_BYTES]

    @property
    def cohort_bytes(self) -> int:
        """How many bytes a cohort takes on the wire."""
        return 1 if self.shape.num_cohorts <= 256 else 2

    def vector_bytes(self, cohort: int) -> int:
        """How many bytes the bits of a report take, on the wire and in a memo."""
        return bytes_for(self.shape.width(cohort))

    @property
    def one_hot(self) -> bool:
        """Whether every report has exactly one bit set (k-ary noise)."""
        return isinstance(self.noise.permanent, KaryChannel)

    @property
    def hold(self) -> int | None:
        """In one out of how many epochs it is asked; None: in every one, and the noise of an answer is kept."""
        return None if self.turns is None else self.turns.hold

    @property
    def turns(self) -> History | None:
        """The history of a metric with `hold`. (A set that is asked once may have one, too: of a single answer, whose
        items are drawn together.)"""
        return None if self.every == "once" else self.noise.history

    @property
    def weight(self) -> int | None:
        """How many bits of every report are set, if always as many: one category, or a subset of this many."""
        match self.noise.permanent:
            case KaryChannel():
                return 1
            case SubsetChannel(size=size):
                return size
        return None

    def check(self, value: Any) -> None:
        """Raises `WrongValue` for what cannot be recorded."""
        self.shape.check_recorded(value)
        if self.accumulate == "sum" and exact_number(value) < 0:
            raise WrongValue('must be at least 0 where accumulate = "sum", got a negative number')

    # -- how much is learnt; each number is exact or rounded up, each says of what it is

    @property
    def epsilon_one_report(self) -> Fraction:
        """What a single report tells at most about the value behind it."""
        return self.epsilon_after(1)

    @cached_property
    def epsilon_permanent(self) -> Fraction:
        """What any number of reports of one value tells at most: that of the memo they all show. With `hold`, what
        everything ever said tells, whatever changed."""
        return log_above(self.noise.odds_permanent(self.shape.flips))

    def epsilon_after(self, reports: int) -> Fraction:
        """What this many reports of one value tell at most."""
        return log_above(self.noise.odds_after(reports, self.shape.flips))

    @cached_property
    def epsilon_one_more(self) -> Fraction | None:
        """What one more report tells at most about whether the answer has just changed, to one who knows every memo
        from the past: they may differ in every bit. None: everything. With `hold` there are none, and if all answers
        before are known, one more tells no more than all together."""
        if self.noise.history is not None:
            return self.epsilon_permanent
        high, low = self.noise.instantaneous.probabilities
        if high == 1 or low == 0:
            return None
        if self.one_hot:
            return log_above(high / low)
        width = max(self.shape.width(cohort) for cohort in range(self.shape.num_cohorts))
        return width * log_above(max(high / low, (1 - low) / (1 - high)), 12)  # finer: it is counted many times

    # -- JSON: in tallies, and as the text that is hashed

    def to_json(self) -> dict[str, Any]:
        """The form that is hashed."""
        return dict(self._form)

    @cached_property
    def _form(self) -> Mapping[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "every": self.every,
            **({} if self.accumulate == "first" else {"accumulate": self.accumulate}),
            **({"segment": dict(self.segment)} if self.segment else {}),
            **({} if self.sample == 1 else {"sample": str(self.sample)}),
            "shape": self.shape.to_json(),
            **_noise_to_json(self.noise),
        }

    def described(self) -> dict[str, Any]:
        """The same with what is no part of the hash and yet needed to read counts: the names that spare places of its
        list were given since."""
        names = self.shape.later_names
        return {**self.to_json(), **({"named": list(names)} if names else {})}

    def with_names_of(self, other: Definition) -> Self:
        """The same, with the names that either of two with one hash knows. Raises `Invalid` if they disagree."""
        ours, theirs = self.shape.later_names, other.shape.later_names
        if ours[: len(theirs)] == theirs:
            return self
        if theirs[: len(ours)] == ours:
            return self.replace(shape=other.shape)
        raise Invalid([f"named of {self.name} must begin alike in both, got {_list(ours)} and {_list(theirs)}"])

    @classmethod
    def from_json(cls, data: Any) -> Definition:
        """The definition that a tally carries. Raises `Invalid` for anything that is none."""
        problems: list[str] = []
        table = data if isinstance(data, dict) else {}
        stages = _HISTORY if "history" in table else _STAGES
        known = {
            **_DEFINITION,
            **stages,
            "accumulate": text,
            "segment": _segment,
            "named": list_of(text),
            "sample": number,
        }
        top = read_fields(table, known, {**_DEFINITION, **stages}, problems)
        require(problems)
        if top["kind"] not in KINDS:
            raise Invalid([f"kind must be one of {', '.join(KINDS)}, got {top['kind']!r}"])
        cls_of_shape = shape_class(top["kind"], top["shape"])
        shape = read_fields(top["shape"], *cls_of_shape.readers(), problems)
        if "named" in top and "named" not in cls_of_shape.fields:
            problems.append(f"named is for lists with a reserve, got it for a {top['kind']}")
        channels = [_channel_from_json(top[stage], problems) for stage in _STAGES if stage in top]
        require(problems)
        asked = cls_of_shape(**shape, **({"named": top["named"]} if "named" in top else {}))
        definition = Definition(
            name=top["name"],
            every=top["every"],
            shape=asked,
            noise=Noise(*channels) if channels else asked.history_noise(_history_from_json(top["history"], asked)),
            accumulate=top.get("accumulate", "first"),
            segment=top.get("segment", ()),
            sample=top.get("sample", Fraction(1)),
        )
        if definition.described() != data:
            raise Invalid([f"the definition of {definition.name} is not in its canonical form"])
        return definition


MOST_GRACE = 60
"""Epochs for which late reports are counted, at most."""


class Metric(Definition, kw_only=True):
    """A definition and its terms: purpose, owner, end, how many answers an install may ever give, what is kept."""

    why: str  # the purpose, in a sentence for the people who are asked
    owner: str  # who asks, and answers questions about it
    expires: date  # the last day on which it is asked
    max_values: int  # how many different answers an install ever gives; with `hold`, how often it is asked
    keep_reports: bool = False  # whether the collector keeps each report besides the counts
    retention: str = "2y"  # how long counts are kept: a number and d, w, m or y
    grace: int = 3  # for how many epochs late reports are still counted

    def _broken_rules(self) -> Iterator[str]:
        yield from super()._broken_rules()
        for key in ("why", "owner"):
            if not getattr(self, key).strip():
                yield f"{key} must not be empty"
        yield from self._broken_rules_of_slots()
        if not is_retention(self.retention):
            yield f'retention must be a number and one of d, w, m, y, such as "2y", got {self.retention!r}'
        if not 0 <= self.grace <= MOST_GRACE:
            yield f"grace must be in [0, {MOST_GRACE}] epochs, got {self.grace}"

    def _broken_rules_of_slots(self) -> Iterator[str]:
        if self.every == "once":
            if self.max_values != 1:
                yield f'max_values must be 1 where every = "once", got {self.max_values}'
        elif self.noise.history is not None:
            if self.max_values != self.noise.history.answers:
                yield f"max_values must be {self.noise.history.answers}, as in its history, got {self.max_values}"
        elif self.max_values < 1:
            yield f"max_values must be at least 1, got {self.max_values}"
        elif self.max_values > self.shape.most_slots:
            has = "each item" if self.shape.kept_by_bit else f"a {self.kind} like this"
            yield (
                f"max_values must be at most {self.shape.most_slots}, the number of different answers "
                f"{has} has, got {self.max_values}"
            )
        elif self.max_values > 10_000:
            yield f"max_values must be at most 10000, got {self.max_values}"

    @property
    def charges(self) -> int:
        """How often epsilon_permanent is charged in an install's life: for each kept answer, or once for a history."""
        return self.max_values if self.noise.history is None else 1

    @property
    def epsilon_lifetime(self) -> Fraction:
        """What all reports of an install's whole life tell at most; `whole_history` says about what."""
        return self.charges * self.epsilon_permanent

    @property
    def epsilon_lifetime_at_most(self) -> float:
        """Slightly more than `epsilon_lifetime`, and found at once."""
        return self.charges * surely_above(self.noise.odds_permanent(self.shape.flips))

    @property
    def whole_history(self) -> bool:
        """Whether the lifetime bound holds between any two histories, or only where both change at the same times.
        With one slot, the first answer is repeated whatever happens."""
        return self.hold is not None or self.max_values == 1

    @property
    def keeps_by_bit(self) -> bool:
        """Whether each bit of an answer has memos of its own. With one slot the whole answer has one, with `hold` none
        is kept."""
        return self.shape.kept_by_bit and self.noise.history is None and self.max_values > 1

    @property
    def epsilon_same_answer(self) -> Fraction:
        """What all messages tell at most about an answer that never changes."""
        return self.epsilon_permanent

    @property
    def retention_days(self) -> int:
        """How many days its counts are kept."""
        return int(self.retention[:-1]) * _DAYS[self.retention[-1]]

    def terms_to_json(self) -> dict[str, Any]:
        """The definition and the terms, for people and for the collector's public page; not what is hashed."""
        return {
            **self.described(),
            "metric_hash": self.metric_hash,
            "why": self.why,
            "owner": self.owner,
            "expires": self.expires.isoformat(),
            "max_values": self.max_values,
            "hold": self.hold,
            "keep_reports": self.keep_reports,
            "retention": self.retention,
            "grace": self.grace,
        }


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _noise_to_json(noise: Noise) -> dict[str, Any]:
    history = noise.history
    if history is None:
        return {"permanent": _channel_to_json(noise.permanent), "instantaneous": _channel_to_json(noise.instantaneous)}
    sent_as = {"chance": str(history.chance)} if history.categories is None else {"categories": history.categories}
    law = {key: getattr(history, key) for key in ("hold", "answers", "threshold")}
    return {"history": {**law, "above": str(history.above), **sent_as}}


def _history_from_json(data: dict[str, Any], shape: Shape) -> History:
    problems: list[str] = []
    sent_as = {"categories": whole_number} if "categories" in data else {"chance": number}
    law = {"hold": whole_number, "answers": whole_number, "threshold": whole_number, "above": number, **sent_as}
    fields = read_fields(data, law, law, problems)
    categories = fields.get("categories", 2)
    if categories < 2:
        problems.append(f"categories must be at least 2, got {categories}")
    require(f"history: {problem}" for problem in problems)
    from hubbub.protocol.history import History  # here, because few registries have one

    return History(**{"chance": Fraction(1, categories), **fields}, items=shape.flags_per_answer)


def _channel_to_json(channel: Channel) -> dict[str, Any]:
    match channel:
        case BitChannel(when_one, when_zero):
            return {"when_one": str(when_one), "when_zero": str(when_zero)}
        case KaryChannel(categories, truth, other):
            return {"categories": categories, "truth": str(truth), "other": str(other)}
        case SubsetChannel(categories, size, held, other_units):
            return {"categories": categories, "size": size, "held": held, "other": other_units}


def _channel_from_json(data: dict[str, Any], problems: list[str]) -> Any:
    cls = SubsetChannel if "size" in data else KaryChannel if "categories" in data else BitChannel
    channel = read_fields(data, *readers_of(cls), problems)
    return None if problems else cls(**channel)


def _segment(raw: Any) -> Segment:
    if not isinstance(raw, dict) or not raw:
        raise ValueError(f"must be a table of keys and values, got {brief(raw)}")
    return tuple(sorted((text(key), text(value)) for key, value in raw.items()))


_DEFINITION = {
    "name": text,
    "kind": text,
    "every": text,
    "shape": plain_table,
}
_STAGES = {"permanent": plain_table, "instantaneous": plain_table}
_HISTORY = {"history": plain_table}
