"""What people answer: the values of one metric and how common each is, from a few words, from a file, or by default.

Lists (flag, choice, string) have values in an order, and a share for each rank. Numbers (mean, histogram, range) are
laid on a grid finer than what the metric tells apart, so that every population is a finite one whose truth is known.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.shape import Shape

Array = npt.NDArray[np.float64]

MOST_VALUES = 200_000
DEFAULT_STRINGS = 1000
_GRID = 4096
_DEFAULTS = {"flag": "share:30%", "choice": "zipf:1", "string": f"zipf:1,{DEFAULT_STRINGS}"}
_LISTS = {
    "zipf": "zipf:EXPONENT,COUNT",
    "exponential": "exponential:MEAN,COUNT",
    "normal": "normal:COUNT",
    "uniform": "uniform:COUNT",
}
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")

FORMS = """\
populations of lists (flag, choice, string), the values in their order:
  share:30%                 flag: so many say yes
  zipf:1[,COUNT]            the r-th value with weight r^-1
  exponential:20[,COUNT]    the r-th value with weight e^(-r/20)
  normal[:COUNT]            a bell over the list, most common in its middle
  uniform[:COUNT]           all alike (COUNT: how many strings there are, default 1000)
populations of numbers (mean, histogram, range):
  normal[:MEAN,SD]          without figures a bell over the range, or over the buckets
  lognormal:MEDIAN,SPREAD   SPREAD is the deviation of the logarithm
  exponential:MEAN
  uniform[:LOW,HIGH]
of both:
  csv:FILE                  two columns, value and count; a header is skipped
  column:FILE               one value a line, as often as it occurs"""


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Values that can be recorded, each with its share. `words` says it to a person."""

    values: tuple[Any, ...]
    shares: Array
    words: str
    numeric: bool

    def __len__(self) -> int:
        return len(self.values)


def default_population(shape: Shape) -> Distribution:
    """What an app might see, where nobody has said."""
    return parse_population(shape, _DEFAULTS.get(shape.kind, "normal"))


def parse_population(shape: Shape, text: str) -> Distribution:
    """A population of a metric of this shape from its short form; raises `Invalid` with the form that was wanted."""
    name, _, rest = text.partition(":")
    if name in ("csv", "column"):
        return _from_file(shape, name, rest)
    numbers = [_figure(part, text) for part in rest.split(",")] if rest else []
    if isinstance(shape, Mean | Histogram | Range):
        return _numbers(shape, name, numbers, text)
    return _list(shape, name, numbers, text)


def weighted_values(values: Sequence[Any], weights: npt.ArrayLike, words: str, numeric: bool) -> Distribution:
    """Values with weights that need not add up to one; those of no weight are nobody's and go."""
    given = np.asarray(weights, dtype=np.float64)
    if len(given) > MOST_VALUES:
        raise Invalid([f"a population must have at most {MOST_VALUES:,} different values, got {len(given):,}"])
    if not len(given) or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
        raise Invalid(["the weights of a population must be finite, none negative, and not all 0"])
    kept = np.flatnonzero(given > 0)
    return Distribution(tuple(values[int(i)] for i in kept), given[kept] / given.sum(), words, numeric)


# --- lists --------------------------------------------------------------------------------------------------------


def _list(shape: Shape, name: str, numbers: list[float], text: str) -> Distribution:
    if name == "share" and isinstance(shape, Flag):
        (share,) = _exactly(numbers, 1, "share:SHARE", text)
        if not 0 <= share <= 1:
            raise Invalid([f"share must be in [0, 1], got {share:g}"])
        return weighted_values([True, False], [share, 1 - share], f"{100 * share:g} % say yes", False)
    if name not in _LISTS:
        known = ", ".join([*(["share"] * isinstance(shape, Flag)), *_LISTS, "csv", "column"])
        raise Invalid([f"the population of a {shape.kind} must be one of {known}, got {brief(name)}"])
    own = 1 if name in ("zipf", "exponential") else 0
    count = _count(shape, numbers[own:], text, _LISTS[name])
    rank = np.arange(1, count + 1)
    match name:
        case "zipf":
            exponent = numbers[0] if numbers else 1.0
            weights, words = rank**-exponent, f"the r-th of {count:,} values with weight r^-{exponent:g}"
        case "exponential":
            mean = numbers[0] if numbers else max(1.0, count / 10)
            if mean <= 0:
                raise Invalid([f"exponential needs a MEAN above 0, got {mean:g}"])
            weights, words = np.exp(-rank / mean), f"the r-th of {count:,} values with weight e^(-r/{mean:g})"
        case "normal":
            weights, words = _bell(count), f"{count:,} values, a bell over their list"
        case _:
            weights, words = np.ones(count), f"{count:,} values, all alike"
    return weighted_values(_listed(shape, count), weights, words, False)


def _count(shape: Shape, given: list[float], text: str, form: str) -> int:
    if not isinstance(shape, String):
        if given:
            raise Invalid([f"COUNT is for strings; a {shape.kind} lists its own values, got {brief(text)}"])
        return len(shape.choices) if isinstance(shape, Choice) else 2
    (count,) = _exactly(given or [float(DEFAULT_STRINGS)], 1, form, text)
    if not 1 <= count <= MOST_VALUES or count != int(count):
        raise Invalid([f"COUNT must be a whole number in [1, {MOST_VALUES}], got {count:g}"])
    return int(count)


def _listed(shape: Shape, count: int) -> list[Any]:
    match shape:
        case Flag():
            return [True, False]
        case Choice(choices=choices):
            return list(choices)
    return [f"string {i}" for i in range(1, count + 1)]


