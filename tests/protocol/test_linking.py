"""What is sent in clear divides installs into as many groups as the label says, and kept noise links as often."""

from __future__ import annotations

from itertools import pairwise
from math import exp, lcm
from random import Random

import numpy as np
import pytest

from hubbub.client.identity import cohort_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import show_bits
from hubbub.protocol.linking import at_most, found_again, num_groups
from hubbub.protocol.registry import Registry
from tests.protocol.test_label import EXAMPLE
from tests.protocol.toml import registry, source

SIX_HISTOGRAMS = (17, 15, 14, 13, 11, 8)


def groups_seen(cohorts: tuple[int, ...], numbers: list[int]) -> int:
    return len({tuple(cohort_of(number, n) for n in cohorts) for number in numbers})


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_counted_as_a_walk_along_the_line_counts_them(seed: int) -> None:
    random = Random(seed)
    cohorts = tuple(random.randint(1, 40) for _ in range(random.randint(1, 5)))
    # No two cuts k/n are nearer than 1/(40 x 40), so a finer walk meets every piece between them.
    walk = [place * 2**62 // 4096 for place in range(4096)]
    assert groups_seen(cohorts, walk) == num_groups(cohorts)


def test_pieces_of_one_line_nest_where_remainders_multiply(figure) -> None:
    """One message with six histograms told 2,042,040 groups of installs apart; of 100,000 nearly all were alone."""
    random = Random(5)
    numbers = [random.getrandbits(62) for _ in range(100_000)]
    by_remainder = len({tuple(number % n for n in SIX_HISTOGRAMS) for number in numbers})  # as it was
    assert groups_seen(SIX_HISTOGRAMS, numbers) == num_groups(SIX_HISTOGRAMS) == 72
    assert lcm(*SIX_HISTOGRAMS) == 2_042_040
    assert by_remainder > 95_000
    figure("groups that six histograms make of 100,000 installs, by remainders and as pieces", f"{by_remainder:,}, 72")


def test_the_example_shows_68_groups(figure) -> None:
    cohorts = Registry.load(EXAMPLE).cohorts
    assert (lcm(*cohorts), num_groups(cohorts)) == (320, 68)
    figure("groups of examples/metrics.toml, by remainders and as pieces", f"{lcm(*cohorts)}, {num_groups(cohorts)}")


def test_a_piece_of_the_line_has_its_share_of_installs() -> None:
    """Of all 2**62 numbers, the least and the most that fall into one of n cohorts differ by one."""
    for n in (1, 2, 3, 5, 128, 65_535):
        cuts = [-(-k * 2**62 // n) for k in range(n + 1)]
        assert {cohort_of(cut, n) for cut in cuts[:-1]} == set(range(n))
        assert all(cohort_of(cut - 1, n) == k for k, cut in enumerate(cuts[1:]))
        assert max(b - a for a, b in pairwise(cuts)) - 2**62 // n <= 1


def test_a_registry_that_tells_too_many_installs_apart_is_refused_unless_it_says_so() -> None:
    with pytest.raises(Invalid) as caught:
        registry("string", num_cohorts="8192")
    assert caught.value.problems == (
        "the cohorts of all metrics must tell at most 2**12 groups of installs apart (max_identifying_bits = 12), "
        "got 8,192",
    )
    text = source("string", {"num_cohorts": "8192"})
    assert Registry.parse("max_identifying_bits = 13\n" + text).max_identifying_bits == 13
    with pytest.raises(Invalid, match=r"max_identifying_bits must be in \[0, 64\], got 65"):
        Registry.parse("max_identifying_bits = 65\n" + text)
    assert at_most(12, [4096])
    assert not at_most(12, [4096, 3])
    assert not at_most(1, iter([4, 8])), "whatever gives the numbers is asked once"


def test_twenty_bits_single_out_nine_in_ten_of_100_000() -> None:
    """Alone in one of 2**20 groups: nobody else of 99,999 is in it."""
    assert show_bits(num_groups([2**16, 2**15])) == "16.00"
    assert exp(-99_999 / 2**20) == pytest.approx(0.909, abs=0.001)


@pytest.mark.parametrize(("kind", "changes"), [("string", {"num_cohorts": "8"}), ("range", {})])
def test_the_label_says_how_often_kept_noise_finds_an_install_again(kind: str, changes: dict[str, str], figure) -> None:
    """Against a crowd drawn by numpy. The label says "about": three in a hundred, and what 600 targets leave open."""
    metric = registry(kind, **changes)["it"]
    crowd, targets, rng = 200, 600, np.random.default_rng(14)
    cohorts = metric.shape.num_cohorts
    width = max(metric.shape.width(cohort) for cohort in range(cohorts))
    a = float(metric.noise.permanent.probabilities[1])
    q, p = (float(x) for x in metric.noise.instantaneous.probabilities)
    alone = a * q + (1 - a) * p
    same = np.array([[a * (1 - q) ** 2 + (1 - a) * (1 - p) ** 2, a * q * (1 - q) + (1 - a) * p * (1 - p)]] * 2)
    same[1] = [same[0, 1], a * q * q + (1 - a) * p * p]
    score = np.log(same / np.outer([1 - alone, alone], [1 - alone, alone]))
    hits = 0.0
    for _ in range(targets):
        near = 1 + rng.binomial(crowd - 1, 1 / cohorts)  # others of its group; the target is the first
        memos = rng.random((near, width)) < a
        first = (rng.random(width) < np.where(memos[0], q, p)).astype(int)
        then = (rng.random((near, width)) < np.where(memos, q, p)).astype(int)
        scores = score[first, then].sum(axis=1)
        best = scores >= scores.max() - 1e-9
        hits += best[0] / best.sum()
    told = found_again([metric], num_groups([cohorts]), crowd)
    figure(f"{kind}: found again by the formula, and of {targets} installs", f"{told:.3f}, {hits / targets:.3f}")
    assert abs(hits / targets - told) < 0.03 + 4.9 * (0.25 / targets) ** 0.5
    assert told > 10 / crowd  # a blind guess, or a score that forgets the memo, would be far off


@pytest.mark.parametrize("groups", [1, 68, 2000])
def test_where_no_kept_noise_is_shown_only_the_group_tells(groups: int) -> None:
    metric = registry("choice", epsilon_one_report="3", epsilon_permanent="4")["it"]
    assert metric.one_hot
    assert found_again([metric], groups, 1000) == min(1.0, groups / 1000)
