"""Values: frozen, checked when they are made, equal where their fields are. As dataclasses promise, by forty lines."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator
from typing import ClassVar

import pytest

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.value import Value, cached_property


class Point(Value):
    origin: ClassVar[int] = 0
    x: int
    y: int = 0

    def _broken_rules(self) -> Iterator[str]:
        if self.x < 0:
            yield f"x must be at least 0, got {self.x}"
        if self.y < 0:
            yield f"y must be at least 0, got {self.y}"

    @cached_property
    def sum(self) -> int:
        return self.x + self.y


class Named(Point, kw_only=True):
    name: str
    note: str = ""
    aside = ("note",)


def test_fields_are_the_annotated_names_in_order_and_class_variables_are_none() -> None:
    assert Point.fields == {"x": "int", "y": "int"}
    assert Point.defaults == {"y": 0}
    assert list(Named.fields) == ["x", "y", "name", "note"]
    assert list(Point.fields) == ["x", "y"]  # a subclass leaves its base as it was


def test_fields_are_given_by_place_or_by_name() -> None:
    assert (Point(1, 2).x, Point(1, 2).y) == (1, 2)
    assert Point(1) == Point(x=1) == Point(1, y=0)
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)


@pytest.mark.parametrize(
    ("given", "named", "words"),
    [
        ((), {}, "Point needs x"),
        ((1, 2, 3), {}, r"Point takes x, y, got \(1, 2, 3\) besides"),
        ((1,), {"z": 2}, r"Point takes x, y, got \['z'\] besides"),
        ((1,), {"x": 2}, r"Point takes x, y, got \['x'\] besides"),
    ],
)
def test_wrong_fields_are_named(given: tuple[int, ...], named: dict[str, int], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Point(*given, **named)


def test_all_broken_rules_are_told_at_once_and_nothing_is_made() -> None:
    with pytest.raises(Invalid) as caught:
        Point(-1, -2)
    assert caught.value.problems == ("x must be at least 0, got -1", "y must be at least 0, got -2")
    with pytest.raises(Invalid):
        Point(1).replace(x=-1)


def test_nothing_can_be_changed_afterwards() -> None:
    point = Point(1, 2)
    with pytest.raises(AttributeError, match="Point is frozen: x cannot be set"):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Point is frozen: z cannot be set"):
        point.z = 5  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="Point is frozen: x cannot be deleted"):
        del point.x
    assert point == Point(1, 2)


def test_values_are_equal_where_their_fields_are_and_only_within_one_class() -> None:
    assert Point(1, 2) == Point(1, 2)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 2) != Point(2, 1)
    assert Named(x=1, name="a") != Point(1)
    assert Point(1) != 1
    assert Named(x=1, name="a", note="b") == Named(x=1, name="a", note="c")
    assert hash(Named(x=1, name="a", note="b")) == hash(Named(x=1, name="a", note="c"))
    assert Named(x=1, name="a") != Named(x=1, name="b")


def test_a_value_shows_its_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert repr(Named(x=1, name="a", note="long")) == "Named(x=1, y=0, name='a')"


def test_what_was_worked_out_once_is_kept_and_is_no_field() -> None:
    point = Point(1, 2)
    assert point.sum == 3
    assert point.__dict__["sum"] == 3
    assert point == Point(1, 2)
    assert point.replace(y=5).sum == 6


def test_values_travel_between_processes_and_are_copied() -> None:
    point = Named(x=1, y=2, name="a", note="b")
    for other in (pickle.loads(pickle.dumps(point)), copy.deepcopy(point), point.replace()):
        assert other == point
        assert other.note == "b"
    if sys.version_info >= (3, 13):
        assert copy.replace(point, x=2) == point.replace(x=2)
