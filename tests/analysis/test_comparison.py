"""Two epochs or releases side by side."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode
from hubbub.analysis.render.text import comparison_table
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

METRIC = define(Choice(choices=("a", "b", "c")))


def side(counts, rng, **options):
    return decode(tally_of(METRIC, counts, rng), options=Options(**options))


def test_differences_of_different_installs_cover():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(500):
        found = compare(side([6_000, 3_000, 1_000, 0], rng), side([5_000, 4_000, 1_000, 0], rng))
        hits += bool(found.low[1] <= 0.1 <= found.high[1])
    assert_binomial(hits, 500, 0.95)
    assert power(500, 0.95, 0.85) > 0.99


def test_a_change_is_seen_and_no_change_is_not():
    rng = np.random.default_rng(2)
    before, after = side([600_000, 300_000, 100_000, 0], rng), side([500_000, 400_000, 100_000, 0], rng)
    found = compare(before, after)
    assert found.changed.tolist() == [True, True, False, False]
    text = comparison_table(found)
    assert "changed" in text
    assert "no change seen" in text
    assert "variances add" in text


def test_what_cannot_be_compared_is_refused_in_words():
    rng = np.random.default_rng(3)
    ours = side([10, 10, 10, 10], rng)
    with pytest.raises(Invalid, match="must have the same estimand, got 'reporting' and 'population'"):
        compare(ours, side([10, 10, 10, 10], rng, estimand="population"))
    with pytest.raises(Invalid, match="must have the same kind, got 'choice' and 'flag'"):
        compare(ours, decode(tally_of(define(Flag()), [10, 10], rng)))
