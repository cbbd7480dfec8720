"""Thousands of installs through the real client, over HTTP, on a virtual clock.

Each install has a state directory of its own, agrees, lives through some epochs in a few milliseconds and sends what a
real one would have sent: nothing here knows how answers are noised. Processes share the work.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from hubbub.client import Client, Registry, upload
from hubbub.client.respond import Random as RandomBytes
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.report import BATCH_ID_BYTES
from hubbub.simulations.people.histories import Crowd

DAY = 86_400
CHUNK = 20
_MEMORY = Path("/dev/shm")  # noqa: S108  mkdtemp makes a directory of its own
_ID = slice(8, 8 + BATCH_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voyage:
    """What a fleet does: whose registry, to which collector, from the epoch of which moment on, one run in each."""

    source: str
    endpoint: str
    start: float
    make_crowd: Callable[[], Crowd]
    resend_every: int = 50
    """Each so many installs sends its last message again, as if the answer had been lost."""
    every: str = "day"
    seed: int | None = None
    """Without one, all chance is the operating system's, as in life."""

    def moment(self, number: int) -> float:
        """The middle of the epoch with this number, counted from the first."""
        epoch = epoch_of(self.every, self.start) + number
        return (epoch_start(self.every, epoch) + epoch_start(self.every, epoch + 1)) / 2

    def random(self, install: int) -> RandomBytes:
        return os.urandom if self.seed is None else Random(f"{self.seed} {install}").randbytes


def run_fleet(voyage: Voyage, installs: int, processes: int) -> Iterator[Counter[str]]:
    """Sail the whole fleet; yields what each group of installs has counted, as groups come home."""
    groups = [range(first, min(first + CHUNK, installs)) for first in range(0, installs, CHUNK)]
    context = get_context("spawn")  # a forked child would share what a process must own
    with ProcessPoolExecutor(processes, context, initializer=_leave_interrupts_to_the_parent) as pool:
        try:
            waiting = [pool.submit(sail, voyage, group) for group in groups]
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def sail(voyage: Voyage, installs: range) -> Counter[str]:
    """Let these installs live, one after the other, and say what they counted."""
    os.environ["HUBBUB_MODE"] = "on"  # simulated people have agreed, and nobody else's state is touched
    for name in ("DO_NOT_TRACK", "HUBBUB_STATE"):
        os.environ.pop(name, None)
    crowd = _crowd_of(voyage)
    registry = Registry.parse(voyage.source)
    counts: Counter[str] = Counter()
    home = Path(tempfile.mkdtemp(prefix="hubbub-fleet-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        for install in installs:
            resend = voyage.resend_every > 0 and install % voyage.resend_every == 0
            runs, random = crowd.of_install(install), voyage.random(install)
            counts += live(registry, voyage, home / str(install), runs, resend, random)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return counts


def live(
    registry: Registry,
    voyage: Voyage,
    home: Path,
    runs: Sequence[Mapping[str, Any] | None],
    resend: bool,
    random: RandomBytes = os.urandom,
) -> Counter[str]:
    """One install's life: agree before the first run, record and send in each, send once more after the last."""
    numbers = [number for number, values in enumerate(runs) if values is not None]
    if not numbers:
        return Counter()
    now = [voyage.moment(numbers[0] - 1)]

    def start() -> Client:
        return Client(
            registry,
            endpoint=voyage.endpoint,
            state_dir=home,
            background=False,
            clock=lambda: now[0],
            send_delay=lambda span: 0.0,
            random=random,
        )

    client = start()
    client.consent(True)
    last = numbers[0] - 1
    for number in numbers:
        if number > last + 1:  # an app that stays open has run in between; this one was closed
            client.close()
        now[0] = voyage.moment(number)
        if number > last + 1:
            client = start()
        for name, value in (runs[number] or {}).items():
            if value is not None:
                client.record(name, value)
        client.flush()
        last = number
    now[0] = voyage.moment(last + 1)
    waiting = [message.body for message in client.preview() if message.body]
    client.flush()
    counts = Counter(client.status().counts)
    if resend and waiting:
        upload.post(voyage.endpoint, waiting[-1], waiting[-1][_ID], timeout=10.0)
    client.close()
    return counts


_crowds: dict[tuple[str, float], Crowd] = {}


def _crowd_of(voyage: Voyage) -> Crowd:
    """Drawn once per process, from the seed."""
    key = (voyage.endpoint, voyage.start)
    if key not in _crowds:
        _crowds[key] = voyage.make_crowd()
    return _crowds[key]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
