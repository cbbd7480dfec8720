"""The noise of published counts has exactly the law it claims, and no float has a say in it."""

from __future__ import annotations

import ast
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.analysis.publishing import discrete_noise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from tests.analysis.publishing.decisions import (
    Scripted,
    WithExpCoins,
    WithLaplace,
    exp_minus,
    farthest,
    gaussian_law,
    given_kept,
    laplace_law,
    law_of,
)

EXACT = 1e-9
SCALES = (Fraction(1), Fraction(5, 2), Fraction(10), Fraction(1, 3))
VARIANCES = (Fraction(1, 4), Fraction(2), Fraction(27, 4), Fraction(36))


def test_numbers_below_a_limit_are_even_and_take_as_few_bits_as_they_can() -> None:
    """Every first byte there is: what is kept of it names each number equally often."""
    for limit in (1, 2, 5, 7, 128, 200, 256):
        kept: Counter[int] = Counter()
        for byte in range(256):
            answers = [b"", bytes([byte])]
            asked: list[int] = []

            def random(size: int, answers: list[bytes] = answers, asked: list[int] = asked) -> bytes:
                asked.append(size)
                if len(asked) > 1:
                    raise StopIteration
                return answers[size]

            with suppress(StopIteration):  # would be drawn again
                kept[NoiseSource(random).below(limit)] += 1
        assert set(kept) == set(range(limit))
        assert len(set(kept.values())) == 1
        assert sum(kept.values()) > 128


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(3, 2)])
def test_an_exponential_coin_comes_up_with_exactly_its_probability(gamma: Fraction) -> None:
    law, left_out = law_of(lambda source: source.exp_coin(gamma.numerator, gamma.denominator), Scripted)
    assert left_out < EXACT / 2
    assert abs(law[True] - exp_minus(gamma)) < EXACT


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_noise_has_exactly_its_law(scale: Fraction) -> None:
    law, left_out = law_of(lambda source: source._laplace_try(scale), WithExpCoins)
    assert left_out < EXACT / 4
    assert farthest(given_kept(law), laplace_law(scale, 400)) < EXACT


@pytest.mark.parametrize("variance", VARIANCES)
def test_gaussian_noise_has_exactly_its_law(variance: Fraction) -> None:
    law, left_out = law_of(lambda source: source._gaussian_try(variance), WithLaplace)
    assert left_out < EXACT / 4
    assert farthest(given_kept(law), gaussian_law(variance, 100)) < EXACT


@pytest.mark.parametrize(
    ("scores", "rate"),
    [([5, 3, 3, 0], Fraction(1, 2)), ([0, 0, 0], Fraction(3)), ([7], Fraction(1)), ([40, 41, 1], Fraction(1, 30))],
)
def test_the_exponential_mechanism_has_exactly_its_law(scores: list[int], rate: Fraction) -> None:
    law, left_out = law_of(lambda source: source._likely_try(scores, rate), WithExpCoins)
    assert left_out < EXACT / 4
    weights = [exp_minus(rate * (max(scores) - score)) for score in scores]
    exact = {i: weight / sum(weights) for i, weight in enumerate(weights)}
    assert farthest(given_kept(law), exact) < EXACT


def test_a_choice_among_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a choice needs something to choose from"):
        NoiseSource(os.urandom).likely([], Fraction(1))


class _TwoZeros(WithExpCoins):
    def _laplace_try(self, scale: Fraction) -> int | None:
        drawn = super()._laplace_try(scale)
        return 0 if drawn is None and self._place == len(self._script) and self._script[-1] == 1 else drawn


class _Uncentred(WithLaplace):
    def _gaussian_try(self, variance: Fraction) -> int | None:
        drawn = self.laplace(Fraction(3))
        return drawn if self.exp_coin(drawn * drawn, int(2 * variance)) else None


@pytest.mark.parametrize(
    ("draw", "source", "law"),
    [
        (lambda s: s._laplace_try(Fraction(5, 2)), _TwoZeros, laplace_law(Fraction(5, 2), 200)),
        (lambda s: s._gaussian_try(Fraction(6)), _Uncentred, gaussian_law(Fraction(6), 60)),
    ],
    ids=["zero has both signs", "the shift is forgotten"],
)
def test_a_planted_slip_is_caught(
    draw: Callable[[Scripted], int | None], source: type[Scripted], law: dict[int, Fraction]
) -> None:
    found, _ = law_of(draw, source)
    assert farthest(given_kept(found), law) > 1000 * EXACT


def test_no_float_has_a_say() -> None:
    """Neither a float is written, nor are whole numbers divided into one."""
    tree = ast.parse(Path(discrete_noise.__file__).read_text(encoding="utf-8"))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "float"]


@pytest.mark.parametrize("wrong", [Fraction(0), Fraction(-1)])
def test_noise_without_width_is_refused(wrong: Fraction) -> None:
    with pytest.raises(ValueError, match="the scale of Laplace noise must be above 0"):
        NoiseSource(os.urandom).laplace(wrong)
    with pytest.raises(ValueError, match="the variance of Gaussian noise must be above 0"):
        NoiseSource(os.urandom).gaussian(wrong)


@pytest.mark.proof
def test_draws_are_fast_enough_for_a_release(figure: Callable[[str, object], None]) -> None:
    """8,192 cells, as a string metric of 128 cohorts and 64 bits has, for a year of months: under a minute."""
    source = NoiseSource(os.urandom)
    for name, draw in (
        ("Gaussian, sd 20", lambda: source.gaussian(Fraction(400))),
        ("Laplace, epsilon 0.1", lambda: source.laplace(Fraction(10))),
    ):
        start = time.process_time()
        for _ in range(10_000):
            draw()
        each = (time.process_time() - start) / 10_000
        figure(f"one draw, {name}", f"{each * 1e6:.1f} us")
        assert each * 8192 * 12 < 60
