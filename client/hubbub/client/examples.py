"""What a message would look like, where nothing may be stored: masks of what was recorded, and noise drawn for each
call alone. None of it is kept, charged or sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hubbub.client.control import Pending, Shown
from hubbub.client.respond import instantaneous_response, permanent_response
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import Segment

if TYPE_CHECKING:
    from hubbub.client.vocabulary import Draws
    from hubbub.protocol.vocabulary import Cadence


class Examples:
    """The examples of one client, in memory."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._masks: dict[str, int] = {}
        self._categories: dict[str, int] = {}

    def record(self, metric: Metric, value: Any) -> None:
        """Use this value from here on. Raises `WrongValue`."""
        metric.check(value)
        before = self._masks.get(metric.name, 0) if metric.shape.kept_by_bit else 0
        self._masks[metric.name] = before | metric.shape.encode(value, 0).mask
        for cross in self._registry.crosses.get(metric.name, ()):
            for factor in cross.shape.factors:
                if factor.name == metric.name:
                    self._categories[factor.name] = factor.category(value, 0)
                self._categories.setdefault(factor.name, factor.category(ABSENT, 0))
            cell = tuple(self._categories[factor.name] for factor in cross.shape.factors)
            self._masks[cross.name] = cross.shape.encode(cell, 0).mask

    def messages(self, segment: Segment, now: float, draws: Draws) -> list[Pending]:
        """One for each cadence, of the epochs of this moment."""
        found = []
        for every in self._registry.cadences:
            reports = tuple(self._reports(every, draws))
            found.append(Pending(every, epoch_text(every, epoch_of(every, now)), None, reports, dict(segment)))
        return found

    def _reports(self, every: Cadence, draws: Draws) -> Iterator[Shown]:
        for metric in self._registry.with_cadence(every):
            mask = self._masks.get(metric.name, metric.shape.encode(ABSENT, 0).mask)
            memo = permanent_response(metric, mask, 0, draws)
            bits = instantaneous_response(metric, memo, 0, draws)
            yield Shown(metric=metric.name, cohort=0, bits=bits.to_bytes(metric.vector_bytes(0), "little").hex())
