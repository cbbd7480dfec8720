"""Levels disagree where a share that is surely there is larger than it can be, and not where one only stands out."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis.estimation.prefix_search import Beginnings
from hubbub.analysis.kinds.level_agreement import LevelShares, disagreeing_levels, in_short
from hubbub.protocol.kinds import Discovery

SHAPE = Discovery(discover=True, alphabet="host", max_length=4, step=2, num_bits=64, num_groups=8)


def share(estimate: float, p_adjusted: float = 0.0, std_error: float = 0.01) -> LevelShares:
    return LevelShares(np.array([estimate]), np.array([std_error]), np.array([p_adjusted]))


@pytest.mark.parametrize(
    ("larger", "smaller", "beyond"),
    [
        (share(0.2), share(0.11), True),  # 6.4 standard errors of the difference
        (share(0.2), share(0.12), False),  # 5.7
        (share(0.2, 0.0011), share(0.11), False),  # it may stand out by chance
        (share(0.2), share(0.11, std_error=np.inf), False),  # not known
        (share(np.nan, std_error=np.inf), share(np.nan, std_error=np.inf), False),
    ],
)
def test_a_difference_counts_that_is_far_and_of_a_share_that_is_surely_there(
    larger: LevelShares, smaller: LevelShares, beyond: bool
) -> None:
    assert larger.surely_above(smaller).tolist() == [beyond]
    assert smaller.surely_above(larger).tolist() == [False]


@pytest.mark.parametrize(
    ("text", "above", "here", "said"),
    [
        (b"spel", 0.1, 0.3, '"spel" begins the texts of 30 %, and "sp" only those of 10 %'),
        (b"spel", 0.3, 0.1, None),  # others begin so, too
        (b"b", 0.1, 0.3, '"b" is held by 10 % at one level and by 30 % at the next'),
        (b"b", 0.3, 0.1, '"b" is held by 30 % at one level and by 10 % at the next'),
        (b"b", 0.3, 0.29, None),
    ],
)
def test_what_goes_on_is_no_more_and_what_has_ended_is_as_much(
    text: bytes, above: float, here: float, said: str | None
) -> None:
    levels = [Beginnings.asked(SHAPE, [text], level) for level in (0, 1)]
    found = list(disagreeing_levels(levels[0], share(above), levels[1], share(here), np.zeros(1, dtype=np.int64)))
    assert found == ([said] if said else [])


def test_three_are_said_and_the_others_counted() -> None:
    assert in_short([]) == ()
    assert in_short(["one"])[0].startswith("Levels disagree by more than chance: one. Installs are divided")
    assert "chance: 0; 1; 2; and 2 more. Installs" in in_short(list("01234"))[0]
