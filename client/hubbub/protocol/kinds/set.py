"""Which of a declared list: any number of items, none included. Each cohort is asked about a few items only."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue, type_name
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.noise import one_bit_noise
from hubbub.protocol.shape import MAX_BITS, ListShape
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.history import History

MOST_ASKED = 64
"""Items of one report: each gets that part of epsilon only, and far fewer are best."""


class Set(ListShape, kw_only=True):
    """Which of a list of `items` were recorded in an epoch; an install is asked about `items_per_report` of them."""

    kind = "set"
    accumulations = ("any",)
    kept_by_bit = True
    in_silence = frozenset()
    gathered_in_words = "which of the items that it is asked about were recorded"
    items: tuple[str, ...]
    items_per_report: int = 1

    def _broken_rules(self) -> Iterator[str]:
        yield from self.broken_list("items", MAX_BITS)
        most = min(len(self.items), MOST_ASKED)
        if self.items and not 1 <= self.items_per_report <= most:
            yield f"items_per_report must be in [1, {most}], got {self.items_per_report}"

    @cached_property
    def declared(self) -> tuple[str, ...]:
        return self.items

    @cached_property
    def num_cohorts(self) -> int:
        return self.num_places if self.asks_part else 1

    @cached_property
    def asks_part(self) -> bool:
        return self.items_per_report < self.num_places

    @cached_property
    def answers(self) -> tuple[str, ...]:
        return self.listed

    @cached_property
    def num_masks(self) -> int:
        return 1 << self.items_per_report

    @cached_property
    def most_slots(self) -> int:
        return 2  # for each item: one while it is used, one while it is not

    @cached_property
    def flips(self) -> Flips:
        asked = self.items_per_report
        return tuple((lost, asked - lost) for lost in range(asked, -1, -1))

    def width(self, cohort: int) -> int:
        return self.items_per_report

    def item(self, cohort: int, position: int) -> int:
        """The item that this position of this cohort asks about, by its place, which may have no name yet."""
        return (cohort + position) % self.num_places

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        if value is ABSENT:
            return Encoded(0)
        mask = 0
        for item in self._recorded(value):
            position = (self.places[item] - cohort) % self.num_places
            if position < self.items_per_report:
                mask |= 1 << position
        return Encoded(mask)

    def _recorded(self, value: Any) -> Collection[str]:
        """One item, or a collection of some."""
        if not isinstance(value, str | list | tuple | set | frozenset):
            raise WrongValue(
                f"must be one of the {len(self.listed)} declared items, or several, got {type_name(value)}"
            )
        items: Collection[Any] = (value,) if isinstance(value, str) else value
        for item in items:
            if not isinstance(item, str) or item not in self.places:
                raise WrongValue(
                    f"must be one of the {len(self.listed)} declared items, got an undeclared {type_name(item)}"
                )
        return items

    def either(self, one: Any, other: Any) -> frozenset[str]:
        return frozenset((*self._recorded(one), *self._recorded(other)))

    def kept(self, value: Any, cohort: int) -> Any:
        asked = {self.item(cohort, position) for position in range(self.items_per_report)}
        return frozenset(item for item in self._recorded(value) if self.places[item] in asked) or ABSENT

    def suited(self, epsilon_one_report: Fraction, given: Collection[str], max_answers: int | None = None) -> Set:
        """Asked once (`max_answers` is None), items are drawn together as those of a history of one answer."""
        if "items_per_report" in given:
            return self
        if max_answers is None:
            return self.suited_to_history(epsilon_one_report, 1, given)
        return self.replace(items_per_report=best_number(epsilon_one_report, len(self.items)))

    @cached_property
    def flags_per_answer(self) -> int:
        return self.items_per_report

    def suited_to_history(self, epsilon: Fraction, answers: int, given: Collection[str]) -> Set:
        if "items_per_report" in given:
            return self
        return self.replace(items_per_report=best_number_of_history(epsilon, answers, len(self.items)))

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        from hubbub.protocol.history import history_of_categories  # here and below, because few registries have one

        return history_of_categories(epsilon, hold, answers, 2, self.items_per_report)

    def typed(self, text: str) -> str | tuple[str, ...]:
        """One item, or several with commas between them."""
        return text if text in self.places else tuple(item.strip() for item in text.split(",") if item.strip())

    def port_facts(self) -> dict[str, Any] | None:
        return None if self.reserve else {"items": list(self.items), "items_per_report": self.items_per_report}

    def in_short(self) -> str:
        return f"set of {len(self.listed)}"

    def question(self) -> str:
        shown = ", ".join(self.listed[:6]) + (", ..." if len(self.listed) > 6 else "")
        return f"which of {len(self.listed)} items ({shown})"

    def sent(self, q: str, p: str) -> str:
        asked = "one item" if self.items_per_report == 1 else f"{self.items_per_report} items"
        whom = (
            f"For {asked} of the {self.num_places}, which chance has chosen for your device" if self.asks_part else ""
        )
        return (
            f"{whom or 'For every item'}: yes or no. A yes is sent as yes in {q} of 100 messages; a no is sent as yes "
            f"in {p} all the same."
        )

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        """Of a single report the whole answer is promised, and not each item by itself: which items are told truly is
        then drawn for all of them together, as a history of one answer, where that has less variance."""
        apart = one_bit_noise(epsilon_one_report, epsilon_permanent, self.items_per_report)
        if not once or self.items_per_report == 1:
            return apart
        from hubbub.protocol.history import history_of_categories, variance

        history = history_of_categories(epsilon_one_report, 1, 1, 2, self.items_per_report)
        q, p = apart.composed.probabilities
        jointly_better = variance(history, Fraction(1, 2)) < p * (1 - p) / (q - p) ** 2  # both are symmetric
        return self.history_noise(history) if jointly_better else apart


def best_number(epsilon: Fraction, num_items: int) -> int:
    """How many items an install is best asked about: the error of an item that half of all use, which is the worst, is
    then least. Of b items, d of them asked, n Var = (b/d) V + f (1 - f)(b/d - 1), V = E/(E - 1)**2, E = e**(epsilon/d):
    with f = 1/2 least where (V + 1/4)/d is, whatever b; an item asked then has about 2.2 of the epsilon."""
    best = 1
    while best < min(num_items, MOST_ASKED) and _cost(epsilon, best + 1) < _cost(epsilon, best):
        best += 1
    return best


def _cost(epsilon: Fraction, asked: int) -> Fraction:
    e = exp_below(epsilon / asked)
    return (e / (e - 1) ** 2 + Fraction(1, 4)) / asked


def best_number_of_history(epsilon: Fraction, answers: int, num_items: int) -> int:
    """The same where a whole history has this epsilon. (With one item asked, flags are those of an ordinary bit.)"""
    from hubbub.protocol.history import MOST_FLAGS, history_of_categories, variance

    def cost(asked: int) -> Fraction:
        history = history_of_categories(epsilon, 1, answers, 2, asked)
        return (variance(history, Fraction(1, 2)) + Fraction(1, 4)) / asked

    best, most = 1, min(num_items, MOST_ASKED, MOST_FLAGS // answers)
    while best < most and cost(best + 1) < cost(best):
        best += 1
    return best
