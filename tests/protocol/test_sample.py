"""Questions for a part of all installs: in the hash, on the label as such, in the identifying bits, in no epsilon."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.protocol.changes import asks_more
from hubbub.protocol.label import facts, words
from hubbub.protocol.metric import Definition
from hubbub.protocol.privacy_page import LANGUAGES, privacy_page
from hubbub.protocol.registry import Registry
from tests.protocol.toml import problems_of, registry, source


def two(one: str, other: str, **head: str) -> Registry:
    """Two flags with these samples."""
    text = source("flag", {"sample": one, **head})
    more = source("flag", {"sample": other}).partition("[metrics.it]")[2]
    return Registry.parse(text + f"[metrics.other]{more}")


def test_a_sample_is_part_of_the_definition_and_takes_nothing_off_its_epsilons() -> None:
    some, everyone = registry(sample='"1/10"')["it"], registry()["it"]
    assert some.sample == Fraction(1, 10)
    assert some.to_json()["sample"] == "1/10"
    assert "sample" not in everyone.to_json()
    assert some.metric_hash != everyone.metric_hash
    assert registry(sample="1")["it"].metric_hash == everyone.metric_hash
    assert registry(sample="0.1")["it"].metric_hash == some.metric_hash
    assert (some.epsilon_one_report, some.epsilon_lifetime) == (everyone.epsilon_one_report, everyone.epsilon_lifetime)
    assert some.in_segment((("release", "2"),)).sample == some.sample
    assert Definition.from_json(some.to_json()).metric_hash == some.metric_hash


@pytest.mark.parametrize("wrong", ["0", "-1", "1.01", '"1/1000001"'])
def test_a_sample_is_a_share(wrong: str) -> None:
    (problem,) = problems_of(source("flag", {"sample": wrong}))
    assert problem.startswith("sample must be at least 1/1000000 and at most 1, got ")


def test_another_sample_asks_anew() -> None:
    """A larger one asks more people; a smaller one is a new question to those who stay in it."""
    for before, after in (('"1/10"', '"1/5"'), ('"1/5"', '"1/10"'), ('"1/5"', "1")):
        (change,) = asks_more(registry(sample=before), registry(sample=after))
        now, then = (value.strip('"') for value in (after, before))
        assert str(change) == f"it: asked anew and differently, on top of earlier answers: sample {now}, before {then}"


def test_who_is_drawn_counts_among_what_tells_installs_apart() -> None:
    """Samples are pieces of one line from its beginning. Whoever is one in ten is told apart as well as by ten groups,
    though there are two: all count as small as the smallest, between two samples or beyond the largest as well."""
    assert registry().num_groups == 1
    assert registry(sample='"1/2"').num_groups == 2
    assert registry(sample='"1/10"').num_groups == registry(sample='"9/10"').num_groups == 10
    assert two('"1/10"', '"1/10"').num_groups == 10
    assert two('"1/10"', '"1/5"').num_groups == 10
    assert two('"1/10"', '"11/100"').num_groups == 100
    assert two('"1/10"', "1").num_groups == 10
    assert facts(two('"1/10"', '"1/5"'))["identifying_bits"] == "3.33"
    assert "shows whether it was drawn (9.97 bits)" in " ".join(words(registry(sample='"1/1000"')).split())
    assert registry("set", sample='"2/5"').num_groups == 3 * registry("set").num_groups
    assert problems_of(source("flag", {"sample": '"1/5000"'})) == [
        "the cohorts of all metrics must tell at most 2**12 groups of installs apart (max_identifying_bits = 12), "
        "got 5,000"
    ]
    assert problems_of(source("flag", {"sample": '"1/10"', "max_identifying_bits": "0"})) == [
        "the cohorts of all metrics must tell at most 2**0 groups of installs apart (max_identifying_bits = 0), got 10"
    ]


def test_the_label_says_of_whom_it_is_asked_and_every_number_as_for_all() -> None:
    text, plain = words(registry(sample='"1/10"')), words(registry())
    assert "Of one in 10 installs, drawn by each device once and for ever. If yours is not" in text
    assert "Some questions are asked of a part of all installs (it: one in 10)." in text
    assert "of whom" not in plain
    assert "3 in 20" in words(registry(sample="0.15"))
    assert [line for line in text.splitlines() if "epsilon" in line] == [
        line for line in plain.splitlines() if "epsilon" in line
    ]
    said = {"en": "of 1 in 10 devices", "de": "von 1 aus 10 Ger\u00e4ten", "fr": "1 appareil(s) sur 10"}
    for language in LANGUAGES:
        assert said[language] in privacy_page(registry(sample='"1/10"'), language)
        assert said[language] not in privacy_page(registry(), language)
