"""What a metric asks, and the facts that everyone else may know about it: its cohorts, its bits, its answers.

A shape knows nothing of names, time or budgets. It is checked when it is made; nobody downstream checks it again. Each
kind of question is a subclass in a file of its own, in `kinds`; code elsewhere asks the facts below, never the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from fractions import Fraction

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded
from hubbub.protocol.fields import readers_of
from hubbub.protocol.invalid import say
from hubbub.protocol.names import METRIC, is_metric
from hubbub.protocol.noise import many_bit_noise, one_bit_noise
from hubbub.protocol.value import Value, cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self

    from hubbub.protocol.history import History
    from hubbub.protocol.vocabulary import Accumulation, Reader

MAX_BITS = 65_536
MAX_COHORTS = 65_536
MAX_CROSSED = 256  # cells of two answers that are asked as one
MAX_CELLS = 1 << 24
"""Bits times cohorts: what a collector counts for one metric and epoch must fit its memory many times over."""

Beside = Mapping[str, "tuple[Shape, Accumulation] | None"]
"""The metrics of one file by name, with what a question that is made of others needs of them; None: one cannot be made
of this, because it is made of others itself, or is wrong."""

ONE_BIT: Flips = ((1, 0), (0, 1))
ONE_OF_MANY: Flips = ((1, 1),)


class Shape(Value, kw_only=True):
    """A question. Facts that a kind does not set itself are as they are here."""

    kind: ClassVar[str]
    """Its name in metrics.toml."""

    is_number: ClassVar[bool] = False
    """Whether a value is a number with limits and perhaps a unit."""

    natural_order: ClassVar[bool] = False
    """Whether its answers have an order of their own. Others are shown by how common they are."""

    one_figure: ClassVar[bool] = False
    """Whether one number says all of it, a share or an average, so that many fit into one picture."""

    open_list: ClassVar[bool] = False
    """Whether its answers are not declared, so that decoding needs candidates."""

    discovers: ClassVar[bool] = False
    """Whether answers of an open list can be found without candidates."""

    equal_widths: ClassVar[bool] = True
    """Whether the reports of all cohorts have the same number of bits."""

    accumulations: ClassVar[tuple[Accumulation, ...]] = ("first", "last")
    """How several records of one epoch can become one answer, the usual one first."""

    kept_by_bit: ClassVar[bool] = False
    """Whether each bit of an answer is kept by itself: one memo for where it is set, one for where it is not."""

    in_silence: ClassVar[Any] = ABSENT
    """The value that an epoch without a record has, where that is an answer like any other."""

    made_of_others: ClassVar[bool] = False
    """Whether it is not recorded, but follows from what is recorded of other metrics."""

    gathered_in_words: ClassVar[str] = ""
    """What several records of one epoch make together, where the kind alone decides it."""

    @cached_property
    def form(self) -> str:
        """By what name analysis and simulations know it: its kind, unless a key makes it another question."""
        return self.kind

    @cached_property
    def num_cohorts(self) -> int:
        """Into how many groups its installs are drawn, each with a question or a hash of its own."""
        return 1

    @cached_property
    def num_masks(self) -> int:
        """How many different answers one install could ever give."""
        raise NotImplementedError

    @cached_property
    def most_slots(self) -> int:
        """The most kept answers that one install can ever need."""
        return self.num_masks

    @cached_property
    def flips(self) -> Flips:
        """How two masks of one install can differ."""
        raise NotImplementedError

    @cached_property
    def categories(self) -> int | None:
        """How many answers there are, if exactly one is always given, so that it can be sent as one of k."""
        return None

    @cached_property
    def only_categories(self) -> bool:
        """Whether it can be sent in no other way than as one of its categories."""
        return False

    @cached_property
    def asks_part(self) -> bool:
        """Whether an install answers one part of the question only, chosen at random: kept answers are found by that
        part, so what changes elsewhere changes nothing."""
        return False

    @cached_property
    def asks_absence(self) -> bool:
        """Of a number for its average: whether that nothing was recorded is asked as well, as a category of its own."""
        return False

    @cached_property
    def one_of_what(self) -> str:
        """What is sent where it is sent as one of its categories."""
        return "answer"

    @cached_property
    def slots_in_words(self) -> str:
        """What decides how many answers there are, for a warning about numbers that change often."""
        return ""

    @cached_property
    def silence_is_an_answer(self) -> bool:
        """Whether an epoch without a record gives an answer that no record gives, which takes a slot of its own."""
        return False

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """Every answer it has, in words, where they are declared."""
        return ()

    def answers_in_words(self) -> str:
        """The same as one text, for a label."""
        return ", ".join(self.answers)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The metrics from which it follows, where it is made of others."""
        return ()

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        """The answers that a cross tells apart where this is one of its factors, in words; empty: it can be none."""
        return ()

    def told_as(self, value: Any, dither: int) -> int:
        """Which of them a value is; their number, if it is `ABSENT` and none of them. Raises `WrongValue`."""
        raise NotImplementedError

    @cached_property
    def later_names(self) -> tuple[str, ...]:
        """Of a list with spare places: the names that some were given since, in order. No part of the hash."""
        return ()

    @cached_property
    def spare(self) -> int:
        """How many places of its list have no name yet."""
        return 0

    @cached_property
    def num_hashes(self) -> int:
        """How many bits of a mask an answer sets."""
        return 1

    @cached_property
    def flags_per_answer(self) -> int:
        """How many parts of an answer are told truly or not, each by itself, where it has a history."""
        return 1

    @cached_property
    def unit(self) -> str:
        """Of a number: what it is counted in; empty where nothing is said."""
        return ""

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction] | None:
        """Of a number: the least and the largest that is told apart."""
        return None

    def width(self, cohort: int) -> int:
        """The bits of a report."""
        raise NotImplementedError

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        """The mask of a value for an install of this cohort. `dither` is a number below 2**64. Raises `WrongValue`."""
        raise NotImplementedError

    def check_recorded(self, value: Any) -> None:
        """Raises `WrongValue` for what cannot be recorded."""
        self.encode(value, 0)

    def either(self, one: Any, other: Any) -> Any:
        """What two records of one epoch make where it matters whether any was yes."""
        return bool(one or other)

    def kept(self, value: Any, cohort: int) -> Any:
        """What an install of this cohort keeps of a value until its epoch is over; `ABSENT` if nothing."""
        return value

    def still_listed(self, value: Any) -> Any:
        """What is left of a value that was kept when its list may have had other names; `ABSENT` if nothing."""
        return value

    def suited(self, epsilon_one_report: Fraction, given: Collection[str], max_answers: int | None = None) -> Shape:
        """The same question with whatever was left out of a metrics.toml, all but the keys `given`, chosen for the
        least error at this epsilon, where an install keeps at most `max_answers` to repeat (`None`: it is asked
        once)."""
        return self

    def with_more_slots(self, epsilon_one_report: Fraction) -> tuple[int, float] | None:
        """If it was chosen for want of kept answers: how many would be enough for what is best, and the standard error
        over the present one then, where the answer is the hardest to tell. None where it is the best already."""
        return None

    def typed(self, text: str) -> Any:
        """The value that a person means who types this at a command line. Raises ValueError with the form wanted."""
        return text

    def question(self) -> str:
        """What is asked, in a few words."""
        raise NotImplementedError

    def in_short(self) -> str:
        """The same in two or three words."""
        return self.kind

    def sent(self, q: str, p: str) -> str:
        """What a message carries: of 100 bits that should be 1 (or 0), about q (or p) are sent as 1."""
        widths = sorted({self.width(cohort) for cohort in range(self.num_cohorts)})
        bits = (
            "One bit"
            if widths == [1]
            else f"{widths[0]} bits"
            if len(widths) == 1
            else f"{widths[0]} to {widths[-1]} bits"
        )
        return f"{bits}. A bit that should be 1 is sent as 1 in {q} of 100 messages; one that should be 0, in {p}."

    def shared_by(self, noise: Noise, installs: int) -> int:
        """Of this many installs, how many must share an answer that is in no list for it to be found; 0: never."""
        return 0

    def discoverable(self, noise: Noise, installs: int, until: date) -> str:
        """What a person should know whose answer is in no list and yet can be found; nothing for all others."""
        return ""

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        """The least noise that keeps both epsilons. `once`: of an answer that is only ever told once."""
        if self.flips == ONE_BIT:
            return one_bit_noise(epsilon_one_report, epsilon_permanent)
        return many_bit_noise(epsilon_one_report, epsilon_permanent, self.num_hashes)

    def suited_to_history(self, epsilon: Fraction, answers: int, given: Collection[str]) -> Shape:
        """`suited`, where a whole history of this many answers has this epsilon."""
        return self

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        """The least error that keeps epsilon over a history of this many answers. Not for masks of several hashes:
        a flag must be seen as one agreement."""
        from hubbub.protocol.history import history_of_bits, history_of_categories  # few registries have a history

        if self.flips == ONE_BIT:
            return history_of_categories(epsilon, hold, answers, 2)
        widths = [self.width(cohort) for cohort in range(1 if self.equal_widths else self.num_cohorts)]
        return history_of_bits(epsilon, hold, answers, Fraction(len(widths), sum(widths)))

    def history_noise(self, history: History) -> Noise:
        """What one epoch shows of such a history."""
        return Noise.of_history(history, self.categories if history.categories == self.categories else None)

    @classmethod
    def readers(cls) -> tuple[dict[str, Reader], set[str]]:
        """How the fields of a definition are read, and which of them must be there."""
        return readers_of(cls)

    @classmethod
    def keys(cls) -> tuple[dict[str, Reader], set[str]]:
        """The same for the keys of a metrics.toml."""
        return cls.readers()

    @classmethod
    def from_keys(cls, given: Mapping[str, Any], beside: Beside) -> Self:
        """The question that these keys of a metrics.toml ask, among the metrics `beside` it."""
        return cls(**given)

    def plain_fields(self) -> dict[str, Any]:
        """All fields, in the form that JSON has for them."""
        return {name: _plain(self.__dict__[name]) for name in self.fields}

    def to_json(self) -> dict[str, Any]:
        """The fields, as a definition carries them: this text is hashed."""
        return self.plain_fields()

    def port_facts(self) -> dict[str, Any] | None:
        """What a client in another language needs to encode a value, as docs/compiled-registry.md says of this form;
        None: the page says nothing of it yet, and `hubbub compile` refuses."""
        return None


