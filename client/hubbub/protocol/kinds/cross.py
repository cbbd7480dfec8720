"""Two answers at once: one metric on the product of the categories of two others, its factors.

Nobody records it: when an epoch is over it follows from what was recorded of its factors. A definition carries them, so
that its counts can be decoded alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.protocol.channel import Flips, Noise
from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue, type_name
from hubbub.protocol.fields import did_you_mean, list_of, plain_table, read_fields, text
from hubbub.protocol.history import History, category_history
from hubbub.protocol.invalid import brief, require
from hubbub.protocol.kinds import KINDS, shape_class
from hubbub.protocol.noise import category_noise
from hubbub.protocol.shape import MAX_CROSSED, ONE_OF_MANY, Beside, Factor, Shape
from hubbub.protocol.value import cached_property

if TYPE_CHECKING:
    from hubbub.protocol.vocabulary import Reader

BETWEEN = " · "
"""Stands between the two answers of a cell in its name."""


class Cross(Shape, kw_only=True):
    """Which answer of one factor together with which of the other: cell i x (categories of the second) + j."""

    kind = "cross"
    accumulations = ("first",)
    made_of_others = True
    one_of_what = "combination"
    factors: tuple[Factor, Factor]

    def _broken_rules(self) -> Iterator[str]:
        if len(self.factors) != 2:
            yield f"of must name two metrics, got {len(self.factors)}"
            return
        first, second = self.factors
        if first.name == second.name:
            yield f"of must name two different metrics, got {first.name} twice"
        if self.categories > MAX_CROSSED:
            yield (
                f"a cross must have at most {MAX_CROSSED} cells, got {len(first.categories)} categories of "
                f"{first.name} x {len(second.categories)} of {second.name} = {self.categories}"
            )
            return
        repeated = [name for name, times in Counter(self.answers).items() if times > 1]
        if repeated:
            yield f"the cells of a cross must have different names, got {repeated[0]!r} more than once"

    @cached_property
    def categories(self) -> int:
        first, second = self.factors
        return len(first.categories) * len(second.categories)

    @cached_property
    def answers(self) -> tuple[str, ...]:
        first, second = self.factors
        return tuple(f"{one}{BETWEEN}{other}" for one in first.categories for other in second.categories)

    @cached_property
    def num_masks(self) -> int:
        return self.categories

    @cached_property
    def flips(self) -> Flips:
        return ONE_OF_MANY

    def width(self, cohort: int) -> int:
        return self.categories

    def cell(self, i: int, j: int) -> int:
        """Where category i of the first factor and j of the second stand together."""
        return i * len(self.factors[1].categories) + j

    def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
        """Of a pair of categories, as `Factor.category` gives them; `ABSENT` is that of two that were not recorded."""
        if value is ABSENT:
            value = tuple(factor.category(ABSENT, dither) for factor in self.factors)
        if not isinstance(value, tuple) or len(value) != 2 or not all(map(_is_one_of, value, self.factors)):
            raise WrongValue(f"must be a category of {self._names()}, each by its number, got {type_name(value)}")
        return Encoded(1 << self.cell(*value))

    def check_recorded(self, value: Any) -> None:
        raise WrongValue(f"must not be recorded: it follows from {self._names()}, got {type_name(value)}")

    def typed(self, text: str) -> tuple[int, int]:
        """Two categories with a dot or a comma between them."""
        first, second = self.factors
        for i, one in enumerate(first.categories):
            for j, other in enumerate(second.categories):
                if text in (f"{one}{BETWEEN}{other}", f"{one},{other}", f"{one}, {other}"):
                    return i, j
        raise ValueError(f"must be a category of {self._names()} with a comma between, got {text!r}")

    def question(self) -> str:
        return f"{self.factors[0].name} together with {self.factors[1].name}, one of {self.categories} combinations"

    def answers_in_words(self) -> str:
        return "; ".join(f"{factor.name}: {', '.join(factor.categories)}" for factor in self.factors)

    def best_noise(self, epsilon_one_report: Fraction, epsilon_permanent: Fraction, once: bool = False) -> Noise:
        return category_noise(epsilon_one_report, epsilon_permanent, self.categories, once)

    def best_history(self, epsilon: Fraction, hold: int, answers: int) -> History:
        return category_history(epsilon, hold, answers, self.categories)

    def plain_fields(self) -> dict[str, Any]:
        of = [f.name if f.accumulate == "first" else f"{f.name} ({f.accumulate})" for f in self.factors]
        return {"of": of, "cells": list(self.answers)}

    def to_json(self) -> dict[str, Any]:
        return {"factors": [factor.to_json() for factor in self.factors]}

    def port_facts(self) -> dict[str, Any]:
        """The factors are metrics of the same file, which has all the rest of them."""
        return {
            "of": [factor.name for factor in self.factors],
            "categories": [len(factor.categories) for factor in self.factors],
        }

    def _names(self) -> str:
        return f"{self.factors[0].name} and {self.factors[1].name}"

    # -- reading it

    @classmethod
    def readers(cls) -> tuple[dict[str, Reader], set[str]]:
        return {"factors": list_of(_factor)}, {"factors"}

    @classmethod
    def keys(cls) -> tuple[dict[str, Reader], set[str]]:
        return {"of": list_of(text)}, {"of"}

    @classmethod
    def from_keys(cls, given: Mapping[str, Any], beside: Beside) -> Cross:
        names: tuple[str, ...] = given["of"]
        require(_broken_names(names, beside))
        found = ((name, beside[name]) for name in names)
        factors = tuple(Factor(name=name, shape=of[0], accumulate=of[1]) for name, of in found if of is not None)
        return cls(factors=factors)  # type: ignore[arg-type]  # that they are two is its own rule


def _is_one_of(category: Any, factor: Factor) -> bool:
    return type(category) is int and 0 <= category < len(factor.categories)


def _broken_names(names: tuple[str, ...], beside: Beside) -> Iterator[str]:
    for name in names:
        if name not in beside:
            yield f"of must name metrics of the same file, got {brief(name)}{did_you_mean(name, beside)}"
        elif beside[name] is None:
            yield f"of must name metrics that stand by themselves, got {name}, which is a cross or wrong itself"


def _factor(raw: Any) -> Factor:
    if not isinstance(raw, dict):
        raise ValueError(f"must be a table of keys and values, got {brief(raw)}")
    problems: list[str] = []
    known: dict[str, Reader] = {"name": text, "kind": text, "shape": plain_table, "accumulate": text}
    top = read_fields(raw, known, ("name", "kind", "shape"), problems)
    require(problems)
    kinds = [kind for kind in KINDS if kind != Cross.kind]  # and not only no factor: nor is it read any deeper
    if top["kind"] not in kinds:
        raise ValueError(f"must have a kind out of {', '.join(kinds)}, got {top['kind']!r}")
    of = shape_class(top["kind"], top["shape"])
    fields = read_fields(top["shape"], *of.readers(), problems)
    require(problems)
    return Factor(name=top["name"], shape=of(**fields), accumulate=top.get("accumulate", "first"))
