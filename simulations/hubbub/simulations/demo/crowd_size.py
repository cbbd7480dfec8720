"""How large a crowd this machine can show in a moment: a few installs live, and the clock says how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable

from hubbub.client import Registry
from hubbub.protocol.cadence import DAY
from hubbub.simulations.demo.people import DAYS, make_crowd
from hubbub.simulations.fleet import FleetRun, run_member
from hubbub.simulations.pretend_machine import NOWHERE, keep_in

SECONDS = 20.0
"""What a crowd should take, about."""

LEAST, MOST = 300, 2000
"""With fewer, intervals say little; more show nothing new."""

_TRIED = 8


def crowd_size(registry: Registry, processes: int, clock: Callable[[], float] = time.perf_counter) -> int:
    """How many installs live in so many seconds with so many processes. By the clock, not by the processor: what else
    the machine does counts."""
    crowd = make_crowd(_TRIED, seed=0)
    fleet = FleetRun(source=registry.source, endpoint=NOWHERE, start=DAYS * DAY, make_crowd=lambda: crowd)
    began = clock()
    for install in range(_TRIED):
        values, segments = crowd.of_install(install), crowd.segment_of(install)
        run_member(registry, fleet, values, segments=segments, post=keep_in([]))
    each = max((clock() - began) / _TRIED, 1e-6)
    return round(min(MOST, max(LEAST, SECONDS * processes / each)) / 100) * 100
