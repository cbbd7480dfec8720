"""Whether the wall clock is to be believed. Both clocks are arguments; nothing here reads another.

A wrong clock closes epochs for good and deletes counts whose retention seems to be over. So the wall clock is compared
with one that only counts seconds since the machine started, also while it sleeps:

    in step         it may close and delete
    unproved        a day or more had passed at this start: reports count, nothing is closed or deleted for an hour
    not believed    it jumped by more than an hour, or is more than a day behind the last start: nothing is accepted

A clock that jumped is believed when it is back, when it has kept pace for an hour, or when the operator accepts it; one
that was behind at the start only when the operator does. Steps within an hour are followed, at most one hour in each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from hubbub.protocol.cadence import DAY, HOUR

_PACE_SECONDS = 60.0  # how far a clock may drift from itself within an hour and still be said to keep pace


class Belief(StrEnum):
    """What the wall clock may decide."""

    IN_STEP = "in step"
    UNPROVED = "unproved"
    NOT_BELIEVED = "not believed"


def steady_seconds() -> float:
    """Seconds since the machine started, those asleep included where the system can tell (on macOS it always does)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClockGuard:
    """Compares two clocks at each `look`. `day` is the last one that was believed, 0 if there was none."""

    def __init__(self, wall: Callable[[], float], steady: Callable[[], float], day: int) -> None:
        self._wall = wall
        self._steady = steady
        self._believed_offset = self._offset = wall() - steady()
        self._believed_since = self._since = steady()
        today = int(wall() // DAY)
        self._needs_operator = day > 0 and today < day - 1
        self.belief = Belief.IN_STEP
        if self._needs_operator:
            self.belief = Belief.NOT_BELIEVED
        elif 0 < day < today:
            self.belief = Belief.UNPROVED
        self._before = self.belief

    @property
    def accepts(self) -> bool:
        """Whether reports may be counted."""
        return self.belief is not Belief.NOT_BELIEVED

    def accept(self) -> None:
        """The operator says that the clock is right."""
        self._believe(self._wall() - self._steady(), self._steady())
        self._needs_operator = False

    def look(self) -> float | None:
        """The wall clock's time if it may close and delete now, else None."""
        wall, steady = self._wall(), self._steady()
        offset = wall - steady
        near = abs(offset - self._believed_offset) <= HOUR
        if self.belief is Belief.NOT_BELIEVED:
            self._look_again(offset, steady, near)
        elif not near:
            self._before, self.belief = self.belief, Belief.NOT_BELIEVED
            self._offset, self._since = offset, steady
        elif steady - self._believed_since >= HOUR:
            self._believe(offset, steady)
        return wall if self.belief is Belief.IN_STEP else None

    def _look_again(self, offset: float, steady: float, near: bool) -> None:
        if self._needs_operator:
            return
        if near:  # it is back where it was
            self.belief, self._believed_since = self._before, steady
        elif abs(offset - self._offset) > _PACE_SECONDS:
            self._offset, self._since = offset, steady
        elif steady - self._since >= HOUR:
            self._believe(offset, steady)

    def _believe(self, offset: float, steady: float) -> None:
        self.belief = Belief.IN_STEP
        self._believed_offset, self._believed_since = offset, steady
