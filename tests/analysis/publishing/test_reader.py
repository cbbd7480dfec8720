"""What a reader of published figures learns: every small world is enumerated, and no bound is exceeded in any.

Installs are independent, so the law of all published counts is the convolution of what each adds to every epoch; its
kept answers are summed over. Worlds have 4 to 6 installs and 2 or 3 epochs, with installs that join, leave and change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import exp
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import convolve

from hubbub.analysis.publishing.reader import (
    ANY_HISTORIES,
    CHANGE_TOGETHER,
    ReaderBound,
    ReaderCurves,
    reader_bound,
    reader_curves,
)
from hubbub.analysis.publishing.reader_words import ReaderLabel, epochs_in
from hubbub.protocol.channel import BitChannel, KaryChannel, Noise
from hubbub.protocol.kinds import Choice, Flag, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "metrics.toml"
History = tuple[int | None, ...]
"""The answer of each epoch; None where the install did not take part."""


def _channel(one: int, zero: int) -> BitChannel:
    return BitChannel(Fraction(one, 16), Fraction(zero, 16))


CLEAR = Noise(_channel(12, 4), _channel(15, 1))  # a report shows the kept answer nearly for sure
DIM = Noise(_channel(14, 2), _channel(10, 6))
NEARLY_SHOWN = Noise(_channel(12, 4), BitChannel(Fraction(255, 256), Fraction(1, 256)))
SKEW = Noise(_channel(8, 2), _channel(13, 4))


def flag(noise: Noise) -> Definition:
    return Definition(name="it", every="week", shape=Flag(), noise=noise)


@cache
def adds(history: History, noise: Noise) -> np.ndarray:
    """The law of the bits that one install adds to the counts of all epochs."""
    a1, a0, q, p = (float(x) for stage in (noise.permanent, noise.instantaneous) for x in stage.probabilities)
    law = np.zeros((2,) * len(history))
    for kept in product((0, 1), repeat=2):  # the kept answers to 0 and to 1
        chance = np.prod([[1 - a0, a0][kept[0]], [1 - a1, a1][kept[1]]])
        shown = [0.0 if value is None else (q if kept[value] else p) for value in history]
        for bits in product((0, 1), repeat=len(history)):
            law[bits] += chance * np.prod([s if bit else 1 - s for bit, s in zip(bits, shown, strict=True)])
    return law


@cache
def law_of_counts(histories: tuple[History, ...], noise: Noise) -> np.ndarray:
    first, *rest = histories
    if not rest:
        return adds(first, noise)
    return np.asarray(convolve(law_of_counts(tuple(rest), noise), adds(first, noise), method="direct"))


def exact_delta(one: History, other: History, crowd: Sequence[History], noise: Noise, epsilon: float) -> float:
    p, q = law_of_counts((one, *crowd), noise), law_of_counts((other, *crowd), noise)
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


def bound_for(target: History, crowd: Sequence[History], noise: Noise, delta: float) -> ReaderBound:
    """Of the epochs in which the target took part, each beside as many as reported in it."""
    reported = (
        sum(history[t] is not None for history in (target, *crowd))
        for t, value in enumerate(target)
        if value is not None
    )
    return _bound(tuple(sorted(Counter(reported).items())), noise, delta)


@cache
def _bound(crowds: tuple[tuple[int, int], ...], noise: Noise, delta: float) -> ReaderBound:
    bound = reader_bound(flag(noise), dict(crowds), delta)
    assert bound is not None
    return bound


CROWDS: list[list[History]] = [
    [(0, 0), (0, 0), (1, 1)],
    [(0, 0), (1, 1), (1, 1), (0, 0)],
    [(0, None), (None, 1), (1, 1)],  # one leaves, one joins
    [(0, 1), (1, 0), (0, 0), (1, 1)],  # two change
    [(0, None), (None, 0), (1, 0), (0, 1), (1, 1)],  # all of it
    [(0, 0, 0), (1, 1, 1), (0, 1, 1)],
    [(None, 0, 0), (1, 1, None), (0, 1, 0), (1, None, 1), (0, 0, 0)],
]


def pairs(epochs: int) -> list[tuple[History, History]]:
    """Any two histories of answers, taking part in the same epochs."""
    every = list(product((0, 1), repeat=epochs))
    found: list[tuple[History, History]] = [(a, b) for a in every for b in every if a != b]
    gone = [(*a[:-1], None) for a in every if a[-1] == 0]
    return found + [(a, b) for a in gone for b in gone if a != b]


@pytest.mark.parametrize("noise", [CLEAR, DIM, SKEW], ids=["clear", "dim", "skew"])
@pytest.mark.parametrize("delta", [0.02, 0.1])
def test_no_world_tells_more_than_the_bound(noise: Noise, delta: float) -> None:
    for crowd in CROWDS:
        for one, other in pairs(len(crowd[0])):
            bound = bound_for(one, crowd, noise, delta)
            assert exact_delta(one, other, crowd, noise, bound.life) <= delta
            if len(set(one) - {None}) == len(set(other) - {None}) == 1:  # one kept answer against another
                assert exact_delta(one, other, crowd, noise, bound.one_answer) <= delta


def test_no_world_lets_anybody_guess_better_than_the_curves_say() -> None:
    """Any test of the enumerated counts, also one that tosses a coin, has a pair of errors on or above the curve."""
    for crowd in CROWDS:
        for one, other in pairs(len(crowd[0])):
            reported = [
                sum(h[t] is not None for h in (one, *crowd)) for t, value in enumerate(one) if value is not None
            ]
            curves = _curves(tuple(sorted(Counter(reported).items())), DIM)
            p, q = (law_of_counts((history, *crowd), DIM).ravel() for history in (one, other))
            order = np.argsort(-p / np.maximum(p + q, 1e-300))
            alarms, missed = np.cumsum(q[order]), 1 - np.cumsum(p[order])
            assert all(m >= curves.life.missed_at(a) - 1e-12 for a, m in zip(alarms, missed, strict=True))
            if len(set(one) - {None}) == len(set(other) - {None}) == 1:
                assert all(m >= curves.one_answer.missed_at(a) - 1e-12 for a, m in zip(alarms, missed, strict=True))


@cache
def _curves(crowds: tuple[tuple[int, int], ...], noise: Noise) -> ReaderCurves:
    found = reader_curves(flag(noise), dict(crowds), 0.05)
    assert found is not None
    return found


def test_the_curves_say_what_the_epsilons_say(label: ReaderLabel) -> None:
    """(epsilon, delta) rules out what is below two lines; the curve is above these, and touches them where alarms are
    rare. Nowhere is it below that of the device's own epsilon."""
    delta = label.delta / len(label.bounds)
    for metric in Registry.load(EXAMPLE):
        curves, bound = label.curves[metric.name], label.bounds[metric.name]
        assert curves is not None
        assert bound is not None
        for curve, epsilon, cap in (
            (curves.one_answer, bound.one_answer, metric.epsilon_same_answer),
            (curves.life, bound.life, metric.epsilon_lifetime),
        ):
            for alarm in (1e-6, 1e-3, 0.1, 0.4):
                for most in (epsilon, float(cap)):
                    assert curve.missed_at(alarm) >= 1 - delta - exp(most) * alarm - 2e-6
                assert curve.missed_at(alarm) <= 1 - alarm + 1e-12
        assert curves.life.missed_at(0.3) <= curves.one_answer.missed_at(0.3) + 1e-9


