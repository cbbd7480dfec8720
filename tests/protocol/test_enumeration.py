"""The privacy claim, proved without sampling: the exact law of the code that draws has exactly the claimed epsilons.

For every kind and sort of channel: the code's own algebra is worked through its whole random space (tests/protocol/
law.py), all masks an install can have are encoded by the code itself, and all outputs and pairs of masks are
compared. A slip of one 2**-24 in any probability is caught by the same check.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client.respond import carry_bit, carry_bits, carry_category, draw_bits, draw_memo, respond
from hubbub.protocol.channel import PRECISION, UNIT, UNITS, BitChannel, KaryChannel, Noise, Units
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.epsilon import exp_below, log_above
from hubbub.protocol.kinds import Choice, Cross, Discovery, Flag, Histogram, Mean, Range, Set, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.shape import Factor, Shape
from tests.chance import assert_binomial, power
from tests.protocol.law import (
    Law,
    category_law,
    every_number,
    measured,
    position_law,
    worst_odds_of_memos,
    worst_odds_of_reports,
)

F = Fraction
MAX_REPORTS = 5


@dataclass(frozen=True)
class Claim:
    """A definition, and what its registry declared about it, if it declared epsilons."""

    metric: Definition
    declared: tuple[Fraction, Fraction] | None


ITEMS = ("a", "b", "c")
SHAPES: dict[str, Shape] = {
    "flag": Flag(),
    "choice of 2": Choice(choices=("a", "b"), absent="a"),
    "choice of 3": Choice(choices=("a", "b"), absent=None),
    "choice of 4": Choice(choices=("a", "b", "c", "d"), absent="d"),
    "string": String(num_bits=4, num_hashes=1, num_cohorts=2),
    "string with 2 hashes": String(num_bits=4, num_hashes=2, num_cohorts=2),
    "string with 2 hashes that overlap": String(num_bits=3, num_hashes=2, num_cohorts=1),
    "string that fills its bits": String(num_bits=2, num_hashes=2, num_cohorts=1),
    "parity of a string": String(num_bits=1, num_hashes=1, num_cohorts=4),
    "discovery": Discovery(discover=True, alphabet="host", max_length=2, step=1, num_bits=4, num_groups=2),
    "mean": Mean(low=F(0), high=F(30), absent=F(0)),
    "mean of 3 points": Mean(low=F(0), high=F(30), absent=F(0), points=3),
    "mean of 4 points": Mean(low=F(-1), high=F(30), absent=F(0), points=4),
    "mean of 2 points with absence apart": Mean(low=F(0), high=F(30), absent="apart"),
    "mean of 3 points with absence apart": Mean(low=F(0), high=F(30), absent="apart", points=3),
    "histogram of 1": Histogram(edges=(F(0), F(1), F(2), F(3)), buckets_per_report=1),
    "histogram of 2": Histogram(edges=(F(0), F(1), F(2), F(3)), buckets_per_report=2),
    "histogram of all": Histogram(edges=(F(0), F(1), F(2), F(3)), buckets_per_report=3),
    "range": Range(low=F(0), high=F(4), num_leaves=4, branching=2),
    "set of 1": Set(items=ITEMS, items_per_report=1),
    "set of 2": Set(items=ITEMS, items_per_report=2),
    "set of all": Set(items=ITEMS, items_per_report=3),
    "cross": Cross(
        factors=(Factor(name="a", shape=Flag()), Factor(name="b", shape=Mean(low=F(0), high=F(2), absent=F(1))))
    ),
}
# So many choices at so small an epsilon go as bits. Six bits are as wide as enumeration goes here.
WIDE = Choice(choices=("a", "b", "c", "d", "e", "f"), absent="a")
EPSILONS = [(F(1), F(2)), (F(1, 2), F(31, 10)), (F(2), F(2))]
PROBABILITIES = [(F(1, 2), F(1, 2), F(3, 4)), (F(1, 3), F(1, 7), F(2, 3)), (F(1, 4), F(0), F(1))]


def _claims() -> Iterator[tuple[str, Claim]]:
    for name, shape in SHAPES.items():
        for one, permanent in EPSILONS:
            yield (
                f"{name}, epsilons {one} {permanent}",
                claim(shape, shape.best_noise(one, permanent), (one, permanent)),
            )
        for f, p, q in () if shape.only_categories else PROBABILITIES:
            yield f"{name}, f={f} p={p} q={q}", claim(shape, rappor_noise(f, p, q))
    small = (F(1, 100), F(1, 2))
    yield "choice of 6 as bits", claim(WIDE, WIDE.best_noise(*small), small)


def claim(shape: Shape, noise: Noise, declared: tuple[Fraction, Fraction] | None = None) -> Claim:
    accumulate = shape.accumulations[0]
    return Claim(Definition(name="metric", every="week", shape=shape, noise=noise, accumulate=accumulate), declared)


CLAIMS = dict(_claims())


def keeps_more(name: str) -> bool:
    """A string whose hashes cannot all move is noised as if they could: it stays below what it declares."""
    return "overlap" in name or "fills" in name


@cache
def masks_of_an_install(shape: Shape, cohort: int) -> frozenset[int]:
    """Every mask that an install of this cohort can have, whatever its value and dither: encoded, not deduced."""
    if shape.factors:  # every pair of what its factors could have been told
        pairs = product(*(categories_of(factor) for factor in shape.factors))
        return frozenset(shape.encode(pair, cohort).mask for pair in [*pairs, ABSENT])
    values = {
        "flag": [True, False],
        "choice": list(getattr(shape, "choices", ())),
        "string": [str(i) for i in range(200)],
        "set": [some for number in range(4) for some in combinations(ITEMS, number)],
    }.get(shape.kind, [F(i, 8) for i in range(-8, 8 * 31)])
    dithers = (0, 2**63, 2**64 - 1) if shape.kind == "mean" else (0,)
    return frozenset(shape.encode(value, cohort, dither).mask for value in [*values, ABSENT] for dither in dithers)


def categories_of(factor: Factor) -> frozenset[int]:
    values = [True, False] if factor.shape.kind == "flag" else [F(i, 8) for i in range(-8, 25)]
    return frozenset(factor.category(value, dither) for value in [*values, ABSENT] for dither in (0, 2**63, 2**64 - 1))


def check(claimed: Claim, drawn: Noise) -> None:
    """Fail unless a device that draws `drawn` has exactly the law that `claimed` promises."""
    metric, law = claimed.metric, measured(drawn)
    memos, reports = worst(law, metric.shape)
    # Exactly: not a digit less, or accuracy is wasted and the label overstates; not a digit more.
    assert memos == metric.noise.odds_permanent(metric.shape.flips)
    for number, odds in enumerate(reports, start=1):
        assert odds == metric.noise.odds_after(number, metric.shape.flips)
        assert odds <= memos
        assert metric.epsilon_after(number) == log_above(odds)
    assert metric.epsilon_permanent == log_above(memos)
    if claimed.declared:
        one_report, permanent = claimed.declared
        assert reports[0] <= exp_below(one_report)
        assert memos <= exp_below(permanent)
        assert metric.epsilon_one_report <= one_report
        assert metric.epsilon_permanent <= permanent


def worst(law: Law, shape: Shape) -> tuple[Fraction, list[Fraction]]:
    """The worst odds over all cohorts, masks and outputs: of the memo, and of 1, 2, ... reports of one value."""
    cohorts = range(shape.num_cohorts)
    memos = max(worst_odds_of_memos(law, masks_of_an_install(shape, c), shape.width(c)) for c in cohorts)
    numbers = range(1, 3 if shape is WIDE else MAX_REPORTS + 1)
    reports = [
        max(worst_odds_of_reports(law, masks_of_an_install(shape, c), shape.width(c), number) for c in cohorts)
        for number in numbers
    ]
    return memos, reports


@pytest.mark.parametrize("name", CLAIMS)
def test_the_law_of_the_code_has_exactly_the_claimed_epsilons(name: str) -> None:
    check(CLAIMS[name], CLAIMS[name].metric.noise)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_slip_of_the_smallest_step_is_caught(name: str) -> None:
    """One 2**-24 more truth or less lie in either stage, all else as it should be."""
    for _, slipped in slips(CLAIMS[name].metric.noise):
        with pytest.raises(AssertionError):
            check(CLAIMS[name], slipped)


@pytest.mark.parametrize("name", [name for name in CLAIMS if CLAIMS[name].declared and not keeps_more(name)])
def test_no_clearer_noise_would_keep_the_declared_epsilons(name: str) -> None:
    """The same slips where they tell most: the declared epsilon itself is then exceeded, so no noise is wasted."""
    claimed = CLAIMS[name]
    assert claimed.declared
    one_report, permanent = map(exp_below, claimed.declared)
    seen = dict(slips(claimed.metric.noise))
    memos, _ = worst(measured(seen["both in the memo"]), claimed.metric.shape)
    assert memos > permanent
    if "both in the report" in seen:  # with equal epsilons the report shows the memo as it is: nothing is clearer
        _, (report, *_) = worst(measured(seen["both in the report"]), claimed.metric.shape)
        assert report > one_report


def slips(noise: Noise) -> Iterator[tuple[str, Noise]]:
    """Noise with one probability wrong by 2**-24, towards clearer answers."""
    match noise.permanent, noise.instantaneous:
        case BitChannel(a1, a0), BitChannel(q, p):
            yield "truth in the memo", Noise(BitChannel(a1 + UNIT, a0), noise.instantaneous)
            yield "lie in the memo", Noise(BitChannel(a1, a0 - UNIT), noise.instantaneous)
            yield "both in the memo", Noise(BitChannel(a1 + UNIT, a0 - UNIT), noise.instantaneous)
            if q < 1:
                yield "truth in the report", Noise(noise.permanent, BitChannel(q + UNIT, p))
            if p > 0:
                yield "lie in the report", Noise(noise.permanent, BitChannel(q, p - UNIT))
            if q < 1 and p > 0:
                yield "both in the report", Noise(noise.permanent, BitChannel(q + UNIT, p - UNIT))
        case KaryChannel() as memo, KaryChannel() as report:
            yield "both in the memo", Noise(clearer(memo), report)
            if report.other > 0:
                yield "both in the report", Noise(memo, clearer(report))


def clearer(channel: KaryChannel) -> KaryChannel:
    others = channel.categories - 1
    return KaryChannel(channel.categories, channel.truth + others * UNIT, channel.other - UNIT)


# --- what the enumeration stands on -------------------------------------------------------------------------------


def test_every_number_is_worked_through_once() -> None:
    words = every_number(6)
    numbers = [sum((word >> position & 1) << digit for digit, word in enumerate(words)) for position in range(64)]
    assert numbers == list(range(64))


@pytest.mark.parametrize("name", [name for name in CLAIMS if "epsilons" in name])
def test_an_install_can_have_as_many_masks_as_its_shape_says(name: str) -> None:
    shape = CLAIMS[name].metric.shape
    most = max(len(masks_of_an_install(shape, cohort)) for cohort in range(shape.num_cohorts))
    assert most == shape.num_masks


def test_two_positions_are_drawn_independently() -> None:
    """The joint law of two positions is the product of their laws: over all 16 x 16 pairs of the highest four digits,
    which are all that thresholds in sixteenths look at; the other digits are set at random to show it."""
    source = random.Random(3)
    words_of_all_pairs = [
        [source.randrange(4) for _ in range(PRECISION - 4)]
        + [(a >> digit & 1) | (b >> digit & 1) << 1 for digit in range(4)]
        for a, b in product(range(16), repeat=2)
    ]
    for one, zero in product((0, 1, 6, 11, 15), repeat=2):
        units = (one * UNITS // 16, zero * UNITS // 16)
        for sent in range(4):
            joint = [0] * 4
            for words in words_of_all_pairs:
                joint[carry_bits(sent, 2, units, words)] += 1
            first, second = (one if sent >> i & 1 else zero for i in range(2))
            assert joint == [(16 - first) * (16 - second), first * (16 - second), (16 - first) * second, first * second]


@given(
    sent=st.integers(0, 2**40 - 1),
    units=st.tuples(st.integers(0, UNITS), st.integers(0, UNITS)),
    words=st.lists(st.integers(0, 2**48 - 1), min_size=PRECISION, max_size=PRECISION),
)
def test_no_position_sees_the_chance_of_another(sent: int, units: Units, words: list[int]) -> None:
    together = carry_bits(sent, 40, units, words)
    alone = [carry_bits(sent >> i & 1, 1, units, [word >> i & 1 for word in words]) << i for i in range(40)]
    assert together == sum(alone)


def test_counting_ones_leaves_out_no_transcript() -> None:
    """All sequences of three reports on two positions, summed over all memos, against the law of counts."""
    noise = CLAIMS["range, epsilons 1/2 31/10"].metric.noise
    law = measured(noise)
    a1, a0 = law.permanent
    q, p = law.instantaneous
    mixed = position_law(law, 3)

    def chance(rate: int, bit: int) -> int:
        return rate if bit else UNITS - rate

    for mask in range(4):
        for sequence in product(product((0, 1), repeat=2), repeat=3):
            total = 0
            for memo in product((0, 1), repeat=2):
                weight = 1
                for i in range(2):
                    weight *= chance(a1 if mask >> i & 1 else a0, memo[i])
                    for report in sequence:
                        weight *= chance(q if memo[i] else p, report[i])
                total += weight
            ones = [sum(report[i] for report in sequence) for i in range(2)]
            assert total == mixed[mask & 1][ones[0]] * mixed[mask >> 1][ones[1]]


@pytest.mark.parametrize("name", ["flag", "choice of 4", "string with 2 hashes", "range"])
def test_a_response_takes_as_many_random_bytes_whatever_happens(name: str) -> None:
    """Timing and the generator's state must not depend on the mask, the memo or the outcome."""
    metric = CLAIMS[f"{name}, epsilons 1 2"].metric
    source = random.Random(1)
    generators = [bytes, lambda size: b"\xff" * size, *[source.randbytes] * 20]
    for cohort in range(metric.shape.num_cohorts):
        taken = set()
        for mask, generator in product(masks_of_an_install(metric.shape, cohort), generators):
            asked: list[int] = []
            respond(metric, mask, cohort, lambda size, asked=asked, make=generator: asked.append(size) or make(size))
            taken.add(tuple(asked))
        (sizes,) = taken
        assert len(sizes) == 2