class NumberShape(Shape, kw_only=True):
    """A question about a number."""

    is_number = True
    accumulations = ("first", "last", "sum", "max")

    @cached_property
    def limits(self) -> tuple[Fraction, Fraction]:
        raise NotImplementedError

    def limits_in_words(self) -> str:
        low, high = self.limits
        return f"a number from {say(low)} to {say(high)}{f' {self.unit}' if self.unit else ''}"

    def typed(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"must be a number, got {text!r}") from None


class ListShape(Shape, kw_only=True):
    """A question with a declared list of answers, and perhaps spare places behind it that may be named later.

    Places are part of the shape from the start, named or not: to name one changes no mask, width, cohort or hash.
    """

    reserve: int = 0
    named: tuple[str, ...] = ()

    @cached_property
    def declared(self) -> tuple[str, ...]:
        """The list as it was from the start."""
        raise NotImplementedError

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """All names there are, each at its place."""
        return self.declared + self.named

    @cached_property
    def num_places(self) -> int:
        """Named or not."""
        return len(self.declared) + self.reserve

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each name stands: found at once, however long the list is."""
        return {name: place for place, name in enumerate(self.listed)}

    @cached_property
    def later_names(self) -> tuple[str, ...]:
        return self.named

    @cached_property
    def spare(self) -> int:
        return self.num_places - len(self.listed)

    def still_listed(self, value: Any) -> Any:
        if isinstance(value, frozenset):
            return value & self.places.keys() or ABSENT
        return value if value in self.places else ABSENT

    def broken_list(self, key: str, most: int) -> Iterator[str]:
        """What is wrong with the list of this key; list and reserve may have at most `most` places."""
        if not 2 <= len(self.declared) <= most:
            yield f"{key} must list from 2 to {most} values, got {len(self.declared)}"
        elif not 0 <= self.reserve <= most - len(self.declared):
            yield f"reserve must be in [0, {most - len(self.declared)}], got {self.reserve}"
        if len(self.named) > max(self.reserve, 0):
            yield f"named must have at most {self.reserve} names, as many as reserve has places, got {len(self.named)}"
        if len(self.places) < len(self.listed):
            from collections import Counter  # here, because only mistakes need it

            what = key if len(set(self.declared)) < len(self.declared) else f"{key} and named"
            repeated = sorted(name for name, times in Counter(self.listed).items() if times > 1)
            yield f"{what} must all differ, got {', '.join(map(repr, repeated))} more than once"

    def to_json(self) -> dict[str, Any]:
        """Without a reserve nothing is said of one. Names that were given since are no part of the hash."""
        found = super().to_json()
        del found["named"]
        if not self.reserve:
            del found["reserve"]
        return found


class Factor(Value, kw_only=True):
    """One of the two metrics that a cross is made of, as far as their categories depend on it."""

    name: str
    shape: Shape
    accumulate: Accumulation = "first"  # what counts of several records of one epoch

    def _broken_rules(self) -> Iterator[str]:
        if not is_metric(self.name):
            yield f"a factor's name must match {METRIC}, got {self.name!r}"
        if not self.shape.told_apart:
            listed = " with a reserve" if self.shape.spare or self.shape.later_names else ""
            got = f"got {self.name}, a {self.shape.kind}{listed}"
            yield f"a cross is made of flags, choices, histograms and means, {got}"
        if self.accumulate not in self.shape.accumulations:
            known = ", ".join(self.shape.accumulations)
            yield f"accumulate of {self.name} must be one of {known}, got {self.accumulate!r}"

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Its answers in words. Where silence is no other answer, `absent` is the last of them."""
        told = self.shape.told_apart
        return (*told, "absent") if self.category(ABSENT, 0) == len(told) else told

    def category(self, value: Any, dither: int) -> int:
        """Which of them a value is, for an install with this dither. Raises `WrongValue`."""
        if value is ABSENT and self.accumulate == "sum":
            value = 0  # what nothing added comes to
        return self.shape.told_as(value, dither)

    def to_json(self) -> dict[str, Any]:
        accumulate = {} if self.accumulate == "first" else {"accumulate": self.accumulate}
        return {"name": self.name, "kind": self.shape.kind, **accumulate, "shape": self.shape.to_json()}


def broken_limits(low: Fraction, high: Fraction) -> Iterator[str]:
    if not low < high:
        yield f"low must be below high={say(high)}, got {say(low)}"


def _plain(value: Any) -> Any:
    match value:
        case Fraction():
            return str(value)
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value
