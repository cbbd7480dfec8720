"""Two stages in place of flags that hang together: the same means, and answers of two periods that covary as much."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hubbub.analysis.estimation.history_noise import stages
from hubbub.protocol.history import History, history_of_bits, history_of_categories

F = Fraction
CATEGORIES = [
    history_of_categories(F(epsilon), 13, answers, d)
    for epsilon, answers, d in product(("0.5", "2", "4", "8"), (2, 4, 6), (2, 3, 4, 7))
]
BITS = [
    history_of_bits(F(epsilon), 13, answers, share)
    for epsilon, answers, share in product(("0.5", "2", "4", "8"), (2, 3, 4), (F(1, 2), F(1, 16), F(1, 500)))
]


def two_answers(history: History) -> np.ndarray:
    """P(z_i, z_j) of two flags, from the law of how many are set."""
    found = np.zeros((2, 2))
    w = history.flags
    for k, law in enumerate(history.count_law):
        both, none = F(k * (k - 1), w * (w - 1)), F((w - k) * (w - k - 1), w * (w - 1))
        one = (1 - both - none) / 2
        found += np.array([[none, one], [one, both]], dtype=float) * float(law)
    return found


def covariance_of_categories(history: History, x: int, y: int) -> np.ndarray:
    """Of the categories said in two periods in which x and y are true, from every pair of flags."""
    d = history.categories
    assert d is not None
    told, else_ = np.eye(d), (1 - np.eye(d)) / (d - 1)
    said = [[else_[x], told[x]], [else_[y], told[y]]]
    joint, flags = np.zeros((d, d)), two_answers(history)
    for a, b in product((0, 1), repeat=2):
        joint += flags[a, b] * np.outer(said[0][a], said[1][b])
    return np.asarray(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)))


def covariance_of_memos(history: History, x: int) -> np.ndarray:
    """Of two reports on one memo of a k-ary channel that was given x."""
    a1, a0, q, p = stages(history)
    memo = np.where(np.arange(history.categories or 0) == x, a1, a0)
    return np.asarray((q - p) ** 2 * (np.diag(memo) - np.outer(memo, memo)))


@pytest.mark.parametrize("history", [*CATEGORIES, *BITS], ids=str)
def test_both_stages_are_channels_with_the_means_of_one_answer(history: History) -> None:
    a1, a0, q, p = stages(history)
    assert 0 <= a0 < a1 <= 1
    assert 0 <= p < q <= 1 + 1e-12
    means = [a1 * q + (1 - a1) * p, a0 * q + (1 - a0) * p]
    assert means == pytest.approx([float(each) for each in history.probabilities], rel=1e-9)
    if history.categories is not None:
        d = history.categories
        assert (a1 + (d - 1) * a0, q + (d - 1) * p) == pytest.approx((1, 1))


@pytest.mark.parametrize("history", CATEGORIES, ids=str)
def test_answers_that_stay_covary_at_most_as_their_memo_does(history: History) -> None:
    allowed, real = covariance_of_memos(history, 0), covariance_of_categories(history, 0, 0)
    if real[0, 0] >= 0:  # flags that come together: what is allowed for is met in the answer's own category
        assert allowed[0, 0] == pytest.approx(real[0, 0], rel=1e-6, abs=1e-12)
    if history.categories == 2 and real[0, 0] >= 0:
        assert allowed == pytest.approx(real, abs=1e-12)
    assert np.linalg.eigvalsh(allowed - real).min() > -1e-9


@pytest.mark.parametrize("history", CATEGORIES, ids=str)
def test_answers_that_change_covary_at_most_as_their_memos_do(history: History) -> None:
    """An install that says x in one period and y in the other counts half in each."""
    x, y = 0, 1
    real = (covariance_of_categories(history, x, y) + covariance_of_categories(history, y, x)) / 2
    allowed = (covariance_of_memos(history, x) + covariance_of_memos(history, y)) / 2
    assert np.all(np.diag(allowed - real) > -1e-9)


@pytest.mark.parametrize("history", BITS, ids=str)
def test_own_bits_covary_at_most_as_their_memo_does(history: History) -> None:
    a1, a0, q, p = stages(history)
    flags = two_answers(history)
    real = flags[1, 1] - flags.sum(axis=1)[1] ** 2
    assert a1 * (1 - a1) * (q - p) ** 2 == pytest.approx(max(real, 0.0), rel=1e-6, abs=1e-12)
    assert a0 == 0 or q == 1  # the other bits are drawn afresh, but where there is no other way
