"""How much does a tree help when ranges are asked about, rather than single values?

Source: Hay, Rastogi, Miklau, Suciu 2010 (consistency by least squares over a tree); Cormode, Kulkarni, Srivastava
2019 (Answering Range Queries Under Local Differential Privacy, arXiv 1812.10942: each person reports one level;
branching about 4 or 5 with consistency, and trees beat flat histograms for all but short ranges).

Setting: 4,096 cells, epsilon 1/2, a million people with a skewed distribution. Flat: everyone reports their cell
through the same bits (optimised unary encoding). Tree: hubbub's `range` with branching 4, six levels, one of them for
each person; ranges are summed once from the fewest nodes as they were counted, once after least squares, as `decode`
does.

Expected, and why, in units of the variance v of one flat cell, averaged over all ranges. Flat: a range adds up its
cells, (4096 + 2)/3 = 1,366 on average. Nodes: 14.7 on average, each with 6 v because only a sixth of the people
report a level: 88. Least squares: a contrast within the families of level j is told by all levels from j down, with
precision (1 + 1/4 + 1/16 + ...)/(6 v), and the total is known; projecting all ranges on all contrasts gives 26.7.
Chance who reports which level and the larger variance of well-filled nodes add at most a few per cent, worked out
below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from scipy import stats

from hubbub.analysis import decode
from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.protocol.kinds import Range
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import many_bit_noise
from hubbub.protocol.printed import fixed_percent
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, GREEN, ORANGE, lines_and_points, one, whole

BRANCHING = 4
EPSILON = Fraction(1, 2)
FLAT, NODES, TREE = "flat histogram", "tree, as counted", "tree, least squares"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    levels: int = 6
    installs: int = 1_000_000
    repeats: int = 200
    asked: int = 1_000
    """Ranges for which nodes are summed as counted; for the others all ranges are."""

    @property
    def cells(self) -> int:
        cells: int = BRANCHING**self.levels
        return cells

    @property
    def metric(self) -> Definition:
        shape = Range(low=Fraction(0), high=Fraction(1), num_leaves=self.cells, branching=BRANCHING)
        return Definition(name="number", every="once", shape=shape, noise=many_bit_noise(EPSILON, EPSILON, 1))

    @property
    def shares(self) -> Array:
        """A skewed distribution over the cells: Beta(2, 5)."""
        return np.diff(stats.beta.cdf(np.linspace(0, 1, self.cells + 1), 2, 5))

    @property
    def cell_variance(self) -> float:
        """Of a flat cell that nobody is in."""
        p, q = (float(x) for x in (self.metric.noise.p_star, self.metric.noise.q_star))
        return p * (1 - p) / (q - p) ** 2 / self.installs

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Fixed ranges, evenly among all of them."""
        ends = np.random.default_rng(0).integers(0, self.cells + 1, (2 * self.asked, 2))
        return [(int(min(a, b)), int(max(a, b))) for a, b in ends if a != b][: self.asked]


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.installs:,}, numbers spread like Beta(2, 5) over {setting.cells:,} cells",
        "metric": f"range, branching 4, {setting.levels} levels, epsilon 1/2, reported once",
        "rival": "a flat histogram of all cells through the same bits at the same epsilon",
        "asked": f"all {setting.cells * (setting.cells + 1) // 2:,} ranges; summed from nodes as counted: "
        f"{setting.asked:,} of them, fixed beforehand",
        "repeats": f"{setting.repeats:,} populations",
    }


# --- theory, in units of the variance of a flat cell ----------------------------------------------------------------


def contrast_variances(levels: int) -> list[float]:
    """Of a unit contrast at each level, least squares: levels i >= j see it B**(L-i) times, each with 1/L of people."""
    seen = [sum(BRANCHING ** (levels - i) for i in range(j, levels + 1)) for j in range(1, levels + 1)]
    return [levels / times for times in seen]


