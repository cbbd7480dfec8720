"""What people answer: the values of one metric and how common each is, from a few words, from a file, or by default.

Lists (flag, choice, string) have values in an order, and a share for each rank; a value of a set is all that one person
uses. Numbers (mean, histogram, range) are
laid on a grid finer than what the metric tells apart, so that every population is a finite one whose truth is known.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array
from hubbub.protocol.arguments import share
from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.shape import Shape
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.kinds.lists import MOST_VALUES

FORMS = """\
populations of lists (flag, choice, string), the values in their order:
  share:30%                 flag: so many say yes
  zipf:1[,COUNT]            the r-th value with weight r^-1
  exponential:20[,COUNT]    the r-th value with weight e^(-r/20)
  normal[:COUNT]            a bell over the list, most common in its middle
  uniform[:COUNT]           all alike (COUNT: how many strings there are, default 1000)
populations of sets, every item by itself:
  zipf:1                    the r-th item is used by 50 % r^-1 of people
  uniform:30%               every item is used by so many
populations of numbers (mean, histogram, range):
  normal[:MEAN,SD]          without figures a bell over the range, or over the buckets
  lognormal:MEDIAN,SPREAD   SPREAD is the deviation of the logarithm
  exponential:MEAN
  uniform[:LOW,HIGH]
of a cross, unless it follows from the populations of its two metrics: those of lists, over its combinations
of all:
  csv:FILE                  two columns, value and count; a header is skipped
  column:FILE               one value a line, as often as it occurs"""


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Values that can be recorded, each with its share. `words` says it to a person."""

    values: tuple[Any, ...]  # what can be recorded
    shares: Array  # how common each value is
    words: str  # the same, said to a person
    numeric: bool  # whether values are numbers

    def __len__(self) -> int:
        return len(self.values)


def default_population(shape: Shape) -> Distribution:
    """What an app might see, where nobody has said."""
    return parse_population(shape, kind_of(shape).default_population)


def parse_population(shape: Shape, text: str) -> Distribution:
    """A population of a metric of this shape from its short form; raises `Invalid` with the form that was wanted."""
    name, _, rest = text.partition(":")
    if name in ("csv", "column"):
        return _from_file(shape, name, rest)
    numbers = [_figure(part, text) for part in rest.split(",")] if rest else []
    values, weights, words = kind_of(shape).population(name, numbers, text)
    return weighted_values(values, weights, words, shape.is_number)


def weighted_values(values: Sequence[Any], weights: npt.ArrayLike, words: str, numeric: bool) -> Distribution:
    """Values with weights that need not add up to one; those of no weight are nobody's and go."""
    given = np.asarray(weights, dtype=np.float64)
    if len(given) > MOST_VALUES:
        raise Invalid([f"a population must have at most {MOST_VALUES:,} different values, got {len(given):,}"])
    if not len(given) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise Invalid(["the weights of a population must be finite, none negative, and not all 0"])
    kept = np.flatnonzero(given > 0)
    return Distribution(tuple(values[int(i)] for i in kept), given[kept] / given.sum(), words, numeric)


# --- files --------------------------------------------------------------------------------------------------------


def _from_file(shape: Shape, form: str, path: str) -> Distribution:
    counts: dict[Any, float] = {}
    for line, (text, count) in _rows(form, path):
        value = _value(shape, text, f"{path}, line {line}")
        counts[value] = counts.get(value, 0.0) + count
    if not counts:
        raise Invalid([f"{path}: a population needs at least one value, got none"])
    values = sorted(counts) if shape.is_number else sorted(counts, key=lambda value: -counts[value])
    words = f"{len(values):,} values from {Path(path).name}"
    return weighted_values(values, [counts[value] for value in values], words, shape.is_number)


def _rows(form: str, path: str) -> list[tuple[int, tuple[str, float]]]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            if form == "column":
                lines = [line.rstrip("\r\n") for line in file]
                return [(i, (line, 1.0)) for i, line in enumerate(lines, 1) if line]
            table = [(i, row) for i, row in enumerate(csv.reader(file), 1) if row]
    except UnicodeDecodeError as error:
        raise Invalid([f"{path}: must be UTF-8, got a wrong byte at {error.start}"]) from None
    found = []
    for line, row in table:
        if len(row) != 2:
            raise Invalid([f"{path}, line {line}: needs two columns, value and count, got {len(row)}"])
        try:
            found.append((line, (row[0], float(row[1]))))
        except ValueError:
            if line != table[0][0]:  # the first line may be a header
                raise Invalid([f"{path}, line {line}: count must be a number, got {brief(row[1])}"]) from None
    return found


def _value(shape: Shape, text: str, where: str) -> Any:
    try:
        value = kind_of(shape).value(text)
    except ValueError:
        raise Invalid([f"{where}: the value must be a number, got {brief(text)}"]) from None
    try:
        shape.encode(value, 0)
    except WrongValue as error:
        raise Invalid([f"{where}: the value {error}: {brief(text)}"]) from None
    return value


def _figure(part: str, text: str) -> float:
    try:
        return share(part)
    except Invalid:
        raise Invalid([f"the figures of a population must be numbers, got {brief(part)} in {brief(text)}"]) from None
