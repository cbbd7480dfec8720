"""Subset selection for choices that are asked once: its exact law by enumeration, its choice, its refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import comb, exp

import pytest

from hubbub.client.respond import RandomDraws, carry_subset, draw_bits, draw_memo
from hubbub.protocol.channel import AS_IT_IS, SUBSET_PRECISION, BitChannel, Noise, SubsetChannel
from hubbub.protocol.epsilon import exp_below, log_above
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice
from hubbub.protocol.label import words_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import kary_noise, many_bit_noise, subset_noise
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Report
from tests.registry_head import head

F = Fraction
WITHIN_TWO_PERCENT = {F(1, 2): 42, F(1): 50, F(2): 83, F(3): 165, F(4): 256}
"""For each epsilon, up to how many categories the bound is reached but for 2 %."""


def choice(categories: int) -> Choice:
    names = tuple(f"choice {i}" for i in range(categories))
    return Choice(choices=names, absent=names[0])


def asked_once(categories: int, epsilon: F) -> Definition:
    shape = choice(categories)
    return Definition(name="asked", every="once", shape=shape, noise=shape.best_noise(epsilon, epsilon, once=True))


def laws(channel: SubsetChannel) -> Iterator[dict[int, int]]:
    """For each category sent, how many numbers give each subset: the code is fed with both ends of every range of
    numbers that it divides into one subset."""
    starts = [i * channel.held for i in range(channel.with_sent)]
    starts += [channel.with_sent * channel.held + i * channel.other for i in range(channel.without_sent)]
    for sent in range(channel.categories):
        law: dict[int, int] = {}
        for start, end in pairwise([*starts, channel.units]):
            named = carry_subset(1 << sent, channel, start)
            assert named == carry_subset(1 << sent, channel, end - 1)
            assert named not in law
            law[named] = end - start
        yield law


@pytest.mark.parametrize(("categories", "epsilon"), [(8, F(1, 2)), (8, F(1)), (10, F(1)), (9, F(1, 3)), (16, F(2))])
def test_no_subset_tells_more_than_epsilon_and_some_tell_all_of_it(categories: int, epsilon: F) -> None:
    metric = asked_once(categories, epsilon)
    channel = metric.noise.permanent
    assert isinstance(channel, SubsetChannel)
    found = list(laws(channel))
    every = set(found[0])
    assert len(every) == comb(categories, channel.size)
    assert all(subset.bit_count() == channel.size and not subset >> categories for subset in every)
    assert all(set(law) == every and sum(law.values()) == channel.units for law in found)
    worst = max(F(max(odds), min(odds)) for odds in ([law[subset] for law in found] for subset in every))
    for reports in (1, 2, 7):
        assert metric.noise.odds_after(reports, metric.shape.flips) == worst
    assert metric.noise.odds_permanent(metric.shape.flips) == worst
    assert worst <= exp_below(epsilon)
    assert metric.epsilon_one_report == metric.epsilon_permanent == log_above(worst)
    assert log_above(worst) < epsilon + F(1, 10**6), "shown with six digits, rounded up"
    assert worst > exp_below(epsilon) * (1 - F(1, 2**12)), "and not much less: noise is not wasted"
    (q, p), (one, neither) = channel.probabilities, channel.pairs
    assert (metric.noise.q_star, metric.noise.p_star) == (q, p)
    for sent in (0, categories - 1):
        for a, b in ((0, 1), (1, categories - 1), (2, 3)):
            held = sum(times for subset, times in found[sent].items() if subset >> a & 1)
            both = sum(times for subset, times in found[sent].items() if subset >> a & 1 and subset >> b & 1)
            assert F(held, channel.units) == (q if a == sent else p)
            assert F(both, channel.units) == (one if sent in (a, b) else neither)


def bound(d: int, epsilon: F) -> float:
    """The least total squared error of any mechanism, times n (Ye, Barg 2018), as docs/benchmarks.md has it."""
    e = exp(epsilon)
    return min((d - 1) ** 2 * (w * e + d - w) ** 2 / (d * w * (d - w) * (e - 1) ** 2) for w in range(1, d))


def without_subsets(epsilon: F, d: int) -> float:
    """The variance of the better of one category and bits."""
    return min(variance(kary_noise(epsilon, epsilon, d), d), variance(many_bit_noise(epsilon, epsilon, 1), d))


def variance(noise: Noise, d: int) -> float:
    """n times the sum of squared errors of all shares, where they are even, with the sampling of installs."""
    q, p = (float(probability) for probability in noise.composed.probabilities)
    return d * (p * (1 - p) / (q - p) ** 2 + (1 - p - q) / ((q - p) * d)) + 1 - 1 / d


@pytest.mark.parametrize("epsilon", WITHIN_TWO_PERCENT)
def test_subsets_reach_the_bound_and_are_taken_where_they_are_better(epsilon: F) -> None:
    """Exactly, from the channels as they are drawn, for every number of categories. Of many, the best subsets can be
    too many for 2**48 units."""
    for d in range(2, 257):
        noise, others = choice(d).best_noise(epsilon, epsilon, once=True), without_subsets(epsilon, d)
        assert variance(noise, d) <= others * (1 + 1e-6)
        assert isinstance(noise.permanent, SubsetChannel) is (variance(noise, d) < others * (1 - 1e-6))
        assert variance(noise, d) < (1.02 if d <= WITHIN_TWO_PERCENT[epsilon] else 1.07) * bound(d, epsilon)


@pytest.mark.parametrize(
    ("epsilon", "gains"),
    [
        (F(1, 2), {8: 24.6, 16: 12.8, 32: 6.5}),
        (F(1), {8: 19.2, 16: 14.7, 32: 7.6}),
        (F(2), {8: 0.0, 16: 11.5, 32: 13.4}),
        (F(4), {64: 0.0, 128: 15.5, 160: 15.1, 256: 9.9}),
    ],
)
def test_subsets_gain_what_the_documents_say(epsilon: F, gains: dict[int, float]) -> None:
    """Percent less total squared error than with the better of one category and bits."""
    found = {
        d: 1 - variance(choice(d).best_noise(epsilon, epsilon, once=True), d) / without_subsets(epsilon, d)
        for d in gains
    }
    assert {d: round(100 * gain, 1) for d, gain in found.items()} == gains


def test_answers_that_are_repeated_are_never_subsets() -> None:
    for d in (8, 16):
        assert not isinstance(choice(d).best_noise(F(1), F(1)).permanent, SubsetChannel)
    metric = asked_once(8, F(1))
    for every in ("day", "week", "month"):
        with pytest.raises(Invalid, match=f'a subset channel needs every = "once", .* got {every!r}'):
            metric.replace(every=every)
    assert subset_noise(F(1), 100) is None, "too many to be drawn in 2**48 units"
    assert subset_noise(F(8), 8) is None, "the truth alone is better"


def test_a_registry_takes_subsets_for_what_is_asked_once() -> None:
    text = head("app", 10) + (
        '[metrics.it]\nkind = "choice"\nevery = "EVERY"\nchoices = ["a", "b", "c", "d", "e", "f", "g", "h"]\n'
        'absent = "a"\nepsilon_one_report = 1\nepsilon_permanent = 2\nMAXwhy = "to know"\nowner = "me@example.org"\n'
        "expires = 2030-01-01\n"
    )
    once = Registry.parse(text.replace("EVERY", "once").replace("MAX", ""))["it"]
    weekly = Registry.parse(text.replace("EVERY", "week").replace("MAX", "max_values = 1\n"))["it"]
    assert (once.weight, weekly.weight) == (2, 1)
    assert once.epsilon_permanent <= 1, "told once, it tells no more for ever"
    assert words_of(once)["sent"] == (
        "2 answers out of 8. In 48 of 100 messages the true one is among them; any other answer is in 22 of 100."
    )
    assert Definition.from_json(json.loads(json.dumps(once.to_json()))).metric_hash == once.metric_hash


def test_a_number_beyond_all_units_is_drawn_again() -> None:
    metric = asked_once(8, F(1))
    channel = metric.noise.permanent
    assert isinstance(channel, SubsetChannel)
    assert channel.units < 1 << SUBSET_PRECISION
    numbers = iter([(1 << SUBSET_PRECISION) - 1, channel.units, channel.units - 1])
    draws = RandomDraws(lambda size: next(numbers).to_bytes(size, "little"))
    assert draws.subset(channel, 1) == channel.units - 1
    assert not list(numbers)


def test_a_report_is_the_subset_as_it_was_drawn() -> None:
    metric = asked_once(16, F(1))
    memo = draw_memo(metric, 1 << 5, 0, lambda size: bytes([7]) * size)
    assert memo.bit_count() == metric.weight == 4
    assert draw_bits(metric, memo, 0, lambda size: bytes([123]) * size) == memo


@pytest.mark.parametrize(("bits", "set_"), [(0, 0), (1, 1), (7, 3), (255, 8)])
def test_a_report_with_another_number_of_bits_is_refused_in_words(bits: int, set_: int) -> None:
    metric = asked_once(8, F(1))
    assert Report(metric, 0, 0, 0b11).bits == 3
    with pytest.raises(Invalid, match=f"bits must have exactly 2 positions set, got {set_}"):
        Report(metric, 0, 0, bits)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ((2, 2, 2, 1), "a subset channel needs from 3 to 256 categories, got 2"),
        ((257, 2, 2, 1), "a subset channel needs from 3 to 256 categories, got 257"),
        ((8, 1, 2, 1), "a subset's size must be at least 2 and below categories=8, got 1"),
        ((8, 8, 2, 1), "a subset's size must be at least 2 and below categories=8, got 8"),
        ((8, 2, 1, 1), "a subset channel needs 0 < other < held, got other=1, held=1"),
        ((8, 2, 1, 0), "a subset channel needs 0 < other < held, got other=0, held=1"),
        ((8, 2, 2**46, 1), f"the units of all subsets must be at most 2**48, got {7 * 2**46 + 21}"),
    ],
)
def test_a_subset_channel_must_be_a_law_that_can_be_drawn(channel: tuple[int, int, int, int], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        SubsetChannel(*channel)
    assert caught.value.problems == (words,)


def test_a_subset_is_reported_as_it_is_and_belongs_to_as_many_categories() -> None:
    channel = SubsetChannel(8, 2, 2, 1)
    with pytest.raises(Invalid, match="a subset must be reported as it is"):
        Noise(channel, BitChannel(F(3, 4), F(1, 4)))
    with pytest.raises(Invalid, match="a subset channel of 8 needs a choice of as many categories"):
        Definition(name="asked", every="once", shape=choice(9), noise=Noise(channel, AS_IT_IS))
