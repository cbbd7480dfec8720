"""Do the levels of a search agree? Installs are divided over them by chance, so all are asked about the same people.

What goes on from a beginning cannot be more common than the beginning, and a text that has ended is asked for alike at
every level below. Whoever makes reports up for one level alone is noticed by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.prefix_search import Beginnings
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.printed import plain_percent

_CANNOT_BE = 6.0
"""Standard errors of a difference."""
_SURE = 0.001
"""The p-value, corrected for all that were looked at, of the larger of the two shares. Most texts are looked at because
they stand out, and of so many some stand out because their bits are those of others: that is no disagreement."""
_SAID = 3


@dataclass(frozen=True, slots=True)
class LevelShares:
    """Of texts at one level, their standard errors, and the p-values of the tests that nobody has them, corrected."""

    estimate: Array
    std_error: Array
    p_adjusted: Array

    @classmethod
    def of_everybody(cls) -> LevelShares:
        """Every text begins with nothing."""
        return cls(np.ones(1), np.zeros(1), np.zeros(1))

    def joined(self, other: LevelShares) -> LevelShares:
        names = ("estimate", "std_error", "p_adjusted")
        return LevelShares(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def of(self, rows: Index | Mask) -> LevelShares:
        return LevelShares(self.estimate[rows], self.std_error[rows], self.p_adjusted[rows])

    def surely_above(self, other: LevelShares) -> Mask:
        with np.errstate(invalid="ignore"):  # what cannot be estimated has no finite error
            more = self.estimate - other.estimate > _CANNOT_BE * np.hypot(self.std_error, other.std_error)
        return more & (self.p_adjusted <= _SURE)


def disagreeing_levels(
    known: Beginnings, above: LevelShares, texts: Beginnings, here: LevelShares, parent: Index
) -> Iterator[str]:
    """Texts of a level that are more common than those above which they continue, or, if these had ended, less."""
    before, ended = above.of(parent), known.ended[parent]
    for row in np.flatnonzero(here.surely_above(before) | (ended & before.surely_above(here))).tolist():
        one, other = plain_percent(before.estimate[row], 3), plain_percent(here.estimate[row], 3)
        begins = known.text(int(parent[row]))
        yield (
            f'"{begins}" is held by {one} at one level and by {other} at the next'
            if ended[row]
            else f'"{texts.text(row)}" begins the texts of {other}, and "{begins}" only those of {one}'
        )


def disagreeing_tests(texts: Beginnings, found: LevelShares, tested: Decoding) -> Iterator[str]:
    """Texts that the level which tests holds far more or less common than the last level of the search."""
    answers = {value: row for row, value in enumerate(tested.values) if tested.roles[row] == ANSWER}
    rows = [row for row in np.flatnonzero(texts.ended).tolist() if texts.text(row) in answers]
    place = np.array([answers[texts.text(row)] for row in rows], dtype=np.int64)
    before = found.of(np.array(rows, dtype=np.int64))
    now = LevelShares(tested.estimate, tested.std_error, np.nan_to_num(tested.p_adjusted, nan=1.0)).of(place)
    for i in np.flatnonzero(now.surely_above(before) | before.surely_above(now)).tolist():
        one, other = plain_percent(before.estimate[i], 3), plain_percent(now.estimate[i], 3)
        yield f'"{texts.text(rows[i])}" is held by {one} where it was found, and by {other} where it was tested'


def in_short(disagreements: Sequence[str]) -> tuple[str, ...]:
    """As one note, or none."""
    if not disagreements:
        return ()
    more = len(disagreements) - _SAID
    said = "; ".join(disagreements[:_SAID]) + (f"; and {more} more" if more > 0 else "")
    return (
        f"Levels disagree by more than chance: {said}. Installs are divided over levels at random, so reports of some "
        "levels were made up, or lost, or some clients are broken.",
    )
