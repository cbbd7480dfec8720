"""What the formulas predict: the error of a metric's estimates before anything is drawn, and the bound nobody beats.

The planner's variances are of one epoch. Pooling T epochs of the same installs divides the instantaneous noise by T and
leaves the permanent noise and the sampling of cohorts as they are (docs/estimation.md).
"""

from __future__ import annotations

from math import exp, sqrt

from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.analysis.kinds.variances import tree_gain
from hubbub.analysis.planning.plan import unit_variance
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.metric import Definition


def predicted_error(metric: Definition, share: float, installs: float, epochs: int = 1, strings: int = 0) -> float:
    """The standard error of an answer that this share of the installs holds; of a mean, as a share of its range.

    `strings` are fitted together. For a `range` the answer is a leaf.
    """
    one = unit_variance(metric.shape, metric.noise, share, strings)
    floor, slope = TwoStageNoise.of(metric.noise).instantaneous
    scale, behind = _seen_through(metric, share, strings)
    return sqrt((one - (1 - 1 / epochs) * scale * (floor + slope * behind)) / installs)


def _seen_through(metric: Definition, share: float, strings: int) -> tuple[float, float]:
    """How much of one bit's variance an answer has, and the share of installs whose mask has that bit."""
    match metric.shape:
        case String() as shape:
            hashes, bits = (shape.num_hashes, shape.num_bits) if shape.num_bits > 1 else (1, 2)
            background = hashes / bits
            scale = 1 / (hashes * (1 - background) ** 2 * (1 - strings / (shape.num_bits * shape.num_cohorts)))
            return scale, share + (1 - share) * background
        case Histogram() as shape:
            return shape.num_buckets / shape.buckets_per_report, share
        case Range() as shape:
            return shape.num_levels * tree_gain(shape.branching, shape.num_levels), share
        case Mean():
            return 1.0, 0.5
    return 1.0, share


def bound(metric: Definition, installs: float, epochs: int = 1) -> float:
    """The least standard error of any mechanism that tells as much of each install: the epsilon of so many reports.

    For d answers: total squared error of subset selection, which attains the bound of local privacy (Ye, Barg 2018),
    shared out over the answers; for strings, whose number is not limited, its limit 4E/(E - 1)^2; for a yes or no
    E/(E - 1)^2 (Warner 1965); for a mean the one-bit mechanism's, as a share of the range (Ding, Kulkarni, Yekhanin
    2017).
    """
    e = exp(float(metric.epsilon_after(epochs)))
    match metric.shape:
        case Flag():
            unit = e / (e - 1) ** 2
        case Mean():
            unit = ((e + 1) / (e - 1)) ** 2 / 4
        case String():
            unit = 4 * e / (e - 1) ** 2
        case Choice() as shape:
            unit = _subset_selection(shape.categories, e)
        case Histogram() as shape:
            unit = _subset_selection(shape.num_buckets, e)
        case Range() as shape:
            unit = _subset_selection(shape.num_leaves, e)
    return sqrt(unit / installs)


def _subset_selection(answers: int, e: float) -> float:
    """n times the mean squared error of one of d answers, at the best size w of the subset."""
    d = answers
    total = min(
        (d - 1) ** 2 * (w * e + d - w) ** 2 / (d * w * (d - w) * (e - 1) ** 2) for w in range(1, max(2, d // 2 + 1))
    )
    # Of a sample from a population whose answers are all alike; the sampling is no error about those who reported.
    return (total - (1 - 1 / d)) / d
