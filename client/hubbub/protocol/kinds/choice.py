"""One of a declared list."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue, type_name
from hubbub.protocol.noise import category_noise
from hubbub.protocol.shape import MAX_BITS, ONE_OF_MANY, ListShape
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.history import History


class Choice(ListShape, kw_only=True):
    """One of a declared list. Without a declared `absent`, that nothing was recorded is a category of its own."""

    kind = "choice"
    choices: tuple[str, ...]
    absent: str | None = None

    def _broken_rules(self) -> Iterator[str]:
        yield from self.broken_list("choices", MAX_BITS - 1)
        if self.absent is not None and self.absent not in self.choices:
            yield f"absent must be one of the choices, got {self.absent!r}"

    @cached_property
    def declared(self) -> tuple[str, ...]:
        return self.choices

    @cached_property
    def categories(self) -> int:
        return self.num_places + (self.absent is None)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        return self.listed if self.absent is not None else (*self.listed, "or nothing was recorded")

    @cached_property
    def silence_is_an_answer(self) -> bool:
        return self.absent is None

    @cached_property
    def num_masks(self) -> int:
        return self.categories

    @cached_property
    def flips(self) -> Flips:
        return ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return self.categories

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        return Encoded(1 << self._category(value))

    def _category(self, value: Any) -> int:
        if value is ABSENT:
            return self.num_places if self.absent is None else self.places[self.absent]
        place = self.places.get(value) if isinstance(value, str) else None
        if place is None:
            raise WrongValue(
                f"must be one of the {len(self.listed)} declared choices, got an undeclared {type_name(value)}"
            )
        return place

    def port_facts(self) -> dict[str, Any] | None:
        return None if self.reserve else {"choices": list(self.choices), "absent": self.absent}

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        return () if self.reserve else self.choices  # names that come later would be in the hash of a cross

    def told_as(self, value: Any, dither: int) -> int:
        return self._category(value)

    def in_short(self) -> str:
        return f"choice of {len(self.listed)}"

    def question(self) -> str:
        shown = ", ".join(self.listed[:6]) + (", ..." if len(self.listed) > 6 else "")
        return f"one of {len(self.listed)} choices ({shown})"

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        return category_noise(epsilon_one_report, epsilon_permanent, self.categories, once)

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        from hubbub.protocol.history import category_history  # here, because few registries have one

        return category_history(epsilon, hold, answers, self.categories)
