"""Segments: which there are, what a build falls into, and that they change nothing but what they declare."""

from __future__ import annotations

import pytest

from hubbub.protocol.changes import asks_more, changes
from hubbub.protocol.label import facts, words
from hubbub.protocol.lint import warnings
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import all_segments, in_words, num_segments, segment_of
from tests.protocol.toml import SHAPES, registry

DECLARED = {"release": ("2.0", "2.1"), "platform": ("linux", "macos")}
TOML = '{ release = ["2.0", "2.1"], platform = ["linux", "macos"] }'


def test_what_is_not_declared_is_other_or_is_left_out() -> None:
    assert segment_of(DECLARED, {"platform": "linux", "release": "2.1"}) == (("platform", "linux"), ("release", "2.1"))
    assert segment_of(DECLARED, {"platform": "haiku", "colour": "red"}) == (("platform", "other"), ("release", "other"))
    assert segment_of({}, {"platform": "linux"}) == ()


def test_every_build_falls_into_one_of_all_segments() -> None:
    every = list(all_segments(DECLARED))
    assert len(every) == len(set(every)) == num_segments(DECLARED) == 9
    for platform in ("linux", "macos", "haiku", "other"):
        for release in ("2.0", "2.1", "3.0"):
            assert segment_of(DECLARED, {"platform": platform, "release": release}) in every
    assert list(all_segments({})) == [()]


def test_a_segment_in_words() -> None:
    assert in_words(segment_of(DECLARED, {"platform": "linux"})) == "platform linux, release other"


@pytest.mark.parametrize("kind", SHAPES)
def test_a_segment_is_part_of_the_hash_and_of_nothing_else(kind: str) -> None:
    """Installs with equal values in two segments have equal laws: shape and channels are the same."""
    asked = registry(kind, segments=TOML)
    metric = asked["it"]
    found = [each for each in asked.in_all_segments() if each.name == "it"]
    assert len({each.metric_hash for each in found}) == len({each.short_hash for each in found}) == 9
    for each in found:
        assert (each.shape, each.noise) == (metric.shape, metric.noise)
        assert each.undivided == metric
        assert each.undivided.metric_hash == registry(kind)["it"].metric_hash
        assert {**each.to_dict(), "segment": ()} == metric.to_dict()
        read = Definition.from_json(each.to_json())
        assert (read.metric_hash, read.segment) == (each.metric_hash, each.segment)


def test_without_segments_there_is_one_definition_for_each_metric() -> None:
    asked = registry()
    assert list(asked.in_all_segments()) == list(asked)
    assert "segment" not in asked["it"].to_json()


# --- what people are told and asked ---------------------------------------------------------------------------------


def changed(before: str | None, after: str | None) -> tuple[list[str], list[str]]:
    old, new = registry(segments=before), registry(segments=after)
    return [str(change) for change in changes(old, new)], [str(change) for change in asks_more(old, new)]


def test_a_new_key_asks_more_and_a_new_value_does_not() -> None:
    two, three = '{ release = ["2.0", "2.1"] }', '{ release = ["2.0", "2.1", "2.2"] }'
    said, more = changed(None, two)
    assert said == more == ["messages say which release this is, as it is (2.0, 2.1 or other)"]
    assert changed(two, three) == (["release is told apart as 2.0, 2.1, 2.2 or other, before 2.0, 2.1"], [])
    assert changed(two, TOML)[1] == ["messages say which platform this is, as it is (linux, macos or other)"]
    assert changed(two, None) == (["messages no longer say which release this is"], [])
    assert changed(TOML, TOML) == ([], [])


def test_the_fingerprint_covers_segments() -> None:
    marks = {registry(segments=text).fingerprint for text in (None, TOML, '{ release = ["2.0", "2.1"] }')}
    assert len(marks) == 3


def test_the_label_says_what_is_sent_as_it_is_and_counts_its_bits() -> None:
    asked = registry("string", segments=TOML)
    assert asked.num_groups == 128 * 9
    told = facts(asked)
    assert told["segments"] == {"release": ["2.0", "2.1", "other"], "platform": ["linux", "macos", "other"]}
    assert (told["groups"], told["identifying_bits"]) == (1152, "10.17")
    text = " ".join(words(asked).split())
    assert "release: 2.0, 2.1 or other; platform: linux, macos or other): 3.17 bits" in text
    assert "one of 128 groups, chosen at random" in text
    assert "Both together make 1,152 groups (10.17 bits)." in text
    (warning,) = [each for each in warnings(asked, asked["it"].expires.replace(year=2027)) if "groups" in each]
    assert warning.startswith("segments and cohorts divide installs into 1,152 groups")
    assert "as it is, without noise" not in words(registry("string"))


def test_the_canonical_form_is_read_again() -> None:
    assert Registry.parse(registry(segments=TOML).source).segments == {
        "release": ("2.0", "2.1"),
        "platform": ("linux", "macos"),
    }
