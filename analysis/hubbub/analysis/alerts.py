"""Alerts: what changed, looked at again and again, with one promise for a whole year of looks.

A test at 5 % that is made every day gives a false alert about every twenty days. Here the 5 % are those of a calendar
year: they are shared out evenly over all its looks and over all rows that are tested, so that

    P(any false alert in a year) <= sum over rows and looks of alpha / (rows x looks) = alpha

by Boole's inequality, however the looks depend on each other: they share a baseline, and often installs. It is the
simplest alpha spending (Lan, DeMets 1983): no look needs to know which others were made, none is sharper than another,
and a look left out costs nothing. A metric is looked at once for each epoch it has in a year, unless said otherwise; a
look at the same counts again is the same look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.comparison import Comparison

LOOKS_A_YEAR = {"day": 366, "week": 53, "month": 12, "once": 12}
"""The most epochs that end in one calendar year."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A row that changed: more than any noise of a year would make it seem."""

    comparison: Comparison  # where it is from
    row: int  # which row of it
    level: float  # the p-value from which down it counts


def alerts(comparisons: Sequence[Comparison], looks: Mapping[str, int]) -> list[Alert]:
    """The rows that changed. `looks` says for each metric how often in a year it is compared so; with probability
    `confidence` no alert of a year is false."""
    levels = alert_levels(comparisons, looks)
    found = []
    for comparison in comparisons:
        level = levels[comparison.after.metric]
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(comparison.p_value <= level)
        found += [Alert(comparison=comparison, row=int(row), level=level) for row in rows]
    return found


def alert_levels(comparisons: Sequence[Comparison], looks: Mapping[str, int]) -> dict[str, float]:
    """For each metric, the p-value from which down a row is an alert."""
    tests = max(1, sum(int(np.isfinite(comparison.p_value).sum()) for comparison in comparisons))
    return {
        comparison.after.metric: (1 - comparison.after.confidence) / (tests * looks[comparison.after.metric])
        for comparison in comparisons
    }
