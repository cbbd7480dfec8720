"""When an install looks at the clock, and when its messages leave. Nothing here is started by a record.

    look    open the epoch of this moment, make messages of those that are over; at the start and every 15 minutes
    claim   take the messages that are due soon, a minute ahead: no lock that a record may hold delays their leaving
    send    one message, at its stored random time, if the person's answer is still yes

`step` does what is due and says when it wants to be called again. It knows no thread: the clock is an argument, so a
test can let years pass, and `timers` repeats it in production. No lock is held while the network is used.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from hubbub.client import epochs, outbox
from hubbub.client.chance import chance_from, fraction
from hubbub.client.facts import read_facts, said_yes
from hubbub.client.recorder import Recorder
from hubbub.client.state import INSISTENCE, Busy, State
from hubbub.client.upload import TIMEOUT, Delivery, attempt
from hubbub.protocol.cadence import DAY
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import Segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Chance, Draws, Owner, Random, Transport
    from hubbub.protocol.vocabulary import Cadence

LOOK_EVERY = 900.0
"""Seconds between two looks at most. The day's end is looked at when it comes, where the machine is awake."""

AHEAD = 60.0
"""Seconds before its time that a message is claimed."""

MARGIN = 30.0
"""Seconds before the end of a claim from which on it is not relied upon: sending takes its time."""

BUSY_PAUSE = 1.0
"""Seconds after which a state that was busy is tried again."""


