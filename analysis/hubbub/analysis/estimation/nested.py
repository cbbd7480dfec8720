"""Which installs sent how many of the reports of several epochs, of which only the numbers of reports are known.

The smaller crowd is taken as part of the larger: an install of the smallest epoch is in all of them, so that installs
differ in how many reports they send by as much as these numbers let them. With phi(k) the logarithm of the moment
generating function of what k reports of one install add to an estimate, that of the estimate is the sum of phi over
installs. Given its answer and its memo the reports of an install are alike and independent, so that phi is convex
(Lyapunov); and of all ways in which installs can have sent these reports the nested one has the largest sum of a convex
function, because it majorises the others (Gale 1957, Ryser 1957). So it has the largest variance and the heaviest
tails, and crowds that are disjoint have the smallest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hubbub.analysis.arrays import Array

_MOST = 12  # numbers of reports that are told apart: of every answer a law takes time for each
_ALIKE = 0.002  # the part of the sum of squares, and so of a variance, that may be added by telling fewer apart


class Part(NamedTuple):
    """So many installs that sent so many reports each."""

    installs: float
    reports: float


def nested(reports: Array) -> tuple[Part, ...]:
    """Of the reports of each epoch; those who sent most come first.

    Where many numbers of reports are met, installs with one that is not told apart are put on the two nearest that are,
    in such parts that neither installs nor reports become more or fewer. As phi is convex that makes tails heavier,
    never lighter.
    """
    seen = np.sort(reports[reports > 0])[::-1]
    installs = seen - np.append(seen[1:], 0.0)
    sent = np.arange(1.0, len(seen) + 1)[installs > 0]
    installs = installs[installs > 0]
    kept = _told_apart(sent, installs)
    below, above = _neighbours(sent, kept)
    up = np.divide(sent - below, above - below, out=np.zeros_like(sent), where=above > below)
    put = np.zeros(len(kept))
    np.add.at(put, np.searchsorted(kept, below), installs * (1 - up))
    np.add.at(put, np.searchsorted(kept, above), installs * up)
    return tuple(Part(n, k) for n, k in zip(put[::-1].tolist(), kept[::-1].tolist(), strict=True))


def _told_apart(sent: Array, installs: Array) -> Array:
    """As few of these ascending numbers as will do, both ends among them. What a line between two of them adds to a
    square grows with its length squared, so that they lie as densely as the cube root of installs (Panter, Dite
    1951)."""
    if len(sent) <= 2:
        return sent
    along = np.cumsum(np.cbrt(installs))
    along = (along - along[0]) / (along[-1] - along[0])
    for most in range(2, _MOST + 1):
        kept = sent[np.unique(np.searchsorted(along, np.linspace(0, 1, most)))]
        below, above = _neighbours(sent, kept)
        if installs @ ((sent - below) * (above - sent)) <= _ALIKE * (installs @ sent**2):
            break
    return kept


def _neighbours(numbers: Array, kept: Array) -> tuple[Array, Array]:
    """The nearest of those kept, which ascend, from each number downwards and upwards."""
    return kept[np.searchsorted(kept, numbers, side="right") - 1], kept[np.searchsorted(kept, numbers)]
