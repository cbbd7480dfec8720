"""Samples, lists that grow and absence asked apart, where other parts of a registry meet them: what is refused, how."""

from __future__ import annotations

import pytest

from hubbub.protocol.compiled import compiled
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from tests.protocol.toml import registry, source


def beside_a_flag(kind: str, more: str, **changes: str) -> Registry:
    """A metric `it`, a flag `other`, and what stands behind both."""
    flag = source("flag").partition("[metrics.it]")[2]
    return Registry.parse(source(kind, changes) + f"[metrics.other]{flag}{more}")


TOGETHER = '[together.both]\nmetrics = ["it", "other"]\n'
CROSS = (
    "[metrics.both]" + source("flag").partition("[metrics.it]")[2].replace("flag", "cross") + 'of = ["it", "other"]\n'
)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        (
            "choice",
            {"reserve": "2"},
            "metrics must have no reserve: a pair has no place for names that come later, got it",
        ),
        ("mean", {"absent": '"apart"'}, "metrics must not ask absence apart, as it does: a pair is of answers"),
        ("flag", {"sample": '"1/10"'}, "metrics must be asked of all installs, got sample = 1/10 of it"),
    ],
)
def test_pairs_are_of_answers_that_have_names_and_of_all_installs(
    kind: str, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(Invalid) as caught:
        beside_a_flag(kind, TOGETHER, **changes)
    assert f"[together.both] {words}" in caught.value.problems


def test_a_cross_takes_no_list_with_a_reserve() -> None:
    with pytest.raises(Invalid) as caught:
        beside_a_flag("choice", CROSS, reserve="2", named='["d"]')
    words = "[metrics.both] a cross is made of flags, choices, histograms and means, got it, a choice with a reserve"
    assert words in caught.value.problems


def test_in_a_cross_absence_asked_apart_is_a_category() -> None:
    asks = beside_a_flag("mean", CROSS, absent='"apart"', points="3", max_values="4")
    assert asks["both"].shape.categories == 8
    factor = asks["it"].shape
    assert (factor.told_as(ABSENT, 0), factor.told_as(0, 0), factor.told_as(30, 0)) == (3, 0, 2)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("choice", {"reserve": "2"}, "reserve must be 0 for clients in other languages"),
        ("set", {"reserve": "2", "named": '["x", "y"]'}, "reserve must be 0 for clients in other languages"),
        ("flag", {"sample": '"1/10"'}, "sample must be 1 for clients in other languages, got 1/10"),
        (
            "set",
            {"every": '"once"', "max_values": "1", "epsilon_one_report": "2"},
            "items_per_report must be 1 for a set that is asked once",
        ),
    ],
)
def test_what_clients_in_other_languages_do_not_know_is_not_compiled(kind, changes, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        compiled(registry(kind, **changes))
    (problem,) = caught.value.problems
    assert problem == f"[metrics.it] {words}: the compiled format, version 1, has no place for it"


def test_a_mean_with_absence_apart_is_not_compiled() -> None:
    with pytest.raises(Invalid, match="got 'mean_apart': the compiled format"):
        compiled(registry("mean", absent='"apart"'))
