"""Best guesses of lists: shrinking them by what the list itself teaches never costs much, and often gains a lot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.analysis.estimation.guesses import likely_shares, nearest_shares
from tests.analysis.worlds import zipf

LISTS = {
    "zipf": lambda size: zipf(size, 1.1),
    "steep": lambda size: zipf(size, 2.0),
    "even": lambda size: np.full(size, 1 / size),
    "mostly empty": lambda size: np.append(zipf(size // 4), np.zeros(size - size // 4)),
}


@pytest.mark.parametrize("size", [16, 40])
@pytest.mark.parametrize("kind", LISTS)
def test_shrunk_guesses_are_never_much_farther_from_the_truth_than_projected_ones(kind, size):
    """Squared errors of both on the same 150 populations, with noise of a hundredth; their ratio may be 1.05 at most.
    The difference of the two is known to four of its standard errors: one false alarm in 30,000."""
    rng = np.random.default_rng(8)
    truth = LISTS[kind](size)
    variance = np.full(size, 1e-4)
    errors = []
    for _ in range(150):
        estimate = truth + 0.01 * rng.standard_normal(size)
        guesses = (guess(estimate, variance, exactly=True) for guess in (likely_shares, nearest_shares))
        errors.append([float(((guess - truth) ** 2).sum()) for guess in guesses])
    shrunk, projected = np.array(errors).T
    excess = shrunk - 1.05 * projected
    assert excess.mean() < 4 * excess.std() / np.sqrt(len(excess))
    if kind == "mostly empty" and size == 16:  # where noise and shares are far apart
        assert shrunk.mean() < 0.8 * projected.mean()


def test_guesses_are_shares():
    rng = np.random.default_rng(9)
    for size in (2, 15, 16, 60):
        guess = likely_shares(rng.standard_normal(size) / size, np.full(size, 1 / size**2), exactly=True)
        assert (guess >= 0).all()
        assert guess.sum() == pytest.approx(1)


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=30), st.booleans())
def test_the_nearest_shares_are_possible_and_no_possible_ones_are_nearer(estimates, exactly):
    f = np.array(estimates)
    guess = nearest_shares(f, np.ones(len(f)), exactly=exactly)
    assert (guess >= 0).all()
    assert guess.sum() <= 1 + 1e-9
    if exactly:
        assert guess.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    others = rng.dirichlet(np.ones(len(f)), 50) * (1 if exactly else rng.uniform(0, 1, (50, 1)))
    nearer = ((others - f) ** 2).sum(axis=1) < ((guess - f) ** 2).sum() - 1e-9
    assert not nearer.any()


def test_shrinking_a_long_list_beats_cutting_it_off():
    rng = np.random.default_rng(9)
    truth = np.concatenate([np.linspace(0.001, 0.02, 50), np.zeros(2_000)])
    errors = {"likely": 0.0, "nearest": 0.0, "unbiased": 0.0}
    for _ in range(20):
        estimate = truth + 0.002 * rng.standard_normal(len(truth))
        variance = np.full(len(truth), 0.002**2)
        errors["unbiased"] += ((estimate - truth) ** 2).sum()
        errors["nearest"] += ((nearest_shares(estimate, variance) - truth) ** 2).sum()
        errors["likely"] += ((likely_shares(estimate, variance, 1.0) - truth) ** 2).sum()
    assert errors["likely"] < errors["nearest"] < errors["unbiased"] / 4


def test_an_estimate_of_which_nothing_is_known_is_no_share_and_moves_no_other():
    nothing = [(np.nan, 1.0), (0.4, np.inf), (np.nan, np.inf)]
    estimate, variance = np.array([(0.9, 1e-4), *nothing, (0.3, 1e-4)]).T
    guess = nearest_shares(estimate, variance)
    assert guess.tolist() == pytest.approx([0.8, 0, 0, 0, 0.2])