def nodes_of(low: int, high: int, cells: int) -> list[tuple[int, int]]:
    """The fewest nodes (level, number) that make up the cells [low, high)."""
    found, level, width = [], 0, cells
    left = [(low, high)]
    while left:
        level, width = level + 1, width // BRANCHING
        rest = []
        for a, b in left:
            first, last = -(-a // width), b // width
            if first < last:
                found += [(level, node) for node in range(first, last)]
                rest += [(a, first * width), (last * width, b)]
            else:
                rest.append((a, b))
        left = [(a, b) for a, b in rest if a < b]
    return found


@cache
def theory(setting: Setting) -> tuple[dict[str, float], dict[str, float]]:
    """The mean squared error of all ranges, and how many independent errors one population is worth, for each way."""
    cells, levels = setting.cells, setting.levels
    # How often two cells lie in one range, over all ranges; the mean square of any estimate is a trace with it.
    start = np.arange(cells, dtype=np.float32)
    together = np.minimum.outer(start + 1, start + 1) * np.minimum.outer(cells - start, cells - start)
    together /= np.float32(cells * (cells + 1) / 2)
    settled = _spread(together, contrast_variances(levels))
    common = _common_nodes(setting)
    mean = {
        FLAT: float(np.trace(together, dtype=np.float64)),
        NODES: levels * float(np.mean(np.diag(common))),
        TREE: float(np.trace(settled, dtype=np.float64)),
    }
    square = {
        FLAT: float(np.sum(together**2, dtype=np.float64)),
        NODES: levels**2 * float(np.mean(common**2)),
        TREE: float(np.sum(settled * settled.T, dtype=np.float64)),
    }
    # Of a skewed distribution the shares of those who answered also feel the total, by what a range differs from even.
    uneven = np.concatenate([[0.0], np.cumsum(setting.shares - 1 / cells)])
    total = levels / sum(BRANCHING ** (levels - i) for i in range(1, levels + 1))
    mean[TREE] += _mean_square(uneven) * cells * total
    return mean, {how: mean[how] ** 2 / square[how] for how in mean}


def predict(setting: Setting) -> Mapping[str, Prediction]:
    mean, degrees = theory(setting)
    found = {}
    for how in (FLAT, NODES, TREE):
        more = 1.0 if how == FLAT else 1 + _fuller(setting)
        low, high = bounds.mean_square(mean[how], setting.repeats * degrees[how], mean[how] * more)
        found[how] = Prediction(
            what=f"mean squared error of a range, {how}",
            low=low,
            high=high,
            why=f"theory {mean[how]:.4g} cell variances"
            + ("" if how == FLAT else f", up to {fixed_percent(more - 1, 0)} more for filled nodes")
            + "; chi-square, worth as many errors as the quadratic form has",
            false_alarm=FALSE_ALARM,
            form=",.4g",
        )
    return found


def _spread(together: object, variances: list[float]) -> Array:
    """Covariance of the leaves times `together`: contrasts of a level are block averages less those of the level above.

    The total's variance is zero: shares of those who answered add up to one.
    """
    matrix = np.asarray(together)
    cells, levels = len(matrix), len(variances)
    steps = np.diff([0.0, *variances, 0.0])  # from level to level; block averages of level j enter with -steps[j]
    result = np.zeros_like(matrix)
    for j in range(levels + 1):
        width = cells // BRANCHING**j
        blocks = matrix.reshape(cells // width, width, cells).mean(axis=1)
        result += np.float32(-steps[j]) * np.repeat(blocks, width, axis=0)
    return result


def _common_nodes(setting: Setting) -> Array:
    """How many nodes two of the fixed ranges share; on the diagonal, how many each has."""
    sets = np.zeros((len(setting.ranges), sum(BRANCHING**j for j in range(setting.levels + 1))), dtype=np.float32)
    for row, (low, high) in zip(sets, setting.ranges, strict=True):
        for level, node in nodes_of(low, high, setting.cells):
            row[sum(BRANCHING**j for j in range(level)) + node] = 1
    return np.asarray(sets @ sets.T, dtype=np.float64)


def _fuller(setting: Setting) -> float:
    """By how much the fullest node's variance exceeds that of an empty one: its own noise, and who reports its "
    "level."""
    p, q = (float(x) for x in (setting.metric.noise.p_star, setting.metric.noise.q_star))
    share = float(setting.shares.reshape(BRANCHING, -1).sum(axis=1).max())
    floor, levels = p * (1 - p) / (q - p) ** 2, setting.levels
    more = levels * share * (1 - p - q) / (q - p) + share * (1 - share) * (levels - 1)
    return more / (levels * floor)


def _mean_square(prefix: Array) -> float:
    """The mean over all ranges of the squared difference of two prefix sums."""
    ends = len(prefix)
    return float((ends * np.sum(prefix**2) - np.sum(prefix) ** 2) / (ends * (ends - 1) / 2))


# --- the run ----------------------------------------------------------------------------------------------------------


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    metric, n, v = setting.metric, setting.installs, setting.cell_variance
    asked = [(low, high, nodes_of(low, high, setting.cells)) for low, high in setting.ranges]
    lengths = [BRANCHING**j * 2 for j in range(setting.levels)]
    fixed = {r: [(a, a + r, nodes_of(a, a + r, setting.cells)) for a in _starts(setting, r)] for r in lengths}
    squares = dict.fromkeys((FLAT, NODES, TREE), 0.0)
    by_length = {(how, r): 0.0 for how in squares for r in lengths}
    for repeat in range(setting.repeats):
        counts = rng.multinomial(n, setting.shares)
        truth = np.concatenate([[0.0], np.cumsum(counts / n)])
        by_cohort = assign_cohorts(counts, metric.shape.num_cohorts, rng)
        tree = decode(sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort), rng)).distribution
        assert tree is not None
        errors = {
            FLAT: np.concatenate([[0.0], np.cumsum(_flat(metric, counts, rng))]) - truth,
            TREE: np.concatenate([[0.0], np.cumsum(tree.leaves / tree.total)]) - truth,
        }
        for how, error in errors.items():
            squares[how] += _mean_square(error) / (v * setting.repeats)
            for r in lengths:
                by_length[how, r] += float(np.mean((error[r:] - error[:-r]) ** 2)) / (v * setting.repeats)
        squares[NODES] += _counted(asked, tree.levels.shares, truth) / (v * setting.repeats)
        for r in lengths:
            by_length[NODES, r] += _counted(fixed[r], tree.levels.shares, truth) / (v * setting.repeats)
        progress(repeat / setting.repeats)
    overall, of_length = theory(setting)[0], _by_length(setting, lengths)
    return StudyOutput(
        figures=squares,
        columns=("cells in the range", *(f"{how}: {w}" for how in squares for w in ("theory", "found"))),
        rows=(
            *tuple(
                (f"{r:,}", *(f"{x:,.4g}" for how in squares for x in (of_length[how, r], by_length[how, r])))
                for r in lengths
            ),
            ("all ranges", *(x for how in squares for x in (f"{overall[how]:,.4g}", f"{squares[how]:,.4g}"))),
        ),
        chart=_picture(of_length, by_length, lengths),
        caption="Mean squared error of a range by its length, in units of the variance of one flat cell. Lines: "
        "theory. Points: what was found.",
        meaning=(
            f"Over all ranges the tree is {squares[FLAT] / squares[TREE]:.0f} times more accurate than the flat "
            "histogram with the same people and the same epsilon. A flat histogram adds up the noise of every cell "
            "in a range; a tree covers any range with a few nodes.",
            f"Least squares takes another factor of {squares[NODES] / squares[TREE]:.1f} off for nothing: parents "
            "must be the sum of their children, and what one level knows corrects the others. Only for ranges of a "
            "few cells is the flat histogram better, because there the tree spends most of its people on levels "
            "that do not help.",
        ),
        published=_published(setting, squares, _crossing(of_length, lengths)),
    )


