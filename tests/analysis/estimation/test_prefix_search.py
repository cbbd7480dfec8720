"""The search's arrays agree with the client, byte for byte, and leave nothing out that an alphabet allows."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis.estimation.prefix_search import Beginnings, best, continuations, positions, transitions
from hubbub.protocol.kinds import Discovery

HOST = Discovery(discover=True, alphabet="host", max_length=5, step=2, num_bits=100, num_groups=3)
BYTES = Discovery(discover=True, alphabet="bytes", max_length=9, step=2, num_bits=300, num_groups=2)
NAMES = ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "0+-._"]
TEXTS = ["", "a", "\u00e9", "e\u20ac", "\u20ac\u20ac\u20ac", "a\U0001f600b\U0001f600", "\ufffd", "\u65e5\u672c\u8a9e!"]


@pytest.mark.parametrize(("shape", "texts"), [(HOST, NAMES), (BYTES, TEXTS)], ids=["host", "bytes"])
def test_a_text_has_the_bit_that_the_client_sets(shape: Discovery, texts: list[str]) -> None:
    symbols = [shape.symbols(text) for text in texts]
    for level in range(shape.num_levels):
        where = positions(shape, Beginnings.asked(shape, symbols, level).states, level)
        for group, row in enumerate(where):
            cohort = level * shape.num_groups + group
            assert [1 << int(bit) for bit in row] == [shape.encode(text, cohort).mask for text in texts]


@pytest.mark.parametrize(("shape", "texts"), [(HOST, NAMES), (BYTES, TEXTS)], ids=["host", "bytes"])
def test_every_text_is_reached_level_by_level_and_once(shape: Discovery, texts: list[str]) -> None:
    for text in texts:
        symbols = [shape.symbols(text)]
        known = Beginnings.nothing(shape.max_length)
        for level in range(shape.num_levels - 1):
            grown = continuations(shape, known, level)
            asked = Beginnings.asked(shape, symbols, level)
            (row,) = np.flatnonzero(grown.states == asked.states[0])
            known = grown.only(np.array([row]))
            assert known.raw(0) == symbols[0][: shape.reach(level)]
            assert (known.ended[0], known.within[0]) == (asked.ended[0], asked.within[0])
            assert len(np.unique(grown.states)) == len(grown)


def test_a_search_of_names_looks_at_every_beginning_there_can_be() -> None:
    """One or two bytes more, or the end: 1 + 40 + 40 x 40; at the greatest length, whether it ends or goes on."""
    start = Beginnings.nothing(5)
    first = continuations(HOST, start, 0)
    assert len(first) == 1 + 40 + 40 * 40
    rows = np.flatnonzero(~first.ended)[:7]
    assert len(continuations(HOST, first.only(rows), 1)) == 7 * len(first)
    second = continuations(HOST, first.only(rows), 1)
    rows = np.flatnonzero(~second.ended)[:3]
    assert len(continuations(HOST, second.only(rows), 2)) == 3 * (1 + 2 * 40)


def test_what_has_ended_stays_as_it_is() -> None:
    first = continuations(HOST, Beginnings.nothing(5), 0)
    ended = first.only(np.flatnonzero(first.ended))
    again = continuations(HOST, ended, 1)
    assert np.array_equal(again.states, ended.states)


def test_of_utf_8_just_what_texts_are_made_of_is_proposed() -> None:
    """Every 61st character and those at the edges, as bytes; no control character, surrogate or overlong form."""
    table = transitions("bytes")

    def after(symbols: bytes) -> int:
        place = 0
        for byte in symbols:
            if place < 0:
                return -1
            place = int(table[place, byte])
        return place

    edges = {0x20, 0x7E, 0xA0, 0x7FF, 0x800, 0xFFF, 0x1000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x10FFFF}
    for code in sorted(edges | set(range(0xA0, 0x110000, 61))):
        if not 0xD800 <= code < 0xE000:
            assert after(chr(code).encode()) == 0, hex(code)
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        assert after(chr(code).encode()) == -1, hex(code)
    for wrong in (b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\x80"):
        assert -1 in [after(wrong[:size]) for size in range(1, len(wrong) + 1)], wrong


def test_the_best_are_those_with_the_largest_scores_and_of_equal_ones_the_first() -> None:
    assert best(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 3).tolist() == [1, 2, 3]
    assert best(np.array([1.0, 2.0]), 3).tolist() == [0, 1]
