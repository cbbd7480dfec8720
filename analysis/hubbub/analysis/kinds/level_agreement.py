"""Do the levels of a search agree? Installs are divided over them by chance, so all are asked about the same people.

What goes on from a beginning cannot be more common than the beginning, and a text that has ended is asked for alike at
every level below. Whoever makes reports up for one level alone is noticed by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.prefix_search import Beginnings
from hubbub.analysis.result import ANSWER, Decoding

_CANNOT_BE = 6.0
"""Standard errors of a difference: of a thousand honest ones, one is beyond in a million searches. A text is looked at
because it stands out at one of the two levels, which is worth some of these."""
_SAID = 3


@dataclass(frozen=True, slots=True)
class Shares:
    """Of texts at one level, and their standard errors."""

    estimate: Array
    std_error: Array

    def joined(self, other: Shares) -> Shares:
        return Shares(
            np.concatenate([self.estimate, other.estimate]), np.concatenate([self.std_error, other.std_error])
        )


def disagreeing_levels(
    known: Beginnings, above: Shares, texts: Beginnings, here: Shares, parent: Index
) -> Iterator[str]:
    """Texts of a level that are more common than those above which they continue, or, if these had ended, less."""
    risen = here.estimate - above.estimate[parent]
    error = np.hypot(here.std_error, above.std_error[parent])
    ended = known.ended[parent]
    with np.errstate(invalid="ignore"):  # what cannot be estimated has no finite error
        beyond = (risen > _CANNOT_BE * error) | (ended & (-risen > _CANNOT_BE * error))
    for row in np.flatnonzero(beyond).tolist():
        one, other = _percent(above.estimate[parent[row]]), _percent(here.estimate[row])
        begins = known.text(int(parent[row]))
        yield (
            f'"{begins}" is held by {one} at one level and by {other} at the next'
            if ended[row]
            else f'"{texts.text(row)}" begins the texts of {other}, and "{begins}" only those of {one}'
        )


def disagreeing_tests(found: Mapping[str, tuple[float, float]], tested: Decoding) -> Iterator[str]:
    """Texts that the level which tests holds far more or less common than the last level of the search."""
    for row, (text, role) in enumerate(zip(tested.values, tested.roles, strict=True)):
        if role != ANSWER or text not in found:
            continue
        share, error = found[text]
        if abs(tested.estimate[row] - share) > _CANNOT_BE * np.hypot(error, tested.std_error[row]):
            one, other = _percent(share), _percent(tested.estimate[row])
            yield f'"{text}" is held by {one} where it was found, and by {other} where it was tested'


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


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
