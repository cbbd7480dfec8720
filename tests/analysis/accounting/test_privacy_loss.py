"""Composed privacy losses are never below the exact value, and within a hundredth of it.

`PEER` has figures of dp_accounting 0.6.0 (Google), computed once, on a grid of 1e-4, with its
`from_discrete_gaussian_mechanism`, `from_discrete_laplace_mechanism` and `from_randomized_response`. It is not
installed here because it wants an older `attrs` than the other packages of this environment.
"""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest

from hubbub.analysis.accounting.composition import optimal
from hubbub.analysis.accounting.mechanisms import (
    amplified_by_sampling,
    gaussian_count,
    kept_answer,
    laplace_count,
    randomized_response,
    subsampled,
)
from hubbub.analysis.accounting.privacy_loss import PrivacyLoss

PEER = [
    (gaussian_count(20), 1, 1e-9, 0.2602733),
    (gaussian_count(20), 52, 1e-9, 2.0569311),
    (gaussian_count(20), 104, 1e-9, 2.9766506),
    (gaussian_count(5), 8, 1e-6, 2.5828535),
    (laplace_count(10), 1, 1e-9, 0.1),
    (laplace_count(10), 52, 1e-9, 3.9997327),
    (laplace_count(10), 364, 1e-9, 12.6593825),
    (randomized_response(log(3)), 10, 1e-6, 10.9869822),
]


@pytest.mark.parametrize(("loss", "times", "delta", "peer"), PEER)
def test_compositions_agree_with_dp_accounting(loss: PrivacyLoss, times: int, delta: float, peer: float) -> None:
    assert loss.times(times).epsilon(delta) == pytest.approx(peer, rel=0.01)


def test_different_mechanisms_compose_as_with_dp_accounting() -> None:
    both = gaussian_count(5).times(8).then(laplace_count(10).times(52))
    assert both.epsilon(1e-6) == pytest.approx(4.3571602, rel=0.01)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("times", [1, 2, 7, 52, 365])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_randomised_response_is_never_below_the_exact_value(epsilon: float, times: int, delta: float) -> None:
    """Its composition is known exactly: binomial."""
    if epsilon * times > 600:
        assert randomized_response(epsilon).times(times).epsilon(delta) == inf
        return
    exact, found = optimal(epsilon, times, delta), randomized_response(epsilon).times(times).epsilon(delta)
    assert exact * (1 - 1e-9) <= found <= exact * 1.01 + 1e-9


def _exact_delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("times", [1, 2, 3])
def test_any_pair_on_a_coarse_grid_is_never_below_the_exact_value(times: int) -> None:
    """Random pairs, with outcomes that only one of the two has; all products of outcomes are enumerated."""
    rng = np.random.default_rng(23)
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(5) / 2), rng.dirichlet(np.ones(5) / 2)
        p[0], q[1] = 0, 0
        p, q = p / p.sum(), q / q.sum()
        whole_p, whole_q = p, q
        for _ in range(times - 1):
            whole_p, whole_q = np.outer(whole_p, p).ravel(), np.outer(whole_q, q).ravel()
        loss = PrivacyLoss.of(p, q, 0.3).times(times)
        for epsilon in (0.0, 0.1, 0.45, 1.0, 2.0, 5.0):
            assert loss.delta(epsilon) >= _exact_delta(whole_p, whole_q, epsilon) - 1e-12
        fine = PrivacyLoss.of(p, q, 0.001).times(times)
        for epsilon in (0.1, 1.0):
            assert fine.delta(epsilon) == pytest.approx(_exact_delta(whole_p, whole_q, epsilon), abs=2e-5 * times)


def test_rounding_losses_to_the_nearest_point_would_be_noticed() -> None:
    """The slip that the splitting of masses avoids: a composed epsilon below the exact one."""
    loss = randomized_response(0.1)
    rounded = PrivacyLoss(step=0.06, start=-1, masses=np.array([1 / (1 + exp(0.1)), 0, 1 / (1 + exp(-0.1))]), certain=0)
    assert rounded.times(52).epsilon(1e-9) < optimal(0.1, 52, 1e-9) <= loss.times(52).epsilon(1e-9)


def test_epsilon_inverts_delta() -> None:
    loss = gaussian_count(3).times(4)
    for delta in (1e-10, 1e-6, 1e-2):
        assert loss.delta(loss.epsilon(delta)) == pytest.approx(delta, rel=1e-6)
    assert loss.epsilon(0.999) == 0
    assert PrivacyLoss.of(np.array([0.5, 0.5]), np.array([1.0, 0.0]), 0.1).epsilon(0.4) == inf


def test_large_compositions_by_transform_agree_with_those_term_by_term(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = gaussian_count(20).times(52)
    monkeypatch.setattr("hubbub.analysis.accounting.privacy_loss._DIRECT", 0)
    transformed = gaussian_count(20).times(52)
    assert transformed.epsilon(1e-9) == pytest.approx(direct.epsilon(1e-9), rel=1e-3)
    assert transformed.epsilon(1e-9) >= direct.epsilon(1e-9)


def test_a_hidden_sample_tells_less() -> None:
    """ln(1 + s (E - 1)) for one release, and both directions bound it."""
    there, back = subsampled(randomized_response(1.0), 0.1)
    closed = amplified_by_sampling(1.0, 0.1)
    for loss in (there, back):
        assert loss.delta(closed) <= 1e-3
    p, q = np.array([exp(1), 1]) / (1 + exp(1)), np.array([1, exp(1)]) / (1 + exp(1))
    mixed = 0.1 * p + 0.9 * q
    for epsilon in (0.0, 0.05, 0.1, 0.15):
        assert there.delta(epsilon) >= _exact_delta(mixed, q, epsilon) - 1e-12
        assert back.delta(epsilon) >= _exact_delta(q, mixed, epsilon) - 1e-12


def test_a_kept_answer_never_tells_more_than_its_own_noise() -> None:
    """However often it is shown: the memo itself is the limit, ln(a1 / a0)."""
    there, back = kept_answer(randomized_response(3.0).times(100), 0.75, 0.25)
    for loss in (there, back):
        assert loss.epsilon(1e-12) == pytest.approx(log(3), rel=0.05)
        assert loss.epsilon(1e-12) >= log(3) - 1e-9
    once = kept_answer(randomized_response(1.0), 0.75, 0.25)[0]
    t = 1 / (1 + exp(-1))
    assert once.delta(0.0) == pytest.approx((0.75 - 0.25) * (2 * t - 1), rel=1e-6)


def test_no_test_has_a_smaller_error_pair_than_the_curve_says() -> None:
    """For randomised response the pairs are known: miss = 1 - E alpha, then (1 - alpha) / E."""
    alarms, misses = randomized_response(1.0).error_pairs()
    for alarm, miss in zip(alarms, misses, strict=True):
        assert miss == pytest.approx(max(0, 1 - exp(1) * alarm, (1 - alarm) / exp(1)), abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gaussian_count(0), "the standard deviation of Gaussian noise must be above 0, got 0"),
        (lambda: laplace_count(-1), "the scale of Laplace noise must be above 0, got -1"),
        (lambda: randomized_response(0), "epsilon must be above 0, got 0"),
        (lambda: subsampled(randomized_response(1.0), 0), "the rate of a sample must be above 0 and at most 1, got 0"),
        (lambda: randomized_response(1.0).times(-1), "count must be at least 0, got -1"),
        (lambda: randomized_response(1.0).regridded(1e-9), "a grid of 1e-09 is too fine for losses from -1 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
