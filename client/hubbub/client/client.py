"""The client that apps embed: `record` and forget about it.

Wrong construction raises; nothing after it does, unless `strict`. `record` never waits for the network, never raises
for the disk, and never keeps a value: what stays is a memo and noisy bits.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from hubbub.client import control
from hubbub.client.consent import Decision, is_test_run, most_restrictive
from hubbub.client.control import Pending, Status
from hubbub.client.recorder import Reporter, is_expired
from hubbub.client.respond import Random, respond
from hubbub.client.state import Busy, State, Unusable, add_counts, facts, get
from hubbub.client.state_dir import WOULD_NOT_LAST, in_container, is_explicit, state_directory
from hubbub.client.upload import back_off, checked_endpoint, next_due, prune, send_due, waiting_since
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.encoding import ABSENT, WrongValue
from hubbub.protocol.fields import unknown_key
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry

EXIT_PATIENCE = 2.0
"""Seconds that leaving may take when something is due."""


class Client:
    """Telemetry for one app on one install.

        from hubbub.client import Client

        telemetry = Client("metrics.toml", endpoint="https://telemetry.example.org")
        telemetry.consent(True)  # once, when the person agrees
        telemetry.record("dark_theme", True)  # anywhere, any time, from any thread or process

    `endpoint` is the base URL of a collector, https unless on this machine; without one nothing is ever made or sent.
    `background=False` starts no thread: `flush()` sends, on the caller's. `clock`, `send_delay` (from the length of
    the sending window to the delay within it, in seconds) and `random` are for tests and simulations.
    """

    def __init__(
        self,
        registry: Registry | str | os.PathLike[str],
        *,
        endpoint: str | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        background: bool = True,
        clock: Callable[[], float] = time.time,
        send_delay: Callable[[float], float] | None = None,
        random: Random = os.urandom,
    ) -> None:
        self.registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        if not self.registry.source:
            raise ValueError("a client needs a registry that was read from TOML, got one made in code")
        self.endpoint = checked_endpoint(endpoint)
        self._cadences = self.registry.cadences
        self._strict, self._background = strict, background
        self._clock, self._random = clock, random
        self._delay = send_delay or _random_delay
        self._environ = dict(os.environ)
        self._state, self._placeless = _place(self.registry.app, self._environ, state_dir)
        self._test_run = is_test_run(self._environ, sys.modules)
        self._counts: Counter[str] = Counter()
        self._said: set[str] = set()
        self._epochs: tuple[int, ...] = ()
        self._since: float | None = None
        self._answered: set[tuple[str, int]] = set()
        self._shown: dict[str, int] = {}
        self._next_due: float | None = None
        self._sender: tuple[int, threading.Thread] | None = None
        self._decide()
        self._advance()
        _clients.add(self)

    # -- the public face

    def record(self, name: str, value: Any) -> None:
        """Answer a metric for its current epoch. The first answer of an epoch counts; later ones change nothing."""
        for observe in _observers:
            observe(self, name, value)
        if not isinstance(name, str):
            return self._mistake(f"record: the name must be a string, got {type(name).__name__}", "unknown_metric")
        metric = self.registry.metrics.get(name)
        if metric is None:
            return self._mistake(f"record({name!r}): {unknown_key(name, self.registry.metrics)}", "unknown_metric")
        try:
            with self._never_raising(dropping=True):
                self._record(metric, value)
                self._send_in_background()
        except WrongValue as error:
            self._mistake(f"record({name!r}): the value {error}", "wrong_value")

    def consent(self, agreed: bool) -> None:
        """Keep the person's answer. After a yes, reporting starts with the next epoch; a no empties the outbox."""
        if not self._test_run and not self._placeless:
            try:
                if agreed:
                    control.say_yes(self._state, self.registry, self._clock())
                else:
                    control.say_no(self._state)
            except (Busy, Unusable) as error:
                return self._give_up(f"the answer could not be kept: {error}")
        self._decide()
        self._advance()

    def status(self) -> Status:
        """Mode and reason, counts, what waits, what is spent."""
        facts = (self._state, self._decision, self._rules, self.registry.app, self._counts)
        try:
            return control.describe(*facts)
        except (Busy, Unusable):
            return control.describe(*facts, readable=False)

    def preview(self) -> list[Pending]:
        """What waits to be sent; where nothing may be stored, what a message would look like, drawn for this call."""
        self._advance()
        if self.mode == "on":
            with suppress(Busy, Unusable):
                return control.pending(self._state, self.registry)
            return []
        return [self._example(every) for every in self._cadences]

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is due and wait for it, at most so long. True if nothing that was due is left."""
        deadline = time.monotonic() + timeout
        self._advance()
        self._send_until(deadline)
        with suppress(Busy, Unusable):
            return not self._may_send() or self._nothing_waits()
        return False

    async def aflush(self, timeout: float = 10.0) -> bool:
        """`flush` without blocking the event loop."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self.flush, timeout)

    def forget(self) -> None:
        """Delete identity, memos and outbox, answer no, keep one number: the epsilon spent."""
        self._counts.clear()
        try:
            if not self._test_run and (self._state.exists() or not self._placeless):
                control.forget(self._state)
        except (Busy, Unusable, OSError) as error:
            return self._give_up(f"the state could not be wiped: {error}")
        self._decide()

    def close(self) -> None:
        """Finish: send what is due if that was working, for at most two seconds, and let go of the state."""
        _clients.discard(self)
        deadline = time.monotonic() + EXIT_PATIENCE
        self._advance()
        if self._may_send() and not self._last_attempt_failed():
            self._send_until(deadline)
            if self._sender_lives():  # what is left behind has failed: the next exit shall not wait for it again
                with self._never_raising(), self._state.transaction() as db:
                    back_off(db, self._clock(), self._random)
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def mode(self) -> str:
        """`off`, `local` or `on`; `status().rule` says why."""
        return self._decision.mode

    # -- recording

    def _record(self, metric: Metric, value: Any) -> None:
        now = self._clock()
        epoch = epoch_of(metric.every, now)
        if self._strict:
            metric.shape.encode(value, 0)  # a mistake is one, whether or not this record would count
        if self._undecided:
            self._decide()
            if self._undecided:
                raise Busy
        if is_expired(metric, epoch):
            self._counts["expired"] += 1
        elif self.mode != "on":
            self._shown[metric.name] = metric.shape.encode(value, 0).mask
        elif (metric.name, epoch) in self._answered:
            self._counts["repeated"] += 1
        else:
            with self._session(now) as reporter:
                self._report(reporter, metric, value, epoch)
            if self.mode == "on":
                self._answered.add((metric.name, epoch))

    def _report(self, reporter: Reporter, metric: Metric, value: Any, epoch: int) -> None:
        encoded = metric.shape.encode(value, reporter.who.cohort(metric), reporter.who.dither(metric))
        if not reporter.is_open(metric.every, epoch) or not reporter.asked(metric, epoch):
            reporter.counts["not_asked"] += 1  # the epoch of the yes, one already sent, or no budget left
        elif reporter.has_report(metric, epoch):
            reporter.counts["repeated"] += 1  # by another process
        else:
            reporter.report(metric, encoded, epoch)

    def _advance(self) -> None:
        """Note that the app runs now, seal what is over, save what was counted."""
        if self._undecided:
            self._decide()
        if self.mode == "on":
            with self._never_raising(), self._session(self._clock()):
                pass

    @contextmanager
    def _session(self, now: float) -> Iterator[Reporter]:
        """One transaction in mode `on`: epochs are up to date in it, and counts are saved with it."""
        epochs = tuple(epoch_of(every, now) for every in self._cadences)
        unsaved, self._counts = self._counts, Counter()
        try:
            with self._state.transaction() as db:
                known = facts(db)
                answer, lapsed = control.stored_answer(known, self.registry)
                if answer != "yes" or lapsed is not None:
                    raise _Withdrawn  # by another process, since we looked
                reporter = Reporter(db, known, self.registry, self._random)
                if epochs != self._epochs:
                    reporter.open_epochs(now if self._since is None else self._since, now)
                    reporter.seal_past_epochs(now, self._delay)
                    prune(db, now)
                    self._next_due = next_due(db)
                yield reporter
                add_counts(db, reporter.counts + unsaved)
        except BaseException:
            self._counts.update(unsaved)
            raise
        if epochs != self._epochs:
            self._epochs = epochs
            self._since = now
            self._answered.clear()

    # -- sending

    def _may_send(self) -> bool:
        return self.mode == "on" and self.endpoint is not None

    def _send_in_background(self) -> None:
        if self._background and self._may_send() and self._next_due is not None and self._next_due <= self._clock():
            self._start_sender()

    def _send_until(self, deadline: float) -> None:
        """On a thread where there may be one: a slow resolver or an answer that drips cannot hold the caller then."""
        if self._may_send() and not self._nothing_due():
            if self._background:
                self._start_sender()
            else:
                self._send(deadline)
        self._await_sender(deadline)

    def _start_sender(self) -> None:
        """A thread for as long as something is due. It may fail to start while Python shuts down: nothing is lost."""
        if self._sender_lives():
            return
        thread = threading.Thread(target=self._send, args=(time.monotonic() + 600,), name="hubbub-sender", daemon=True)
        self._sender = os.getpid(), thread  # with the process: a forked child has no such thread
        with suppress(RuntimeError):
            thread.start()

    def _sender_lives(self) -> bool:
        return self._sender is not None and self._sender[0] == os.getpid() and self._sender[1].is_alive()

    def _await_sender(self, deadline: float) -> None:
        if self._sender is not None and self._sender_lives():
            self._sender[1].join(max(0.0, deadline - time.monotonic()))

    def _send(self, deadline: float) -> None:
        assert self.endpoint is not None
        with self._never_raising():
            send_due(self._state, self.endpoint, self._clock, self._random, deadline)
            with self._state.transaction() as db:
                self._next_due = next_due(db)

    def _nothing_due(self) -> bool:
        return self._next_due is None or self._next_due > self._clock()

    def _nothing_waits(self) -> bool:
        """Unlike `_nothing_due`, a message that waits for a pause to end counts."""
        with self._state.transaction() as db:
            return waiting_since(db, self._clock()) == 0

    def _last_attempt_failed(self) -> bool:
        with suppress(Busy, Unusable), self._state.transaction() as db:
            return int(get(db, "failures", 0)) > 0
        return True

    # -- modes, mistakes, examples

    def _decide(self) -> None:
        self._rules: tuple[Decision, ...]
        self._undecided = False
        if self._placeless:
            return self._switch_off(self._placeless)
        try:
            self._rules = control.rules_for(
                self._environ, self._state, self.registry, self._test_run, leaving=not self._test_run
            )
        except Busy:
            self._undecided = True  # until the next record
            return self._switch_off("the state is busy just now")
        except (Unusable, OSError) as error:
            return self._give_up(str(error))
        self._decision = most_restrictive(self._rules)
        if self.mode == "on" and self.endpoint is None:
            self._decision = Decision("local", "the app gave no endpoint to send to")
            self._rules = (*self._rules, self._decision)

    def _give_up(self, why: str) -> None:
        self._switch_off(why)
        self._say_once(why)

    def _switch_off(self, why: str) -> None:
        self._decision = Decision("off", why)
        self._rules = (self._decision,)

    @contextmanager
    def _never_raising(self, dropping: bool = False) -> Iterator[None]:
        """What the disk does must not reach the app. A record that is dropped for it is counted."""
        try:
            yield
        except _Withdrawn:
            self._decide()
        except Busy:
            if dropping:
                self._counts["dropped_busy"] += 1
        except (Unusable, OSError) as error:  # without a file to spare, not even an import works
            if dropping:
                self._counts["dropped_state"] += 1
            self._give_up(str(error))

    def _mistake(self, message: str, count: str) -> None:
        """The programmer's: raised under `strict`, otherwise logged once and counted."""
        if self._strict:
            raise ValueError(message)
        self._counts[count] += 1
        self._say_once(message)

    def _say_once(self, message: str) -> None:
        if message not in self._said and len(self._said) < 100:
            self._said.add(message)
            with suppress(OSError):
                import logging

                logging.getLogger("hubbub").warning("%s", message)

    def _example(self, every: str) -> Pending:
        epoch = epoch_text(every, epoch_of(every, self._clock()))
        rows = []
        for metric in self.registry.with_cadence(every):
            mask = self._shown.get(metric.name, metric.shape.encode(ABSENT, 0).mask)
            bits = respond(metric, mask, 0, self._random).bits
            size = (metric.shape.width(0) + 7) // 8
            rows.append({"metric": metric.name, "cohort": 0, "bits": bits.to_bytes(size, "little").hex()})
        return Pending(every, epoch, None, tuple(rows))


class _Withdrawn(Exception):
    """The stored answer is no longer yes."""


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_observers: list[Callable[[Client, str, Any], None]] = []
"""Tests that want to know what an app records (hubbub.client.testing)."""


def _close_all() -> None:
    for client in list(_clients):
        client.close()


def _random_delay(span: float) -> float:
    return span * int.from_bytes(os.urandom(6), "little") / 2**48


def _place(app: str, environ: Mapping[str, str], given: str | os.PathLike[str] | None) -> tuple[State, str]:
    """The state, and why it would not last there, if so."""
    try:
        state = State(state_directory(app, environ, given))
    except OSError as error:
        return State(Path(os.devnull, app)), str(error)
    if not is_explicit(environ, given) and in_container(environ):
        return state, WOULD_NOT_LAST
    return state, ""


atexit.register(_close_all)
