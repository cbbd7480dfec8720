"""Beginnings of texts that nobody listed, as a tree one can open: each with its share, below it those that go on."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.analysis.render.digits import Digits
from hubbub.analysis.result import ANSWER, Beginning, Decoding

MOST_BRANCHES = 40
"""At one place: more would be read by nobody, and the JSON has them all."""


@dataclass(frozen=True, slots=True)
class Branch:
    """`found` is a whole text that has a row in the table."""

    text: str
    words: str
    branches: tuple[Branch, ...] = ()
    found: bool = False


def beginnings_view(decoding: Decoding) -> tuple[Branch, ...]:
    """The shortest at the root, the most common first."""
    found = sorted(decoding.beginnings, key=lambda each: (each.length, -each.estimate, each.text))
    digits = Digits.of([(max(each.low, 0.0), min(each.high, 1.0)) for each in found], is_share=True)
    shortest = found[0].length if found else 0
    roots = [each for each in found if each.length == shortest]
    later = [each for each in found if each.length > shortest]
    orphans = [each for each in later if not any(_goes_on(root, each) for root in roots)]
    return tuple(_branch(each, later, decoding, digits) for each in [*roots, *_topmost(orphans)][:MOST_BRANCHES])


def _branch(of: Beginning, later: list[Beginning], decoding: Decoding, digits: Digits) -> Branch:
    mine = [each for each in later if _goes_on(of, each)]
    below = [_branch(each, mine, decoding, digits) for each in _topmost(mine)]
    texts = [
        Branch(value, digits.value(decoding.estimate[i]), found=True)
        for i, value in enumerate(decoding.values)
        if decoding.roles[i] == ANSWER
        and decoding.detected[i]
        and _begins(of, value)
        and not any(_begins(each, value) for each in mine)
    ]
    words = f"{digits.value(of.estimate)}, {digits.interval(of.low, of.high)}"
    return Branch(f"{of.text}…", words, tuple([*below, *texts][:MOST_BRANCHES]))


def _goes_on(one: Beginning, other: Beginning) -> bool:
    return other.length > one.length and other.hex.startswith(one.hex)


def _begins(one: Beginning, value: str) -> bool:
    """What is too long to be found whole is the beginning of no row."""
    return not one.too_long and value.encode().hex().startswith(one.hex)


def _topmost(found: list[Beginning]) -> list[Beginning]:
    """Those that continue no other of them."""
    return [each for each in found if not any(_goes_on(other, each) for other in found)]
