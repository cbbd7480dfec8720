"""The client that apps embed: `record` and forget about it.

Wrong construction raises; nothing after it does, unless `strict`. `record` never waits for the network, never raises
for the disk, and never keeps a value: what stays is a memo and noisy bits.

Whether anything may be recorded is decided here; `recorder` makes reports of it. When epochs begin and messages leave
is the `timer`'s: no call of `record` changes it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from hubbub.client import control, timers, tls
from hubbub.client.build_facts import this_build
from hubbub.client.consent import ASK, Decision, is_test_run, most_restrictive, sent_for_a_test, wrong_endpoint
from hubbub.client.control import Pending, Status
from hubbub.client.developer_log import warn
from hubbub.client.parsed import Parsed
from hubbub.client.recorder import Withdrawn, is_expired
from hubbub.client.respond import RandomDraws
from hubbub.client.state import Busy, Unusable, placed
from hubbub.client.timer import Timer
from hubbub.client.upload import checked_endpoint, post
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.value import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from hubbub.client.examples import Examples
    from hubbub.client.sweep import Sweep
    from hubbub.client.vocabulary import Chance, Draws, Lost, Mode, Random, Reason, Transport

EXIT_PATIENCE = 2.0
"""Seconds that leaving may wait for what is being sent."""


class Client:
    """Telemetry for one app on one install.

        from hubbub.client import Client

        telemetry = Client("metrics.toml", endpoint="https://telemetry.example.org")
        telemetry.consent(True)  # once, when the person agrees
        telemetry.record("dark_theme", True)  # anywhere, any time, from any thread or process

    `endpoint` is the address of the collector: the `recipient.url` of the registry, or one on this machine for tests;
    without one, or with any other, nothing is ever made or sent.
    Make it when the app starts, whatever happens later: the moment is visible, because what is due leaves then. After
    that a sleeping thread looks at the clock four times an hour. `background=False` starts no thread: `flush()` looks
    and sends, on the caller's, and must be called now and then.

    `segments` are facts of the build that the registry tells apart, such as `{"release": "2.1"}`; the platform is found
    out. A value that is not declared counts as `other`, and is said once (raised, if `strict`).

    `post` sends a message by another way than urllib (see `Transport`), and `environ` takes the place of `os.environ`.
    `clock`, `send_delay` (from the length of the sending window to the delay within it, in seconds), `random`, `draws`
    and `timing` (the chance of moments and ids) are for tests and simulations.
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
        segments: Mapping[str, str] | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        strict: bool = False,
        background: bool = True,
        post: Transport = post,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        send_delay: Callable[[float], float] | None = None,
        random: Random = os.urandom,
        draws: Draws | None = None,
        timing: Chance | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        parsed = Parsed(self._environ, state_dir)
        self.registry = registry if isinstance(registry, Registry) else Registry.load(registry, parsed.tables)
        if not self.registry.source:
            raise ValueError("a client needs a registry that was read from TOML, got one made in code")
        self.endpoint = checked_endpoint(endpoint)
        build = this_build(self.registry.segments, segments or {})
        if strict and build.undeclared:
            raise ValueError(build.undeclared[0])
        self._segment, self._said = build.segment, set[str]()
        self._strict, self._background, self._joined = strict, background, False
        self._is_test = clock is not time.time or random is not os.urandom or draws is not None or timing is not None
        self._clock, self._draws = clock, draws or RandomDraws(random)
        state, self._placeless = placed(self.registry.app, self._environ, state_dir)
        self._test_run = is_test_run(self._environ, sys.modules)
        self._rules: tuple[Decision, ...] = ()
        self._say_doubts(build.undeclared)
        where = (os.path.abspath(state.directory), self.registry.source, self.endpoint, self._segment)
        how = (post, clock, send_delay, random, draws, timing)
        self._timer = timers.timer_for(
            (*where, *map(id, how)) if background else None,
            lambda: Timer(
                state,
                self.registry,
                self.endpoint,
                segment=self._segment,
                post=post,
                clock=clock,
                send_delay=send_delay,
                random=random,
                draws=self._draws,
                timing=timing,
            ),
        )
        self._state, self._recorder = self._timer.state, self._timer.recorder
        self._decide()
        self._begin()
        if self.mode == "on":
            parsed.keep(state.directory)
        _clients.add(self)

    # -- the public face

    def record(self, name: str, value: Any) -> None:
        """Answer a metric for its current epoch. The first answer of an epoch counts and later ones change nothing,
        unless the registry says otherwise (`accumulate`)."""
        self._take("record", name, value)

    def add(self, name: str, amount: Any = 1) -> None:
        """Add to a metric with `accumulate = "sum"`, whose answer is all that was added in its epoch."""
        self._take("add", name, amount)

    def _take(self, call: str, name: str, value: Any) -> None:
        for observe in observers:
            observe(self, name, value)
        if not isinstance(name, str):
            return self._mistake(f"{call}: the name must be a string, got {type(name).__name__}", "unknown_metric")
        metric = self.registry.metrics.get(name)
        if metric is None:
            return self._mistake(f"{call}({name!r}): {self.registry.no_metric(name)}", "unknown_metric")
        if call == "add" and metric.accumulate != "sum":
            needs = f'needs a metric with accumulate = "sum", got "{metric.accumulate}"'
            return self._mistake(f"add({name!r}): {needs}", "wrong_value")
        try:
            self._record(metric, value, self._clock())
        except Busy:
            self._recorder.unsaved["dropped_busy"] += 1
        except (Unusable, OSError) as error:  # without a file to spare, not even an import works
            self._recorder.unsaved["dropped_state"] += 1
            self._say_once(str(error))
        except WrongValue as error:
            self._mistake(f"{call}({name!r}): the value {error}", "wrong_value")

    def consent(self, agreed: bool) -> None:
        """Keep the person's answer. After a yes, reporting starts with the next epoch; a no empties the outbox."""
        if not self._test_run and not self._placeless:
            try:
                if agreed:
                    control.say_yes(self._state, self.registry, self._clock())
                else:
                    control.say_no(self._state)
            except (Busy, Unusable, OSError) as error:  # without a file to spare, not even an import works
                return self._give_up(f"the answer could not be kept: {error}")
        self._decide()
        self._begin()

    def ask(self, prompt: Callable[[str], str] | None = None) -> bool | None:
        """Ask on a terminal, if somebody should be asked, and keep the answer: what is asked in short, then yes or no.
        None if nobody was asked, or nobody answered. `prompt` shows a text and returns what was typed, like `input`;
        without one nobody is asked unless a person sits at a terminal."""
        if not self.should_ask or (prompt is None and not (sys.stdin.isatty() and sys.stdout.isatty())):
            return None
        from hubbub.protocol.label import short

        try:
            typed = (prompt or input)(f"{short(self.registry)}\n\nMay it? [y/N] ")
        except EOFError:
            return None
        agreed = typed.strip().lower() in ("y", "yes")
        self.consent(agreed)
        return agreed

    def status(self) -> Status:
        """Mode and reason as they are now, counts, what waits, what is spent. Changes nothing."""
        rules, readable = self._rules, True
        if self.mode == "on":
            try:
                rules = self._current_rules()
            except (Busy, Unusable, OSError):
                readable = False
        known = (self._state, most_restrictive(rules), rules, self.registry.app, self._recorder.unsaved)
        test = "the app gave the client a clock or chance of its own" if self._is_test else ""
        test = test or sent_for_a_test(self.endpoint, self.registry)
        with suppress(Busy, Unusable):
            return control.describe(*known, readable=readable, asked=self.registry).replace(test=test)
        return control.describe(*known, readable=False).replace(test=test)

    def preview(self) -> list[Pending]:
        """What waits to be sent; where nothing may be stored, what a message would look like, drawn for this call."""
        with suppress(Busy, Unusable, OSError):  # without a file to spare, not even an import works
            if self.mode == "on":
                return control.pending(self._state, self.registry)
            return self._examples.messages(self._segment, self._clock(), self._draws)
        return []

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is due and wait for it, at most `timeout` seconds. True if nothing that was due is left.

        With `close`, the one call that sends when the app says so: whoever watches the network sees when it is made.
        """
        deadline = time.monotonic() + timeout
        if self._undecided:
            self._decide()
        if self.mode != "on":
            self._sweep()
            self._timer.finish(deadline)
            return True
        with self._never_raising():
            self._send_until(deadline)
        with suppress(Busy, Unusable):
            return self.mode != "on" or self._timer.nothing_waits()
        return False

    async def aflush(self, timeout: float = 10.0) -> bool:
        """`flush` without blocking the event loop."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self.flush, timeout)

    def forget(self) -> None:
        """Delete identity, memos and outbox, answer no, keep one number: the epsilon spent."""
        self._recorder.unsaved.clear()
        self._recorder.forget_waiting()
        try:
            if not self._test_run and (self._state.exists() or not self._placeless):
                control.forget(self._state)
        except (Busy, Unusable, OSError) as error:
            return self._give_up(f"the state could not be wiped: {error}")
        self._decide()
        self._begin()

    def close(self) -> None:
        """Finish: wait for what is being sent, two seconds at most, and let go of the state. Nothing is started."""
        self._close(time.monotonic() + EXIT_PATIENCE)

    def _close(self, deadline: float) -> None:
        _clients.discard(self)
        if self.mode == "on":
            with self._never_raising():
                self._timer.wait_at_exit(deadline)
                self._recorder.save_counts()
        self._leave_timer()
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def mode(self) -> Mode:
        """`off`, `local` or `on`; `status().rule` says why."""
        return self._decision.mode

    @property
    def reason(self) -> Reason:
        """Why the mode is what it is, as a word that programs may rely on: `agreed`, `not_asked`, `asks_more`, ..."""
        return self._decision.reason

    @property
    def should_ask(self) -> bool:
        """Whether the app should ask the person now: nobody has yet, or it asks more than was agreed to; and nothing
        else forbids to send, so that a yes would count."""
        first, *others = self._rules
        would_count = all(rule.mode == "on" for rule in others) and wrong_endpoint(self.endpoint, self.registry) is None
        return first.reason in ASK and would_count

    # -- recording and sending

    @cached_property
    def _examples(self) -> Examples:
        from hubbub.client.examples import Examples  # here and below, because a client that sends needs neither

        return Examples(self.registry)

    @cached_property
    def _sweeper(self) -> Sweep:
        from hubbub.client.sweep import Sweep

        return Sweep(self._state, self._clock)

    def _sweep(self) -> None:
        if os.path.exists(self._state.directory):  # else there is nothing to sweep
            with suppress(OSError):  # as in `preview`
                self._sweeper()

    def _record(self, metric: Metric, value: Any, now: float) -> None:
        if self._strict or metric.shape.made_of_others:
            metric.check(value)  # a mistake is one, whether or not this record would count
        if self._undecided:
            raise Busy
        if self.mode == "on":
            if self._recorder.record(metric, value, now) == "ignored_later":
                others = ", ".join(how for how in metric.shape.accumulations if how != "first")
                self._say_once(
                    f"record({metric.name!r}): only the first value of an epoch counts, and this is another one; the "
                    f"registry's key accumulate ({others}) would use it"
                )
            return
        self._sweep()
        if is_expired(metric, epoch_of(metric.every, now)):
            self._recorder.unsaved["expired"] += 1
        else:
            self._examples.record(metric, value)

    def _begin(self) -> None:
        """Look and claim what is due, and let the timer go on; or have no part in it where nothing may be sent."""
        if self.mode == "on":
            with self._never_raising():
                self._timer.begin() if self._background else self._timer.look()
        if self.mode != "on" and not self._undecided:
            self._sweep()
            self._leave_timer()
        elif self._background:
            if not self._joined:
                self._joined = True
                timers.join(self._timer, self)
            timers.run(self._timer)

    def _leave_timer(self) -> None:
        if self._joined:
            self._joined = False
            with self._never_raising():
                timers.leave(self._timer, self)

    def _send_until(self, deadline: float) -> None:
        """On the timer's thread where there is one: a slow resolver or an answer that drips cannot hold the caller."""
        self._timer.begin()
        if timers.wake(self._timer):
            self._timer.finish(deadline, all_that_is_due=True)
        else:
            self._timer.send_here(deadline)

    def _is_on(self) -> bool | None:
        """For the timer: whether this client may report; None while its state is busy."""
        if self._undecided:
            self._decide()
        return None if self._undecided else self.mode == "on"

    def _told_by_timer(self, error: Exception) -> None:
        """For the timer, which ends with this error."""
        if isinstance(error, Withdrawn):
            self._decide()
        else:
            self._give_up(str(error))

    # -- modes and mistakes

    def _decide(self) -> None:
        self._undecided = False
        if self._placeless:
            return self._switch_off(self._placeless, "no_place")
        try:
            self._rules = self._current_rules(leaving=not self._test_run)
        except Busy:
            self._undecided = True  # until the timer's next step, or the next flush
            return self._switch_off("the state is busy just now", "busy")
        except (Unusable, OSError) as error:
            return self._give_up(str(error))
        self._decision = most_restrictive(self._rules)

    def _current_rules(self, leaving: bool = False) -> tuple[Decision, ...]:
        rules = control.rules_for(self._environ, self._state, self.registry, self._test_run, leaving=leaving)
        wrong = wrong_endpoint(self.endpoint, self.registry)
        return rules if wrong is None or most_restrictive(rules).mode != "on" else (*rules, wrong)

    def _give_up(self, why: str) -> None:
        self._switch_off(why)
        self._say_once(why)

    def _switch_off(self, why: str, reason: Reason = "unusable") -> None:
        self._decision = Decision("off", why, reason)
        self._rules = (self._decision,)

    @contextmanager
    def _never_raising(self) -> Iterator[None]:
        """What the disk does must not reach the app."""
        try:
            yield
        except Withdrawn:
            self._decide()
        except Busy:
            pass  # the timer tries again, or the next flush
        except (Unusable, OSError) as error:
            self._give_up(str(error))

    def _mistake(self, message: str, count: Lost) -> None:
        """The programmer's: raised under `strict`, otherwise logged once and counted."""
        if self._strict:
            raise ValueError(message)
        self._recorder.unsaved[count] += 1
        self._say_once(message)

    def _say_doubts(self, undeclared: Iterable[str]) -> None:
        """What the programmer may not have meant; while developing (`strict`), also of what is asked."""
        for doubt in undeclared:
            self._say_once(doubt)
        if self._strict:
            from hubbub.protocol.lint import forgotten_silence  # here, because an app that people use is not strict

            for doubt in forgotten_silence(self.registry):
                self._say_once(doubt)

    def _say_once(self, message: str) -> None:
        if message not in self._said and len(self._said) < 100:
            self._said.add(message)
            warn(message)


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
observers: list[Callable[[Client, str, Any], None]] = []
"""Whoever wants to know what an app records (hubbub.client.observing)."""


def _close_all() -> None:
    deadline = time.monotonic() + EXIT_PATIENCE
    for client in list(_clients):
        client._close(deadline)
    for timer in timers.running():  # of clients that were dropped
        with suppress(Busy, Unusable, OSError):
            timer.wait_at_exit(deadline)
            timers.end(timer)
    tls.in_use.end()  # whoever still sends, also for a client that was closed


atexit.register(_close_all)
