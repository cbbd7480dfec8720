"""Definitions: the hash changes with all that decoding depends on and with nothing else; JSON leads there and back."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.epsilon import exp_below, log_above, surely_above
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Histogram, Range, String
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.registry import Registry
from tests.protocol.toml import SHAPES, TERMS, registry, source

F = Fraction


def hash_of(kind: str = "flag", /, **changes: str | None) -> str:
    return registry(kind, **changes)["it"].metric_hash


# --- the hash -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("why", '"For another reason"'),
        ("owner", '"them@example.org"'),
        ("expires", "2031-01-01"),
        ("max_values", "1"),
        ("keep_reports", "true"),
        ("retention", '"1y"'),
        ("grace", "0"),
        ("lifetime_epsilon", "59"),
        ("app", '"org.another"'),
    ],
)
def test_what_people_agree_to_does_not_change_the_hash(kind: str, key: str, value: str) -> None:
    assert hash_of(kind, **{key: value}) == hash_of(kind)


def test_another_metric_beside_it_does_not_change_the_hash() -> None:
    more = source("mean").partition("[metrics.it]")[2]
    both = Registry.parse(source() + "[metrics.other]" + more)
    assert both["it"].metric_hash == hash_of()


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *((kind, "every", '"day"') for kind in SHAPES),
        *((kind, "epsilon_one_report", "0.9") for kind in SHAPES),
        *((kind, "epsilon_permanent", "2.1") for kind in SHAPES),
        ("flag", "absent", "true"),
        ("choice", "choices", '["a", "c", "b"]'),
        ("choice", "choices", '["a", "b", "C"]'),
        ("choice", "absent", '"a"'),
        ("string", "num_bits", "65"),
        ("string", "num_hashes", "2"),
        ("string", "num_cohorts", "64"),
        ("mean", "low", "-1"),
        ("mean", "high", "31"),
        ("mean", "absent", "1"),
        ("mean", "unit", '"s"'),
        ("mean", "points", "3"),
        ("histogram", "edges", "[0, 1, 10, 101]"),
        ("histogram", "buckets_per_report", "1"),
        ("range", "low", "1"),
        ("range", "high", "61"),
        ("range", "num_leaves", "64"),
        ("range", "branching", "16"),
        ("set", "items", '["a", "b", "c", "e"]'),
        ("set", "items", '["a", "b", "d", "c"]'),
        ("set", "items_per_report", "1"),
    ],
)
def test_what_decoding_depends_on_changes_the_hash(kind: str, key: str, value: str) -> None:
    assert hash_of(kind, **{key: value}) != hash_of(kind)


def test_the_name_is_part_of_the_hash() -> None:
    assert Registry.parse(source().replace("metrics.it", "metrics.at"))["at"].metric_hash != hash_of()


def test_kinds_never_share_a_hash() -> None:
    assert len({hash_of(kind) for kind in SHAPES}) == len(SHAPES)


def test_one_number_written_in_two_ways_has_one_hash() -> None:
    decimals = hash_of("mean", high="30.5", epsilon_one_report="0.50")
    assert decimals == hash_of("mean", high='"61/2"', epsilon_one_report='"2/4"')


def test_a_step_of_the_smallest_probability_changes_the_hash() -> None:
    first, second = (
        Definition(name="it", every="week", shape=Flag(), noise=rappor_noise(F(1, 2), F(1, 4), F(number, 2**24)))
        for number in (12_000_000, 12_000_001)
    )
    assert first.metric_hash != second.metric_hash


def test_the_packed_form_carries_the_first_half_of_the_hash() -> None:
    metric = registry()["it"]
    assert metric.short_hash == bytes.fromhex(metric.metric_hash)[:8]


# --- rules that a registry cannot break, but a program can --------------------------------------------------------


def test_a_kary_channel_fits_only_a_choice_of_as_many_categories() -> None:
    three = Choice(choices=("a", "b"), absent=None)
    noise = three.best_noise(F(1), F(2))
    for shape in (Flag(), Choice(choices=("a", "b"), absent="a"), String(num_bits=3, num_hashes=1, num_cohorts=1)):
        with pytest.raises(Invalid, match="a k-ary channel of 3 needs a choice of as many categories"):
            Definition(name="it", every="week", shape=shape, noise=noise)
    assert Definition(name="it", every="week", shape=three, noise=noise).one_hot


def test_shapes_know_their_cohorts_widths_and_masks() -> None:
    four = Histogram(edges=tuple(map(F, range(5))), buckets_per_report=2)
    assert (four.num_cohorts, four.width(3), four.num_masks) == (4, 2, 3)
    assert [four.bucket(3, position) for position in range(2)] == [3, 0]
    assert Histogram(edges=tuple(map(F, range(5))), buckets_per_report=4).num_cohorts == 1
    tree = Range(low=F(0), high=F(1), num_leaves=64, branching=4)
    assert (tree.num_cohorts, [tree.width(cohort) for cohort in range(3)], tree.num_masks) == (3, [4, 16, 64], 65)
    assert String(num_bits=1, num_hashes=1, num_cohorts=8).num_masks == 2
    assert String(num_bits=8, num_hashes=2, num_cohorts=8).num_masks == 29
    assert Choice(choices=("a", "b"), absent=None).categories == 3


def test_65535_choices_are_checked_quickly_enough_to_load() -> None:
    """Comparing each with each would take minutes."""
    choices = tuple(map(str, range(65_535)))
    assert Choice(choices=choices, absent=None).categories == 65_536
    with pytest.raises(Invalid, match="'7' more than once"):
        Choice(choices=(*choices[:-1], "7"), absent=None)


# --- JSON ---------------------------------------------------------------------------------------------------------

EXAMPLES = [registry(kind)["it"] for kind in SHAPES] + [
    registry("choice", choices=json.dumps([str(i) for i in range(30)]))["it"],
    registry("mean", low='"-1/3"', unit='"\\u00b5s"')["it"],
    registry("mean", low="-1.5e-90", high="1e90", absent='"1/7"')["it"],
    registry(epsilon_one_report=None, epsilon_permanent=None, prob_f='"1/3"', prob_p="0", prob_q="1")["it"],
]


@pytest.mark.parametrize("metric", EXAMPLES, ids=lambda metric: metric.kind)
def test_json_leads_back_to_the_definition(metric: Metric) -> None:
    found = Definition.from_json(json.loads(json.dumps(metric.to_json())))
    assert found.to_json() == metric.to_json()
    assert (found.shape, found.noise) == (metric.shape, metric.noise)
    assert found.metric_hash == metric.metric_hash
    assert type(found) is Definition


def test_the_terms_travel_beside_the_definition() -> None:
    metric = registry()["it"]
    terms = metric.terms_to_json()
    assert terms.items() >= metric.to_json().items()
    assert terms.keys() - metric.to_json().keys() == {"metric_hash", "hold", "keep_reports", "retention", "grace"} | (
        TERMS.keys() - {"every", "epsilon_one_report", "epsilon_permanent"}
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": None}, "name must be a text, got None"),
        ({"name": "It"}, "a metric's name must match [a-z][a-z0-9_]{0,63}, got 'It'"),
        (
            {"kind": "total"},
            "kind must be one of flag, choice, string, mean, histogram, range, set, cross, got 'total'",
        ),
        ({"every": "hour"}, "every must be one of once, day, week, month, got 'hour'"),
        ({"shape": []}, "shape must be a table of keys and values, got a list of 0"),
        ({"shape": {}}, "the definition of it is not in its canonical form"),
        ({"shape": {"absent": 0}}, "absent must be true or false, got 0"),
        ({"shape": {"absent": False, "abset": 1}}, "abset is not a key that is known here; did you mean absent?"),
        (
            {"why": "because"},
            "why is not a key that is known here; known keys are accumulate, every, instantaneous, kind, name, "
            "named, permanent, sample, segment, shape",
        ),
        ({"permanent": {}}, "when_one is missing\nwhen_zero is missing"),
        (
            {"permanent": {"when_one": "0.75", "when_zero": "1/4"}},
            "when_one must be a number or a fraction such as \"1/3\", got '0.75'",
        ),
        ({"permanent": {"when_one": "6/8", "when_zero": "1/4"}}, "the definition of it is not in its canonical form"),
        (
            {"permanent": {"when_one": "1/4", "when_zero": "3/4"}},
            "a bit channel needs 0 <= when_zero < when_one <= 1, got when_zero=3/4, when_one=1/4",
        ),
    ],
)
def test_json_that_is_no_definition_is_refused_in_words(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Definition.from_json({**registry()["it"].to_json(), **change})
    assert str(caught.value) == sentence


def test_every_missing_key_of_a_definition_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        Definition.from_json([])
    keys = ("every", "instantaneous", "kind", "name", "permanent", "shape")
    assert caught.value.problems == tuple(f"{key} is missing" for key in keys)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(["1/2", "3/4", "1/3", "flag", "choice", "week", 2**80, 10**400, "1" * 200, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def mutated(data: Any, draw: Any) -> Any:
    """A copy with one thing in it, at any depth, replaced, left out or added."""
    data = copy.deepcopy(data)
    at = data
    while True:
        key = draw(st.sampled_from(list(at) if isinstance(at, dict) else range(len(at))))
        if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "remove":
                del at[key]
            case "add" if isinstance(at, dict):
                at[draw(st.text(max_size=5) | st.sampled_from(["categories", "unit"]))] = draw(JSON)
            case _:
                at[key] = draw(JSON)
        return data


@pytest.mark.parametrize("metric", EXAMPLES[:7], ids=lambda metric: metric.kind)
@given(data=st.data())
def test_a_definition_changed_anywhere_is_another_or_refused(metric: Metric, data: st.DataObject) -> None:
    changed = mutated(metric.to_json(), data.draw)
    try:
        found = Definition.from_json(changed)
    except Invalid:
        return
    assert found.to_json() == changed
    assert (found.metric_hash == metric.metric_hash) == (changed == metric.to_json())


@given(JSON)
def test_any_json_is_a_definition_or_refused(data: Any) -> None:
    with pytest.raises(Invalid):
        Definition.from_json(data)


@pytest.mark.parametrize(
    "odds", [Fraction(1), Fraction(3, 2), Fraction(2**24), Fraction(2**24 - 1) ** 200, exp_below(Fraction(4))]
)
def test_a_first_look_at_a_logarithm_is_never_below_it(odds):
    exact = log_above(odds)
    assert exact < surely_above(odds) < exact + Fraction(1, 100_000)
