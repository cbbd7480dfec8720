"""Which of a declared list: any number of items. Each cohort is asked about a few."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Set
from hubbub.protocol.printed import plain_percent
from hubbub.simulations.kinds.kind import NOWHERE, Index, Kind, Population, ValueMasks
from hubbub.simulations.kinds.lists import exactly

_PEOPLE = 4096
"""Different people of a population: what each uses is drawn once, the same for ever."""

_MOST_COMMON = 0.5
"""The share of people who use the first item of a list that begins with its most common ones."""


class SetKind(Kind[Set]):
    """The answers, where they are counted, are the items; an install may be counted by several, or by none."""

    default_population = "zipf:1"
    answers_are_called = "items"

    @classmethod
    def example(cls, axes: Mapping[str, int]) -> Set:
        return Set(items=tuple(f"item {i}" for i in range(1, 17)))

    def population(self, name: str, numbers: list[float], text: str) -> Population:
        """Every item is used by a share of people, independently of all others."""
        rank = np.arange(1.0, len(self.shape.listed) + 1)
        match name:
            case "zipf":
                (exponent,) = exactly(numbers or [1.0], 1, "zipf:EXPONENT", text)
                shares = _MOST_COMMON * rank**-exponent
                words = f"the r-th item by {plain_percent(_MOST_COMMON)} x r^-{exponent:g}"
            case "uniform":
                (share,) = exactly(numbers or [_MOST_COMMON], 1, "uniform:SHARE", text)
                shares, words = np.full(len(rank), float(share)), f"each item by {plain_percent(share)}"
            case _:
                raise Invalid([f"the population of a set must be one of zipf, uniform, csv, column, got {name!r}"])
        if not (np.isfinite(shares).all() and shares.min() >= 0 and shares.max() <= 1):
            raise Invalid([f"shares must be in [0, 1], got {shares.min():g} to {shares.max():g}"])
        people = _people(self.shape.listed, np.asarray(shares, dtype=np.float64))
        return Population(list(people), list(people.values()), words)

    def value(self, text: str) -> frozenset[str]:
        items = self.shape.typed(text)
        return frozenset([items] if isinstance(items, str) else items)

    def prepared(self, values: Sequence[Any]) -> Mask:
        """Which items each value has, and silence none."""
        uses = np.zeros((len(values) + 1, self.shape.num_places), dtype=bool)
        for row, value in enumerate(values):
            uses[row, [self.shape.places[item] for item in value]] = True
        return uses

    def masks(self, prepared: Mask, cohort: int) -> ValueMasks:
        bits = prepared[:, [self.shape.item(cohort, i) for i in range(self.shape.items_per_report)]]
        distinct, keys = np.unique(bits, axis=0, return_inverse=True)
        return ValueMasks(keys.reshape(-1), np.where(distinct, np.arange(bits.shape[1]), NOWHERE))

    def ones(self, by_cohort: Index, positions: npt.NDArray[Any] | None) -> list[Index]:
        asked = [
            [self.shape.item(cohort, i) for i in range(self.shape.items_per_report)]
            for cohort in range(self.shape.num_cohorts)
        ]
        spare = np.zeros((len(by_cohort), self.shape.spare), dtype=by_cohort.dtype)  # items of which nobody knows yet
        return [row[items] for row, items in zip(np.hstack([by_cohort, spare]), asked, strict=True)]

    def shares(self, counts: Mapping[Any, int], num_rows: int) -> dict[Hashable, float]:
        found: dict[Hashable, float] = dict.fromkeys(self.shape.listed, 0.0)
        everyone = max(sum(counts.values()), 1)
        for used, number in counts.items():
            for item in used or ():
                found[item] += number / everyone
        return found

    def distance(self, decoding: Decoding, truth: Array, counts: Mapping[Any, int]) -> float:
        """The average over the items: shares of a set sum to nothing. 0 where nobody has answered."""
        return float(np.nansum(np.abs(decoding.best_guess - truth)) / len(self.shape.listed))

    def seen_through(self, share: float, fitted: int) -> tuple[float, float]:
        return self.shape.num_places / self.shape.items_per_report, share

    def least_variance(self, e: float) -> float:
        """Warner's (1965) of one item, were everyone asked about nothing else."""
        return e / (e - 1) ** 2

    def far_values(self, cohort: int) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self.shape.listed), frozenset()


def _people(items: tuple[str, ...], shares: Array) -> dict[frozenset[str], int]:
    """So many people, each with the items they use: of each item exactly its share, rounded, and who they are has
    nothing to do with other items."""
    rng = np.random.default_rng(len(items))
    uses = np.zeros((_PEOPLE, len(items)), dtype=bool)
    for place, share in enumerate(shares):
        uses[rng.permutation(_PEOPLE)[: round(share * _PEOPLE)], place] = True
    found: dict[frozenset[str], int] = {}
    for row in uses:
        used = frozenset(items[place] for place in np.flatnonzero(row))
        found[used] = found.get(used, 0) + 1
    return found
