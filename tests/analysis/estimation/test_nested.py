"""Which installs sent how many reports, if the smaller crowd is part of the larger: against all other ways."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from hubbub.analysis.estimation.cells import Cohort, TwoStageNoise, sampling_of
from hubbub.analysis.estimation.crowds import crowds
from hubbub.analysis.estimation.nested import nested
from hubbub.analysis.estimation.shares import shares

E2 = float(np.exp(2))
NOISE = TwoStageNoise(E2 / (E2 + 1), 1 / (E2 + 1), 0.8, 0.1)


def cohort(weeks: list[float], noise: TwoStageNoise = NOISE) -> Cohort:
    reports = np.array(weeks, dtype=np.float64)
    return Cohort(
        noise=noise,
        reports=float(reports.sum()),
        ones=np.array([reports.sum() / 3]),
        sampling=sampling_of(reports),
        parts=nested(reports),
        single_epoch=len(weeks) == 1,
    )


def test_the_installs_of_a_small_week_are_in_the_larger_ones() -> None:
    assert nested(np.array([20.0, 200, 0, 50])) == ((20, 3), (30, 2), (150, 1))
    assert nested(np.array([7.0, 7, 7])) == ((7, 3),)
    assert nested(np.array([7.0])) == ((7, 1),)
    assert nested(np.zeros(3)) == ()


def test_of_all_ways_to_send_these_reports_the_nested_one_has_the_heaviest_tails() -> None:
    """Three weeks of four installs: every choice of who was in which. None has a larger moment generating function, at
    any tilt, whatever the noise and whoever holds the answer."""
    weeks, tilts = (3, 2, 1), np.array([-2, -0.5, 0.1, 1, 3])
    ones = np.arange(4)
    for holds, noise in product((0.0, 0.3, 1.0), (NOISE, TwoStageNoise(0.99, 0.01, 1.0, 0.0))):
        said = holds * noise.a1 + (1 - holds) * noise.a0
        log = np.zeros((4, len(tilts)))
        for k in range(1, 4):
            law = said * binom.pmf(ones, k, noise.q) + (1 - said) * binom.pmf(ones, k, noise.p)
            log[k] = np.log(np.exp(np.outer(tilts, ones)) @ law)
        most = sum(part.installs * log[int(part.reports)] for part in nested(np.array(weeks, dtype=np.float64)))
        for sent in product(*(combinations(range(4), week) for week in weeks)):
            reports = np.bincount(np.concatenate(sent).astype(np.int64), minlength=4)
            assert (sum(log[k] for k in reports) <= most + 1e-12).all()


def test_many_numbers_of_reports_are_told_apart_only_so_far_that_no_tail_gets_lighter() -> None:
    rng = np.random.default_rng(1)
    for weeks in (rng.integers(900, 1_100, 365), np.geomspace(3, 30_000, 365).round(), np.arange(1, 53)):
        reports = weeks.astype(np.float64)
        found = nested(reports)
        n, k = (np.array([part[i] for part in found]) for i in (0, 1))
        every = (reports[:, np.newaxis] > np.arange(reports.max())).sum(axis=0, dtype=np.float64)  # of each install
        assert (every**2).sum() / every.sum() ** 2 == pytest.approx(sampling_of(reports))
        assert len(found) <= 12
        assert (n > 0).all()
        assert (np.diff(k) < 0).all()
        assert (n.sum(), n @ k) == (pytest.approx(reports.max()), pytest.approx(reports.sum()))
        for power in (1.5, 2, 4):
            assert n @ k**power >= (every**power).sum() * (1 - 1e-12)
        assert n @ k**2 <= 1.02 * (every**2).sum()


def test_the_law_of_uneven_weeks_has_the_variance_of_its_estimate() -> None:
    weeks = cohort([50, 200, 20])
    found = shares([weeks], [[0]], 1, 0.0)
    own, of_law = found.variance, found.law(np.array([0])).variance()
    for name in ("floor", "slope", "sampling"):
        assert getattr(of_law, name) == pytest.approx(getattr(own, name))


def test_an_install_moves_an_estimate_by_what_the_fourth_cumulant_says() -> None:
    assert cohort([30, 30, 30]).reports_at_once == pytest.approx(3)
    assert cohort([30]).reports_at_once == pytest.approx(1)
    assert cohort([30, 20]).reports_at_once == pytest.approx(np.sqrt((20 * 16 + 10) / (20 * 4 + 10)))


def test_installs_that_send_most_to_one_definition_do_so_to_the_other() -> None:
    """200 answered the first, 150 of them twice; of these 120 answered the second, 40 of them in both weeks."""
    found = crowds([cohort([200, 150]), cohort([120, 40])], [0, 0])
    assert [(round(crowd.installs), crowd.reports) for crowd in found] == [
        (40, ((0, 2), (1, 2))),
        (80, ((0, 2), (1, 1))),
        (30, ((0, 2),)),
        (50, ((0, 1),)),
    ]
    apart = crowds([cohort([200, 150]), cohort([120, 40])], [0, 1])
    assert [crowd.reports for crowd in apart] == [((0, 2),), ((0, 1),), ((1, 2),), ((1, 1),)]


def test_an_install_that_sent_hundreds_of_reports_beside_many_that_sent_one_overflows_nothing() -> None:
    """Its moves have the largest exponentials; the law is that of the many, which is normal."""
    many = cohort([1e10] + [1.0] * 365, TwoStageNoise(0.9997, 0.0003, 1.0, 0.0))
    law = shares([many], [[0]], 1, 0.0).law(np.array([0]))
    error = np.sqrt(law.variance().floor)
    assert law.p_values(3 * error) == pytest.approx(ndtr(-3), rel=0.01)
    assert law.p_values(np.array([0.5])) == 0
