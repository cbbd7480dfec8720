"""The life of pretend installs with the app's own code: state, clock and network are ours, all else is the app's.

`hubbub.client.Client` is replaced by a subclass in processes that do nothing else. There is no switch for it in the
client that apps ship: nobody may be able to send an app's telemetry elsewhere by setting a variable.
"""

from __future__ import annotations

import os
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple

import hubbub.client
import hubbub.client.client as of_client
from hubbub.client import Client, Registry, Transport
from hubbub.client.observing import Observer, observing
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.value import cached_property
from hubbub.simulations.pretend_machine import NOWHERE, PretendMachine, keep_in, state_folder
from hubbub.simulations.rehearse.app_file import AppFile, make_user, run_app
from hubbub.simulations.rehearse.connection import KeptConnection
from hubbub.simulations.rehearse.replaced import replaced

MOST_TEXTS = 10_000
"""Of the texts that were recorded, so many are remembered for the search: those of a crowd's own making are fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all workers are told."""

    app: AppFile
    days: int
    seed: int
    repeatable: bool = False
    """Whether the noise, too, comes from the seed; else from the operating system, as in life."""
    states: str | None = None
    """The folder in which installs keep their states: of the process that began all others, which removes it."""


class AskedBy(NamedTuple):
    """What a client of the app was made with."""

    source: str
    """Of its registry."""
    segments: dict[str, str]


@dataclass(slots=True)
class RehearsalTotals:
    """What became of some installs."""

    runs: int = 0
    records: Counter[str] = field(default_factory=Counter)
    """Calls of `record` and `add`, by metric."""
    counts: Counter[str] = field(default_factory=Counter)
    """What the clients counted, as `hubbub status` shows it."""
    texts: dict[str, set[str]] = field(default_factory=dict)
    """What was recorded of metrics that take any text."""
    apps: dict[str, AskedBy] = field(default_factory=dict)
    """What clients were made with, by the app that their registry names."""

    def add(self, other: RehearsalTotals) -> None:
        self.runs += other.runs
        self.records += other.records
        self.counts += other.counts
        self.apps.update(other.apps)
        for name, texts in other.texts.items():
            self.texts.setdefault(name, set()).update(texts)


@dataclass(slots=True, kw_only=True)
class RehearsedMachine(PretendMachine):
    """The machine of one install of an app, and what is noted of it."""

    totals: RehearsalTotals
    clients: list[RehearsedClient] = field(default_factory=list)
    """Those of the current run."""


_LOADED_WHEN_ASKED_FOR = [name for name, value in vars(Client).items() if isinstance(value, cached_property)]
"""Parts of a client that it keeps once it has needed them; those of the last machine are of no use on the next."""


class RehearsedClient(Client):
    """The client, on a pretend machine instead of this one. Its pretend user agrees when asked; a wrong value raises,
    as it would in the app's tests."""

    machine: ClassVar[RehearsedMachine]
    """The one that is lived on just now."""
    living: ClassVar[weakref.WeakSet[RehearsedClient]] = weakref.WeakSet()
    _loaded: ClassVar[dict[str, Registry]] = {}

    def __init__(self, registry: Registry | str | os.PathLike[str], **given: Any) -> None:
        self._made_with = (registry, given)
        self.start_in_rehearsal()

    def start_in_rehearsal(self) -> None:
        """When it is made; and again for one that a library's module holds, which is loaded once: the app was started
        anew, maybe on another machine. Others hold the object, so it becomes a new client in place."""
        registry, given = self._made_with
        for name in _LOADED_WHEN_ASKED_FOR:
            vars(self).pop(name, None)
        machine = self.machine
        super().__init__(
            self._registry_of(registry),
            segments=given.get("segments"),
            **machine.for_client(_mode_wanted(given.get("environ"))),
        )
        self._strict = True
        if self.should_ask:
            self.consent(True)
        machine.totals.apps[self.registry.app] = AskedBy(self.registry.source, dict(given.get("segments") or {}))
        machine.clients.append(self)
        self.living.add(self)

    @classmethod
    def _registry_of(cls, registry: Registry | str | os.PathLike[str]) -> Registry:
        if isinstance(registry, Registry):
            return registry
        path = os.path.abspath(registry)  # noqa: PTH100  as the client has it
        if path not in cls._loaded:
            cls._loaded[path] = Registry.load(registry)
        return cls._loaded[path]


