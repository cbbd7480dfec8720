"""What a new registry asks more: for each sort of change the sentence, and whether people must be asked again."""

from __future__ import annotations

import pytest

from hubbub.protocol.changes import Change, asks_more, changes
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, registry, source

# kind, what differs in the old registry, what in the new one, the sentence, whether it asks more
CHANGES = [
    ("flag", {"max_values": "1"}, {}, "it: at most 2 different answers in a lifetime, before 1", True),
    ("flag", {}, {"max_values": "1"}, "it: at most one answer in a lifetime, before 2", False),
    ("flag", {}, {"expires": "2029-01-01"}, "it: asked until 2029-01-01, before until 2028-01-01", True),
    ("flag", {}, {"expires": "2027-01-01"}, "it: asked until 2027-01-01, before until 2028-01-01", False),
    ("flag", {}, {"keep_reports": "true"}, "it: every single message is kept, before only counts", True),
    ("flag", {"keep_reports": "true"}, {}, "it: only counts are kept, before every message", False),
    ("flag", {"retention": '"1y"'}, {"retention": '"18m"'}, "it: kept for 18 months, before 1 year", True),
    ("flag", {}, {"retention": '"90d"'}, "it: kept for 90 days, before 2 years", False),
    (
        "flag",
        {},
        HISTORY,
        "it: asked anew and differently, on top of earlier answers: epsilon_one_report 2.05, before 1; "
        "epsilon_permanent 4, before 2; hold 13, before not given; max_values 4, before 2",
        True,
    ),
    (
        "flag",
        HISTORY,
        {**HISTORY, "hold": "26"},
        "it: asked anew and differently, on top of earlier answers: hold 26, before 13",
        True,
    ),
    (
        "flag",
        HISTORY,
        {**HISTORY, "max_values": "5"},
        "it: asked anew and differently, on top of earlier answers: epsilon_one_report 1.48, before 2.05; "
        "max_values 5, before 4",
        True,
    ),
    (
        "flag",
        HISTORY,
        {**HISTORY, "epsilon_history": "5"},
        "it: asked anew and differently, on top of earlier answers: epsilon_one_report 2.97, before 2.05; "
        "epsilon_history 5, before 4",
        True,
    ),
    ("flag", {}, {"lifetime_epsilon": "70"}, "the limit for a lifetime rises to epsilon 70, before 60", True),
    ("flag", {}, {"lifetime_epsilon": "50"}, "the limit for a lifetime falls to epsilon 50, before 60", False),
    (
        "flag",
        {},
        {"max_identifying_bits": "13"},
        "a message may show up to 13 bits of which install it comes from, before 12",
        True,
    ),
    (
        "choice",
        {"reserve": "2"},
        {"reserve": "2", "named": '["d"]'},
        "it: a spare place now means d; earlier answers, budget and counts go on",
        True,
    ),
    (
        "set",
        {"reserve": "2", "named": '["e"]'},
        {"reserve": "2", "named": '["f"]'},
        "it: spare place 1 means f, before e: counts of both add up",
        True,
    ),
    (
        "choice",
        {"reserve": "2", "named": '["d"]'},
        {"reserve": "2"},
        "it: d is no longer an answer, and its place is spare",
        False,
    ),
    ("flag", {}, {"app": '"org.other"'}, "this is another app, org.other, before org.example", True),
    ("flag", {}, {"why": '"To sell"'}, 'it: another purpose: "To sell", before "To learn"', True),
    ("flag", {}, {"owner": '"them@example.org"'}, "it: asked by them@example.org, before by us@example.org", True),
    (
        "flag",
        {},
        {"recipient": '{ name = "Them", url = "https://t.example.org" }'},
        "messages go to Them (https://t.example.org), before to Us (https://t.example.org)",
        True,
    ),
    (
        "flag",
        {},
        {"recipient": '{ name = "Us", url = "https://t.example.org/a" }'},
        "messages go to Us (https://t.example.org/a), before to Us (https://t.example.org)",
        True,
    ),
]
ANEW = "it: asked anew and differently, on top of earlier answers: "
REDEFINED = [
    # Less is more too: the old answers stay known, and the new ones come on top.
    ("flag", {}, {"epsilon_one_report": "0.5"}, "epsilon_one_report 0.5, before 1"),
    ("flag", {}, {"epsilon_permanent": "3"}, "epsilon_permanent 3, before 2"),
    ("flag", {}, {"every": '"day"'}, "every day, before week"),
    ("flag", {}, {"absent": "true"}, "absent yes, before no"),
    ("choice", {}, {"choices": '["a", "b"]'}, "choices a, b, before a, b, c"),
    ("choice", {}, {"absent": '"a"'}, "absent a, before not given"),
    ("string", {}, {"num_bits": "32"}, "num_bits 32, before 64"),
    ("string", {}, {"num_hashes": "2"}, "num_hashes 2, before 1"),
    ("string", {}, {"num_cohorts": "64"}, "num_cohorts 64, before 128"),
    ("mean", {}, {"high": "60", "unit": '"s"'}, "high 60, before 30; unit s, before none"),
    ("mean", {}, {"low": "-0.5"}, "low -1/2, before 0"),
    ("mean", {}, {"points": "3"}, "points 3, before 2"),
    ("choice", {}, {"reserve": "2"}, "reserve 2, before 0"),
    ("choice", {"reserve": "1", "named": '["d"]'}, {"reserve": "2"}, "reserve 2, before 1; named none, before d"),
    (
        "choice",
        {"reserve": "2"},
        {"reserve": "2", "choices": '["a", "b", "c", "d"]'},
        'choices a, b, c, d, before a, b, c (named = ["d"] gives spare places to what is added, and earlier answers, '
        "budget and counts go on)",
    ),
    (
        "choice",
        {"reserve": "2"},
        {"reserve": "2", "choices": '["a", "b", "c", "d", "e", "f"]'},
        "choices a, b, c, d, e, f, before a, b, c",
    ),
    ("mean", {}, {"absent": '"apart"'}, "absent apart, before 0"),
    ("mean", {"points": "4"}, {}, "points 2, before 4"),
    ("histogram", {}, {"edges": "[0, 1, 10]"}, "edges 0, 1, 10, before 0, 1, 10, 100"),
    ("histogram", {}, {"buckets_per_report": "1"}, "buckets_per_report 1, before 2"),
    ("range", {}, {"branching": "16"}, "branching 16, before 4"),
    ("set", {}, {"items": '["a", "b"]'}, "items a, b, before a, b, c, d"),
    ("set", {}, {"items_per_report": None}, "items_per_report 1, before 2"),
    (
        "flag",
        {"epsilon_one_report": None, "epsilon_permanent": None, "prob_f": "0.5", "prob_p": "0.25", "prob_q": "0.75"},
        {
            "epsilon_one_report": None,
            "epsilon_permanent": None,
            "prob_f": "0.5",
            "prob_p": "0.25",
            "prob_q": "0.7500001",
        },
        "its noise is drawn from other probabilities",
    ),
]


