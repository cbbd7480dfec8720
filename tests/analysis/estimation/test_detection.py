"""The rule of detection, against its definitions: corrections for many tests, levels, counts that are needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.estimation.detection import Rule


def test_bonferroni_and_benjamini_hochberg_are_as_defined():
    p = np.array([0.001, np.nan, 0.04, 0.02, 0.5])
    by_any, by_share = (Rule.of(p, 0.05, correction) for correction in ("bonferroni", "benjamini-hochberg"))
    assert by_any.adjusted(p)[[0, 2, 3, 4]] == pytest.approx([0.004, 0.16, 0.08, 1.0])
    known = p[[0, 2, 3, 4]]
    assert by_share.adjusted(p)[[0, 2, 3, 4]] == pytest.approx(stats.false_discovery_control(known))
    assert np.isnan(by_any.adjusted(p)[1])
    assert np.isnan(by_share.adjusted(p)[1])


def test_rows_are_detected_where_the_corrected_test_passes_and_the_level_is_that_of_the_last():
    p = np.array([0.001, np.nan, 0.012, 0.02, 0.5])
    rule = Rule.of(p, 0.05)
    assert np.flatnonzero(rule.detected(p)).tolist() == [0, 2]
    assert rule.level == pytest.approx(0.05 / 4)
    rule = Rule.of(p, 0.05, "benjamini-hochberg")
    assert np.flatnonzero(rule.detected(p)).tolist() == [0, 2, 3]
    assert rule.level == pytest.approx(0.05 * 3 / 4)
    assert Rule.of(np.array([0.9, 0.8]), 0.05, "benjamini-hochberg").level == pytest.approx(0.05 / 2)


def test_rows_that_are_not_here_and_second_sides_are_corrected_for() -> None:
    p = np.array([0.001, 0.004])
    rule = Rule.of(p, 0.05, others=8)
    assert rule.level == pytest.approx(0.005)
    assert rule.adjusted(p) == pytest.approx([0.01, 0.04])
    both = Rule(10, 0.05, sides=2)
    assert both.level == pytest.approx(0.0025)
    assert both.adjusted(p) == pytest.approx([0.02, 0.08])
    assert both.detected(p).tolist() == [True, False]


def test_without_a_test_nothing_is_detected() -> None:
    p = np.full(3, np.nan)
    for correction in ("bonferroni", "benjamini-hochberg"):
        rule = Rule.of(p, 0.05, correction)
        assert not rule.detected(p).any()
        assert rule.level == 0.05


def test_the_line_is_where_the_binomial_tail_has_the_level() -> None:
    rule = Rule(20, 0.05)
    for reports, p_star in ((50, 3e-4), (1_000, 0.02), (100_000, 0.27)):
        line = rule.line(reports, p_star, 0.6)
        ones = reports * (p_star + 0.6 * line)
        above, below = np.ceil(ones), np.ceil(ones) - 1
        assert stats.binom.sf(above - 1, reports, p_star) <= rule.level < stats.binom.sf(below - 1, reports, p_star)
    sure = (1 - 0.3) / 0.6
    assert rule.line(2, 0.3, 0.6) > sure, "two ones of two reports have a chance of .09: no count is enough"
    assert rule.line(0, 0.3, 0.6) == np.inf


@pytest.mark.parametrize("p_star", [1e-4, 0.01, 0.3])
def test_the_fewer_reports_the_higher_the_line(p_star: float) -> None:
    """Which is why the floor of a table asks for the answer with the fewest."""
    lines = [Rule(20, 0.05).line(reports, p_star, 0.6) for reports in [*range(1, 200), 1_000, 1e5, 1e7]]
    assert all(more < fewer for fewer, more in pairwise(lines))
