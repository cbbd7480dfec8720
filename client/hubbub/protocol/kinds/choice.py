"""One of a declared list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue, type_name
from hubbub.protocol.history import History, history_of_bits, history_of_categories, variance
from hubbub.protocol.noise import kary_noise, prefers_kary, subset_noise
from hubbub.protocol.shape import MAX_BITS, ONE_OF_MANY, Shape


class Choice(Shape, kw_only=True):
    """One of a declared list. Without a declared `absent`, that nothing was recorded is a category of its own."""

    kind = "choice"
    choices: tuple[str, ...]
    absent: str | None = None

    def _broken_rules(self) -> Iterator[str]:
        if not 2 <= len(self.choices) <= MAX_BITS - 1:
            yield f"choices must list from 2 to {MAX_BITS - 1} values, got {len(self.choices)}"
        repeated = sorted(choice for choice, times in Counter(self.choices).items() if times > 1)
        if repeated:
            yield f"choices must all differ, got {', '.join(map(repr, repeated))} more than once"
        if self.absent is not None and self.absent not in self.choices:
            yield f"absent must be one of the choices, got {self.absent!r}"

    @cached_property
    def categories(self) -> int:
        return len(self.choices) + (self.absent is None)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        return self.choices if self.absent is not None else (*self.choices, "or nothing was recorded")

    @cached_property
    def num_masks(self) -> int:
        return self.categories

    @cached_property
    def flips(self) -> Flips:
        return ONE_OF_MANY

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each choice stands in the list: found at once, however long it is."""
        return {choice: i for i, choice in enumerate(self.choices)}

    def width(self, cohort: int) -> int:
        return self.categories

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        return Encoded(1 << self._category(value))

    def _category(self, value: Any) -> int:
        if value is ABSENT:
            return len(self.choices) if self.absent is None else self.places[self.absent]
        place = self.places.get(value) if isinstance(value, str) else None
        if place is None:
            raise WrongValue(
                f"must be one of the {len(self.choices)} declared choices, got an undeclared {type_name(value)}"
            )
        return place

    def question(self) -> str:
        shown = ", ".join(self.choices[:6]) + (", ..." if len(self.choices) > 6 else "")
        return f"one of {len(self.choices)} choices ({shown})"

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        # A subset that is shown again would tell installs apart: never for an answer that is repeated.
        subsets = subset_noise(epsilon_one_report, self.categories) if once else None
        if subsets is not None:
            return subsets
        if prefers_kary(epsilon_one_report, self.categories):
            return kary_noise(epsilon_one_report, epsilon_permanent, self.categories)
        return super().best_noise(epsilon_one_report, epsilon_permanent)

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        share = Fraction(1, self.categories)
        found = (
            history_of_categories(epsilon, hold, answers, self.categories),
            history_of_bits(epsilon, hold, answers, share),
        )
        return min(found, key=lambda history: variance(history, share))
