"""Auditing time: the same messages must leave at the same moments, whatever was recorded.

Lives are drawn: when processes of the app begin, end and are killed. Each is lived several times on the real timer, in
virtual time, with the same chance of moments and ids: in silence, and with records that are drawn anew. What a watcher
sees of the messages without their bits (moment, length, id, epochs, metrics, cohorts) is compared exactly, so one
difference is a failure and no threshold is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from hubbub.client import Answer, control
from hubbub.client.chance import chance_from
from hubbub.client.respond import RandomDraws
from hubbub.client.state import State
from hubbub.client.timer import Timer
from hubbub.protocol.cadence import DAY
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.segments import segment_of
from hubbub.protocol.wire import unpack
from hubbub.simulations.audit.pairs import far_values
from hubbub.simulations.pretend_machine import NOWHERE, keep_in, state_folder

LIVES, HISTORIES, PROCESSES, RECORDS = 3, 3, 12, 60
LASTS = 75 * DAY
"""Seconds of a life: months end in it, too."""


class Process(NamedTuple):
    """A run of the app, in Unix seconds."""

    begin: float
    end: float
    killed: bool


class Record(NamedTuple):
    """A call of `record`, in one of the processes that live at that moment."""

    moment: float
    name: str
    value: Any


class Departure(NamedTuple):
    """What a watcher sees of a message, all but the bits of its reports."""

    moment: float
    length: int
    batch_id: bytes
    blocks: tuple[tuple[int, str, int], ...]


class Watched(NamedTuple):
    """One thing that was tried, in words, and what was wrong with it."""

    what: str
    tried: str
    failure: str | None


def watch_departures(registry: Registry, start: float, seed: int) -> list[Watched]:
    """Lives that end in order, and lives of which most processes are killed."""
    return [
        _watch(registry, start, "departure times", Random(f"{seed} departures"), killed=0.0),
        _watch(registry, start, "kills", Random(f"{seed} kills"), killed=0.7),
    ]


def _watch(registry: Registry, start: float, what: str, chance: Random, killed: float) -> Watched:
    messages = kills = differing = 0
    for _ in range(LIVES):
        life = _life(start, chance, killed)
        silent = departures(registry, life, [], start, seed=0)
        messages += len(silent)
        kills += sum(process.killed for process in life)
        histories = [_records(registry, life, chance) for _ in range(HISTORIES - 1)]
        lived = (departures(registry, life, records, start, seed) for seed, records in enumerate(histories, 1))
        differing += any(seen != silent for seen in lived)
    tried = f"{LIVES} lives of {PROCESSES} processes ({kills} killed), {HISTORIES} histories of records each"
    if not differing:
        return Watched(what, f"{tried}: the same {messages} messages at the same moments", None)
    return Watched(what, tried, f"in {differing} of {LIVES} lives the messages depend on what was recorded")


def _life(start: float, chance: Random, killed: float) -> list[Process]:
    begins = sorted(start + DAY + chance.uniform(0, LASTS) for _ in range(PROCESSES))
    ends = [begin + chance.choice([0.2, 60.0, 3000.0, 9000.0]) for begin in begins]
    return [Process(begin, end, chance.random() < killed) for begin, end in zip(begins, ends, strict=True)]


def _records(registry: Registry, life: Sequence[Process], chance: Random) -> list[Record]:
    found = []
    for _ in range(RECORDS):
        process, metric = chance.choice(life), chance.choice([m for m in registry if not m.shape.made_of_others])
        moment = chance.uniform(process.begin, process.end)
        found.append(Record(moment, metric.name, chance.choice(far_values(metric.shape, 0))))
    return sorted(found, key=lambda record: record.moment)


def departures(
    registry: Registry, life: Sequence[Process], records: Sequence[Record], start: float, seed: int
) -> list[Departure]:
    """What leaves an install that lives so and records this. `seed` is the chance of its answers alone."""
    with state_folder() as directory:
        install = _Install(registry, directory, start, seed)
        for process in life:
            install.run(process, [record for record in records if process.begin <= record.moment <= process.end])
        return install.seen


class _Install:
    """One process after the other, on one state. It is the timer that runs here and no client: a client leaves the
    moments to a thread, which knows no virtual time, or sends when it is told."""

    def __init__(self, registry: Registry, directory: str, start: float, seed: int) -> None:
        self.registry, self.directory, self.now = registry, directory, start
        self.seen: list[Departure] = []
        self._known = by_short_hash(registry.in_all_segments())
        self._draws = RandomDraws(Random(seed).randbytes)
        self._timing = chance_from(Random(0).randbytes)
        state = State(directory)
        control.say_yes(state, registry, start)
        state.close()

    def run(self, process: Process, records: list[Record]) -> None:
        self.now = max(self.now, process.begin)
        timer = self._timer()
        timer.begin()
        comes_again = timer.step()
        for moment, record in [*((record.moment, record) for record in records), (process.end, None)]:
            while comes_again <= moment:
                self.now = max(self.now, comes_again)
                comes_again = timer.step()
            self.now = max(self.now, moment)
            if record is not None:
                timer.recorder.record(self.registry[record.name], record.value, self.now)
        if not process.killed:
            timer.release()
        timer.state.close()  # of a process that is killed, the system does

    def _timer(self) -> Timer:
        return Timer(
            State(self.directory),
            self.registry,
            NOWHERE,
            segment=segment_of(self.registry.segments, {}),
            post=self._post,
            clock=lambda: self.now,
            send_delay=None,
            random=Random(1).randbytes,  # the identity: the same in every history
            draws=self._draws,
            timing=self._timing,
        )

    def _post(self, endpoint: str, body: bytes, timeout: float, /) -> Answer:
        batch = unpack(body, self._known)
        blocks = tuple((report.epoch, report.metric.metric_hash, report.cohort) for report in batch.reports)
        self.seen.append(Departure(self.now, len(body), batch.batch_id, blocks))
        return keep_in([])(endpoint, body, timeout)
