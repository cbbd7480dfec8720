"""Strings: least squares against lstsq, the bound of Cramer and Rao, and the promises in small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.design import cohort_design
from hubbub.analysis.estimation.fit import even_weights, solve
from hubbub.analysis.estimation.guesses import _CLEAR
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.estimation.string_screen import HISTOGRAM_EDGES, Taken, _judged, _rough_fit, screen
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.kinds import String
from hubbub.protocol.tally import Tally
from tests.analysis.scenarios import Scenario, score
from tests.analysis.test_strings_proof import power_at
from tests.analysis.worlds import RAPPOR, Strings, define, tally_of, zipf
from tests.chance import assert_binomial, binomial_bounds, power


def explicit(design, chosen):
    """The columns (other, candidates) as a plain matrix."""
    matrix = np.zeros((len(design.share), len(chosen) + 1))
    matrix[:, 0] = design.background
    for column, candidate in enumerate(chosen, 1):
        for row, offset in zip(design.positions[:, candidate], design.offset, strict=True):
            matrix[offset + int(row), column] = 1
    return matrix


@pytest.mark.parametrize(("num_bits", "num_hashes", "num_cohorts"), [(32, 1, 8), (32, 2, 8), (16, 3, 4), (1, 1, 64)])
def test_a_fit_is_the_weighted_least_squares_solution(num_bits, num_hashes, num_cohorts):
    strings = Strings.of(define(String(num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts)), 8)
    tally = tally_of(strings.metric, [400, 300, 200, 100, 0, 0, 0, 0, 50], np.random.default_rng(1), strings.where)
    design = string_design([pool(tally)], digests(strings.texts.tolist()))
    chosen = np.array([0, 2, 3, 7])
    weights = even_weights(design, np.zeros(len(design.share), dtype=bool))
    fit = solve(design, chosen, weights)
    root = np.sqrt(weights.cells)
    matrix = explicit(design, chosen) * root[:, np.newaxis]
    expected = np.linalg.lstsq(matrix, np.where(design.observed, design.share, 0) * root, rcond=None)[0]
    assert [fit.other, *fit.shares] == pytest.approx(list(expected))
    assert fit.covariance == pytest.approx(np.linalg.inv(matrix.T @ matrix))


CASES = {"A": (16, 200), "B": (64, 1_000)}


def error_ratios(case: str, populations: int) -> tuple[float, float]:
    """Squared error over the Cramer-Rao bound of the counts: of the unbiased estimates, of the best guess.

    k = 128, h = 2, f = 1/2, p = 1/2, q = 3/4, a million installs; 200 strings present, exponentially distributed with
    a fifth of them as its scale. A: 16 cohorts, the 200 are the candidates. B: 64 cohorts, 1000 candidates.
    """
    num_cohorts, count = CASES[case]
    strings = Strings.of(define(String(num_bits=128, num_hashes=2, num_cohorts=num_cohorts), noise=RAPPOR), count)
    shares = np.zeros(count)
    shares[:200] = np.exp(-np.arange(200) / 40)
    counts = np.floor(shares / shares.sum() * 1e6).astype(np.int64)
    truth = counts / counts.sum()
    bound = cramer_rao(strings, truth, counts.sum() / num_cohorts)
    rng = np.random.default_rng(list(case.encode()))
    unbiased = guessed = 0.0
    for _ in range(populations):
        found = decode(tally_of(strings.metric, counts, rng, strings.where), strings.texts.tolist())
        unbiased += float(((found.estimate[:count] - truth) ** 2).sum())
        guessed += float(((found.best_guess[:count] - truth) ** 2).sum())
    return unbiased / populations / bound, guessed / populations / bound


def cramer_rao(strings: Strings, truth: np.ndarray, reports: float) -> float:
    """The trace of the inverse Fisher information of independent binomial counts."""
    noise, shape = strings.metric.noise, strings.metric.shape
    p, gain = float(noise.p_star), float(noise.q_star - noise.p_star)
    information = np.zeros((len(truth), len(truth)))
    for cohort in range(shape.num_cohorts):
        design = np.zeros((shape.num_bits, len(truth)))
        for row in strings.where[cohort * shape.num_hashes : (cohort + 1) * shape.num_hashes]:
            design[row, np.arange(len(truth))] = 1
        chance = p + gain * (design @ truth)
        information += (design.T * (reports * gain**2 / (chance * (1 - chance)))) @ design
    return float(np.trace(np.linalg.inv(information)))


@pytest.mark.parametrize(("case", "best"), [("A", 0.70), ("B", 0.20)])
def test_squared_errors_are_at_the_bound(case, best):
    """Ten populations: the error of A's 200 estimates varies by 10 % in one, so 3 standard errors are 10 %."""
    unbiased, guessed = error_ratios(case, 10)
    assert unbiased <= 1.05 + 0.10
    assert guessed <= 1.1 * best


