"""Thousands of installs through the real client, over HTTP, on a virtual clock.

Each install has a state directory of its own, agrees, lives through some days in a few milliseconds and sends what a
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
from typing import Any

from hubbub.client import Client, Registry, upload
from hubbub.protocol.report import BATCH_ID_BYTES
from hubbub.simulations.population import Crowd

DAY = 86_400
CHUNK = 20
_MEMORY = Path("/dev/shm")  # noqa: S108  mkdtemp makes a directory of its own
_ID = slice(8, 8 + BATCH_ID_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voyage:
    """What a fleet does: whose registry, to which collector, from which moment on, one step a day."""

    source: str
    endpoint: str
    start: float
    make_crowd: Callable[[], Crowd]
    resend_every: int = 50
    """Each so many installs sends its last message again, as if the answer had been lost."""


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
            days = [{name: answers[install] for name, answers in epoch.items()} for epoch in crowd.epochs]
            resend = voyage.resend_every > 0 and install % voyage.resend_every == 0
            counts += live(registry, voyage, home / str(install), days, resend)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return counts


def live(
    registry: Registry, voyage: Voyage, home: Path, days: Sequence[Mapping[str, Any]], resend: bool
) -> Counter[str]:
    """One install's life: agree, record day by day, send after the last."""
    now = [voyage.start - DAY]
    client = Client(
        registry,
        endpoint=voyage.endpoint,
        state_dir=home,
        background=False,
        clock=lambda: now[0],
        send_delay=lambda span: 0.0,
    )
    client.consent(True)
    for day in days:
        now[0] += DAY
        for name, value in day.items():
            if value is not None:
                client.record(name, value)
        client.flush()
    now[0] += DAY
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
