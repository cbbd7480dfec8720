"""Any text, hashed. RAPPOR; with one bit, BiLOLOHA's parity."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

from hubbub.protocol.channel import Flips
from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue, text
from hubbub.protocol.shape import MAX_BITS, MAX_CELLS, MAX_COHORTS, ONE_BIT, Shape
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class String(Shape, kw_only=True):
    """Any text, hashed to a few positions that depend on the cohort."""

    kind = "string"
    open_list = True
    num_bits: int
    num_hashes: int
    num_cohorts: int

    def _broken_rules(self) -> Iterator[str]:
        if not 1 <= self.num_bits <= MAX_BITS:
            yield f"num_bits must be in [1, {MAX_BITS}], got {self.num_bits}"
        if not 1 <= self.num_hashes <= min(self.num_bits, 64):
            yield f"num_hashes must be in [1, num_bits={self.num_bits}], and at most 64, got {self.num_hashes}"
        if not 1 <= self.num_cohorts <= MAX_COHORTS or self.num_cohorts & (self.num_cohorts - 1):
            yield f"num_cohorts must be a power of two in [1, {MAX_COHORTS}], got {self.num_cohorts}"
        if self.num_bits * self.num_cohorts > MAX_CELLS:
            yield f"num_bits x num_cohorts must be at most {MAX_CELLS}, got {self.num_bits} x {self.num_cohorts}"

    @cached_property
    def silence_is_an_answer(self) -> bool:
        return True  # no bit of it is set

    @cached_property
    def num_masks(self) -> int:
        return 2 if self.num_bits == 1 else comb(self.num_bits, self.num_hashes) + 1  # and the empty one

    @cached_property
    def flips(self) -> Flips:
        if self.num_bits == 1:
            return ONE_BIT
        moved = min(self.num_hashes, self.num_bits - self.num_hashes)
        return ((moved, moved), (self.num_hashes, 0), (0, self.num_hashes))

    def width(self, cohort: int) -> int:
        return self.num_bits

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        if value is ABSENT:
            return Encoded(0)
        from hubbub.protocol.bloom import string_mask  # here: an app that starts and records nothing needs no hash

        try:
            return Encoded(string_mask(text(value), cohort, self.num_bits, self.num_hashes))
        except UnicodeEncodeError as error:
            raise WrongValue(f"must be valid Unicode, got a lone surrogate at {error.start}") from None

    def port_facts(self) -> dict[str, Any]:
        return self.plain_fields()

    def in_short(self) -> str:
        return "text, from a list"

    def question(self) -> str:
        return "a text, of which only a scrambled trace is sent"
