"""The client that apps embed: `record` and forget about it.

Wrong construction raises; nothing after it does, unless `strict`. `record` never waits for the network, never raises
for the disk, and never keeps a value: what stays is a memo and noisy bits.

Whether anything may be recorded is decided here; `recorder` makes reports of it, `sender` sends them.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

from hubbub.client import control
from hubbub.client.consent import Decision, Mode, is_test_run, most_restrictive, sent_for_a_test, wrong_endpoint
from hubbub.client.control import Pending, Status
from hubbub.client.facts import Lost
from hubbub.client.recorder import Recorder, Withdrawn, is_expired
from hubbub.client.respond import Draws, Random, RandomDraws
from hubbub.client.sender import Sender
from hubbub.client.state import Busy, State, Unusable
from hubbub.client.state_dir import WOULD_NOT_LAST, in_container, is_explicit, state_directory
from hubbub.client.upload import Transport, checked_endpoint, post
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import WrongValue
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

    `endpoint` is the address of the collector: the `recipient.url` of the registry, or one on this machine for tests;
    without one, or with any other, nothing is ever made or sent.
    `background=False` starts no thread: `flush()` sends, on the caller's. `post` sends a message by another way than
    urllib (see `Transport`), and `environ` takes the place of `os.environ`. `clock`, `send_delay` (from the length of
    the sending window to the delay within it, in seconds), `random` and `draws` are for tests and simulations.
    """

    registry: Registry
    """What the app may ask."""
    endpoint: str | None
    """Where messages go; None: nowhere, and none is made."""

    def __init__(
        self,
        registry: Registry | str | os.PathLike[str],
        *,
        endpoint: str | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        background: bool = True,
        post: Transport = post,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        send_delay: Callable[[float], float] | None = None,
        random: Random = os.urandom,
        draws: Draws | None = None,
    ) -> None:
        self.registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        if not self.registry.source:
            raise ValueError("a client needs a registry that was read from TOML, got one made in code")
        self.endpoint = checked_endpoint(endpoint)
        self._strict = strict
        self._clock, self._draws = clock, draws or RandomDraws(random)
        self._environ = dict(os.environ if environ is None else environ)
        self._state, self._placeless = _place(self.registry.app, self._environ, state_dir)
        self._test_run = is_test_run(self._environ, sys.modules)
        self._said: set[str] = set()
        self._shown: dict[str, int] = {}
        self._sender = Sender(self._state, self.endpoint, post=post, clock=clock, random=random, background=background)
        self._recorder = Recorder(
            self._state,
            self.registry,
            send_delay=send_delay or _random_delay,
            random=random,
            draws=self._draws,
            after_sealing=self._sender.look,
        )
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
                self._record(metric, value, self._clock())
                if self.mode == "on":
                    self._sender.send_in_background(self._never_raising)
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
        known = (self._state, self._decision, self._rules, self.registry.app, self._recorder.unsaved)
        test = sent_for_a_test(self.endpoint, self.registry)
        try:
            return control.describe(*known)._replace(test=test)
        except (Busy, Unusable):
            return control.describe(*known, readable=False)._replace(test=test)

    def preview(self) -> list[Pending]:
        """What waits to be sent; where nothing may be stored, what a message would look like, drawn for this call."""
        self._advance()
        if self.mode == "on":
            with suppress(Busy, Unusable):
                return control.pending(self._state, self.registry)
            return []
        return control.examples(self.registry, self._shown, self._clock(), self._draws)

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is due and wait for it, at most so long. True if nothing that was due is left."""
        deadline = time.monotonic() + timeout
        self._advance()
        self._send_until(deadline)
        with suppress(Busy, Unusable):
            return self.mode != "on" or self._sender.nothing_waits()
        return False

    async def aflush(self, timeout: float = 10.0) -> bool:
        """`flush` without blocking the event loop."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self.flush, timeout)

    def forget(self) -> None:
        """Delete identity, memos and outbox, answer no, keep one number: the epsilon spent."""
        self._recorder.unsaved.clear()
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
        if self.mode == "on" and not self._sender.last_attempt_failed():
            self._send_until(deadline)
            if self._sender.is_running():
                with self._never_raising():
                    self._sender.give_up_waiting()
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def mode(self) -> Mode:
        """`off`, `local` or `on`; `status().rule` says why."""
        return self._decision.mode

    # -- recording and sending

    def _record(self, metric: Metric, value: Any, now: float) -> None:
        if self._strict:
            metric.shape.encode(value, 0)  # a mistake is one, whether or not this record would count
        if self._undecided:
            self._decide()
            if self._undecided:
                raise Busy
        if self.mode == "on":
            self._recorder.record(metric, value, now)
        elif is_expired(metric, epoch_of(metric.every, now)):
            self._recorder.unsaved["expired"] += 1
        else:
            self._shown[metric.name] = metric.shape.encode(value, 0).mask

    def _advance(self) -> None:
        """Note that the app runs now."""
        if self._undecided:
            self._decide()
        if self.mode == "on":
            with self._never_raising():
                self._recorder.advance(self._clock())

    def _send_until(self, deadline: float) -> None:
        if self.mode == "on":
            self._sender.send_until(deadline, self._never_raising)
        else:
            self._sender.wait_until(deadline)

    # -- modes and mistakes

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
        wrong = wrong_endpoint(self.endpoint, self.registry)
        if self.mode == "on" and wrong is not None:
            self._decision = wrong
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
        except Withdrawn:
            self._decide()
        except Busy:
            if dropping:
                self._recorder.unsaved["dropped_busy"] += 1
        except (Unusable, OSError) as error:  # without a file to spare, not even an import works
            if dropping:
                self._recorder.unsaved["dropped_state"] += 1
            self._give_up(str(error))

    def _mistake(self, message: str, count: Lost) -> None:
        """The programmer's: raised under `strict`, otherwise logged once and counted."""
        if self._strict:
            raise ValueError(message)
        self._recorder.unsaved[count] += 1
        self._say_once(message)

    def _say_once(self, message: str) -> None:
        if message not in self._said and len(self._said) < 100:
            self._said.add(message)
            with suppress(OSError):
                import logging

                logging.getLogger("hubbub").warning("%s", message)


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
        return State(os.path.join(os.devnull, app)), str(error)
    if not is_explicit(environ, given) and in_container(environ):
        return state, WOULD_NOT_LAST
    return state, ""


atexit.register(_close_all)