@pytest.mark.parametrize("units", [(UNITS - 5, 5), (11 << 20, UNITS - (11 << 20)), (UNITS, 0), (UNITS // 2, 77)])
@pytest.mark.parametrize("sent", [0, 1])
def test_a_single_bit_is_carried_as_one_of_many(units: Units, sent: int) -> None:
    """Both ways rise or fall with the random number and turn at a threshold: equal around it, they are equal."""
    for number in {clamped for t in units for clamped in (t - 1, t, t + 1, 0, UNITS - 1) if 0 <= clamped < UNITS}:
        words = [number >> i & 1 for i in range(PRECISION)]
        assert carry_bit(sent, units, int.from_bytes(bytes(words), "little")) == carry_bits(sent, 1, units, words)
        complements = [1 - word for word in words]  # the algebra compares these
        digits = int.from_bytes(bytes(complements), "little")
        assert carry_bit(sent, units, digits) == carry_bits(sent, 1, units, complements)


def test_with_a_memo_the_mask_no_longer_matters() -> None:
    metric = CLAIMS["string, epsilons 1 2"].metric
    answers = {respond(metric, mask, 0, lambda size: b"\x5a" * size, memo=6) for mask in range(16)}
    assert len(answers) == 1
    assert answers.pop().memo == 6


def test_a_stage_without_noise_passes_everything() -> None:
    metric = CLAIMS["string, f=1/4 p=0 q=1"].metric
    for memo in range(16):
        assert draw_bits(metric, memo, 0, os.urandom) == memo


@pytest.mark.parametrize(
    "name", ["string", "string with 2 hashes", "histogram of 2", "flag", "choice of 4", "set of 2"]
)
def test_random_bytes_reach_the_algebra_unspoilt(name: str) -> None:
    """Sampled, because it is the cutting of bytes that is tested. A bit that is set 5 % too often or seldom shows."""
    metric = CLAIMS[f"{name}, epsilons 1/2 31/10"].metric
    draws, source = 12_000, random.Random(7)
    high, low = metric.noise.permanent.probabilities
    for mask in sorted(masks_of_an_install(metric.shape, 0)):
        memos = [draw_memo(metric, mask, 0, source.randbytes) for _ in range(draws)]
        for position in range(metric.shape.width(0)):
            expected = high if mask >> position & 1 else low
            assert_binomial(sum(memo >> position & 1 for memo in memos), draws, expected)
            wrong = expected + (F(1, 20) if expected < F(1, 2) else -F(1, 20))
            assert power(draws, expected, wrong) > 0.999


# --- the full form ------------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_every_number_names_a_category_with_the_claimed_probability(figure) -> None:
    """The quick form finds the numbers at which the outcome changes by bisection; this one tries all 2**24."""
    noise = CLAIMS["choice of 3, epsilons 1/2 31/10"].metric.noise
    for stage in (noise.permanent_units, noise.instantaneous_units):
        for sent in range(3):
            counts = dict.fromkeys((1, 2, 4), 0)
            for number in range(UNITS):
                counts[carry_category(1 << sent, 3, stage, number)] += 1
            assert tuple(counts.values()) == category_law(stage, 3)[sent]
    figure("numbers tried", 6 * UNITS)


@pytest.mark.proof
def test_random_epsilons_are_kept_exactly_by_every_shape(figure) -> None:
    source = random.Random(20261116)
    checked = 0
    for shape in SHAPES.values():
        for _ in range(20):
            one, permanent = sorted(F(source.randrange(10, 8_000), 1000) for _ in range(2))
            claimed = claim(shape, shape.best_noise(one, permanent), (one, permanent))
            check(claimed, claimed.metric.noise)
            checked += 1
    figure("pairs of epsilons, each checked over its whole random space", checked)