def _published(setting: Setting, squares: Mapping[str, float], crossing: int) -> tuple[Published, ...]:
    return (
        Published(
            what="flat / nodes / least squares, in cell variances",
            theirs="1,366 / 88 / 26.7 by the formulas of both papers, for 4,096 cells",
            ours=f"{squares[FLAT]:,.0f} / {squares[NODES]:.0f} / {squares[TREE]:.1f} for {setting.cells:,} cells",
            why="agrees within what the number of repeats allows; the nodes are those of the ranges asked",
        ),
        Published(
            what="where the tree begins to win",
            theirs="for all but short ranges",
            ours=f"from about {crossing:,} cells on",
            why="agrees; a single cell costs the tree about its number of levels",
        ),
    )


def _flat(metric: Definition, counts: object, rng: np.random.Generator) -> Array:
    """The rival: everyone's cell through one bit channel per cell, the same channel as the tree's."""
    held = np.asarray(counts)
    n, p, q = int(held.sum()), float(metric.noise.p_star), float(metric.noise.q_star)
    ones = rng.binomial(held, q) + rng.binomial(n - held, p)
    return np.asarray((ones / n - p) / (q - p))


def _counted(asked: list[tuple[int, int, list[tuple[int, int]]]], shares: tuple[Array, ...], truth: Array) -> float:
    """The mean squared error of these ranges, summed from nodes as they were counted."""
    errors = [
        sum(float(shares[level - 1][node]) for level, node in nodes) - truth[high] + truth[low]
        for low, high, nodes in asked
    ]
    return float(np.mean(np.square(errors)))


