"""What an analyst can choose, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, get_args

from hubbub.protocol.invalid import require

Estimand = Literal["reporting", "population"]
"""Which installs intervals describe: those that reported, or the population they are a random sample of."""
Correction = Literal["bonferroni", "benjamini-hochberg"]
"""How adjusted p-values allow for many tests: for the chance of any mistake, or for their share among what is found."""
Whom = Literal["answered", "all"]
"""Whose answers a share is part of: all installs', or those of the ones that answered."""

ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
WHOM: tuple[Whom, ...] = get_args(Whom)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Options:
    """How to decode. Raises `Invalid` for what does not exist."""

    confidence: float = 0.95  # of all intervals
    estimand: Estimand = "reporting"  # what intervals describe: installs that reported, or the population they sample
    correction: Correction = "bonferroni"  # how tests of many values at once are corrected
    exclude_absent: bool = False  # whether shares are of those who answered
    fake_share: float = 0.01  # the share of fake reports whose effect is computed
    ranges: tuple[tuple[float, float], ...] = ()
    """Of a range metric: the [low, high) to give shares of, in place of evenly wide cells."""
    quantiles: tuple[float, ...] = QUANTILES  # of a range metric: the quantiles to give
    beam: int = 300  # of strings that are discovered: how many beginnings a search keeps at each level

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not 0.5 <= self.confidence < 1:
            yield f"confidence must be at least 0.5 and below 1, got {self.confidence}"
        if self.estimand not in ESTIMANDS:
            yield f"estimand must be one of {', '.join(ESTIMANDS)}, got {self.estimand!r}"
        if self.correction not in CORRECTIONS:
            yield f"correction must be one of {', '.join(CORRECTIONS)}, got {self.correction!r}"
        if not 0 <= self.fake_share < 1:
            yield f"fake_share must be at least 0 and below 1, got {self.fake_share}"
        if not 10 <= self.beam <= 100_000:
            yield f"beam must be in [10, 100000], got {self.beam}"
        for low, high in self.ranges:
            if not low < high:
                yield f"a range's low end must be below its high end, got {low:g} and {high:g}"
        for quantile in self.quantiles:
            if not 0 < quantile < 1:
                yield f"a quantile must be above 0 and below 1, got {quantile:g}"

    def __repr__(self) -> str:
        """What was chosen: the rest is as it always is."""
        chosen = (
            (each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) != each.default
        )
        return f"Options({', '.join(f'{name}={value!r}' for name, value in chosen)})"

    @property
    def alpha(self) -> float:
        """The share of intervals that may miss the truth: 1 - confidence."""
        return 1 - self.confidence


DEFAULTS = Options()
