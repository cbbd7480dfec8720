"""The variance of a table of two answers is what enumeration says, and for k-ary pairs it is the least there can be."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.analysis.estimation.factor_scores import Response, bit_scores, response, with_none
from hubbub.analysis.estimation.joint_intervals import (
    Joint,
    cells_of,
    contrast,
    covariance,
    event_variance,
    rows_of,
    shares_given,
)
from hubbub.analysis.estimation.joint_law import CrossGroup, CrossLaw, Functionals, PairGroup, PairLaw
from hubbub.analysis.kinds.factor import one_bit, one_of, some_or_none
from hubbub.protocol.channel import KaryChannel, Noise, SubsetChannel
from hubbub.protocol.noise import kary_noise, many_bit_noise, one_bit_noise, prefers_kary, subset_noise
from tests.analysis.joint_worlds import choice, drawn, metric, pair_of, table


def one_group(first: Response, second: Response, epochs: int = 1) -> PairLaw:
    """A single install in each of so many epochs: variances are then n Var."""
    counts = np.zeros((1 + first.expected.shape[1], 1 + second.expected.shape[1]))
    counts[0, 0] = epochs
    return PairLaw([PairGroup(counts=counts, sampling=1.0, first=first, second=second)], 1.0)


def joint(law: PairLaw | CrossLaw, shares: Array) -> Joint:
    return Joint(law, shares, shares, 0.0, np.zeros_like(shares))


def unit_variances(law: PairLaw | CrossLaw, shares: Array) -> Array:
    return event_variance(joint(law, shares), cells_of(law.shape)).at(shares.ravel()).reshape(shares.shape)


def kary(epsilon: float, categories: int, kept: float | None = None) -> Response:
    if categories == 2:
        return one_bit(one_bit_noise(Fraction(epsilon), Fraction(epsilon if kept is None else kept)))
    return one_of(kary_noise(Fraction(epsilon), Fraction(epsilon if kept is None else kept), categories), categories)


def category_noise(epsilon: Fraction, categories: int) -> Noise:
    """The better of one category out of so many and a bit for each."""
    if categories == 2:
        return one_bit_noise(epsilon, epsilon)
    return (
        kary_noise(epsilon, epsilon, categories)
        if prefers_kary(epsilon, categories)
        else many_bit_noise(epsilon, epsilon, 1)
    )


def bits(epsilon: float, categories: int) -> Response:
    return one_of(many_bit_noise(Fraction(epsilon), Fraction(epsilon), 1), categories)


# --- the figures of the plan ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "epsilon", "expected"), [(2, 1, "1.956"), (4, 1, "4.572"), (8, 1, "12.35"), (4, 2, "0.308")]
)
def test_a_cell_of_a_pair_has_the_variance_that_was_planned(size: int, epsilon: int, expected: str) -> None:
    """Of a uniform table, in fractions: E[s^2]^2 - J^2, with E[s^2] = V + (1 + V' - V) / k, where V and V' are the
    variances of a score whose category is not, and is, the true one."""
    noise = category_noise(Fraction(epsilon), size)
    q, p = noise.composed.probabilities
    square = (p * (1 - p) + (q * (1 - q) - p * (1 - p)) / size) / (q - p) ** 2 + Fraction(1, size)
    exactly = square**2 - Fraction(1, size**4)
    assert rounded(float(exactly), expected) == expected
    found = unit_variances(one_group(kary(epsilon, size), kary(epsilon, size)), np.full((size, size), 1 / size**2))
    assert found == pytest.approx(float(exactly), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "epsilon", "expected"), [(2, 1, "0.496"), (4, 1, "0.720"), (8, 1, "0.755"), (4, 2, "0.099")]
)
def test_a_cell_of_a_cross_with_both_budgets_is_three_to_sixteen_times_better(
    size: int, epsilon: int, expected: str
) -> None:
    """r (1 - r) / (q - p)^2 with r = p + (q - p) J. Of bits, a part 1/k of the noise that all cells share is taken off
    by scores that add up to one, so that they are a little better than planned."""
    cells, noise = size**2, category_noise(Fraction(2 * epsilon), size**2)
    q, p = noise.composed.probabilities
    r = p + (q - p) / cells
    exactly = r * (1 - r) / (q - p) ** 2
    assert rounded(float(exactly), expected) == expected
    law = CrossLaw(CrossGroup(np.eye(1 + cells)[0], 1.0, one_of(noise, cells)), (size, size))
    shares = np.full((size, size), 1 / cells)
    found = unit_variances(law, shares)
    if isinstance(noise.permanent, KaryChannel):
        assert found == pytest.approx(float(exactly), rel=1e-9)
    else:
        others = p * (1 - p) + (q * (1 - q) - p * (1 - p)) / cells
        sampling = float(exactly - others / (q - p) ** 2)
        assert found - sampling == pytest.approx((1 - 1 / cells) * float(others / (q - p) ** 2), rel=1e-9)
    pair = unit_variances(one_group(kary(epsilon, size), kary(epsilon, size)), shares)
    assert 3 < float(pair[0, 0] / found[0, 0]) < 17


def rounded(number: float, like: str) -> str:
    return f"{number:.{len(like.partition('.')[2])}f}"


def test_two_flags_of_an_empty_cell_pool_over_epochs_as_planned() -> None:
    flag = kary(1, 2, kept=2)
    nobody = np.array([[1.0, 0.0], [0.0, 0.0]])  # nobody says yes to either
    found = [unit_variances(one_group(flag, flag, epochs), nobody)[1, 1] for epochs in (1, 13)]
    assert found == pytest.approx([0.848, 0.095], abs=5e-4)


# --- enumeration ---------------------------------------------------------------------------------------------------


def reports_of(noise: Noise, mask: Array) -> list[tuple[npt.NDArray[np.int64], float]]:
    """Every report there can be of an install with this mask, and how likely each is."""
    q, p = (float(x) for x in noise.composed.probabilities)
    width = len(mask)
    match noise.composed:
        case KaryChannel():
            return [(np.eye(width, dtype=np.int64)[i], q if mask[i] else p) for i in range(width)]
        case SubsetChannel(size=size, held=held, other=other, units=units):
            rows = [np.array(row) for row in product((0, 1), repeat=width) if sum(row) == size]
            return [(row, (held if row @ mask else other) / units) for row in rows]
    chance = np.where(mask > 0, q, p)
    rows = [np.array(row) for row in product((0, 1), repeat=width)]
    return [(row, float(np.prod(np.where(row, chance, 1 - chance)))) for row in rows]


SOME = {
    "flag": (one_bit, one_bit_noise(Fraction(1), Fraction(2)), np.array([[0.0], [1.0]])),
    "k-ary": (lambda n: one_of(n, 4), kary_noise(Fraction(1), Fraction(2), 4), np.eye(4)),
    "bits": (lambda n: one_of(n, 4), many_bit_noise(Fraction(1), Fraction(2), 1), np.eye(4)),
    "bits or none": (lambda n: some_or_none(n, 3), many_bit_noise(Fraction(1), Fraction(2), 1), np.eye(4)[:, :3]),
    "subsets": (lambda n: one_of(n, 9), subset_noise(Fraction(1, 2), 9), np.eye(9)),
}


@pytest.mark.parametrize("name", SOME)
def test_scores_are_unbiased_add_up_and_have_the_moments_of_all_their_reports(name: str) -> None:
    make, noise, masks = SOME[name]
    assert noise is not None
    found = make(noise)
    size = found.num_categories
    every = np.eye(size)
    assert found.means(every) == pytest.approx(every, abs=1e-6)
    pairs = list(product(range(size), repeat=2))
    one, other = (np.array([every[pair[side]] for pair in pairs]) for side in (0, 1))
    moments = found.products(one, other, kept=False)
    for x in range(size):
        expected = np.zeros((size, size))
        for report, chance in reports_of(noise, masks[x]):
            scores = found.scores @ np.concatenate([[1], report])
            assert scores.sum() == pytest.approx(1)
            expected += chance * np.outer(scores, scores)
        assert moments[:, x] == pytest.approx(expected.ravel(), abs=1e-6)
        assert found.moment(every[x], kept=False) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["flag", "k-ary", "bits", "bits or none"])
def test_the_kept_part_of_a_score_has_the_moments_of_all_kept_answers(name: str) -> None:
    make, noise, masks = SOME[name]
    assert noise is not None
    found, stages = make(noise), TwoStageNoise.of(noise)
    size = found.num_categories
    kept_alone = Noise(noise.permanent, type(noise.permanent)(**_clear(noise)))
    for x in range(size):
        expected = np.zeros((size, size))
        for memo, chance in reports_of(kept_alone, masks[x]):
            # What reports of this kept answer say on average.
            scores = found.scores @ np.concatenate([[1], stages.p + (stages.q - stages.p) * memo])
            expected += chance * np.outer(scores, scores)
        assert found.moment(np.eye(size)[x], kept=True) == pytest.approx(expected, abs=1e-6)
        same = found.products(np.eye(size), np.eye(size), kept=True)[:, x]
        assert same == pytest.approx(np.diag(expected), abs=1e-6)


def _clear(noise: Noise) -> dict[str, Fraction | int]:
    """An instantaneous channel that changes nothing."""
    if isinstance(noise.permanent, KaryChannel):
        return {"categories": noise.permanent.categories, "truth": Fraction(1), "other": Fraction(0)}
    return {"when_one": Fraction(1), "when_zero": Fraction(0)}


def test_the_covariance_of_all_cells_is_that_of_every_two_reports() -> None:
    """Over every two reports of every install of a small table, for one k-ary factor and one of bits."""
    first, second = SOME["k-ary"], SOME["bits or none"]
    one, other = first[0](first[1]), second[0](second[1])
    law = one_group(one, other)
    shares = table(4, 4, 0.3)
    mean, square = np.zeros(16), np.zeros((16, 16))
    for x, w in product(range(4), repeat=2):
        for (y, p), (z, q) in product(reports_of(first[1], first[2][x]), reports_of(second[1], second[2][w])):
            cell = np.outer(one.scores @ np.append(1, y), other.scores @ np.append(1, z)).ravel()
            mean += shares[x, w] * p * q * cell
            square += shares[x, w] * p * q * np.outer(cell, cell)
    assert mean.reshape(4, 4) == pytest.approx(shares, abs=1e-6)
    expected = square - np.outer(mean, mean)
    pairs = list(product(range(16), repeat=2))
    cells = cells_of((4, 4))
    sides = [Functionals(cells.rows[index], cells.columns[index]) for index in np.array(pairs).T]
    assert covariance(joint(law, shares), *sides).reshape(16, 16) == pytest.approx(expected, rel=1e-5)
    margin = event_variance(joint(law, shares), rows_of((4, 4))).at(shares.sum(axis=1))
    summed = expected.reshape(4, 4, 4, 4).sum(axis=(1, 3))
    assert margin == pytest.approx(np.diag(summed), rel=1e-5)


@pytest.mark.parametrize("finite", [0.0, 1.0])
def test_of_the_installs_that_reported_only_the_noise_is_left(finite: float) -> None:
    """Given the answers a cell varies by E[Z^2 | x, w] - 1[(x, w) is the cell]; a population samples them besides."""
    law, shares = one_group(kary(1, 3), kary(2, 4)), table(3, 4, 0.3)
    squares = law.products(cells_of((3, 4)), cells_of((3, 4))) @ shares.ravel()
    expected = squares - (shares.ravel() if finite else shares.ravel() ** 2)
    known = Joint(law, shares, shares, finite, np.zeros_like(shares))
    assert event_variance(known, cells_of((3, 4))).at(shares.ravel()) == pytest.approx(expected, rel=1e-9)
    assert covariance(known, cells_of((3, 4)), cells_of((3, 4))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("finite", [0.0, 0.7])
@pytest.mark.parametrize("by_row", [True, False])
def test_the_variance_of_a_ratio_is_that_of_top_less_ratio_times_bottom(finite: float, by_row: bool) -> None:
    """Where the tested ratio is the true one, the table that the ratio implies is the table itself."""
    law, shares = one_group(kary(1, 3, kept=2), bits(1, 4), epochs=3), table(3, 4, 0.3)
    known, tops = Joint(law, shares, shares, finite, np.zeros_like(shares)), cells_of((3, 4))
    rows, columns = tops.rows, tops.columns
    wide = Functionals(rows, np.ones_like(columns)) if by_row else Functionals(np.ones_like(rows), columns)
    ratio = (tops.cells @ shares.ravel()) / (wide.cells @ shares.ravel())
    moved = Functionals(rows, columns - ratio[:, None]) if by_row else Functionals(rows - ratio[:, None], columns)
    expected = covariance(known, moved, moved)
    found = shares_given(known, tops, wide, 0.95)
    assert found.estimate == pytest.approx(ratio)
    assert found.std_error * (wide.cells @ shares.ravel()) == pytest.approx(np.sqrt(expected), rel=1e-9)


@pytest.mark.parametrize("by_row", [True, False])
def test_two_shares_differ_by_an_error_that_the_covariances_of_all_cells_give(by_row: bool) -> None:
    """To first order, by the derivative of the difference by each cell. Both answers are few in one group and many in
    the other, so that the groups' errors differ, and they go together: each part of the error tells."""
    law, shares = one_group(kary(1, 3, kept=2), kary(1, 3), epochs=3), table(3, 3, 0.3)
    shares = shares if by_row else shares.T
    known = Joint(law, shares, shares, 0.0, np.zeros_like(shares))
    own, cell, wide = np.eye(3)[[0, 2]], np.tile(np.eye(3)[0], (2, 1)), np.ones((2, 3))
    tops, bottoms = (Functionals(own, other) if by_row else Functionals(other, own) for other in (cell, wide))
    found = contrast(known, tops, bottoms, 0.95)
    cells = cells_of((3, 3))
    sides = [Functionals(cells.rows[index], cells.columns[index]) for index in np.array([*np.ndindex(9, 9)]).T]
    spread = covariance(known, *sides).reshape(9, 9)
    top, bottom = tops.cells @ shares.ravel(), bottoms.cells @ shares.ravel()
    slopes = (tops.cells - (top / bottom)[:, None] * bottoms.cells) / bottom[:, None]
    assert found.difference == pytest.approx((top / bottom)[0] - (top / bottom)[1])
    assert found.std_error**2 == pytest.approx((slopes[0] - slopes[1]) @ spread @ (slopes[0] - slopes[1]), rel=1e-9)
    parts = slopes @ spread @ slopes.T
    assert min(abs(parts[0, 0] - parts[1, 1]), abs(parts[0, 1])) > 0.05 * parts.max()


# --- the least there can be ----------------------------------------------------------------------------------------


def bound(first: Array, second: Array, shares: Array) -> Array:
    """n Var of any unbiased estimate of a cell from raw reports (Cramer and Rao), where a row of each law gives the
    probability of every report under one category."""
    laws = np.einsum("xr,ws->xwrs", first, second).reshape(shares.size, -1)
    seen = shares.ravel() @ laws
    inside = np.linalg.svd(np.ones((1, shares.size)))[2][1:]  # shares can only move so that they still add up to 1
    information = (inside @ laws / seen) @ (inside @ laws).T
    return np.asarray(np.diag(inside.T @ np.linalg.inv(information) @ inside)).reshape(shares.shape)


@pytest.mark.parametrize("seed", range(10))
def test_pairs_of_k_ary_reports_lose_nothing_against_raw_reports(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 2)
    epsilons = rng.choice([0.5, 1.0, 2.0, 3.0], 2)
    shares = rng.dirichlet(np.ones(sizes.prod())).reshape(sizes)
    factors = [kary(float(epsilon), int(size)) for epsilon, size in zip(epsilons, sizes, strict=True)]
    laws = [np.hstack([1 - each.expected, each.expected]) if size == 2 else each.expected
            for each, size in zip(factors, sizes, strict=True)]  # fmt: skip
    found = unit_variances(one_group(factors[0], factors[1]), shares)
    assert found == pytest.approx(bound(laws[0], laws[1], shares), rel=1e-6)


@pytest.mark.parametrize("size", [4, 5, 6])
def test_pairs_of_bits_lose_less_than_a_tenth_because_scores_add_up_to_one(size: int) -> None:
    noise = many_bit_noise(Fraction(1), Fraction(1), 1)
    shares = np.full((size, size), 1 / size**2)
    law = np.zeros((size, 2**size))
    for x in range(size):
        for place, (_, chance) in enumerate(reports_of(noise, np.eye(size)[x])):
            law[x, place] = chance
    least = bound(law, law, shares)[0, 0]
    centred = unit_variances(one_group(bits(1, size), bits(1, size)), shares)[0, 0]
    plain = response(noise, np.eye(size), bit_scores(noise, size))
    uncentred = unit_variances(one_group(plain, plain), shares)[0, 0]
    assert 1.0 < centred / least < 1.1
    assert 1.4 < uncentred / least < 1.8


# --- whole tallies -------------------------------------------------------------------------------------------------


def test_a_pair_tally_of_several_epochs_has_the_planned_variance_of_the_kept_part() -> None:
    """Vp Vp' + (Vp Vi' + Vi Vp' + Vi Vi') / T, each with 1 added to the kept part where the value is the cell's."""
    flag = kary(1, 2, kept=2)
    stages = TwoStageNoise.of(one_bit_noise(Fraction(1), Fraction(2)))
    kept, fresh = stages.permanent[0], stages.instantaneous[0]
    shares = np.array([[0.4, 0.1], [0.2, 0.3]])
    for epochs in (1, 4, 13):
        expected = -(shares[1, 1] ** 2)
        for (x, w), share in np.ndenumerate(shares):
            a, b = kept + (x == 1), kept + (w == 1)
            expected += share * (a * b + (a * fresh + fresh * b + fresh * fresh) / epochs)
        assert unit_variances(one_group(flag, flag, epochs), shares)[1, 1] == pytest.approx(expected, rel=1e-6)


def test_parts_of_a_question_that_cohorts_ask_make_one_table() -> None:
    """Scores of a factor that is asked in parts have the right average over all cohorts together."""
    from hubbub.analysis.estimation.factor_scores import asked_in_parts

    noise = one_bit_noise(Fraction(1), Fraction(2))
    masks = [np.eye(4)[:, [bucket]] for bucket in range(3)]
    plain = [mask[:-1] @ bit_scores(noise, 1) for mask in masks]
    reports = np.array([100.0, 300.0, 50.0])
    scores = [with_none(each) for each in asked_in_parts(plain, reports)]
    found = [response(noise, mask, score) for mask, score in zip(masks, scores, strict=True)]
    averages = sum(n * each.means(np.eye(4)) for n, each in zip(reports, found, strict=True)) / reports.sum()
    assert averages == pytest.approx(np.eye(4), abs=1e-6)


@pytest.mark.proof
@pytest.mark.parametrize(("size", "epsilon"), [(2, 1), (4, 1), (8, 1), (4, 2)])
def test_the_variance_of_20000_populations_is_the_stated_one(size: int, epsilon: int) -> None:
    """Of 20,000 populations the variance strays by sqrt(2 / 20000) = 1 %; 4.9 of that have probability 1e-6 for one
    cell. A slip of 10 % in any term would be seen with probability above 0.999."""
    populations, installs = 20_000, 5_000
    pair, shares = pair_of(size, size, epsilon), np.full((size, size), 1 / size**2)
    rng = np.random.default_rng(size * 10 + epsilon)
    factor = kary(epsilon, size)
    found = np.zeros((populations, size, size))
    for i in range(populations):
        cells = rng.multinomial(installs, shares.ravel()).reshape(size, size)
        (counts,) = drawn(pair, cells, rng).epochs.values()
        whole = np.zeros((1 + factor.expected.shape[1],) * 2)
        whole[0, 0], whole[1:, 0] = counts.num_batches[0], counts.first[0]
        whole[0, 1:], whole[1:, 1:] = counts.second[0], counts.both[0]
        found[i] = PairLaw(
            [PairGroup(counts=whole, sampling=1 / installs, first=factor, second=factor)], 1 / installs
        ).estimate()
    expected = unit_variances(one_group(factor, factor), shares)
    ratio = installs * found.var(axis=0) / expected
    print(f"{size} x {size}, epsilon {epsilon}: n Var {expected[0, 0]:.4g}, measured / stated {ratio.mean():.4f}")
    assert np.abs(ratio - 1).max() < 0.049 + 0.01 * (size == 8)
    strays = (found.mean(axis=0) - shares) / np.sqrt(expected / installs / populations)
    assert np.abs(strays).max() < 5.5


def test_a_metric_of_the_kit_is_sent_as_expected() -> None:
    """The worlds of these tests have k-ary pairs where the figures above are of k-ary pairs."""
    assert isinstance(metric("one", choice(8), 1).noise.permanent, KaryChannel)
