"""Populations of numbers, laid on a grid finer than what the metric tells apart, so that each is a finite one whose
truth is known. Numbers outside the range are recorded as they are in the client: as its ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import (
    expm1,
    ndtr,
)  # not scipy.stats, for which every process of a fleet would wait a second

from hubbub.analysis.arrays import Array
from hubbub.protocol.invalid import Invalid, brief
from hubbub.simulations.kinds.kind import Population
from hubbub.simulations.kinds.lists import exactly

Below = Callable[[Array], Array]
"""The share of people whose number is below each of these."""

GRID = 4096
"""Cells of a grid, about."""


def number_population(kind: str, edges: Array, unit: str, name: str, numbers: list[float], text: str) -> Population:
    """By its name and figures. Within a cell between two edges numbers are taken as one."""
    low, high = float(edges[0]), float(edges[-1])
    unit = f" {unit}" if unit else ""
    match name:
        case "normal":
            mean, sd = exactly(numbers or [low + 0.4 * (high - low), 0.15 * (high - low)], 2, "normal:MEAN,SD", text)
            _positive("SD", sd)
            return on_grid(edges, lambda x: ndtr((x - mean) / sd), f"normal, mean {mean:g}{unit}, deviation {sd:g}")
        case "lognormal":
            median, spread = exactly(numbers, 2, "lognormal:MEDIAN,SPREAD", text)
            _positive("MEDIAN", median)
            _positive("SPREAD", spread)
            words = f"lognormal, median {median:g}{unit}, spread {spread:g}"
            return on_grid(edges, lambda x: ndtr(_log(x / median) / spread), words)
        case "exponential":
            (mean,) = exactly(numbers, 1, "exponential:MEAN", text)
            _positive("MEAN", mean)
            return on_grid(edges, lambda x: -expm1(-np.maximum(x / mean, 0)), f"exponential, mean {mean:g}{unit}")
        case "uniform":
            first, last = exactly(numbers or [low, high], 2, "uniform:LOW,HIGH", text)
            _positive("HIGH - LOW", last - first)
            words = f"uniform from {first:g} to {last:g}{unit}"
            return on_grid(edges, lambda x: np.clip((x - first) / (last - first), 0, 1), words)
    known = "normal, lognormal, exponential, uniform, csv, column"
    raise Invalid([f"the population of a {kind} must be one of {known}, got {brief(name)}"])


def _log(x: Array) -> Array:
    """Of what is not above 0: minus infinity."""
    return np.log(x, out=np.full_like(x, -np.inf), where=x > 0)


def on_grid(edges: Array, below: Below, words: str) -> Population:
    """A law of numbers as a finite population: the middle of each cell, and the two ends."""
    reached = np.asarray(below(edges), dtype=np.float64)
    shares = np.concatenate([reached[:1], np.diff(reached), 1 - reached[-1:]])
    middles = (edges[1:] + edges[:-1]) / 2
    values = np.concatenate([edges[:1], middles, edges[-1:]])
    return Population(values.tolist(), np.where(shares < 1e-12, 0.0, shares), words)


def true_quantile(name: str, counts: Mapping[float | None, int]) -> float:
    """`quantile 0.5` as numpy's of all answers, one by one: between the two nearest, in proportion."""
    known = sorted((float(answer), number) for answer, number in counts.items() if answer is not None and number)
    if not name.startswith("quantile ") or not known:
        return float("nan")
    numbers = np.array([number for number, _ in known])
    reached = np.cumsum([number for _, number in known])
    place = (int(reached[-1]) - 1) * float(name.removeprefix("quantile "))
    below, above = (numbers[np.searchsorted(reached, int(x), side="right")] for x in (place, np.ceil(place)))
    return float(below + (place - int(place)) * (above - below))


def _positive(name: str, number: float) -> None:
    if not number > 0:
        raise Invalid([f"{name} must be above 0, got {number:g}"])
