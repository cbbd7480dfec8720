"""Processes of one install in virtual time, driven by the real timers without a thread, and what leaves them.

A `Life` is everything a watcher may know: when processes lived, slept and were killed, what the person answered, when
`flush` was called, what the network said. A history of records is the rest. `departures` runs both and returns what a
watcher sees of it, exactly.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from hubbub.client import Answer, Client, Registry
from hubbub.client.chance import chance_from
from hubbub.client.recorder import Withdrawn
from hubbub.client.respond import RandomDraws
from hubbub.client.state import Busy
from hubbub.client.timer import Timer
from hubbub.client.vocabulary import Chance
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import unpack
from hubbub.simulations.audit.departures import Departure, Record
from tests.client.answering_server import problem, stored

DAY = 86_400
HOUR = 3_600
START = 20_000 * DAY + 12 * HOUR
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Process(NamedTuple):
    """From when to when it lives, in seconds after START; whether it is killed, and when it sleeps."""

    begin: float
    end: float
    killed: bool = False
    asleep: tuple[float, float] = (0.0, 0.0)


class Act(NamedTuple):
    """Something the person or the app does that a watcher may know of: `yes`, `no` or `flush`."""

    moment: float
    what: str


class Life(NamedTuple):
    processes: Sequence[Process]
    acts: Sequence[Act] = ()
    network: Sequence[str] = ("stored",)
    """What becomes of each attempt, in turn, and of those after the last like it."""
    days: int = 5


def departures(
    registry: Registry, life: Life, records: Iterable[Record], seed: int, shared_chance: bool = False
) -> list[Departure]:
    """Run a life with these records. `seed` is the chance of answers; that of moments and ids is always the same,
    unless (as a planted defect) both are one."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory, patch("hubbub.client.timers.run"):
        return _World(registry, life, directory, seed, shared_chance).run(list(records))


class _World:
    def __init__(self, registry: Registry, life: Life, directory: str, seed: int, shared_chance: bool) -> None:
        self.registry, self.life, self.directory = registry, life, directory
        self.now = float(START)
        self.seen: list[Departure] = []
        self.known = by_short_hash(registry.in_all_segments())
        answers = Random(seed)
        self.draws = RandomDraws(answers.randbytes)
        self.timing: Chance = (lambda *_: answers.randbytes(16)) if shared_chance else chance_from(Random(7).randbytes)
        self.running: dict[Process, Client] = {}
        self.wakes: dict[Process, float] = {}

    def run(self, records: list[Record]) -> list[Departure]:
        with self._client() as first:
            first.consent(True)
        for moment, happen in sorted(self._events(records), key=lambda event: event[0]):
            self._pass(START + moment)
            happen()
        self._pass(START + self.life.days * DAY)
        for client in self.running.values():
            client._state.close()
        return self.seen

    def _events(self, records: list[Record]) -> Iterator[tuple[float, Callable[[], None]]]:
        for process in self.life.processes:
            yield process.begin, lambda process=process: self._begin(process)
            yield process.end, lambda process=process: self._end(process)
        for act in self.life.acts:
            yield act.moment, lambda act=act: self._act(act.what)
        for record in records:
            yield record.moment, lambda record=record: self._record(record)

    def _begin(self, process: Process) -> None:
        self.running[process] = self._client()
        self._step(process)

    def _end(self, process: Process) -> None:
        client = self.running.pop(process)
        del self.wakes[process]
        if process.killed:
            client._state.close()  # as the system does
        else:
            client.close()

    def _act(self, what: str) -> None:
        for process, client in self.running.items():
            if not process.asleep[0] <= self.now - START <= process.asleep[1]:
                if what == "flush":
                    client.flush()
                else:
                    client.consent(what == "yes")
                self._step(process)
                break

    def _record(self, record: Record) -> None:
        for process, client in self.running.items():
            if not process.asleep[0] <= self.now - START <= process.asleep[1]:
                client.record(record.name, record.value)
                break

    def _pass(self, until: float) -> None:
        """Let time pass; every timer comes when it wanted to."""
        while self.wakes and min(self.wakes.values()) <= until:
            process = min(self.wakes, key=lambda each: self.wakes[each])
            self.now = max(self.now, self.wakes[process])
            self._step(process)
        self.now = until

    def _step(self, process: Process) -> None:
        client = self.running[process]
        wake = float("inf")
        if client.mode == "on":
            try:
                wake = client._timer.step()
            except Withdrawn as error:
                client._told_by_timer(error)
        begin, end = process.asleep
        # A waiting thread does not count the time that its machine sleeps.
        self.wakes[process] = wake + end - begin if self.now - START <= begin < wake - START else wake

    def _client(self) -> Client:
        return Client(
            self.registry,
            endpoint="http://127.0.0.1:9",
            state_dir=self.directory,
            post=self._post,
            environ={"HUBBUB_MODE": "on"},
            clock=lambda: self.now,
            random=Random(1).randbytes,  # of the identity alone
            draws=self.draws,
            timing=self.timing,
        )

    def _post(self, endpoint: str, body: bytes, timeout: float) -> Answer:
        batch = unpack(body, self.known)
        blocks = tuple((r.epoch, r.metric.metric_hash, r.cohort) for r in batch.reports)
        number = len(self.seen)
        self.seen.append(Departure(self.now - START, len(body), batch.batch_id, blocks))
        match self.life.network[min(number, len(self.life.network) - 1)]:
            case "stored":
                return stored(body)
            case "unknown":
                return problem("metric-unknown")
            case "error":
                return Answer(503)
            case _:
                raise ConnectionRefusedError


# --- planted defects ----------------------------------------------------------------------------------------------


@contextmanager
def record_opens_epochs() -> Iterator[None]:
    """The old behaviour: whoever records runs, so the epoch is opened."""
    with patch.object(Client, "record", _after(lambda client: client._timer.look(), Client.record)):
        yield


@contextmanager
def record_sends() -> Iterator[None]:
    """The old behaviour: what is due leaves at the next record or at the end, and no timer sends."""

    def step(timer: Timer) -> float:
        if timer.clock() >= timer._looks_at:
            timer.look()
        return timer._looks_at

    def send(client: Client) -> None:
        client._timer.claim()
        while client._timer.send():
            client._timer.claim()

    with (
        patch.object(Timer, "begin", Timer.look),
        patch.object(Timer, "step", step),
        patch.object(Client, "record", _after(send, Client.record)),
        patch.object(Client, "close", _after(send, Client.close)),
    ):
        yield


def _after(act: Callable[[Client], None], then: Callable[..., None]) -> Callable[..., None]:
    def planted(client: Client, *arguments: Any) -> None:
        if client.mode == "on":
            try:
                act(client)
            except (Busy, Withdrawn):
                return
        then(client, *arguments)

    return planted
