"""Populations of lists: values in their order, each weighted by its rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.protocol.invalid import Invalid, brief
from hubbub.simulations.kinds.kind import Population

MOST_VALUES = 200_000
DEFAULT_STRINGS = 1000
FORMS = {
    "zipf": "zipf:EXPONENT,COUNT",
    "exponential": "exponential:MEAN,COUNT",
    "normal": "normal:COUNT",
    "uniform": "uniform:COUNT",
}


def list_population(
    kind: str,
    declared: Sequence[Any] | None,
    name: str,
    numbers: list[float],
    text: str,
    more_forms: Sequence[str] = (),
) -> Population:
    """By its name and figures, over the declared values; without any, over as many strings as are wanted."""
    if name not in FORMS:
        known = ", ".join([*more_forms, *FORMS, "csv", "column"])
        raise Invalid([f"the population of a {kind} must be one of {known}, got {brief(name)}"])
    own = 1 if name in ("zipf", "exponential") else 0
    values = _values(kind, declared, numbers[own:], text, FORMS[name])
    count = len(values)
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
            weights, words = bell(count), f"{count:,} values, a bell over their list"
        case _:
            weights, words = np.ones(count), f"{count:,} values, all alike"
    return Population(values, weights, words)


def _values(kind: str, declared: Sequence[Any] | None, given: list[float], text: str, form: str) -> Sequence[Any]:
    if declared is not None:
        if given:
            raise Invalid([f"COUNT is for strings; a {kind} lists its own values, got {brief(text)}"])
        return declared
    (count,) = exactly(given or [float(DEFAULT_STRINGS)], 1, form, text)
    if not 1 <= count <= MOST_VALUES or count != int(count):
        raise Invalid([f"COUNT must be a whole number in [1, {MOST_VALUES}], got {count:g}"])
    return [f"string {i}" for i in range(1, int(count) + 1)]


def bell(count: int) -> npt.NDArray[np.float64]:
    """Six standard deviations from end to end."""
    middle = (count - 1) / 2
    return np.asarray(np.exp(-(((np.arange(count) - middle) / (count / 6)) ** 2) / 2))


def exactly(numbers: list[float], wanted: int, form: str, text: str) -> list[float]:
    """So many figures, or `Invalid` with the form that was wanted."""
    if len(numbers) != wanted:
        raise Invalid([f"a population must have the form {form}, got {brief(text)}"])
    return numbers
