"""Crosses in words: the label and its sums, the short text, the page for people, what is warned of and asked anew."""

from __future__ import annotations

from datetime import date

import pytest

from hubbub.protocol.changes import asks_more
from hubbub.protocol.epsilon import certainty, log_above, show
from hubbub.protocol.label import facts, short, words
from hubbub.protocol.lint import warnings
from hubbub.protocol.privacy_page import privacy_page
from hubbub.protocol.registry import Registry
from tests.protocol.test_cross import kind, of, source
from tests.protocol.toml import HISTORY

WEEKS = (
    ("os", kind("choice", max_values="1")),
    ("crashed", kind("flag", accumulate='"any"')),
    ("it", of("os", "crashed", max_values="3")),
)


def said(*tables: tuple[str, dict[str, str | None]]) -> dict[str, str]:
    """What the label says of each metric, without its line breaks."""
    asked = words(Registry.parse(source(*tables))).partition("WHAT IS ASKED")[2].partition("HOW MUCH IT ALL TELLS")[0]
    blocks = [" ".join(block.split()) for block in asked.strip().split("\n\n")]
    return {block.partition(":")[0]: block for block in blocks}


def test_the_label_of_a_cross_says_what_it_is_made_of_and_what_lies_in_plain() -> None:
    label = said(*WEEKS)["it"]
    assert label.startswith("it: os together with crashed, one of 8 combinations, every week")
    assert "answers os: a, b, c, absent; crashed: no, yes." in label
    assert (
        "meanwhile The answer follows from what is recorded of os and crashed in a week. Your device keeps both as "
        "they are, without noise, in the app's files until the app next runs after that week; then they are deleted "
        "there."
    ) in label
    assert "sent One combination out of 8." in label
    assert (
        "together Both answers are also asked by themselves. Together with os and crashed at most 95.3 % sure (epsilon "
        "3) after one message, 99.8 % sure (epsilon 6) after all messages while the answer stays as it is"
    ) in label


def test_the_label_of_a_factor_says_what_it_tells_together_with_the_cross() -> None:
    """The epsilons add up. While `os` stays, `crashed` may change: two kept answers of the cross then tell of it; and
    of `crashed`, four of `os` but only three are ever kept."""
    label = said(*WEEKS)
    assert (
        "meanwhile For it, your device keeps which answer is recorded first in a week, as it is, without noise, in the "
        "app's files until the app next runs after that week; then it is deleted there."
    ) in label["os"]
    assert (
        "together This answer is also in it. Together with it at most 88.1 % sure (epsilon 2) after one message, "
        "99.8 % sure (epsilon 6) after all messages while the answer stays as it is, 99.97 % sure (epsilon 8) after a "
        "whole life."
    ) in label["os"]
    assert (
        "meanwhile The answer is whether anything recorded was yes in a week. Your device keeps it" in label["crashed"]
    )
    assert "99.97 % sure (epsilon 8) after all messages while the answer stays as it is" in label["crashed"]
    alone = said(*WEEKS[:2])
    assert all("Together with" not in text for text in alone.values())
    assert "meanwhile" not in alone["os"]


def test_the_label_as_data_has_the_same_sums() -> None:
    asked = Registry.parse(source(*WEEKS))
    found = facts(asked)["metrics"]
    assert found["os"]["together_with"] == {
        "metrics": ["it"],
        "epsilon_one_report": "2",
        "epsilon_same_answer": "6",
        "epsilon_lifetime": "8",
        "epsilon_one_more": show(asked["it"].epsilon_one_more, 6),  # os itself repeats its first answer for ever
    }
    assert found["it"]["together_with"]["metrics"] == ["os", "crashed"]
    assert "together_with" not in facts(Registry.parse(source(*WEEKS[:2])))["metrics"]["os"]


def test_a_change_shows_in_the_cross_as_well_and_the_label_counts_both() -> None:
    """Whoever knows all memos sees a new answer of `crashed` in two reports of one message: the exact odds multiply.
    Of `os` only the cross tells, because its own first answer is repeated."""
    asked, label = Registry.parse(source(*WEEKS)), said(*WEEKS)
    odds = {}
    for name in ("crashed", "it"):
        high, low = asked[name].noise.instantaneous.probabilities
        odds[name] = max(high / low, (1 - low) / (1 - high)) if name == "crashed" else high / low
    both = log_above(odds["crashed"] * odds["it"])
    assert certainty(both) != certainty(asked["crashed"].epsilon_one_more)
    one_more = "one more can make an observer up to {} sure that your answer has just changed"
    assert one_more.format(certainty(both)) in label["crashed"]
    assert one_more.format(certainty(both)) in label["it"]
    assert "a change" not in label["os"]
    assert one_more.format(certainty(asked["crashed"].epsilon_one_more)) in said(*WEEKS[:2])["crashed"]


def test_the_short_text_counts_the_cross() -> None:
    assert "up to 99.97 % sure of it (crashed)" in " ".join(short(Registry.parse(source(*WEEKS))).split())
    assert "up to 88.1 % sure of it" in " ".join(short(Registry.parse(source(*WEEKS[:2]))).split())


def test_with_hold_or_asked_once_a_cross_has_one_epsilon_for_all() -> None:
    held = [(name, {**keys, **HISTORY}) for name, keys in WEEKS]
    asked = Registry.parse(source(*held))
    assert asked.epsilon_same_answer(asked["os"]) == asked["os"].epsilon_permanent + asked["it"].epsilon_permanent
    once = [(name, {**keys, "every": '"once"', "max_values": "1"}) for name, keys in WEEKS]
    asked = Registry.parse(source(*once))
    assert asked.epsilon_same_answer(asked["os"]) == asked["os"].epsilon_permanent + asked["it"].epsilon_permanent


def test_check_warns_of_an_answer_that_is_told_too_well_in_both() -> None:
    found = warnings(Registry.parse(source(*WEEKS)), date(2027, 1, 1))
    assert [doubt for doubt in found if "is also in" in doubt] == [
        "[metrics.crashed] its answer is also in it, which makes epsilon 8 in all: messages about one answer make an "
        "observer up to 99.97 % sure of it, which is hardly noise"
    ]


def test_a_new_cross_and_another_factor_ask_anew() -> None:
    old, new = Registry.parse(source(*WEEKS[:2])), Registry.parse(source(*WEEKS))
    assert [str(change) for change in asks_more(old, new)] == [
        "it: new: os together with crashed, one of 8 combinations, every week. To learn"
    ]
    assert asks_more(new, old) == ()
    changed = Registry.parse(source(WEEKS[0], ("crashed", kind("flag", accumulate='"last"')), WEEKS[2]))
    assert [str(change) for change in asks_more(new, changed)] == [
        "crashed: asked anew and differently, on top of earlier answers: accumulate last, before any",
        "it: asked anew and differently, on top of earlier answers: of os, crashed (last), before os, crashed (any)",
    ]


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "at most about 100 of 100 guesses between two answers can be right"),
        ("de", "können höchstens etwa 100 von 100 Vermutungen zwischen zwei Antworten richtig sein"),
        ("fr", "au plus environ 100 suppositions sur 100 entre deux réponses peuvent être justes"),
    ],
)
def test_the_page_for_people_says_it_in_every_language(language: str, sentence: str) -> None:
    page = privacy_page(Registry.parse(source(*WEEKS)), language)
    assert page.count(sentence) == 2  # of both factors
    assert sentence not in privacy_page(Registry.parse(source(*WEEKS[:2])), language)
    kept = next(line for line in page.splitlines() if line.endswith("Os, Crashed.</li>"))
    assert kept