def _mode_wanted(environ: Mapping[str, str] | None) -> str:
    """An app may switch telemetry off for a run (`--no-telemetry`); the environment around here is nobody's wish."""
    wanted = "" if environ is None else environ.get("HUBBUB_MODE", "")
    return wanted if wanted in ("off", "local") and wanted != os.environ.get("HUBBUB_MODE") else "on"


def try_out(plan: Plan) -> RehearsalTotals:
    """One run, of which nothing is sent: what the app asks, and whether it runs at all."""
    totals = RehearsalTotals()
    with _machine_for(NOWHERE, keep_in([]), plan, 0, totals) as machine:
        _run(plan, machine, 0, 0)
    return totals


def rehearse_installs(plan: Plan, installs: range, endpoint: str, asked: AskedBy, first_day: float) -> RehearsalTotals:
    """Let these installs live through all days, one after the other, and send what is due to the collector."""
    registry = Registry.parse(asked.source)
    last = first_day + (plan.days - 1) * DAY
    epochs = [(metric.every, epoch_of(metric.every, first_day), epoch_of(metric.every, last)) for metric in registry]
    agreed = min(epoch_start(every, first) for every, first, _ in epochs) - DAY / 2
    finished = max(epoch_start(every, last + 1) for every, _, last in epochs) + DAY / 2
    totals = RehearsalTotals()
    with KeptConnection(endpoint) as connection:
        for number in installs:
            with _machine_for(endpoint, connection.post, plan, number, totals) as machine:
                machine.now = agreed
                RehearsedClient(registry, segments=asked.segments).close()
                for day in range(plan.days):
                    machine.now = first_day + day * DAY + _time_of_day(plan, number, day)
                    _run(plan, machine, number, day)
                machine.now = finished
                _send_the_rest(machine, registry, asked.segments)
    return totals


def _time_of_day(plan: Plan, number: int, day: int) -> float:
    return Random(f"{plan.seed} {number} {day} hour").uniform(6, 22) * 3600


def _run(plan: Plan, machine: RehearsedMachine, number: int, day: int) -> None:
    machine.clients.clear()
    for client in list(RehearsedClient.living):
        client.start_in_rehearsal()
    run_app(plan.app, make_user(plan.seed, number, day))
    machine.totals.runs += 1
    for client in machine.clients:
        client.flush()
        client.close()
    machine.clients.clear()


def _send_the_rest(machine: RehearsedMachine, registry: Registry, segments: Mapping[str, str]) -> None:
    """All days, weeks and months are over: what is left is sent."""
    with RehearsedClient(registry, segments=segments) as client:
        client.flush()
        machine.totals.counts.update(client.status().counts)
    machine.clients.clear()


@contextmanager
def _machine_for(
    endpoint: str, post: Transport, plan: Plan, number: int, totals: RehearsalTotals
) -> Iterator[RehearsedMachine]:
    """An install's machine, for as long as it lives; every `Client` that is made meanwhile is on it."""
    random = Random(f"{plan.seed} {number} noise").randbytes if plan.repeatable else os.urandom
    with state_folder(plan.states) as directory:
        machine = RehearsedMachine(
            state_dir=directory, now=_noon_of_today(), endpoint=endpoint, post=post, random=random, totals=totals
        )
        with (
            replaced(RehearsedClient, machine=machine),
            replaced(hubbub.client, Client=RehearsedClient),
            replaced(of_client, Client=RehearsedClient),
            observing(_observer(totals)),
        ):
            yield machine


def _noon_of_today() -> float:
    return time.time() // DAY * DAY + DAY / 2


def _observer(totals: RehearsalTotals) -> Observer:
    def observe(client: Client, name: str, value: Any) -> None:
        totals.records[name] += 1
        metric = client.registry.metrics.get(name)
        if metric is not None and metric.shape.open_list and isinstance(value, str):
            texts = totals.texts.setdefault(name, set())
            if len(texts) < MOST_TEXTS:
                texts.add(value)

    return observe
