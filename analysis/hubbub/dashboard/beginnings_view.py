"""Beginnings of texts that nobody listed, as a tree one can open: each with its share, below it those that go on; and
all installs accounted for: what was found, what is known in part, what noise hides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.glyphs import Axis, Svg, parts_bar, plain_bar, share_axis
from hubbub.analysis.result import ABSENT, ANSWER, Beginning, Decoding

MOST_BRANCHES = 40
"""At one place: more would be read by nobody, and the JSON has them all."""


@dataclass(frozen=True, slots=True)
class Branch:
    """`found` is a whole text that has a row in the table."""

    text: str
    picture: Svg
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
    tree = _Tree(decoding, digits, share_axis([each.estimate for each in found]))
    return tuple(_branch(each, later, tree) for each in [*roots, *_topmost(orphans)][:MOST_BRANCHES])


@dataclass(frozen=True, slots=True)
class _Tree:
    """What all branches share: digits and scale."""

    decoding: Decoding
    digits: Digits
    axis: Axis

    def branch(self, text: str, share: float, branches: tuple[Branch, ...] = (), *, found: bool = False) -> Branch:
        return Branch(text, plain_bar(self.axis, share), self.digits.value(share), branches, found)


def _branch(of: Beginning, later: list[Beginning], tree: _Tree) -> Branch:
    decoding = tree.decoding
    mine = [each for each in later if _goes_on(of, each)]
    below = [_branch(each, mine, tree) for each in _topmost(mine)]
    texts = [
        tree.branch(value, float(decoding.estimate[i]), found=True)
        for i, value in enumerate(decoding.values)
        if decoding.roles[i] == ANSWER
        and decoding.detected[i]
        and _begins(of, value)
        and not any(_begins(each, value) for each in mine)
    ]
    return tree.branch(f"{of.text}…", of.estimate, tuple([*below, *texts][:MOST_BRANCHES]))


def _goes_on(one: Beginning, other: Beginning) -> bool:
    return other.length > one.length and other.hex.startswith(one.hex)


def _begins(one: Beginning, value: str) -> bool:
    """What is too long to be found whole is the beginning of no row."""
    return not one.too_long and value.encode().hex().startswith(one.hex)


def _topmost(found: list[Beginning]) -> list[Beginning]:
    """Those that continue no other of them."""
    return [each for each in found if not any(_goes_on(other, each) for other in found)]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of all installs, with a sample of its colour."""

    picture: Svg
    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Accounted:
    """All installs as one bar, and what its parts are."""

    picture: Svg
    parts: tuple[Part, ...]


def accounted_view(decoding: Decoding) -> Accounted | None:
    """How all installs divide, where texts were found. Shares are estimates, so the part that is hidden is the rest."""
    found = [i for i, role in enumerate(decoding.roles) if role == ANSWER and decoding.detected[i]]
    if not found or not decoding.beginnings:
        return None
    absent = [i for i, role in enumerate(decoding.roles) if role == ABSENT and np.isfinite(decoding.estimate[i])]
    in_full = sum(float(decoding.estimate[i]) for i in found)
    begun = 0.0
    for each in _topmost(list(decoding.beginnings)):
        known = sum(float(decoding.estimate[i]) for i in found if decoding.values[i].startswith(each.text))
        begun += max(each.estimate - known, 0.0)
    silent = sum(max(float(decoding.estimate[i]), 0.0) for i in absent)
    begun = min(begun, max(1 - in_full - silent, 0.0))  # all of them are estimates, and may add up to more than all
    shares = (
        ("fill", f"{len(found)} found in full", in_full),
        ("soft", "only the beginning is known", begun),
        ("limit", "below the detection limit", max(1 - in_full - begun - silent, 0.0)),
        ("none", "no answer", silent),
    )
    digits = Digits(0, is_share=True)
    return Accounted(
        parts_bar((css, share) for css, _, share in shares),
        tuple(Part(parts_bar([(css, 1.0)], 12), name, digits.value(share)) for css, name, share in shares if share > 0),
    )
