"""How people behave from epoch to epoch: how often they change their answers, stay away, leave, or agree at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from hubbub.protocol.invalid import require
from hubbub.protocol.printed import plain_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How people differ from ones that answer the same for ever. Chances are of one epoch."""

    change: float = 0.0  # the chance that an answer is drawn anew
    drift: float = 0.0
    """Numbers grow by this factor less one; in a list, the chance to move on to the next value (below 0: back)."""
    season: tuple[float, float] = (1.0, 0.0)
    """Period and amount: numbers swing by the amount; in a list, up to that share of people answer with the next value
    for a while, and come back."""
    absent: float = 0.0  # the chance that there is nothing to record
    away: float = 0.0  # the chance that the app is not run
    churn: float = 0.0  # the chance that an install goes for good and a new one comes
    consent: float = 1.0  # the share of people who agree at all

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        for name in ("change", "absent", "churn"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"{name} must be in [0, 1], got {getattr(self, name):g}"
        if not 0 <= self.away < 1:
            yield f"away must be at least 0 and below 1, got {self.away:g}"
        if not 0 < self.consent <= 1:
            yield f"consent must be above 0 and at most 1, got {self.consent:g}"
        if not -0.5 <= self.drift <= 1:
            yield f"drift must be in [-0.5, 1], got {self.drift:g}"
        period, amount = self.season
        if not (period >= 1 and 0 <= amount <= 1):
            yield f"season must be a period of at least 1 epoch and an amount in [0, 1], got {period:g},{amount:g}"

    @property
    def moving(self) -> bool:
        """Whether an install's answers can differ from epoch to epoch."""
        return any((self.change, self.drift, self.season[1], self.absent, self.away, self.churn))

    def words(self) -> str:
        """All that is not as by default, for people."""
        said = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "season" and value[1]:
                said.append(f"season of {value[0]:g} epochs by {plain_percent(value[1])}")
            elif field.name != "season" and value != field.default:
                said.append(f"{field.name} {plain_percent(value)}")
        return ", ".join(said) or "answers that never change"
