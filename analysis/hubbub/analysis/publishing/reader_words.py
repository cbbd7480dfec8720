"""The label's second part, in plain words: what a reader of published figures learns, of each metric and for life."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import ceil
from textwrap import wrap
from typing import Any

from hubbub.analysis.publishing.reader import (
    ANY_HISTORIES,
    ReaderBound,
    ReaderCurves,
    reader_bound,
    reader_curves,
    reader_problems,
)
from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.invalid import Invalid, plural, require
from hubbub.protocol.label import WIDTH
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry

_MONTHS_A_WEEK = Fraction(12, 52)


class ReaderLabel:
    """The bounds of all metrics of a registry; one delta for all of them together."""

    def __init__(self, registry: Registry, installs: int, weeks: int = 52, delta: float = 1e-9) -> None:
        if weeks < 1:
            raise Invalid([f"weeks must be at least 1, got {weeks}"])
        require(reader_problems({installs: 1}, delta))
        self.registry, self.installs, self.weeks, self.delta = registry, installs, weeks, delta
        self.epochs = {metric.name: epochs_in(metric, weeks) for metric in registry}
        share = delta / len(registry)
        self.bounds: Mapping[str, ReaderBound | None] = {
            metric.name: reader_bound(metric, self._crowds(metric), share) for metric in registry
        }

    def _crowds(self, metric: Metric) -> dict[int, int]:
        """Of a sample, as many as report. That nobody knows who was drawn takes nothing off: figures with exact numbers
        of reports tell somebody who knows all others whether this install is one of them."""
        return {max(1, int(self.installs * metric.sample)): self.epochs[metric.name]}

    @property
    def life(self) -> float | None:
        """About everything together: epsilons of metrics add. None if nothing can be said of one of them."""
        found = [bound.life for bound in self.bounds.values() if bound is not None]
        return sum(found) if len(found) == len(self.bounds) else None

    @cached_property
    def curves(self) -> dict[str, ReaderCurves | None]:
        """The smallest pairs of errors behind each bound."""
        share = self.delta / len(self.registry)
        return {metric.name: reader_curves(metric, self._crowds(metric), share) for metric in self.registry}

    def facts(self) -> dict[str, Any]:
        return {
            "installs": self.installs,
            "weeks": self.weeks,
            "delta": self.delta,
            "trusting": "the collector, to publish figures and nothing else",
            "epsilon_life": _text(self.life),
            "metrics": {name: self._facts_of(name, bound) for name, bound in self.bounds.items()},
        }

    def _facts_of(self, name: str, bound: ReaderBound | None) -> dict[str, Any] | None:
        if bound is None:
            return None
        return {
            "epochs": self.epochs[name],
            "epsilon_one_answer": _text(bound.one_answer),
            "epsilon_life": _text(bound.life),
            "life_holds_for": bound.holds_for,
            "epsilon_if_nobody_joins_leaves_or_changes": _text(bound.one_release),
        }

    def words(self) -> str:
        lines = ["TO SOMEONE WHO SEES ONLY PUBLISHED FIGURES", ""]
        lines += wrap(_ANOTHER_PROMISE, WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines += ["", *wrap(self._setting(), WIDTH, initial_indent="  ", subsequent_indent="  "), ""]
        for name, bound in self.bounds.items():
            lines += wrap(f"{name}: {_sentence(bound)}", WIDTH, initial_indent="  * ", subsequent_indent="    ")
        if self.life is not None:
            total = (
                f"All questions together, for life: at most {_sure(self.life)}, trusting the collector. Several "
                "devices of one person add up."
            )
            lines += ["", *wrap(total, WIDTH, initial_indent="  ", subsequent_indent="  ")]
        return "\n".join(lines)

    def _setting(self) -> str:
        return (
            f"With {self.installs:,} installs and figures of {plural(self.weeks, 'week')}, trusting the collector, but "
            f"for a chance of {self.delta:g} in all:"
        )


def epochs_in(metric: Metric, weeks: int) -> int:
    """How many epochs of its cadence so many weeks have."""
    match metric.every:
        case "day":
            return 7 * weeks
        case "week":
            return weeks
        case "month":
            return max(1, ceil(weeks * _MONTHS_A_WEEK))
    return 1


_ANOTHER_PROMISE = (
    "Everything above holds against everyone, the collector included. This part does not: it is about people who see "
    "published figures of all installs and nothing else, and it holds only if the collector is trusted to publish "
    "nothing else. That an install took part is not hidden here, only what it answered."
)


def _sentence(bound: ReaderBound | None) -> str:
    if bound is None:
        return "no statement, because a single message is as clear as the kept answer behind it."
    history = "" if bound.holds_for == ANY_HISTORIES else " (that an answer changed may show)"
    said = (
        f"at most {_sure(bound.one_answer)} which of two kept answers is yours; about all your answers, at most "
        f"{_sure(bound.life)}{history}."
    )
    if bound.one_release is not None and bound.one_release < bound.one_answer:
        said += f" Only if nobody joined, left or changed in all that time: at most {_sure(bound.one_release)}."
    return said


def _sure(epsilon: float) -> str:
    exact = Fraction(epsilon)
    return f"{certainty(exact)} sure (epsilon {show(exact, 3)})"


def _text(epsilon: float | None) -> str | None:
    return None if epsilon is None else show(Fraction(epsilon), 6)