def _starts(setting: Setting, length: int) -> list[int]:
    return [int(start) for start in np.unique(np.linspace(0, setting.cells - length, 60).astype(int))]


def _by_length(setting: Setting, lengths: list[int]) -> dict[tuple[str, int], float]:
    found = {}
    variances = contrast_variances(setting.levels)
    for r in lengths:
        starts = np.unique(np.linspace(0, setting.cells - r, 400).astype(int))
        norms = []
        for j in range(setting.levels + 1):
            width = setting.cells // BRANCHING**j
            blocks = np.arange(0, setting.cells, width)
            overlap = np.clip(np.minimum.outer(starts + r, blocks + width) - np.maximum.outer(starts, blocks), 0, None)
            norms.append(float(np.mean(np.sum(overlap.astype(float) ** 2, axis=1))) / width)
        found[TREE, r] = float(np.diff(norms) @ variances)
        found[FLAT, r] = float(r)
        nodes = [len(nodes_of(a, a + r, setting.cells)) for a in _starts(setting, r)]
        found[NODES, r] = setting.levels * float(np.mean(nodes))
    return found


def _crossing(expected: Mapping[tuple[str, int], float], lengths: list[int]) -> int:
    return next(r for r in lengths if expected[TREE, r] < expected[FLAT, r])


def _picture(
    expected: Mapping[tuple[str, int], float], found: Mapping[tuple[str, int], float], lengths: list[int]
) -> Plot:
    series = {FLAT: ORANGE, NODES: GREEN, TREE: BLUE}
    lines, points = ({how: [(float(r), of[how, r]) for r in lengths] for how in series} for of in (expected, found))
    x = Scale.logarithmic(lengths, whole, "cells in the range")
    sizes = [size for some in (lines, points) for line in some.values() for _, size in line]
    y = Scale.logarithmic(
        [1, 10, 100, 1000], whole, "squared error, in cell variances", (min(1, *sizes), max(1000, *sizes))
    )
    return one(lines_and_points(lines, points, x, y, series, height=250), series)


EXPERIMENT = Experiment(
    name="range-queries",
    title="Ranges through a tree",
    question="How much does a tree help when ranges are asked about, rather than single values?",
    source="Hay et al. 2010; Cormode, Kulkarni, Srivastava 2019, arXiv 1812.10942",
    full=Setting(),
    quick=Setting(levels=4, installs=200_000, repeats=40, asked=200),
    describe=describe,
    predict=predict,
    run=run,
)