def _bell(count: int) -> Array:
    """Six standard deviations from end to end."""
    middle = (count - 1) / 2
    return np.asarray(np.exp(-(((np.arange(count) - middle) / (count / 6)) ** 2) / 2))


# --- numbers ------------------------------------------------------------------------------------------------------

Below = Callable[[Array], Array]
"""The share of people whose number is below each of these."""


def _numbers(shape: Mean | Histogram | Range, name: str, numbers: list[float], text: str) -> Distribution:
    edges = _edges(shape)
    low, high = float(edges[0]), float(edges[-1])
    unit = f" {shape.unit}" if shape.unit else ""
    match name:
        case "normal" if not numbers and isinstance(shape, Histogram):
            steps = np.concatenate([[0.0], np.cumsum(_bell(shape.num_buckets))])
            own = np.array([float(edge) for edge in shape.edges])
            return _on_grid(edges, lambda x: np.interp(x, own, steps / steps[-1]), "a bell over the buckets")
        case "normal":
            mean, sd = _exactly(numbers or [low + 0.4 * (high - low), 0.15 * (high - low)], 2, "normal:MEAN,SD", text)
            _positive("SD", sd)
            return _on_grid(edges, stats.norm(mean, sd).cdf, f"normal, mean {mean:g}{unit}, deviation {sd:g}")
        case "lognormal":
            median, spread = _exactly(numbers, 2, "lognormal:MEDIAN,SPREAD", text)
            _positive("MEDIAN", median)
            _positive("SPREAD", spread)
            words = f"lognormal, median {median:g}{unit}, spread {spread:g}"
            return _on_grid(edges, stats.lognorm(spread, scale=median).cdf, words)
        case "exponential":
            (mean,) = _exactly(numbers, 1, "exponential:MEAN", text)
            _positive("MEAN", mean)
            return _on_grid(edges, stats.expon(scale=mean).cdf, f"exponential, mean {mean:g}{unit}")
        case "uniform":
            first, last = _exactly(numbers or [low, high], 2, "uniform:LOW,HIGH", text)
            _positive("HIGH - LOW", last - first)
            return _on_grid(edges, stats.uniform(first, last - first).cdf, f"uniform from {first:g} to {last:g}{unit}")
    known = "normal, lognormal, exponential, uniform, csv, column"
    raise Invalid([f"the population of a {shape.kind} must be one of {known}, got {brief(name)}"])


def _edges(shape: Mean | Histogram | Range) -> Array:
    """Cells within which numbers are taken as one: none reaches over an edge that the metric knows."""
    match shape:
        case Histogram():
            parts = max(1, _GRID // shape.num_buckets)
            own = [float(edge) for edge in shape.edges]
            inner = [np.linspace(a, b, parts, endpoint=False) for a, b in pairwise(own)]
            return np.concatenate([*inner, own[-1:]])
        case Range():
            cells = shape.num_leaves * max(1, _GRID // shape.num_leaves)
            return np.linspace(float(shape.low), float(shape.high), cells + 1)
        case Mean():
            return np.linspace(float(shape.low), float(shape.high), _GRID + 1)


def _on_grid(edges: Array, below: Below, words: str) -> Distribution:
    """Numbers outside the range are recorded as they are in the client: as its ends."""
    reached = np.asarray(below(edges), dtype=np.float64)
    shares = np.concatenate([reached[:1], np.diff(reached), 1 - reached[-1:]])
    middles = (edges[1:] + edges[:-1]) / 2
    values = np.concatenate([edges[:1], middles, edges[-1:]])
    shares = np.where(shares < 1e-12, 0.0, shares)
    return weighted_values(values.tolist(), shares, words, True)


def _positive(name: str, number: float) -> None:
    if not number > 0:
        raise Invalid([f"{name} must be above 0, got {number:g}"])


# --- files --------------------------------------------------------------------------------------------------------


def _from_file(shape: Shape, form: str, path: str) -> Distribution:
    counts: dict[Any, float] = {}
    for line, (text, count) in _rows(form, path):
        value = _value(shape, text, f"{path}, line {line}")
        counts[value] = counts.get(value, 0.0) + count
    if not counts:
        raise Invalid([f"{path}: a population needs at least one value, got none"])
    numeric = isinstance(shape, Mean | Histogram | Range)
    values = sorted(counts) if numeric else sorted(counts, key=lambda value: -counts[value])
    words = f"{len(values):,} values from {Path(path).name}"
    return weighted_values(values, [counts[value] for value in values], words, numeric)


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
    value: Any = text
    if isinstance(shape, Flag):
        value = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(text.strip().lower(), text)
    elif isinstance(shape, Mean | Histogram | Range):
        try:
            value = float(text)
        except ValueError:
            raise Invalid([f"{where}: the value must be a number, got {brief(text)}"]) from None
    try:
        shape.encode(value, 0)
    except WrongValue as error:
        raise Invalid([f"{where}: the value {error}: {brief(text)}"]) from None
    return value


def _exactly(numbers: list[float], wanted: int, form: str, text: str) -> list[float]:
    if len(numbers) != wanted:
        raise Invalid([f"a population must have the form {form}, got {brief(text)}"])
    return numbers


def _figure(part: str, text: str) -> float:
    try:
        number = float(part.removesuffix("%")) / (100 if part.endswith("%") else 1)
        if not np.isfinite(number):
            raise ValueError
    except ValueError:
        raise Invalid([f"the figures of a population must be numbers, got {brief(part)} in {brief(text)}"]) from None
    return number
