"""Lists that grow: spare places are in the hash from the start, their names are not, and tallies say what they know."""

from __future__ import annotations

import json

import pytest

from hubbub.protocol.encoding import ABSENT, WrongValue
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Set
from hubbub.protocol.label import facts, words
from hubbub.protocol.metric import Definition
from hubbub.protocol.privacy_page import LANGUAGES, privacy_page
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import MAX_BITS
from hubbub.protocol.tally import Counts, Tally, merge
from tests.protocol.toml import registry

NAMES = ((), ("d",), ("d", "e"))


def asks(kind: str = "choice", named: tuple[str, ...] = (), **keys: str) -> Registry:
    return registry(kind, reserve="3", named=json.dumps(named), **keys)


@pytest.mark.parametrize("kind", ["choice", "set"])
def test_to_name_a_place_changes_the_terms_and_not_the_hash(kind: str) -> None:
    names = (("x",), ("x", "y"))
    first, *later = [asks(kind, named) for named in ((), *names)]
    for other in later:
        assert other["it"].metric_hash == first["it"].metric_hash
        assert other.fingerprint != first.fingerprint
        assert other["it"].noise == first["it"].noise
        assert other["it"].shape.num_cohorts == first["it"].shape.num_cohorts
    assert registry(kind)["it"].metric_hash != first["it"].metric_hash
    assert registry(kind, reserve="0")["it"].metric_hash == registry(kind)["it"].metric_hash
    extended = {"choice": {"choices": '["a", "b", "c", "x"]'}, "set": {"items": '["a", "b", "c", "d", "x"]'}}[kind]
    assert registry(kind, reserve="2", **extended)["it"].metric_hash != first["it"].metric_hash


@pytest.mark.parametrize("kind", ["choice", "set"])
def test_every_mask_of_a_named_list_is_what_it_was(kind: str) -> None:
    """Whatever could be recorded before encodes alike, silence included; what is new has a place that was free."""
    before, after = (asks(kind, named)["it"].shape for named in ((), ("x",)))
    old = before.listed
    for cohort in range(before.num_cohorts):
        taken = 0
        for value in [*old, ABSENT]:
            mask = before.encode(value, cohort).mask
            assert mask == after.encode(value, cohort).mask
            taken |= mask
        new = after.encode("x", cohort).mask
        assert new & taken == 0
        with pytest.raises(WrongValue, match=f"one of the {len(old)} declared"):
            before.encode("x", cohort)
    assert any(after.encode("x", cohort).mask for cohort in range(after.num_cohorts))


def test_a_set_keeps_only_items_it_is_asked_about_named_later_or_not() -> None:
    shape = asks("set", ("x",))["it"].shape
    assert shape.num_places == 7
    for cohort in range(7):
        asked = {shape.item(cohort, i) for i in range(shape.items_per_report)}
        kept = shape.kept(["a", "d", "x"], cohort)
        assert kept == (frozenset(item for item in "adx" if shape.places[item] in asked) or ABSENT)


def test_a_tally_carries_names_and_is_read_by_itself() -> None:
    metric = asks(named=("d",))["it"]
    counts = Counts((7,), ((1, 1, 1, 1, 1, 1, 1),))
    text = Tally(metric, {1: counts}).to_json()
    data = json.loads(text)
    assert data["metric"]["named"] == ["d"]
    assert data["metric_hash"] == metric.metric_hash
    again = Tally.from_json(text)
    assert again.metric.shape == metric.shape
    assert again.to_json() == text
    assert "named" not in json.loads(Tally(asks()["it"], {}).to_json())["metric"]


def test_tallies_merge_whoever_knows_more_names() -> None:
    counts = Counts((7,), ((1, 1, 1, 1, 1, 1, 1),))
    tallies = [Tally(asks(named=named)["it"], {epoch: counts}) for epoch, named in enumerate(NAMES)]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        (merged,) = merge(tallies[i] for i in order).values()
        assert merged.metric.shape.later_names == ("d", "e")
        assert merged.num_reports == 21
    other = Tally(asks(named=("z",))["it"], {9: counts})
    with pytest.raises(Invalid, match="named of it must begin alike in both, got 'd', 'e' and 'z'"):
        tallies[2] + other


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"named": ["a"]}, "choices and named must all differ, got 'a' more than once"),
        ({"named": ["1", "2", "3", "4"]}, "named must have at most 3 names, as many as reserve has places, got 4"),
        ({"named": []}, "not in its canonical form"),
        ({"named": [1]}, "named item 0 must be a text, got 1"),
    ],
)
def test_a_definition_with_wrong_names_is_refused(change, words: str) -> None:
    data = {**asks()["it"].to_json(), **change}
    with pytest.raises(Invalid, match=words):
        Definition.from_json(data)


def test_names_are_for_lists() -> None:
    with pytest.raises(Invalid, match="named is for lists with a reserve, got it for a flag"):
        Definition.from_json({**registry()["it"].to_json(), "named": ["x"]})


def test_the_label_lists_names_and_says_that_more_may_come() -> None:
    one = words(asks(named=("d",)))
    assert "a, b, c, d, or nothing was recorded." in one
    assert "2 more answers may be named later. You are then asked again;" in one
    assert "1 more answer may be named later." in words(asks(named=("d", "e")))
    full = asks(named=("d", "e", "f"))
    assert "named later" not in words(full)
    assert facts(asks(named=("d",)))["metrics"]["it"]["spare_places"] == 2
    assert "spare_places" not in facts(full)["metrics"]["it"]
    said = {"en": "room for 2 more", "de": "Platz f\u00fcr 2 weitere", "fr": "place pour 2 de plus"}
    for language in LANGUAGES:
        assert said[language] in privacy_page(asks(named=("d",)), language)
        assert said[language].partition("2")[0] not in privacy_page(full, language)


def test_a_list_has_two_names_at_least_whatever_is_reserved() -> None:
    assert Choice(choices=("a", "b")).num_places == Set(items=("a", "b")).num_places == 2
    with pytest.raises(Invalid, match=f"^choices must list from 2 to {MAX_BITS - 1} values, got 1$"):
        Choice(choices=("a",), reserve=3)
    with pytest.raises(Invalid, match=f"^items must list from 2 to {MAX_BITS} values, got 1$"):
        Set(items=("a",), reserve=3)
