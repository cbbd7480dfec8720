"""The privacy label: its words on the example registry are kept beside this file, so that a change is seen."""

from __future__ import annotations

import json
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

from hubbub.protocol.epsilon import show
from hubbub.protocol.label import WIDTH, facts, show_bits, unprotected_of, words, words_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry
from tests.protocol.toml import SHAPES, registry

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples" / "metrics.toml"
RAPPOR = {"epsilon_one_report": None, "epsilon_permanent": None, "prob_f": "0.5", "prob_p": "0.5", "prob_q": "0.75"}


def row(text: str, key: str) -> str:
    """What a label says after `key`, in one line."""
    _, _, rest = f"{text}\n".partition(f"\n    {key:<10}")
    lines = rest.splitlines()
    taken = lines[:1]
    for line in lines[1:]:
        if not line.startswith(" " * 14):
            break
        taken.append(line.strip())
    return " ".join(taken)


def test_the_words_on_the_example_are_as_they_were_agreed() -> None:
    assert words(Registry.load(EXAMPLE)) + "\n" == (HERE / "label_of_the_example.txt").read_text(encoding="utf-8")


def test_the_facts_on_the_example_are_as_they_were_agreed() -> None:
    agreed = json.loads((HERE / "label_of_the_example.json").read_text(encoding="utf-8"))
    assert facts(Registry.load(EXAMPLE)) == agreed


def test_every_epsilon_of_the_facts_is_derived_and_rounded_up() -> None:
    found = Registry.load(EXAMPLE)
    told = facts(found)
    for metric in found:
        about = told["metrics"][metric.name]
        for key in ("epsilon_one_report", "epsilon_permanent", "epsilon_lifetime"):
            assert about[key] == show(getattr(metric, key), 6)
            assert Fraction(about[key]) >= getattr(metric, key)
        assert about["epsilon_after_7_reports"] == show(metric.epsilon_after(7), 6)
    assert Fraction(told["epsilon_lifetime"]) == sum(Fraction(m["epsilon_lifetime"]) for m in told["metrics"].values())
    assert Fraction(told["epsilon_one_epoch"]["day"]) == Fraction(told["metrics"]["startup_time"]["epsilon_one_report"])


@pytest.mark.parametrize("kind", SHAPES)
def test_no_line_is_wider_than_a_terminal(kind: str) -> None:
    assert max(map(len, words(registry(kind)).splitlines())) <= WIDTH


def test_how_sure_one_can_become_is_rounded_up_and_never_to_certainty() -> None:
    for epsilon in (1, 2, 5, 8, 11):
        told = row(words(registry(epsilon_one_report=str(epsilon), epsilon_permanent="16")), "tells")
        percent = Fraction(told.split("at most ")[1].split(" %")[0])
        exact = 100 / (1 + exp(-epsilon))
        assert exact <= percent < 100
        assert percent - Fraction(exact) < Fraction(1, 10)


def test_a_rare_lie_is_not_called_impossible() -> None:
    told = row(words(registry(epsilon_one_report="8", epsilon_permanent="8")), "sent")
    assert told == (
        "One bit. Of 100 who would say yes, more than 99 send yes; of 100 who would say no, fewer than 1 send yes all "
        "the same."
    )


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        (
            "flag",
            {},
            "At most 2 different answers are ever given; then old ones are repeated. All together: at most "
            "98.3 % sure (epsilon 4) about what you answered. That your answer changed, and when, can be seen.",
        ),
        (
            "flag",
            {"max_values": "1"},
            "Your first answer is repeated for ever, whatever you change. All together: at most 88.1 % sure (epsilon "
            "2).",
        ),
        (
            "flag",
            {"hold": "4"},
            "Each answer is repeated for 4 weeks, whatever you change, and at most 2 are ever given. All "
            "together: at most 98.3 % sure (epsilon 4), whatever you did and when.",
        ),
        (
            "flag",
            {"every": '"once"', "max_values": "1"},
            "It is asked once in the life of an install, so that is all.",
        ),
    ],
)
def test_no_lifetime_epsilon_is_told_without_saying_of_what(kind: str, changes: dict[str, str], told: str) -> None:
    assert row(words(registry(kind, **changes)), "for life") == told


