"""Cohorts that do not fit: p-values by an explicit fit, and as often small as they say where everything fits."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.cells import Cohort, TwoStageNoise, pool
from hubbub.analysis.estimation.hashing import digests
from hubbub.analysis.estimation.shares import shares
from hubbub.analysis.estimation.string_screen import screen
from hubbub.analysis.estimation.tree import Levels
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.kinds import Histogram, String
from tests.analysis.worlds import Strings, define, tally_of
from tests.chance import assert_binomial, power

NOISE = TwoStageNoise(0.75, 0.25, 0.8, 0.2)
WIDTHS = (2, 4, 8)
SIZES = (40_000, 2_000, 9_000)
NOBODY = np.zeros(8)


def levels_of_nobody(rng: np.random.Generator) -> Levels:
    """Three levels of very different size, whose installs all did not answer."""
    cohorts = [
        Cohort(noise=NOISE, reports=n, ones=rng.binomial(n, NOISE.p_star, width).astype(float), sampling=1 / n)
        for n, width in zip(SIZES, WIDTHS, strict=True)
    ]
    return Levels.of(2, [cohorts])


def explicit_design() -> tuple[np.ndarray, list[slice]]:
    """Every counted cell over the leaves, and where each level's cells are."""
    rows = [np.repeat(np.eye(width), 8 // width, axis=1) for width in WIDTHS]
    ends = np.cumsum([0, *WIDTHS])
    return np.concatenate(rows), [slice(a, b) for a, b in pairwise(ends)]


def test_the_p_value_of_a_level_has_the_two_moments_of_its_residuals():
    """The residuals of a level, in their deviations, are a quadratic form whose eigenvalues an explicit fit gives; its
    law is that of a multiple of chi-square with the same mean and variance."""
    levels = levels_of_nobody(np.random.default_rng(1))
    design, places = explicit_design()
    weight = np.concatenate(
        [np.full(width, 1 / level.floor) for width, level in zip(WIDTHS, levels.levels, strict=True)]
    )
    root = np.sqrt(weight)[:, np.newaxis] * design
    left_over = np.eye(len(root)) - root @ np.linalg.inv(root.T @ root) @ root.T
    found = misfit.of_levels(levels, levels.leaves(), NOBODY)
    for level, place, p_value in zip(levels.levels, places, found, strict=True):
        eigenvalues = np.linalg.eigvalsh(left_over[place, place])
        residual = level.shares - design[place] @ levels.leaves()
        squares = float((residual**2).sum()) / level.floor
        scale = (
            eigenvalues**2
        ).sum() / eigenvalues.sum()  # Var = 2 sum l^2 and mean = sum l are those of scale chi2_nu
        degrees = eigenvalues.sum() ** 2 / (eigenvalues**2).sum()
        assert p_value == pytest.approx(stats.chi2.sf(squares / scale, degrees), rel=1e-6)


def test_levels_that_fit_are_suspected_as_often_as_they_say():
    """Each level by itself, over 3000 trees of nobody: the share of p-values below one in twenty. The law with two
    moments is within half a point of the exact one here; degrees counted as if nothing were fitted away are 5 points
    off at the level that the fit follows most."""
    rng = np.random.default_rng(2)
    trials = 3_000
    p_values = np.array(
        [misfit.of_levels(levels, levels.leaves(), NOBODY) for levels in (levels_of_nobody(rng) for _ in range(trials))]
    )
    for hits in (p_values < 0.05).sum(axis=0):
        assert_binomial(int(hits), trials, 0.05)
    assert power(trials, 0.05, 0.10) > 0.999
    assert power(trials, 0.05, 0.01) > 0.999


def test_buckets_that_fit_are_suspected_as_often_as_they_say():
    """Two cohorts ask about each bucket; chi-square with what the estimate took from each cell given back."""
    shape = Histogram(edges=tuple(map(Fraction, range(5))), buckets_per_report=2)
    noise = TwoStageNoise.of(define(shape).noise)
    asked = [[shape.bucket(c, i) for i in range(2)] for c in range(shape.num_cohorts)]
    rng = np.random.default_rng(3)
    trials, hits = 1_500, 0
    for _ in range(trials):
        cohorts = [
            Cohort(noise=noise, reports=n, ones=rng.binomial(n, noise.p_star, 2).astype(float), sampling=1 / n)
            for n in (3_000, 6_000, 2_000, 9_000)
        ]
        found = misfit.of_shares(cohorts, shares(cohorts, asked, 4, 0.0))
        hits += int(found[0] < 0.05)
    assert_binomial(hits, trials, 0.05)
    assert power(trials, 0.05, 0.11) > 0.999


def test_one_in_a_thousand_is_shared_out_over_the_cohorts_that_have_a_p_value():
    assert misfit.misfitting_cohorts(np.array([0.0004, np.nan, 0.0006])) == (0,)
    assert misfit.misfitting_cohorts(np.array([np.nan, np.nan])) == ()


def test_cohorts_of_strings_that_fit_have_p_values_as_even_as_chance():
    """A hundred strings of 1024 cells are fitted at once and take a tenth of every square; given back, the average
    p-value of 16 cohorts in 40 populations is a half, within five deviations of such an average."""
    stock = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 100)
    rng = np.random.default_rng(4)
    p_values = []
    for _ in range(40):
        design = string_design([pool(tally_of(stock.metric, [1_000] * 100, rng, stock.where))], digests(stock.texts))
        found = screen(design, 0.05)
        assert len(found.fit.chosen) == 100
        p_values += misfit.of_strings(design, found).tolist()
    assert np.mean(p_values) == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / len(p_values)))