def test_the_one_release_figure_holds_under_its_condition_only() -> None:
    """Nobody joins, leaves or changes: it holds, for any number of epochs. Somebody does: it does not."""
    delta = 0.05
    still: list[History] = [(0, 0), (0, 0), (1, 1), (1, 1)]
    bound = bound_for((0, 0), still, NEARLY_SHOWN, delta)
    assert bound.one_release is not None
    assert bound.one_release < bound.one_answer <= bound.life
    assert exact_delta((0, 0), (1, 1), still, NEARLY_SHOWN, bound.one_release) <= delta
    for one, other, crowd in (
        ((1, 0), (0, 1), still),  # the target changes
        ((0, None), (1, None), still),  # the target leaves
        ((None, 1), (None, 0), [(0, 0), (1, 1), (0, 0), (1, 1)]),  # the target joins
    ):
        assert exact_delta(one, other, crowd, NEARLY_SHOWN, bound.one_release) > 1.5 * delta


def test_a_change_shows_however_many_take_part() -> None:
    """1 then 0 against 0 then 1, kept answers shown as they are: others' kept answers are no fresh crowd."""
    shown = Noise(_channel(12, 4), BitChannel(Fraction(1), Fraction(0)))
    found = []
    for others in (4, 49):
        crowd: list[History] = [(0, 0)] * (others // 2) + [(1, 1)] * (others - others // 2)
        found.append(exact_delta((1, 0), (0, 1), crowd, shown, 0.5))
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert found[1] > 0.3


def test_no_statement_where_a_report_is_as_clear_as_what_is_kept() -> None:
    shown = Noise(_channel(12, 4), BitChannel(Fraction(1), Fraction(0)))
    assert reader_bound(flag(shown), {1000: 52}, 1e-9) is None


def test_a_list_of_bits_says_that_a_change_may_show_and_one_category_does_not() -> None:
    bits = Definition(name="it", every="week", shape=String(num_bits=8, num_hashes=2, num_cohorts=4), noise=DIM)
    bound = reader_bound(bits, {100_000: 4}, 1e-9)
    assert bound is not None
    assert bound.holds_for == CHANGE_TOGETHER
    single = reader_bound(flag(DIM), {25_000: 4}, 1e-9)
    assert single is not None
    assert single.holds_for == ANY_HISTORIES
    assert bound.life > 1.9 * single.life  # two bits lost, two gained: at least twice one bit's, nearly normal
    kary = Noise(KaryChannel(4, Fraction(5, 8), Fraction(1, 8)), KaryChannel(4, Fraction(5, 8), Fraction(1, 8)))
    choice = Definition(name="it", every="week", shape=Choice(choices=("a", "b", "c")), noise=kary)
    found = reader_bound(choice, {1000: 4}, 1e-6)
    assert found is not None
    assert found.holds_for == ANY_HISTORIES
    assert found.one_answer < found.life


@pytest.fixture(scope="module")
def label() -> ReaderLabel:
    return ReaderLabel(Registry.load(EXAMPLE), 20_000, 13)


def test_no_metric_tells_a_reader_more_than_the_device_promises_to_everyone(label: ReaderLabel) -> None:
    for metric in Registry.load(EXAMPLE):
        bound = label.bounds[metric.name]
        assert bound is not None
        assert bound.one_answer <= float(metric.epsilon_same_answer)
        assert bound.life <= float(metric.epsilon_lifetime)
        assert bound.one_release is not None
        assert bound.one_release <= float(metric.epsilon_permanent)


def test_the_label_says_whom_one_must_trust_and_rounds_up(label: ReaderLabel) -> None:
    said = label.words()
    assert said.startswith("TO SOMEONE WHO SEES ONLY PUBLISHED FIGURES")
    assert "With 20,000 installs and figures of 13 weeks, trusting the collector" in " ".join(said.split())
    facts = label.facts()
    for name, bound in label.bounds.items():
        assert bound is not None
        assert 0 <= float(facts["metrics"][name]["epsilon_life"]) - bound.life <= 1e-6
    assert label.life == pytest.approx(sum(bound.life for bound in label.bounds.values() if bound), rel=1e-12)


def test_epochs_of_each_cadence() -> None:
    registry = Registry.load(EXAMPLE)
    assert [epochs_in(registry[name], 52) for name in ("startup_time", "dark_theme", "homepage")] == [364, 52, 12]
    assert epochs_in(registry["homepage"], 1) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1000, 52, 0.01), "delta must be below 1/1000, or everything about one install of 1000 could be published"),
        ((1000, 52, 0.0), "delta must be above 0 and below 1, got 0"),
        ((1000, 0, 1e-9), "weeks must be at least 1, got 0"),
        ((0, 52, 1e-9), "installs and epochs must be at least 1, got 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[int, int, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReaderLabel(Registry.load(EXAMPLE), *arguments)