@pytest.mark.parametrize(("kind", "before", "after", "sentence", "more"), CHANGES, ids=[row[3] for row in CHANGES])
def test_each_sort_of_change_is_told_and_judged(
    kind: str, before: dict[str, str], after: dict[str, str], sentence: str, more: bool
) -> None:
    old, new = registry(kind, **before), registry(kind, **after)
    (change,) = changes(old, new)
    assert (str(change), change.asks_more) == (sentence, more)
    assert asks_more(old, new) == ((change,) if more else ())


@pytest.mark.parametrize(("kind", "before", "after", "what"), REDEFINED, ids=[row[3] for row in REDEFINED])
def test_a_redefined_metric_is_a_new_question(
    kind: str, before: dict[str, str], after: dict[str, str], what: str
) -> None:
    (change,) = asks_more(registry(kind, **before), registry(kind, **after))
    assert str(change) == ANEW + what


def test_a_new_metric_asks_more_and_a_removed_one_does_not() -> None:
    one = source()
    two = Registry.parse(one + one.partition("[metrics.it]")[2].join(["[metrics.other]", ""]))
    (new,) = changes(Registry.parse(one), two)
    assert new == Change("other", "new: yes or no, every week. To learn", True)
    (gone,) = changes(two, Registry.parse(one))
    assert gone == Change("other", "no longer asked", False)


def test_another_kind_under_the_same_name_is_a_new_question() -> None:
    (change,) = changes(registry("flag"), registry("string"))
    assert change == Change("it", ANEW.removeprefix("it: ") + "kind string, before flag", True)


def test_the_same_registry_asks_nothing_more() -> None:
    assert changes(registry(), registry()) == ()
    assert changes(registry(grace="3"), registry(grace="4")) == ()  # the collector's patience is no question to people


def test_every_change_of_several_is_told() -> None:
    found = changes(registry(), registry(why='"To see"', expires="2029-01-01", max_values="1"))
    assert [change.asks_more for change in found] == [False, True, True]
