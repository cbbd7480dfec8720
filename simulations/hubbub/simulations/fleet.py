"""The life of one install through the real client, on a virtual clock; and thousands of them, over HTTP.

Each install has a state directory of its own, agrees, lives through some epochs in a few milliseconds and sends what a
real one would have sent: nothing here knows how answers are noised. Processes share the work of a fleet.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from random import Random
from typing import Any, NamedTuple

from hubbub.client import Answer, Client, Registry, Transport
from hubbub.client.upload import attempt
from hubbub.client.upload import post as post_by_http
from hubbub.client.vocabulary import Random as RandomBytes
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.vocabulary import Cadence
from hubbub.protocol.wire import BATCH_ID
from hubbub.simulations.people.histories import InstallCrowd
from hubbub.simulations.pretend_machine import NOWHERE, PretendMachine, state_folder

CHUNK = 20
MOST_ADDED_SINGLY = 30
"""A sum up to this is added one by one, as an app that counts would; a larger one at once."""


# --- one install --------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """The app is used, at one moment."""

    moment: float
    """Unix seconds."""
    values: Mapping[str, Any]
    """What is recorded, by metric; None stands for a metric that is left out."""
    restarted: bool = False
    """Whether the app was closed since the run before."""


def run_install(
    registry: Registry,
    runs: Sequence[Run],
    *,
    agreed: float,
    finished: float,
    segments: Mapping[str, str] | None = None,
    endpoint: str = NOWHERE,
    post: Transport = post_by_http,
    random: RandomBytes = os.urandom,
) -> Counter[str]:
    """One install's life: agree, record and send in each run, send once more when finished. What the client counted.
    `segments` are the facts of its build."""
    with state_folder() as directory:
        machine = PretendMachine(state_dir=directory, now=agreed, endpoint=endpoint, post=post, random=random)
        client = Client(registry, segments=segments, **machine.for_client())
        client.consent(True)
        for run in runs:
            if run.restarted:
                client.close()
            machine.now = run.moment
            if run.restarted:
                client = Client(registry, segments=segments, **machine.for_client())
            for name, value in run.values.items():
                if value is not None:
                    _use(client, name, value)
            client.flush()
        machine.now = finished
        client.flush()
        counts = Counter(client.status().counts)
        client.close()
    return counts


def _use(client: Client, name: str, value: Any) -> None:
    """What the app does in an epoch that ends with this value: a count grows one by one, a set item by item."""
    if isinstance(value, frozenset):
        for item in sorted(value):
            client.record(name, item)
    elif client.registry[name].accumulate != "sum":
        client.record(name, value)
    elif value == int(value) <= MOST_ADDED_SINGLY:
        for _ in range(int(value)):
            client.add(name)
    else:
        client.add(name, value)


# --- a fleet ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """What a fleet does: whose registry, to which collector, from the epoch of which moment on, one run in each."""

    source: str
    endpoint: str
    start: float
    make_crowd: Callable[[], InstallCrowd]
    resend_every: int = 50
    """Each so many installs sends its last message again, as if the answer had been lost."""
    every: Cadence = "day"
    seed: int | None = None
    """None: all random numbers come from the operating system, as in production."""

    def moment(self, number: int) -> float:
        """The middle of the epoch with this number, counted from the first."""
        epoch = epoch_of(self.every, self.start) + number
        return (epoch_start(self.every, epoch) + epoch_start(self.every, epoch + 1)) / 2

    def random(self, install: int) -> RandomBytes:
        return os.urandom if self.seed is None else Random(f"{self.seed} {install}").randbytes


def run_fleet(fleet: FleetRun, installs: int, processes: int) -> Iterator[Counter[str]]:
    """Run the whole fleet; yields what each group of installs has counted, as groups are finished."""
    groups = [range(first, min(first + CHUNK, installs)) for first in range(0, installs, CHUNK)]
    context = get_context("spawn")  # a forked child would share what a process must own
    with ProcessPoolExecutor(processes, context, initializer=leave_interrupts_to_the_parent) as pool:
        try:
            waiting = [pool.submit(run_group, fleet, group) for group in groups]
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def run_group(fleet: FleetRun, installs: range) -> Counter[str]:
    """Let these installs live, one after the other, and say what they counted."""
    crowd = _crowd_of(fleet)
    registry = Registry.parse(fleet.source)
    counts: Counter[str] = Counter()
    for install in installs:
        resend = fleet.resend_every > 0 and install % fleet.resend_every == 0
        values, random = crowd.of_install(install), fleet.random(install)
        segments = crowd.segment_of(install)
        counts += run_member(registry, fleet, values, segments=segments, resend=resend, random=random)
    return counts


def run_member(
    registry: Registry,
    fleet: FleetRun,
    values: Sequence[Mapping[str, Any] | None],
    *,
    segments: Mapping[str, str] | None = None,
    resend: bool = False,
    post: Transport = post_by_http,
    random: RandomBytes = os.urandom,
) -> Counter[str]:
    """One install of a fleet: what it records in each epoch, None where it does not run. It agrees in the epoch before
    its first, and is finished in the one after its last."""
    numbers = [number for number, recorded in enumerate(values) if recorded is not None]
    if not numbers:
        return Counter()
    runs = [
        Run(fleet.moment(number), values[number] or {}, restarted=number > before + 1)
        for before, number in pairwise([numbers[0] - 1, *numbers])
    ]
    sent: list[bytes] = []

    def post_and_remember(endpoint: str, body: bytes, timeout: float, /) -> Answer:
        sent.append(body)
        return post(endpoint, body, timeout)

    counts = run_install(
        registry,
        runs,
        agreed=fleet.moment(numbers[0] - 1),
        finished=fleet.moment(numbers[-1] + 1),
        segments=segments,
        endpoint=fleet.endpoint,
        post=post_and_remember,
        random=random,
    )
    if resend and sent:
        attempt(post, fleet.endpoint, sent[-1], sent[-1][BATCH_ID], timeout=10.0)
    return counts


_crowds: dict[tuple[str, float], InstallCrowd] = {}


def _crowd_of(fleet: FleetRun) -> InstallCrowd:
    """Drawn once per process, from the seed."""
    key = (fleet.endpoint, fleet.start)
    if key not in _crowds:
        _crowds[key] = fleet.make_crowd()
    return _crowds[key]


def leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