class Timer:
    """Looks, claims and sends for one registry on one state, to one endpoint. Belongs to the process, not to a client.

    `send_delay`, if given, places a message within its sending window; else its place is drawn.
    """

    def __init__(
        self,
        state: State,
        registry: Registry,
        endpoint: str | None,
        *,
        segment: Segment,
        post: Transport,
        clock: Callable[[], float],
        send_delay: Callable[[float], float] | None,
        random: Random,
        draws: Draws,
        timing: Chance | None,
    ) -> None:
        self.state, self.clock = state, clock
        self.recorder = Recorder(state, registry, random=random, draws=draws)
        self.condition = threading.Condition()
        self.thread: threading.Thread | None = None
        """The one that repeats `step`; set by `timers`."""
        self.poked = False
        """Whether that thread is to come sooner than it was told to."""
        self._owners: weakref.WeakSet[Owner] = weakref.WeakSet()
        self._endpoint, self._post, self._segment = endpoint, post, segment
        self._send_delay, self._chance = send_delay, timing or chance_from(random)
        self._forget_plans()

    def _forget_plans(self) -> None:
        self._held: list[outbox.Claimed] = []
        self._sending: outbox.Message | None = None
        self._next_due: float | None = None
        self._failed = False
        self._looked_at, self._looks_at = math.inf, -math.inf

    # -- what a thread repeats

    def begin(self) -> None:
        """Look, and claim what is due: before a client's constructor returns, so that a process however short sends
        what it finds. Raises `Withdrawn`, and what a transaction raises."""
        self.look()
        self.claim()

    def step(self) -> float:
        """Do what is due, one message at most, and say when to come again, in Unix seconds; infinity: never. Raises
        `Withdrawn` and `Unusable`."""
        now = self.clock()
        if self._looks_at == -math.inf:  # a new one waits for a client that is `on`; whatever becomes of it later
            modes = [owner._is_on() for owner in self.owners()]
            if not any(modes):
                return now + BUSY_PAUSE if None in modes else math.inf
        try:
            if not self._looked_at <= now < self._looks_at:
                self.look()
            self.claim(AHEAD)
            self.send()
        except Busy:
            return now + BUSY_PAUSE
        with self.condition:
            departures = [claimed.departs for claimed in self._held[:1]]
            claims = [] if self._next_due is None else [self._next_due - AHEAD]
            return min([self._looks_at, *departures, *claims])

    def look(self) -> None:
        """Note that the app runs now: open the epochs of this moment, record what waited for them, and make messages
        of those that are over."""
        with self.condition:
            now = self.clock()
            with self.recorder.looking() as maker:
                epochs.seal_past(maker, now, self._delay, self._chance)
                epochs.open_current(maker, now, self._segment)
                self.recorder.answer_waiting(maker, now)  # last: slots are taken in the order of epochs
                outbox.prune(maker.db, now)
                self._note_plans(outbox.next_due(maker.db), read_facts(maker.db).failures)
                has_plain_log = read_facts(maker.db).plain_in_log
            self.recorder.forget_waiting()
            if has_plain_log:
                with suppress(Busy):  # somebody reads just now: the next look tries again
                    self.state.empty_log()
            self._looked_at = now
            self._looks_at = min(now + LOOK_EVERY, (now // DAY + 1) * DAY)

    def claim(self, ahead: float = 0.0) -> None:
        """Take what is due, or will be within `ahead` seconds."""
        with self.condition:
            now = self.clock()
            self._drop_what_is_no_longer_ours(now)
            if self._next_due is None or self._next_due > now + ahead or len(self._held) >= outbox.MOST_CLAIMED:
                return
            with self.state.transaction(durable=True) as db:  # synced: what leaves is never drawn a second time
                claimed = outbox.claim(db, now, ahead)
                self._note_plans(outbox.next_due(db) if claimed else None, read_facts(db).failures)
            self._held = sorted([*self._held, *claimed], key=lambda each: each.departs)

    def _drop_what_is_no_longer_ours(self, now: float) -> None:
        """The machine slept, or the clock was set: another process may have claimed it since."""
        if self._held and not self._looked_at <= now < self._held[0].until - MARGIN:
            self._held, self._next_due = [], now

    def send(self, deadline: float = math.inf) -> bool:
        """Send one message whose time has come, until this (monotonic) moment at most. False if there is none, or if it
        failed: others would fail as well."""
        with self.condition:
            self._drop_what_is_no_longer_ours(self.clock())
            if not self._has_departure():
                return False
            message = self._held.pop(0).message
            self._sending = message
        try:
            delivery = self._attempt(message, deadline)
            with self.condition:
                self._settle(message, delivery)
        finally:
            with self.condition:
                self._sending = None
                self.condition.notify_all()
        return delivery is not None and delivery.kind != "failed"

    def _attempt(self, message: outbox.Message, deadline: float) -> Delivery | None:
        assert self._endpoint is not None, "without an endpoint nothing is ever made"
        left = min(TIMEOUT, deadline - time.monotonic())
        if left <= 0:
            return None
        return attempt(
            self._post, self._endpoint, message.body, message.batch_id, left, lambda: self._may_leave(message)
        )

    def _may_leave(self, message: outbox.Message) -> bool:
        """Whether the person's answer is yes at this moment, and the message still there: a no, or `forget`, deleted it
        even if a yes came after. Nobody who writes is waited for."""
        with self.state.glance() as db:
            return said_yes(db) and outbox.still_waits(db, message)

    def _settle(self, message: outbox.Message, delivery: Delivery | None) -> None:
        left = delivery is None or delivery.kind == "failed"
        with self.state.transaction(patience=INSISTENCE) as db:
            outbox.settle(db, message, delivery, self.clock(), self._chance)
            if left:
                outbox.release(db, [claimed.message for claimed in self._held])
            self._note_plans(outbox.next_due(db), read_facts(db).failures)
        if left:
            self._held = []

    # -- what a client asks for

    def join(self, owner: Owner) -> None:
        """A client has come; it is told when the timer ends by itself."""
        with self.condition:
            self._owners.add(owner)

    def leave(self, owner: Owner) -> None:
        with self.condition:
            self._owners.discard(owner)

    def owners(self) -> list[Owner]:
        """The clients that still exist. One that was dropped without a word is not among them."""
        with self.condition:
            return list(self._owners)

    def send_here(self, deadline: float) -> None:
        """Send all that is due, on the caller's thread; nothing is kept claimed."""
        try:
            while self.send(deadline):
                self.claim()
        finally:
            self.release()

    def finish(self, deadline: float, all_that_is_due: bool = False) -> bool:
        """Wait for the thread to send what it holds that is due, until this (monotonic) moment at most; or all that is
        due. False if the time was too short."""

        def idle() -> bool:
            if self.thread is None or not self.thread.is_alive():
                return True
            unclaimed = all_that_is_due and self._next_due is not None and self._next_due <= self.clock()
            return self._sending is None and not self._has_departure() and not unclaimed

        with self.condition:
            return self.condition.wait_for(idle, max(0.0, deadline - time.monotonic()))

    def wait_at_exit(self, deadline: float) -> None:
        """Let the thread finish, unless the last attempt failed. What it is still sending then counts as failed, so
        that the next exit does not wait for it again."""
        if self._failed or self.finish(deadline):
            return
        with self.condition:
            if self._sending is not None:
                with self.state.transaction() as db:
                    if outbox.still_waits(db, self._sending):
                        outbox.back_off(db, self._sending, self.clock(), self._chance)

    def release(self) -> None:
        """Leave what is claimed and not yet due to other processes."""
        with self.condition:
            if self._held:
                with self.state.transaction(patience=INSISTENCE) as db:
                    outbox.release(db, [claimed.message for claimed in self._held])
                    self._note_plans(outbox.next_due(db), read_facts(db).failures)
                self._held = []

    def nothing_waits(self) -> bool:
        """Whether no message has reached its time; one that waits for a pause to end has."""
        with self.state.transaction() as db:
            return outbox.number_due(db, self.clock()) == 0

    def is_sending(self) -> bool:
        return self._sending is not None

    def begin_again_in_child(self) -> None:
        """After a fork: what the parent claimed and what waited in it are the parent's. The first look is in a second:
        most children are gone by then."""
        self.condition = threading.Condition()
        self.recorder.forget_waiting()
        had_looked = self._looks_at > -math.inf
        self._forget_plans()
        if had_looked:
            self._looked_at, self._looks_at = -math.inf, self.clock() + BUSY_PAUSE

    # -- inside the condition

    def _has_departure(self) -> bool:
        return self._sending is None and bool(self._held) and self._held[0].departs <= self.clock()

    def _note_plans(self, next_due: float | None, failures: int) -> None:
        self._next_due, self._failed = next_due, failures > 0

    def _delay(self, every: Cadence, epoch: int, span: float) -> float:
        if self._send_delay is not None:
            return self._send_delay(span)
        return span * fraction(self._chance("delay", every, epoch, 0))
