"""The privacy label: its words on the example registry are kept beside this file, so that a change is seen."""

from __future__ import annotations

import json
from fractions import Fraction
from math import exp
from pathlib import Path

import pytest

from hubbub.protocol.epsilon import show
from hubbub.protocol.label import WIDTH, facts, short, show_bits, unprotected_of, words, words_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, SHAPES, registry

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


@pytest.mark.parametrize(
    ("why", "said"), [("Who?", "Who?"), ("Now!", "Now!"), ("To see.", "To see."), ("To see", "To see.")]
)
def test_a_purpose_ends_with_one_stop(why: str, said: str) -> None:
    assert row(words(registry(why=f'"{why}"')), "why") == said


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
            HISTORY,
            "You are asked once in 13 weeks, four times in all, in weeks your device picks at random. When it falls "
            "silent, one can see that it has been there for about 52 weeks.",
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


def test_of_a_whole_history_everything_is_said_together_and_what_is_not_promised() -> None:
    asks = registry(**HISTORY)
    label = words(asks)
    assert "  it: yes or no, once in 13 weeks, four times in all\n" in label
    assert row(label, "tells") == (
        "From everything your device ever says, whatever you changed and when, nobody can be more than 98.3 % sure "
        "(epsilon 4). One message alone: 88.6 % (epsilon 2.05)."
    )
    assert row(label, "but") == "There is no smaller promise for a single answer if all the others are known."
    assert row(words(registry()), "but") == ""
    silent = "How long the app has been on a device can become visible: some questions fall silent after their last"
    assert silent in " ".join(label.split())
    assert "changed, and when, can become visible" not in " ".join(label.split())
    everything = (
        "All messages together, whatever you change and when, can make somebody up to 98.3 % sure of your answers"
    )
    assert everything in " ".join(short(asks).split())
    once = words(registry(**{**HISTORY, "hold": "1", "max_values": "1"}))
    assert "it: yes or no, once in all" in once
    assert row(once, "for life").startswith("You are asked once in all. When it falls silent, one can see that it has")


def test_nothing_links_the_messages_of_a_question_with_hold() -> None:
    told = facts(registry("string", **HISTORY, num_cohorts="1"))
    assert told["found_again_among_1000"] == 0.0
    assert facts(registry("string", num_cohorts="1"))["found_again_among_1000"] > 0


@pytest.mark.parametrize(
    ("kind", "part"), [("flag", 0), ("choice", 0), ("string", 0), ("mean", 1), ("range", 1), ("set", 1)]
)
def test_a_question_answered_in_part_is_said_to_be(kind: str, part: int) -> None:
    told = row(words(registry(kind)), "a change")
    assert told.startswith("Your device answers one randomly chosen part of this question; an observer") == bool(part)
    assert "After a year of messages, one more can make an observer up to" in told
    assert row(words(registry(kind, **HISTORY)), "a change") == row(words(registry(kind, max_values="1")), "a change")


def test_what_earlier_releases_set_aside_is_counted() -> None:
    asks = registry(lifetime_epsilon="6")
    assert "Earlier releases" not in words(asks)
    told = " ".join(words(asks, before=Fraction(1)).split())
    assert "With them, everything comes to at most 99.4 % sure (epsilon 5)." in told
    assert "(epsilon 6)." in " ".join(words(asks, before=Fraction(3)).split())  # the device's limit
