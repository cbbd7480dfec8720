"""What all kinds share: the correction of each row for those beside it."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis import compare, decode
from hubbub.analysis.kinds.rows import adjusted
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, OTHER
from hubbub.protocol.kinds import Choice, String
from tests.analysis.worlds import Strings, define, tally_of
from tests.chance import assert_binomial, power

ALPHA = 0.05


@pytest.mark.parametrize("correction", ["bonferroni", "benjamini-hochberg"])
def test_absent_and_other_together_alarm_falsely_no_more_often_than_one_test(correction):
    """Where neither is there their p-values are uniform: either is found with probability 1 - (1 - alpha/2)^2."""
    trials = 4_000
    uniform = np.random.default_rng(1).uniform(size=(trials, 2))
    roles = [ANSWER, ABSENT, OTHER, NUMBER]
    alarms = sum(
        bool((adjusted(np.array([0.9, *pair, np.nan]), roles, ALPHA, correction)[1:3] <= ALPHA).any())
        for pair in uniform
    )
    assert_binomial(alarms, trials, 1 - (1 - ALPHA / 2) ** 2)
    assert power(trials, 1 - (1 - ALPHA / 2) ** 2, 1 - (1 - ALPHA) ** 2) > 0.999, "uncorrected tests must be noticed"


def test_the_answers_are_corrected_among_themselves_and_no_p_exceeds_one():
    p = np.array([0.01, 0.04, 0.9, 0.6])
    assert adjusted(p, [ANSWER, ANSWER, ABSENT, OTHER], ALPHA, "bonferroni") == pytest.approx([0.02, 0.08, 1.0, 1.0])
    assert adjusted(p, [ANSWER, ANSWER, ABSENT, OTHER], ALPHA, "benjamini-hochberg") == pytest.approx(
        [0.02, 0.04, 1.0, 1.0]
    )


def test_a_decoding_corrects_absent_and_other_for_being_two():
    strings = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=16)), 5)
    tally = tally_of(strings.metric, [4_000, 0, 0, 0, 0, 100], np.random.default_rng(3), strings.where)
    found = decode(tally, strings.texts.tolist())
    assert found.p_adjusted[-2:] == pytest.approx(np.minimum(2 * found.p_value[-2:], 1))
    assert found.p_value[-2] > 0, "with no doubt there would be nothing to correct"


def test_a_change_of_absent_is_corrected_like_its_presence():
    metric = define(Choice(choices=("a", "b", "c")))
    rng = np.random.default_rng(2)
    before, after = (decode(tally_of(metric, counts, rng)) for counts in ([600, 300, 100, 0], [600, 300, 60, 40]))
    found = compare(before, after)
    assert found.roles[-1] == ABSENT
    assert 0 < found.p_value[-1] < 0.5
    assert found.p_adjusted[-1] == pytest.approx(2 * found.p_value[-1])
    assert found.p_adjusted[:3] == pytest.approx(np.minimum(3 * found.p_value[:3], 1))
