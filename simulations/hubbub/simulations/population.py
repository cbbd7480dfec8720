"""Made-up people: what each install of a crowd would answer, drawn from a seed, so that the truth is known.

A `Question` draws the answers of all installs to one metric at once. A `Crowd` holds them by epoch: answers may differ
from day to day, and None stands for an epoch in which an install has nothing to record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator, int], list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How a crowd answers one metric: by `draw`, anew in each epoch if `daily`, not at all in some (`absent`)."""

    draw: Draw
    daily: bool = False
    absent: float = 0.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """`epochs[e][metric][i]` is what install i records in epoch e; where `running[e][i]` is false it does not run."""

    epochs: tuple[Mapping[str, list[Any]], ...]
    running: tuple[Sequence[bool], ...] | None = None

    @property
    def installs(self) -> int:
        return len(next(iter(self.epochs[0].values())))

    def of_install(self, install: int) -> list[Mapping[str, Any] | None]:
        """What one install records, epoch by epoch; None where it does not run."""
        return [
            {name: answers[install] for name, answers in epoch.items()}
            if self.running is None or self.running[number][install]
            else None
            for number, epoch in enumerate(self.epochs)
        ]

    def answers(self, metric: str) -> list[list[Any]]:
        """All answers to one metric, epoch by epoch."""
        return [epoch[metric] for epoch in self.epochs]


def draw_crowd(questions: Mapping[str, Question], installs: int, epochs: int, seed: int) -> Crowd:
    """The same crowd for the same seed, whoever asks: workers need not be told the answers."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, list[Any]]] = [{} for _ in range(epochs)]
    for name, question in questions.items():
        lasting = question.draw(rng, installs)
        for epoch in found:
            answers = question.draw(rng, installs) if question.daily else lasting
            silent = rng.random(installs) < question.absent
            epoch[name] = [None if quiet else answer for answer, quiet in zip(answers, silent, strict=True)]
    return Crowd(tuple(found))


def weighted(values: Sequence[Any], weights: Sequence[float]) -> Draw:
    """One of these values, by weight."""
    shares = np.asarray(weights, dtype=float) / np.sum(weights)

    def draw(rng: np.random.Generator, installs: int) -> list[Any]:
        return [values[i] for i in rng.choice(len(values), size=installs, p=shares)]

    return draw


def zipf(values: Sequence[Any], exponent: float = 1.0) -> Draw:
    """The r-th value with weight r**-exponent."""
    return weighted(values, [(rank + 1) ** -exponent for rank in range(len(values))])


def lognormal(median: float, spread: float, high: float) -> Draw:
    """Positive numbers around a median, a few of them large, none above `high`."""

    def draw(rng: np.random.Generator, installs: int) -> list[Any]:
        numbers = np.minimum(median * np.exp(spread * rng.standard_normal(installs)), high)
        return [float(number) for number in numbers]

    return draw
