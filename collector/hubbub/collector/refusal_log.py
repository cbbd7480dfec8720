"""Why messages were refused, summed up for the operator: how many for each reason, at most once a minute, and nothing
about any one of them. There is nothing to sum up from but counts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.operator_log import OperatorLog
from hubbub.protocol.invalid import plural
from hubbub.protocol.refusal import STATUS, Reason

_LOOK_SECONDS = 5.0
_QUIET_SECONDS = 60.0


class RefusalLog:
    """Tells the operator what was refused since it last told."""

    def __init__(
        self, own_metrics: CollectorMetrics, operator_log: OperatorLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._own_metrics = own_metrics
        self._operator_log = operator_log
        self._clock = clock
        self._quiet_until = clock()
        self._told: Counter[Reason] = Counter()

    async def run(self) -> None:
        """For as long as the process lives."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        if self._clock() >= self._quiet_until:
            self.tell()

    def tell(self) -> None:
        """The refusals since the last call, however long ago it was; empty if there were none."""
        refused = Counter({reason: self._own_metrics.refused[reason] for reason in STATUS})
        new = refused - self._told
        if new:
            self._told = refused
            self._quiet_until = self._clock() + _QUIET_SECONDS
            self._operator_log.warning(
                f"{plural(new.total(), 'message')} refused, by reason", **dict(new.most_common())
            )
