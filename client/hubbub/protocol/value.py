"""Frozen values: checked once, when they are made, and equal where their fields are.

What `dataclasses` does at a tenth of its price. Apps import this package when they start, and the decorator there costs
as much as sqlite3, json and tomllib together (it imports `inspect`, and compiles methods for each class). Here the
methods are written once, below, and read the fields of a class from its annotations.

For the same reason nothing that an app loads when it starts imports `typing`, and `TYPE_CHECKING` is a plain False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hubbub.protocol.invalid import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from functools import cached_property as cached_property  # so is it exported
    from typing import Any, ClassVar, NoReturn, Self, dataclass_transform
else:

    class cached_property:  # noqa: N801  # it stands for the one of functools
        """As from Python 3.12 on: without a lock, which Python 3.11 makes for each one when its class is made."""

        def __init__(self, find):
            self._find, self._name = find, find.__name__
            self.__doc__ = find.__doc__

        def __get__(self, holder, cls=None):
            if holder is None:
                return self
            found = holder.__dict__[self._name] = self._find(holder)
            return found

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """Base of all values. The annotated names of a class are its fields, in order; those with a value have a default.

    `class It(Value, kw_only=True)` makes type checkers ask for the names of fields. `_broken_rules` says what is wrong
    with a value; one that breaks a rule is never made.
    """

    fields: ClassVar[Mapping[str, str]] = {}
    """The fields and how their types are written."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    aside: ClassVar[tuple[str, ...]] = ()
    """Fields that are left out of comparison and of `repr`."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        own = {name: kind for name, kind in cls.__annotations__.items() if not str(kind).startswith("ClassVar")}
        cls.fields = {**cls.fields, **own}
        cls.defaults = {**cls.defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}
        cls.__match_args__ = tuple(cls.fields)  # type: ignore[attr-defined, misc]  # for `match`; mypy wants a literal

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self.fields
        held = {**self.defaults, **dict(zip(fields, values, strict=False)), **named}
        if len(held) != len(fields) or len(values) > len(fields) or (named and not self._fit(len(values), named)):
            self._refuse(values, named)
        self.__dict__.update(held)
        require(self._broken_rules())

    def _fit(self, values: int, named: Mapping[str, Any]) -> bool:
        """Whether these names are of fields after the first `values` of them."""
        return set(named).issubset(tuple(self.fields)[values:])

    def _refuse(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> NoReturn:
        given = tuple(self.fields)[: len(values)]
        wrong = [name for name in named if name in given or name not in self.fields]
        if len(values) > len(self.fields) or wrong:
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.fields)}, got {wrong or values!r} besides")
        missing = [name for name in self.fields if name not in {*self.defaults, *given, *named}]
        raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def _broken_rules(self) -> Iterable[str]:
        return ()

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields, checked anew."""
        return type(self)(**{**self.to_dict(), **changes})

    __replace__ = replace  # copy.replace, from Python 3.13 on

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {name: self.__dict__[name] for name in self.fields}

    def _compared(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.fields if name not in self.aside)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._compared() == other._compared())

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.fields if name not in self.aside)
        return f"{type(self).__name__}({shown})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")
