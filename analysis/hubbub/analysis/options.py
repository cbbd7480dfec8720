"""What an analyst can choose, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hubbub.protocol.rules import refuse

ESTIMANDS = ("reporting", "population")
CORRECTIONS = ("bonferroni", "benjamini-hochberg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    confidence: float = 0.95
    estimand: str = "reporting"
    correction: str = "bonferroni"
    exclude_absent: bool = False
    fake_share: float = 0.01

    def __post_init__(self) -> None:
        refuse(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not 0.5 <= self.confidence < 1:
            yield f"confidence must be at least 0.5 and below 1, got {self.confidence}"
        if self.estimand not in ESTIMANDS:
            yield f"estimand must be one of {', '.join(ESTIMANDS)}, got {self.estimand!r}"
        if self.correction not in CORRECTIONS:
            yield f"correction must be one of {', '.join(CORRECTIONS)}, got {self.correction!r}"
        if not 0 <= self.fake_share < 1:
            yield f"fake_share must be at least 0 and below 1, got {self.fake_share}"

    @property
    def alpha(self) -> float:
        return 1 - self.confidence
