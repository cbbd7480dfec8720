"""Any text, by its beginnings: what many installs share can be found, though nobody listed it.

Installs are divided by chance over levels, each for life. One of level l is asked for the first l steps of its text,
hashed; those of the last level for the whole of it. A search walks down the levels, and what it finds is tested on
installs of the last level, which had no part in finding it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from math import ceil, floor, log10, sqrt
from typing import Any

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded, text
from hubbub.protocol.invalid import brief
from hubbub.protocol.shape import MAX_BITS, MAX_CELLS, Shape
from hubbub.protocol.value import cached_property

SYMBOLS = {"host": 40, "ascii": 95, "bytes": 256}
LONGEST = 64
MOST_CONTINUATIONS = 65_536
MOST_GROUPS = 1024
_NEEDED = 4.5
"""Standard errors above nothing at which a text outlasts a level's search in nine of ten cases."""


class Discovery(Shape, kw_only=True):
    """A text of up to `max_length` bytes out of an alphabet, asked `step` bytes further at each level. At every level
    `num_groups` groups of installs hash it to one of `num_bits` positions, each group in its own way."""

    kind = "string"
    open_list = True
    discovers = True
    discover: bool
    alphabet: str
    max_length: int
    lowercase: bool = False
    step: int = 2
    num_bits: int = 128
    num_groups: int = 16

    def _broken_rules(self) -> Iterator[str]:
        if not self.discover:
            yield "discover must be true, or left out for a string that is looked for in lists, got false"
        if self.alphabet not in SYMBOLS:
            yield f"alphabet must be one of {', '.join(SYMBOLS)}, got {brief(self.alphabet)}"
        if not 1 <= self.max_length <= LONGEST:
            yield f"max_length must be in [1, {LONGEST}], got {self.max_length}"
        if not 1 <= self.step <= 16 or SYMBOLS.get(self.alphabet, 1) ** self.step > MOST_CONTINUATIONS:
            yield (
                f"step must be at least 1, and the alphabet's {SYMBOLS.get(self.alphabet, 1)} symbols to this power at "
                f"most {MOST_CONTINUATIONS}, got {self.step}"
            )
        if not 2 <= self.num_bits <= MAX_BITS:
            yield f"num_bits must be in [2, {MAX_BITS}], got {self.num_bits}"
        if not 2 <= self.num_groups <= MOST_GROUPS:
            yield f"num_groups must be in [2, {MOST_GROUPS}], got {self.num_groups}"
        elif self.step >= 1 and self.num_cohorts * self.num_bits > MAX_CELLS:
            yield (
                f"num_bits x num_groups x levels must be at most {MAX_CELLS}, "
                f"got {self.num_bits} x {self.num_groups} x {self.num_levels}"
            )

    @cached_property
    def form(self) -> str:
        return "discovery"

    @cached_property
    def num_levels(self) -> int:
        """As many as there are steps, and one more, whose installs test what was found."""
        return ceil(self.max_length / self.step) + 1

    @cached_property
    def num_cohorts(self) -> int:
        return self.num_levels * self.num_groups

    @cached_property
    def asks_part(self) -> bool:
        return True

    @cached_property
    def num_masks(self) -> int:
        return self.num_bits + 1  # and the empty one

    @cached_property
    def flips(self) -> Flips:
        return ((1, 1), (1, 0), (0, 1))

    def width(self, cohort: int) -> int:
        return self.num_bits

    def reach(self, level: int) -> int:
        """How many bytes a level asks for; the first one is level 0."""
        return min((level + 1) * self.step, self.max_length)

    def ends(self, length: int, reach: int) -> bool:
        """Whether it is told that a text ends: it is shorter than asked for, or as long as any text is asked for."""
        return length < reach or length == reach == self.max_length

    def asked(self, symbols: bytes, cohort: int) -> list[int]:
        """The part of a text that an install of this cohort is asked for, with END where it is told."""
        from hubbub.protocol.prefixes import END

        reach = self.reach(cohort // self.num_groups)
        return [*symbols[:reach], END] if self.ends(len(symbols), reach) else list(symbols[:reach])

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        """A longer text is cut, and counted as clamped: it becomes known by its beginning alone."""
        if value is ABSENT:
            return Encoded(0)
        from hubbub.protocol.prefixes import position, state_of  # an app that records nothing needs no hash

        symbols = self.symbols(value)
        state = state_of(self.asked(symbols, cohort))
        return Encoded(1 << position(state, cohort, self.num_bits), len(symbols) > self.max_length)

    def symbols(self, value: Any) -> bytes:
        """The bytes of a text as it is hashed. Raises `WrongValue`."""
        from hubbub.protocol.prefixes import symbols

        return symbols(text(value), self.alphabet, self.lowercase)

    def kept(self, value: Any, cohort: int) -> Any:
        """No more than the asked beginning, in whole characters; one more where it matters that the text goes on."""
        if value is ABSENT:
            return value
        reach = self.reach(cohort // self.num_groups)
        least = reach + (reach == self.max_length)
        plain = self.symbols(value).decode("utf-8")
        while len(plain[:-1].encode("utf-8")) >= least:
            plain = plain[:-1]
        return plain

    def shared_by(self, noise: Noise, installs: int) -> int:
        """How many of `installs` must share a text for it to be found with all reports ever sent, in nine of ten
        cases, to two digits. Reports of more and more epochs leave the noise that is kept, whatever their number until
        a metric expires; of few epochs it takes more. With `hold` each of a few answers has noise of its own.

        A level has one part of the installs in `num_levels`; a share there has the variance of one kept bit over them,
        and (1 - 1/num_bits)**-2 is the price of few positions.
        """
        high, low = (float(probability) for probability in noise.permanent.probabilities)
        variance = self.num_levels * low * (1 - low) / ((high - low) * (1 - 1 / self.num_bits)) ** 2
        answers = noise.history.answers if noise.history is not None else 1
        found = max(_NEEDED * sqrt(variance * installs / answers), 10)
        unit = int(10 ** (floor(log10(found)) - 1))
        return ceil(found / unit) * unit

    def discoverable(self, noise: Noise, installs: int, until: date) -> str:
        return (
            f"There is no fixed list of answers: among {installs:,} installs, any text shared by about "
            f"{self.shared_by(noise, installs):,} or more can be discovered from all messages until {until}. Someone "
            "who guesses your text can test the guess, as with every answer."
        )

    def port_facts(self) -> dict[str, Any]:
        return self.plain_fields()

    def in_short(self) -> str:
        return "text, without a list"

    def question(self) -> str:
        return f"a text, of which a scrambled trace of a beginning of up to {self.max_length} bytes is sent"
