"""When messages are sent, and on which thread. No lock is held while the network is used.

A thread exists only while something is due, and only if there may be one; otherwise the caller's own is used.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from hubbub.client import outbox
from hubbub.client.facts import read_facts
from hubbub.client.respond import Random
from hubbub.client.state import INSISTENCE, Busy, State, Unusable
from hubbub.client.upload import TIMEOUT, Transport, attempt

THREAD_TIME = 600.0
"""Seconds after which a thread leaves what is still due to the next."""

Guard = Callable[[], AbstractContextManager[None]]
"""What sending is done within: keeps from the app whatever the disk does."""


class Sender:
    """Sends one install's messages to one collector, one after the other."""

    def __init__(
        self,
        state: State,
        endpoint: str | None,
        *,
        post: Transport,
        clock: Callable[[], float],
        random: Random,
        background: bool,
    ) -> None:
        self._state, self._endpoint, self._post = state, endpoint, post
        self._clock, self._random = clock, random
        self._background = background
        self._next_due: float | None = None
        self._thread: tuple[int, threading.Thread] | None = None  # with its process: a forked child has no such thread

    def look(self, db: sqlite3.Connection) -> None:
        """Note when there is something to send: the outbox has changed, in this transaction."""
        self._next_due = outbox.next_due(db)

    def send_in_background(self, guard: Guard) -> None:
        """Start to send what is due, if there may be a thread; does not wait."""
        if self._background and self._is_due():
            self._start(guard)

    def send_until(self, deadline: float, guard: Guard) -> None:
        """Send what is due, until this (monotonic) moment at most. On a thread where there may be one: a slow resolver
        or an answer that drips cannot hold the caller then."""
        if self._is_due():
            if self._background:
                self._start(guard)
            else:
                self._send(deadline, guard)
        self.wait_until(deadline)

    def wait_until(self, deadline: float) -> None:
        """Let a thread that is sending finish, until then at most."""
        if self._thread is not None and self.is_running():
            self._thread[1].join(max(0.0, deadline - time.monotonic()))

    def is_running(self) -> bool:
        return self._thread is not None and self._thread[0] == os.getpid() and self._thread[1].is_alive()

    def nothing_waits(self) -> bool:
        """Whether no message has reached its time; one that waits for a pause to end has."""
        with self._state.transaction() as db:
            return outbox.number_due(db, self._clock()) == 0

    def last_attempt_failed(self) -> bool:
        with suppress(Busy, Unusable), self._state.transaction() as db:
            return read_facts(db).failures > 0
        return True

    def give_up_waiting(self) -> None:
        """What a thread is still sending counts as failed: the next exit shall not wait for it again."""
        with self._state.transaction() as db:
            outbox.back_off(db, self._clock(), self._random)

    def _is_due(self) -> bool:
        return self._next_due is not None and self._next_due <= self._clock()

    def _start(self, guard: Guard) -> None:
        """It may fail while Python shuts down: nothing is lost."""
        if self.is_running():
            return
        arguments = (time.monotonic() + THREAD_TIME, guard)
        thread = threading.Thread(target=self._send, args=arguments, name="hubbub-sender", daemon=True)
        self._thread = os.getpid(), thread
        with suppress(RuntimeError):
            thread.start()

    def _send(self, deadline: float, guard: Guard) -> None:
        with guard():
            while self._send_next(deadline):
                pass
            with self._state.transaction() as db:
                self.look(db)

    def _send_next(self, deadline: float) -> bool:
        """Send one message. False if nothing is due, the time is up, or it failed: others would fail as well."""
        assert self._endpoint is not None, "without an endpoint nothing is ever made"
        with self._state.transaction(durable=True) as db:  # synced: what leaves is never drawn a second time
            message = outbox.claim(db, self._clock())
        if message is None:
            return False
        verdict, left = None, deadline - time.monotonic()
        if left > 0:
            verdict = attempt(self._post, self._endpoint, message.body, message.batch_id, min(TIMEOUT, left))
        with self._state.transaction(patience=INSISTENCE) as db:
            outbox.settle(db, message, verdict, self._clock(), self._random)
        return verdict is not None and verdict.kind != "failed"
