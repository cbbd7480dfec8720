"""Deletes values kept without noise once their epoch is over, also where no report is made of them.

Who reports seals the epochs that are over (`epochs`). A client that does not (no endpoint, a test run, a container, a
state that was set aside) sweeps instead, when it is made and then once a day while it is used: epochs that are over are
closed without a message, all of them, so that no message tells by its absence what was recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from hubbub.client.epochs import close_past
from hubbub.client.facts import read_facts
from hubbub.client.state import Busy, State, Unusable
from hubbub.protocol.cadence import DAY


class Sweep:
    """The sweeping of one client that does not report."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self._state, self._clock = state, clock
        self._swept_on: int | None = None

    def __call__(self) -> None:
        """Once a day; where the state is busy, again with the next call. What the disk does is not told: a state that
        cannot be written cannot be swept."""
        now = self._clock()
        if self._swept_on == int(now // DAY):
            return
        with suppress(Busy):
            with suppress(Unusable, OSError):
                _empty_what_was_set_aside(self._state, now)
                _sweep(self._state, now)
            self._swept_on = int(now // DAY)


def _sweep(state: State, now: float) -> None:
    if not os.path.exists(state.path):
        return
    with state.transaction() as db:
        close_past(db, now)
        plain_in_log = read_facts(db).plain_in_log
    if plain_in_log:
        state.empty_log()


def _empty_what_was_set_aside(state: State, now: float) -> None:
    """Of a corrupt file nobody can tell which values are of which epoch, so it is kept on the day of its last change
    only. After that its name alone says that what was spent is unknown."""
    for path in state.set_aside():
        for name in (path, f"{path}-wal"):
            if os.path.exists(name) and os.path.getsize(name) and os.path.getmtime(name) // DAY != now // DAY:
                with open(name, "r+b", buffering=0) as file:
                    file.write(bytes(os.path.getsize(name)))  # overwritten first: a truncated file may leave its blocks
                    os.fsync(file.fileno())
                    file.truncate(0)