@pytest.mark.parametrize(
    ("kind", "changes", "asked", "sent"),
    [
        ("choice", {}, "one of 3 choices (a, b, c)", "One answer out of 4. In 48 of 100 messages it is the true one; "),
        ("choice", RAPPOR, "one of 3 choices (a, b, c)", "4 bits. A bit that should be 1 is sent as 1 in 69 of 100"),
        ("string", {}, "a text, of which only a scrambled trace is sent", "64 bits. A bit that should be 1"),
        ("string", {"num_bits": "1"}, "a text, of which only a scrambled trace is sent", "One bit. A bit that should"),
        ("mean", {"unit": '"s"'}, "a number from 0 to 30 s, for its average", "One bit. A bit that should be 1"),
        ("mean", {"low": "-0.5"}, "a number from -0.5 to 30, for its average", "One bit."),
        (
            "mean",
            {"points": "3", "max_values": "3"},
            "a number from 0 to 30, for its average",
            "One point of the range out of 3. In 58 of 100 messages it is the true one; in 42 chance picks another",
        ),
        ("histogram", {}, "a number from 0 to 100, in 3 steps", "2 bits."),
        ("range", {}, "a number from 0 to 60, for its distribution", "4 to 256 bits."),
        (
            "set",
            {},
            "which of 4 items (a, b, c, d)",
            "For 2 items of the 4, which chance has chosen for your device: yes or no. A yes is sent as yes in 62 of "
            "100 messages; a no is sent as yes in 38 all the same.",
        ),
        ("set", {"items_per_report": "4"}, "which of 4 items (a, b, c, d)", "For every item: yes or no. A yes is sent"),
    ],
)
def test_what_is_asked_and_sent_is_told(kind: str, changes: dict[str, str], asked: str, sent: str) -> None:
    label = words(registry(kind, **changes))
    assert f"  it: {asked}, every week" in label.splitlines()
    assert row(label, "sent").startswith(sent)


def test_what_is_kept_is_told() -> None:
    assert row(words(registry()), "kept") == "Only counts, for 2 years."
    assert row(words(registry(keep_reports="true", retention='"1m"')), "kept") == "Every single message, for 1 month."


def test_groups_and_resemblance_are_told_only_where_there_are_any() -> None:
    assert "groups" not in words(registry("flag"))
    assert "resemble" not in words(registry("flag"))
    assert "one of 128 groups" in words(registry("string"))
    assert "(it), the messages of one install" in words(registry("string"))
    assert "resemble" not in words(registry("choice", choices=json.dumps([str(i) for i in range(9)])))


def test_cohorts_of_several_metrics_count_once() -> None:
    """Cut into 64, 5, 4 and 8 pieces, a line has 63 + 4 cuts: those in four and eight are among those in 64."""
    label = " ".join(words(Registry.load(EXAMPLE)).split())
    assert "one of 68 groups, chosen at random, and its messages show which (6.09 bits)" in label
    assert "Both together make 816 groups (9.68 bits)." in label
    assert show_bits(registry("flag").num_groups) == "0.00"


@pytest.mark.parametrize("metric", list(Registry.load(EXAMPLE)), ids=lambda metric: metric.name)
def test_what_a_definition_alone_says_stands_in_the_label_of_its_registry(metric) -> None:
    """A tally carries the definition and none of the terms; what is said beside its numbers is the same."""
    definition = Definition.from_json(metric.to_json())
    label = " ".join(words(Registry.load(EXAMPLE)).split())
    for sentence in words_of(definition).values():
        assert " ".join(sentence.split()) in label
    said = unprotected_of(definition)
    bare = label.replace("* ", "")
    assert all(sentence in bare for sentence in said[:2])
    assert ("groups, chosen at random" in " ".join(said)) == (metric.shape.num_cohorts > 1)
    assert any("changed, and when" in sentence for sentence in said) == (metric.every != "once")


def test_hold_says_what_it_costs_an_answer_that_never_changes() -> None:
    told = row(words(registry("range", hold="13", max_values="8")), "but")
    assert told == (
        "An answer is drawn anew for every 13 weeks, 8 times in all, even if it never changes: after all of them at "
        "most practically 100 % sure (epsilon 16)."
    )
    assert row(words(registry("range", max_values="8")), "but") == ""


@pytest.mark.parametrize(
    ("kind", "part"), [("flag", 0), ("choice", 0), ("string", 0), ("mean", 1), ("range", 1), ("set", 1)]
)
def test_a_question_answered_in_part_is_said_to_be(kind: str, part: int) -> None:
    told = row(words(registry(kind)), "a change")
    assert told.startswith("Your device answers one randomly chosen part of this question; an observer") == bool(part)
    assert "After a year of messages, one more can make an observer up to" in told
    assert row(words(registry(kind, hold="2")), "a change") == row(words(registry(kind, max_values="1")), "a change")


def test_what_earlier_releases_set_aside_is_counted() -> None:
    asks = registry(lifetime_epsilon="6")
    assert "Earlier releases" not in words(asks)
    told = " ".join(words(asks, before=Fraction(1)).split())
    assert "With them, everything comes to at most 99.4 % sure (epsilon 5)." in told
    assert "(epsilon 6)." in " ".join(words(asks, before=Fraction(3)).split())  # the device's limit
