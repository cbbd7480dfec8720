"""Two answers at once: factors, cells and their order, what a metrics.toml may cross, and what is refused in words."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product

import pytest

from hubbub.protocol.channel import BitChannel, KaryChannel, SubsetChannel
from hubbub.protocol.encoding import ABSENT, WrongValue
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Cross, Flag, Histogram, Mean, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import Factor
from tests.protocol.toml import HEAD, HISTORY, SHAPES, TERMS

F = Fraction
OS = Factor(name="os", shape=Choice(choices=("linux", "macos"), absent=None))
CRASHED = Factor(name="crashed", shape=Flag(), accumulate="any")
SIZE = Factor(name="size", shape=Histogram(edges=(F(0), F(1), F(10)), buckets_per_report=1))
START = Factor(name="start", shape=Mean(low=F(0), high=F(4), absent=F(1), points=3))
CROSS = Cross(factors=(OS, CRASHED))


def source(*tables: tuple[str, dict[str, str | None]]) -> str:
    """A registry with these metrics, in this order."""
    lines = [f"{key} = {value}" for key, value in HEAD.items() if value is not None]
    for name, keys in tables:
        lines.append(f"[metrics.{name}]")
        lines += [f"{key} = {value}" for key, value in {**TERMS, **keys}.items() if value is not None]
    return "\n".join(lines)


def of(*names: str, **changes: str | None) -> dict[str, str | None]:
    return {"kind": '"cross"', "of": json.dumps(names), **changes}


def kind(name: str, **changes: str | None) -> dict[str, str | None]:
    return {"kind": f'"{name}"', **SHAPES[name], **changes}


def problems_of(*tables: tuple[str, dict[str, str | None]]) -> list[str]:
    try:
        Registry.parse(source(*tables))
    except Invalid as error:
        return list(error.problems)
    return []


# --- categories ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "categories", "values"),
    [
        (CRASHED, ("no", "yes"), {ABSENT: 0, False: 0, True: 1}),
        (Factor(name="a", shape=Flag(absent=True)), ("no", "yes"), {ABSENT: 1, False: 0, True: 1}),
        (OS, ("linux", "macos", "absent"), {ABSENT: 2, "linux": 0, "macos": 1}),
        (Factor(name="a", shape=Choice(choices=("x", "y"), absent="y")), ("x", "y"), {ABSENT: 1, "x": 0, "y": 1}),
        (SIZE, ("0 to 1", "1 to 10", "absent"), {ABSENT: 2, -5: 0, 0: 0, 1: 1, 10: 1, 99: 1}),
        (SIZE.replace(accumulate="sum"), ("0 to 1", "1 to 10"), {ABSENT: 0, 0: 0, 3: 1}),
        (START, ("0", "2", "4"), {ABSENT: 0, 0: 0, 1: 0, F(199, 100): 0, 2: 1, 3: 1, 4: 2, 99: 2}),
    ],
)
def test_a_factor_has_categories_in_words_and_says_which_a_value_is(
    factor: Factor, categories: tuple[str, ...], values: dict[object, int]
) -> None:
    """Where silence is another answer there is no category `absent`: a declared answer, or a sum of nothing."""
    assert factor.categories == categories
    assert {value: factor.category(value, 0) for value in values} == values


@pytest.mark.parametrize("factor", [OS, CRASHED, SIZE, START])
def test_a_wrong_value_has_no_category(factor: Factor) -> None:
    with pytest.raises(WrongValue, match="must be"):
        factor.category(object(), 0)


def test_a_mean_is_rounded_by_the_dither_as_the_mean_itself_is() -> None:
    for value, dither in product((0, F(1, 3), 1, F(7, 2), 4, ABSENT), (0, 1 << 62, 1 << 63, (1 << 64) - 1)):
        mask = START.shape.encode(value, 0, dither).mask
        assert 1 << START.category(value, dither) == mask
    assert {START.category(1, dither) for dither in (0, (1 << 64) - 1)} == {0, 1}


def test_a_histogram_tells_all_its_buckets_apart_whatever_each_install_is_asked() -> None:
    for value in (0, F(1, 2), 1, 5, 10):
        asked = [SIZE.shape.encode(value, cohort).mask for cohort in range(2)]
        assert SIZE.category(value, 0) == asked.index(1)


# --- cells --------------------------------------------------------------------------------------------------------


def test_cells_stand_row_by_row() -> None:
    assert CROSS.answers == (
        "linux · no",
        "linux · yes",
        "macos · no",
        "macos · yes",
        "absent · no",
        "absent · yes",
    )
    assert CROSS.categories == CROSS.width(0) == CROSS.num_masks == 6
    for i, j in product(range(3), range(2)):
        assert CROSS.cell(i, j) == 2 * i + j
        assert CROSS.encode((i, j), 0).mask == 1 << 2 * i + j
    assert CROSS.encode(ABSENT, 0).mask == 1 << 4  # absent, no


@pytest.mark.parametrize("wrong", [(3, 0), (0, 2), (-1, 0), (0,), (0, 0, 0), [0, 0], (True, 0), "linux · no", 3, None])
def test_no_other_pair_has_a_cell(wrong: object) -> None:
    with pytest.raises(WrongValue, match="must be a category of os and crashed, each by its number, got "):
        CROSS.encode(wrong, 0)


@pytest.mark.parametrize("value", [True, "linux · no", (0, 0), ABSENT])
def test_nothing_can_be_recorded_as_a_cross(value: object) -> None:
    with pytest.raises(WrongValue, match="must not be recorded: it follows from os and crashed, got "):
        Registry.parse(source(("os", kind("choice")), ("crashed", kind("flag")), ("it", of("os", "crashed"))))[
            "it"
        ].check(value)


def test_a_cell_is_typed_with_a_comma_or_by_its_name() -> None:
    assert CROSS.typed("macos,yes") == CROSS.typed("macos, yes") == CROSS.typed("macos · yes") == (1, 1)
    with pytest.raises(ValueError, match="must be a category of os and crashed with a comma between, got 'vms'"):
        CROSS.typed("vms")


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ((OS, OS), "of must name two different metrics, got os twice"),
        ((OS,), "of must name two metrics, got 1"),
        ((OS, CRASHED, SIZE), "of must name two metrics, got 3"),
        (
            (OS, Factor(name="b", shape=Choice(choices=tuple(map(str, range(85))), absent=None))),
            "a cross must have at most 256 cells, got 3 categories of os x 86 of b = 258",
        ),
        (
            (Factor(name="a", shape=Choice(choices=("absent", "b"), absent=None)), CRASHED),
            "the cells of a cross must have different names, got 'absent · no' more than once",
        ),
    ],
)
def test_a_cross_has_two_factors_and_few_cells(factors: tuple[Factor, Factor], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        Cross(factors=factors)
    assert refused.value.problems == (sentence,)


def test_256_cells_are_not_too_many() -> None:
    sixteen = Choice(choices=tuple(map(str, range(16))), absent="0")
    assert Cross(factors=(Factor(name="a", shape=sixteen), Factor(name="b", shape=sixteen))).categories == 256


# --- a definition can be decoded alone ----------------------------------------------------------------------------


def definition(shape: Cross = CROSS, every: str = "week") -> Definition:
    return Definition(name="it", every=every, shape=shape, noise=shape.best_noise(F(1), F(2), every == "once"))


@pytest.mark.parametrize("factors", list(product((OS, CRASHED), (SIZE, START, SIZE.replace(accumulate="sum")))))
def test_a_definition_carries_its_factors(factors: tuple[Factor, Factor]) -> None:
    metric = definition(Cross(factors=factors))
    read = Definition.from_json(json.loads(json.dumps(metric.to_json())))
    assert read == metric
    assert read.metric_hash == metric.metric_hash
    assert read.shape.factors == factors


def test_the_hash_knows_the_order_and_all_that_categories_depend_on() -> None:
    shapes = [
        CROSS,
        Cross(factors=(CRASHED, OS)),
        Cross(factors=(OS.replace(name="system"), CRASHED)),
        Cross(factors=(OS, CRASHED.replace(accumulate="last"))),
        Cross(factors=(OS, CRASHED.replace(shape=Flag(absent=True)))),
        Cross(factors=(OS.replace(shape=Choice(choices=("macos", "linux"), absent=None)), CRASHED)),
    ]
    assert len({definition(shape).metric_hash for shape in shapes}) == len(shapes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"factors": 3}, "factors must be a list, got 3"),
        ({"factors": [3, 4]}, "factors item 0 must be a table of keys and values, got 3"),
        ({"factors": [{}, {}]}, "factors item 0 kind is missing\nname is missing\nshape is missing"),
        ({"factors": []}, "of must name two metrics, got 0"),
        (
            {"factors": [{"name": "a", "kind": "cross", "shape": {}}]},
            "factors item 0 must have a kind out of flag, choice, string, mean, histogram, range, set, got 'cross'",
        ),
        (
            {"factors": [{"name": "a", "kind": "flag", "shape": 3}]},
            "factors item 0 shape must be a table of keys and values, got 3",
        ),
        (
            {"factors": [{"name": "A", "kind": "flag", "shape": {}}]},
            "factors item 0 a factor's name must match [a-z][a-z0-9_]{0,63}, got 'A'",
        ),
        (
            {"factors": [{"name": "a", "kind": "flag", "shape": {}, "accumulate": "sum"}]},
            "factors item 0 accumulate of a must be one of first, last, any, got 'sum'",
        ),
        (
            {"factors": [{"name": "a", "kind": "string", "shape": {"num_bits": 1, "num_hashes": 1, "num_cohorts": 1}}]},
            "factors item 0 a cross is made of flags, choices, histograms and means, got a, a string",
        ),
    ],
)
def test_factors_that_are_none_are_refused_in_words(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        Definition.from_json({**definition().to_json(), "shape": change})
    assert str(refused.value) == sentence


# --- metrics.toml -------------------------------------------------------------------------------------------------


def test_the_order_of_the_file_does_not_matter_and_is_kept() -> None:
    tables = [("it", of("os", "crashed")), ("os", kind("choice")), ("crashed", kind("flag", accumulate='"any"'))]
    first, last = Registry.parse(source(*tables)), Registry.parse(source(*reversed(tables)))
    assert list(first.metrics) == ["it", "os", "crashed"]
    assert list(last.metrics) == ["crashed", "os", "it"]
    assert first["it"].metric_hash == last["it"].metric_hash
    assert first["it"].shape.factors == tuple(
        Factor(name=name, shape=first[name].shape, accumulate=first[name].accumulate) for name in ("os", "crashed")
    )
    assert first.crosses == {"os": (first["it"],), "crashed": (first["it"],)}


@pytest.mark.parametrize("other", ["flag", "choice", "histogram", "mean"])
def test_flags_choices_histograms_and_means_can_be_crossed(other: str) -> None:
    metric = Registry.parse(source(("a", kind("flag")), ("b", kind(other)), ("it", of("a", "b"))))["it"]
    assert metric.shape.factors[1].shape.kind == other
    assert metric.shape.question() == f"a together with b, one of {metric.shape.categories} combinations"


@pytest.mark.parametrize("other", ["string", "discovery", "range", "set"])
def test_nothing_else_can(other: str) -> None:
    tables = (("a", kind("flag")), ("b", kind(other)), ("it", of("a", "b")))
    called = "string" if other == "discovery" else other
    assert problems_of(*tables) == [
        f"[metrics.it] a cross is made of flags, choices, histograms and means, got b, a {called}"
    ]


FLAGS = (("a", kind("flag")), ("b", kind("flag")))


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (of("a", "c"), ["of must name metrics of the same file, got 'c'"]),
        (of("a", "itt"), ["of must name metrics of the same file, got 'itt'; did you mean it?"]),
        (of("a", "it"), ["of must name metrics that stand by themselves, got it, which is a cross or wrong itself"]),
        (of("a"), ["of must name two metrics, got 1"]),
        (of("a", "a"), ["of must name two different metrics, got a twice"]),
        (of("a", "b", of=None), ["of is missing"]),
        (of("a", "b", of='"a"'), ["of must be a list, got 'a'"]),
        (of("a", "b", of="[{}]"), ["of item 0 must be a text, got a table of 0"]),
        (of("a", "b", accumulate='"last"'), ["accumulate must be one of first for a cross, got 'last'"]),
        (of("a", "b", max_values="5"), ["max_values must be at most 4, the number of different answers a cross like"]),
        (
            of("a", "b", every='"day"'),
            ["every must be that of its factor a, week, got day", "every must be that of its factor b, week, got day"],
        ),
        (
            of("a", "b", **HISTORY),
            ["hold must be that of its factor a, none, got 13", "hold must be that of its factor b, none, got 13"],
        ),
    ],
)
def test_a_cross_that_cannot_be_is_refused_in_words(changes: dict[str, str | None], sentences: list[str]) -> None:
    found = problems_of(*FLAGS, ("it", changes))
    assert len(found) == len(sentences)
    for problem, sentence in zip(found, sentences, strict=True):
        assert problem.startswith(f"[metrics.it] {sentence}"), problem


def test_a_factor_with_hold_needs_the_same_of_its_cross() -> None:
    held = (("a", kind("flag", **HISTORY)), ("b", kind("flag", **HISTORY)))
    assert problems_of(*held, ("it", of("a", "b", **HISTORY))) == []
    assert problems_of(*held, ("it", of("a", "b", **{**HISTORY, "hold": "4"}))) == [
        f"[metrics.it] hold must be that of its factor {name}, 13, got 4" for name in "ab"
    ]
    assert problems_of(*held, ("it", of("a", "b"))) == [
        f"[metrics.it] hold must be that of its factor {name}, 13, got none" for name in "ab"
    ]


def test_a_broken_factor_is_named_by_its_cross_too() -> None:
    tables = (("a", kind("flag", grace="-1")), ("b", kind("flag")), ("it", of("a", "b")))
    assert problems_of(*tables) == [
        "[metrics.a] grace must be in [0, 60] epochs, got -1",
        "[metrics.it] of must name metrics that stand by themselves, got a, which is a cross or wrong itself",
    ]


def test_a_registry_made_in_code_holds_the_factors_as_they_are() -> None:
    whole = Registry.parse(source(*FLAGS, ("it", of("a", "b"))))
    with pytest.raises(Invalid, match=r"^\[metrics.it\] of must name metrics of the same registry, got b$"):
        whole.replace(metrics={name: whole[name] for name in ("a", "it")})
    other = whole["b"].replace(shape=Flag(absent=True))
    with pytest.raises(Invalid, match=r"^\[metrics.it\] its factor b must be the metric of that name$"):
        whole.replace(metrics={**whole.metrics, "b": other})


# --- noise --------------------------------------------------------------------------------------------------------


def test_it_is_sent_as_any_choice_of_as_many() -> None:
    """k-ary where that has less noise, bits elsewhere, a subset where it is asked once."""
    big = Factor(name="b", shape=Choice(choices=tuple(map(str, range(20))), absent="0"))
    for shape, wanted in ((CROSS, KaryChannel), (Cross(factors=(OS, big)), BitChannel)):
        choice = Choice(choices=shape.answers, absent=shape.answers[0])
        for once in (False, True):
            assert shape.best_noise(F(1), F(2), once) == choice.best_noise(F(1), F(2), once)
        assert isinstance(shape.best_noise(F(1), F(2)).permanent, wanted)
        assert shape.best_history(F(4), 13, 4) == choice.best_history(F(4), 13, 4)
    assert isinstance(definition(CROSS, "once").noise.permanent, SubsetChannel)


def test_what_is_no_factor_says_so() -> None:
    assert String(num_bits=8, num_hashes=1, num_cohorts=1).told_apart == ()
    assert CROSS.told_apart == ()
