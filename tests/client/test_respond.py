"""Draws: production asks for the same bytes whatever is sent. (The law of what comes of them: tests/protocol.)"""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from hubbub.client.respond import (
    RandomDraws,
    carry_category,
    draw_bits,
    draw_memo,
    instantaneous_response,
    permanent_response,
    respond,
)
from hubbub.protocol.channel import UNITS
from hubbub.protocol.history import history_of_categories
from hubbub.protocol.registry import Registry
from tests.client.registries import metric, registry

ASKS: Registry = registry(
    metric("theme"),
    metric("page", "string", num_bits=65),
    metric("host", "string", num_bits=64),
    metric("color", "choice", epsilon_one_report=3, epsilon_permanent=4),
    lifetime=100,
)


class Counted:
    """A source of random bytes that notes how many it was asked for."""

    def __init__(self, seed: int) -> None:
        self.sizes: list[int] = []
        self._random = Random(seed)

    def __call__(self, size: int) -> bytes:
        self.sizes.append(size)
        return self._random.randbytes(size)


@pytest.mark.parametrize(("name", "size"), [("theme", 24), ("page", 24 * 9), ("host", 24 * 8), ("color", 3)])
def test_as_many_bytes_are_drawn_for_each_stage_whatever_is_sent_and_whatever_comes(name: str, size: int) -> None:
    found = ASKS[name]
    assert found.one_hot == (name == "color")
    for seed in range(20):
        for mask in (1, 1 << found.shape.width(0) - 1):
            counted = Counted(seed)
            respond(found, mask, 0, counted)
            assert counted.sizes == [size, size]


@pytest.mark.parametrize("name", ["theme", "page", "color"])
def test_draws_made_from_random_bytes_give_what_the_bytes_give(name: str) -> None:
    found = ASKS[name]
    for seed in range(20):
        memo = draw_memo(found, 1, 0, Random(seed).randbytes)
        assert memo == permanent_response(found, 1, 0, RandomDraws(Random(seed).randbytes))
        bits = draw_bits(found, memo, 0, Random(seed).randbytes)
        assert bits == instantaneous_response(found, memo, 0, RandomDraws(Random(seed).randbytes))


def test_a_memo_that_is_given_is_not_drawn_again() -> None:
    counted = Counted(1)
    assert respond(ASKS["page"], 1, 0, counted, memo=5).memo == 5
    assert counted.sizes == [24 * 9]


def test_a_category_is_chosen_by_where_a_number_lies_and_none_lies_beyond_the_last() -> None:
    """Three categories, the middle one sent: numbers below 10 name the first, below 20 the last, all others it."""
    units = (UNITS - 20, 10)
    found = {number: carry_category(0b010, 3, units, number) for number in (0, 9, 10, 19, 20, 21, UNITS - 1)}
    assert found == {0: 0b001, 9: 0b001, 10: 0b100, 19: 0b100, 20: 0b010, 21: 0b010, UNITS - 1: 0b010}


@pytest.mark.parametrize(("number", "many"), [(-1, True), (0, False)])
def test_flags_are_many_exactly_as_often_as_their_history_says(number: int, many: bool) -> None:
    """`above` is so many units of 2**-24: the numbers below it, and not the first one after them."""
    history = history_of_categories(Fraction(2), 4, 5, 2)
    drawn = [int(history.above * UNITS) + number, 0]
    flags = RandomDraws(lambda size: drawn.pop(0).to_bytes(size, "little")).flags(history)
    assert (flags.bit_count() >= history.threshold) == many
    assert drawn == []
