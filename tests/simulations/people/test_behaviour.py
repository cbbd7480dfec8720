"""Behaviour is checked when it is made and said in words."""

from __future__ import annotations

import pytest

from hubbub.protocol.invalid import Invalid
from hubbub.simulations.people.behaviour import Behaviour


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"change": 1.5}, "change must be in [0, 1], got 1.5"),
        ({"away": 1.0}, "away must be at least 0 and below 1, got 1"),
        ({"consent": 0.0}, "consent must be above 0 and at most 1, got 0"),
        ({"drift": -0.6}, "drift must be in [-0.5, 1], got -0.6"),
        ({"season": (0.5, 0.1)}, "season must be a period of at least 1 epoch and an amount in [0, 1], got 0.5,0.1"),
    ],
)
def test_behaviour_that_cannot_be_is_refused(wrong, words):
    with pytest.raises(Invalid) as refusal:
        Behaviour(**wrong)
    assert str(refusal.value) == words


def test_behaviour_is_said_in_words():
    assert Behaviour().words() == "answers that never change"
    assert (
        Behaviour(change=0.02, season=(7, 0.2), consent=0.3).words()
        == "change 2 %, season of 7 epochs by 20 %, consent 30 %"
    )
