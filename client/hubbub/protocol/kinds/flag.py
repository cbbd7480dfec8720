"""A yes or a no. Warner's randomized response."""

from __future__ import annotations

from hubbub.protocol.channel import Flips
from hubbub.protocol.encoding import ABSENT, Encoded, boolean
from hubbub.protocol.shape import ONE_BIT, Shape
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Flag(Shape, kw_only=True):
    """A yes or a no; `absent` is the answer of an epoch in which nothing was recorded."""

    kind = "flag"
    accumulations = ("first", "last", "any")
    one_figure = True
    absent: bool = False

    @cached_property
    def num_masks(self) -> int:
        return 2

    @cached_property
    def flips(self) -> Flips:
        return ONE_BIT

    def width(self, cohort: int) -> int:
        return 1

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        return Encoded(int(boolean(self.absent if value is ABSENT else value)))

    @cached_property
    def told_apart(self) -> tuple[str, ...]:
        return "no", "yes"

    def told_as(self, value: Any, dither: int) -> int:
        return self.encode(value, 0).mask

    def typed(self, text: str) -> bool:
        if text.lower() not in ("true", "false", "yes", "no"):
            raise ValueError(f"must be true or false, got {text!r}")
        return text.lower() in ("true", "yes")

    def port_facts(self) -> dict[str, Any]:
        return self.plain_fields()

    def question(self) -> str:
        return "yes or no"

    in_short = question

    def sent(self, q: str, p: str) -> str:
        return f"One bit. Of 100 who would say yes, {q} send yes; of 100 who would say no, {p} send yes all the same."