@pytest.mark.proof
@pytest.mark.parametrize(("case", "best"), [("A", 0.70), ("B", 0.20)])
def test_squared_errors_are_at_the_bound_over_many_populations(case, best, figure):
    unbiased, guessed = error_ratios(case, 400)
    figure(f"squared error / Cramer-Rao bound, case {case}", f"unbiased {unbiased:.3f}, best guess {guessed:.3f}")
    assert unbiased <= 1.05
    assert guessed <= best


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(1_000, 10**6, "nothing unknown", 1),
        Scenario(1_000, 10**8, "a fifth on many unknown", 2),
        Scenario(10_000, 10**7, "a fifth on one unknown", 1),
    ],
    ids=str,
)
def test_intervals_cover_and_false_detections_are_rare(scenario):
    """Fifty candidates of each population are counted: enough to catch 90 %, too few to share their residuals."""
    populations = 40
    found = score(scenario, populations, every=scenario.num_candidates // 50)
    assert_binomial(found.covered, found.candidates, 0.95)
    assert_binomial(found.heavy_covered, found.heavy, 0.95)
    assert found.false_detections <= binomial_bounds(populations, 0.05)[1]
    assert found.selected_covered >= binomial_bounds(found.selected, 0.94)[0]
    assert power(found.candidates, 0.95, 0.90) > 0.999


def test_a_string_at_1_1_times_the_detection_limit_is_found():
    assert binomial_bounds(40, 0.90)[0] <= 40 * power_at(1.1, 1, 40)


@pytest.mark.parametrize(
    ("num_bits", "num_hashes", "num_cohorts", "count", "unknown"),
    [
        (8, 2, 2, 40, 1),
        (8, 3, 16, 20, 30),
        (8, 3, 16, 200, 0),
        (1, 1, 64, 5, 1),
        (1, 1, 64, 200, 30),
        (32, 1, 16, 1, 1),
        (64, 1, 64, 50, 30),
    ],
)
def test_small_and_odd_shapes_cover_too(num_bits, num_hashes, num_cohorts, count, unknown):
    """At least 92.5 %: with few cells the spread of what collides is itself hardly known, and intervals lean wide."""
    shape = String(num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts)
    rng = np.random.default_rng([num_bits, num_hashes, count])
    present = min(count, 10)
    hits = trials = absent = 0
    for i in range(40):
        texts = [f"{i}-{j}" for j in range(count + unknown)]
        where = positions(shape, digests(texts))
        mass = 0.72 if unknown else 0.9
        probability = np.concatenate(
            [mass * zipf(present), np.zeros(count - present), np.full(unknown, 0.18 / max(unknown, 1)), [0.1]]
        )
        counts = (probability * 100_000).astype(int)
        found = decode(tally_of(define(shape), counts, rng, where), texts[:count])
        truth = counts / counts.sum()
        known = np.isfinite(found.estimate[:count])
        covered = (found.low[:count] <= truth[:count]) & (truth[:count] <= found.high[:count])
        hits, trials = hits + int(covered[known].sum()), trials + int(known.sum())
        absent += bool(found.low[count] <= truth[-1] <= found.high[count])
    assert hits >= binomial_bounds(trials, 0.925)[0]
    assert absent >= binomial_bounds(40, 0.94)[0]


def test_more_than_a_fifth_of_unknown_mass_on_low_noise_does_not_fool_the_intervals():
    shape = String(num_bits=64, num_hashes=1, num_cohorts=64)
    rng = np.random.default_rng(17)
    strings = Strings.of(define(shape, "6", "8"), 80)
    counts = np.concatenate([zipf(20) * 720_000, np.zeros(30), np.full(30, 6_000), [100_000]]).astype(int)
    hits = 0
    for _ in range(40):
        drawn = rng.permutation(80)
        found = decode(
            tally_of(strings.metric, counts, rng, strings.where[:, drawn]), strings.texts[drawn[:50]].tolist()
        )
        truth = counts[:50] / counts.sum()
        hits += int(((found.low[:50] <= truth) & (truth <= found.high[:50])).sum())
    assert_binomial(hits, 2_000, 0.95)
    assert power(2_000, 0.95, 0.90) > 0.999


def test_a_heavy_string_outside_the_list_is_noticed():
    strings = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=64)), 30)
    counts = [400_000, 300_000, 300_000] + [0] * 27
    found = decode(
        tally_of(strings.metric, counts, np.random.default_rng(2), strings.where), strings.texts[1:].tolist()
    )
    assert found.diagnostics.hidden_heavy_share == pytest.approx(0.4, abs=0.05)
    assert any("a string outside the list is likely held by many" in note for note in found.notes)
    other = found.index("other", "other")
    assert found.low[other] <= 0.4 <= found.high[other]


def test_a_poisoned_cohort_sticks_out():
    strings = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=16)), 20)
    rng = np.random.default_rng(3)
    tally = tally_of(strings.metric, [50_000] * 4 + [0] * 16, rng, strings.where)
    counts = tally.epochs[0]
    rows = [list(row) for row in counts.bit_counts]
    rows[5] = [min(n + int(rng.integers(0, 900)), counts.num_reports[5]) for n in rows[5]]
    broken = Tally(strings.metric, {0: type(counts)(counts.num_reports, tuple(map(tuple, rows)))})
    texts = strings.texts.tolist()
    assert decode(broken, texts).diagnostics.odd_cohorts == (5,)
    assert decode(tally, texts).diagnostics.odd_cohorts == ()


