"""Whether two samples of tallies come from one law: verdicts with a stated price, and their power.

A sample is a matrix, one row for each tally, one column for each count. `assert_same_law` compares every column's whole
distribution (chi-square of homogeneity over the values it takes, Bonferroni over columns), so that a wrong variance
shows as a wrong mean does; sums over epochs are columns too, and show whether epochs share their memos.
`assert_from_law` holds a few costly tallies against many cheap ones by Hotelling's T-squared, which knows the
covariance of all counts.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2, chi2_contingency, f, ncx2, norm

FALSE_ALARM = 1e-6
SMALLEST_EXPECTED = 20
CELLS = 8


def columns_of(tallies) -> np.ndarray:
    """Reports and counts of every epoch and cohort, then their sums over epochs. All tallies have the same epochs."""
    rows = []
    for tally in tallies:
        epochs = np.array([[x for c in e.bit_counts for x in c] + list(e.num_reports) for e in tally.epochs.values()])
        rows.append(np.concatenate([epochs.ravel(), epochs.sum(axis=0)]))
    return np.array(rows, dtype=np.int64)


def same_law(a: np.ndarray, b: np.ndarray) -> float:
    """The probability, if both samples come from one law, of columns that differ as much or more."""
    chances = [_homogeneous(x, y) for x, y in zip(a.T, b.T, strict=True)]
    return min(1.0, min(chances) * len(chances))


def assert_same_law(a: np.ndarray, b: np.ndarray, false_alarm: float = FALSE_ALARM) -> None:
    chance = same_law(a, b)
    assert chance > false_alarm, (
        f"so different have probability {chance:.3g} under one law, false_alarm {false_alarm:g}"
    )


def _homogeneous(x: np.ndarray, y: np.ndarray) -> float:
    both = np.concatenate([x, y])
    edges = np.unique(np.quantile(both, np.arange(1, CELLS) / CELLS, method="inverted_cdf"))
    table = np.stack([np.bincount(np.searchsorted(edges, s), minlength=len(edges) + 1) for s in (x, y)])
    table = table[:, table.sum(axis=0) >= 2 * SMALLEST_EXPECTED]
    return float(chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0


def power_against_spread(size: int, ratio: float, columns: int, false_alarm: float = FALSE_ALARM) -> float:
    """How likely `assert_same_law` of two samples of this size fails if a column's deviation is off by this ratio.

    The column is taken as normal, cut into equally likely cells; the statistic is noncentral chi-square in the limit.
    """
    edges = norm.ppf(np.arange(1, CELLS) / CELLS)
    p, q = (np.diff(norm.cdf(np.concatenate([[-np.inf], edges / s, [np.inf]]))) for s in (1.0, ratio))
    excess = size / 2 * float(np.sum((p - q) ** 2 / ((p + q) / 2)))
    return float(ncx2.sf(chi2.isf(false_alarm / columns, CELLS - 1), CELLS - 1, excess))


def from_law(few: np.ndarray, many: np.ndarray) -> float:
    """The probability, if a few tallies have the law of many, of a mean as far from theirs or farther."""
    centre, size = many.mean(axis=0), len(many)
    values, vectors = np.linalg.eigh(np.cov(many.T))
    kept = values > 1e-9 * values.max()
    there = (few.mean(axis=0) - centre) @ vectors[:, kept] / np.sqrt(values[kept])
    # Directions without any variance must agree exactly.
    if np.abs((few - centre) @ vectors[:, ~kept]).max(initial=0) > 1e-6 * max(1.0, float(np.abs(centre).max())):
        return 0.0
    dimensions = int(kept.sum())
    statistic = float(there @ there) / (1 / len(few) + 1 / size)
    return float(f.sf(statistic * (size - dimensions) / (dimensions * (size - 1)), dimensions, size - dimensions))


def assert_from_law(few: np.ndarray, many: np.ndarray, false_alarm: float = FALSE_ALARM) -> None:
    chance = from_law(few, many)
    assert chance > false_alarm, f"so far off has probability {chance:.3g} under the law, false_alarm {false_alarm:g}"