def test_candidates_that_share_all_bits_are_counted_together_and_named():
    shape = String(num_bits=4, num_hashes=1, num_cohorts=1)
    strings = Strings.of(define(shape), 12)
    found = decode(
        tally_of(strings.metric, [1_000] * 12, np.random.default_rng(1), strings.where), strings.texts.tolist()
    )
    groups = found.diagnostics.indistinguishable
    assert sum(len(group) - 1 for group in groups) == 12 - len(set(strings.where[0].tolist()))
    assert np.isnan(found.estimate[found.index(groups[0][1])])


def test_two_definitions_are_stacked_and_beat_either():
    first = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=32)), 30)
    second = Strings.of(define(String(num_bits=128, num_hashes=2, num_cohorts=16)), 30)
    rng = np.random.default_rng(4)
    counts = [20_000, 10_000, 5_000] + [0] * 27 + [5_000]
    tallies = [tally_of(strings.metric, counts, rng, strings.where) for strings in (first, second)]
    texts = first.texts.tolist()
    apart = [decode(tally, texts).std_error[10] for tally in tallies]
    together = decode(tallies, texts)
    assert together.std_error[10] == pytest.approx(1 / np.hypot(1 / apart[0], 1 / apart[1]), rel=0.05)
    assert abs(together.estimate[0] - 0.5) < 5 * together.std_error[0]


def test_conjugate_gradients_see_what_the_exact_solution_sees():
    strings = Strings.of(define(String(num_bits=64, num_hashes=2, num_cohorts=16)), 60)
    tally = tally_of(strings.metric, [5_000] * 20 + [0] * 40, np.random.default_rng(5), strings.where)
    design = string_design([pool(tally)], digests(strings.texts.tolist()))
    weights = even_weights(design, np.zeros(len(design.share), dtype=bool))
    everyone = np.arange(60)
    exact = solve(design, everyone, weights)
    assert _rough_fit(design, everyone, weights).residual == pytest.approx(exact.residual, abs=1e-6)


def test_nothing_told_is_nothing_claimed():
    design = string_design(
        [pool(Tally(define(String(num_bits=8, num_hashes=1, num_cohorts=2)), {}))], digests(["a", "b"])
    )
    assert np.isnan(screen(design, 0.05).estimate).all()


def test_an_estimate_at_the_threshold_has_the_p_value_it_stands_for():
    """The looks before the last have spent a part of the error: p-values and thresholds must both know of it."""
    stock = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=32)), 4_000)
    tally = tally_of(stock.metric, [40_000] * 5 + [0] * 3_995, np.random.default_rng(21), stock.where)
    for count in (150, 4_000):
        found = screen(string_design([pool(tally)], digests(stock.texts[:count].tolist())), 0.05)
        assert (found.level < 1) == (count == 4_000)
        z = found.estimate / found.std_error
        for p in (0.3, 0.05, 0.01, 0.001):
            passed = z >= found.threshold(p)
            assert passed.sum() >= 5
            assert (found.p_value[passed] <= p * 1.001).all()
            assert (found.p_value[~passed] >= p * 0.999).all()


def test_a_candidate_beside_fitted_strings_is_estimated_without_bias():
    """Twenty strings and the column of all others take 21 of 128 directions from a candidate that is estimated by
    itself; over 300 draws of all positions what is left of a share of 1 must be scaled back to 1."""
    shape = String(num_bits=16, num_hashes=1, num_cohorts=8)
    tally = tally_of(define(shape), [1_000], np.random.default_rng(22), np.zeros((8, 1), dtype=np.uint8))
    cohorts, nothing = pool(tally).cohorts, np.zeros(128, dtype=bool)
    rng = np.random.default_rng(23)
    estimates = []
    for _ in range(300):
        where = rng.integers(0, 16, (8, 21)).astype(np.uint8)
        design = cohort_design(cohorts, where, draws=1, background=1 / 16, idle=0, constant_weight=True)
        held = np.append(rng.uniform(1, 5, 20), 1.0)
        design = replace(design, share=design.scatter(held))
        fit = solve(design, np.arange(20), even_weights(design, nothing))
        if fit is not None:
            estimates.append(_judged(design, Taken(design, fit, nothing, 1.0)).estimate[20])
    assert len(estimates) > 250
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - 1) < 5 * error
    assert 10 * error < 21 / 128, "what was fitted away must be noticed"


def test_the_bins_of_a_crowd_end_where_an_estimate_needs_no_help() -> None:
    """Beyond, guesses leave an estimate as it is: a bin farther out would be learnt from nobody, and one that ended
    earlier would take clear ones for others. As far to both sides, in steps that do not show."""
    assert HISTOGRAM_EDGES[-1] == -HISTOGRAM_EDGES[0] == _CLEAR
    assert np.diff(HISTOGRAM_EDGES) == pytest.approx(0.04)
