"""Every transcript a small client can send, with its exact probability.

The real client runs from `record` to wire bytes, again and again; `Chance` stands in for the operating system's random
numbers and steers each draw through all of its outcomes, keeping the product of their exact probabilities. Nothing is
sampled: the result is the law of what the collector sees, as fractions.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from hubbub.client import Client, Registry, upload
from hubbub.client.respond import carry_bits
from hubbub.client.upload import Outcome
from hubbub.protocol.channel import PRECISION, UNITS

DAY = 86_400
START = 20_000 * DAY
Epoch = Mapping[str, Any]
"""What an app records in one epoch: values by metric. A metric that is missing was not recorded."""

Law = dict[tuple[bytes, ...], Fraction]


class Chance:
    """A source of random bytes that walks through every outcome of every draw, depth first.

    The draws that decide an answer are made by `respond._carry`; the thresholds and what is sent are read from its
    frame, so each bit has exactly the two outcomes that matter and their exact weights. Everything else that is drawn
    (key, number, ids) says nothing about values; the key, which places overflowing answers, is given.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.path: list[int] = []
        self.options: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.depth = 0
        self.weight = Fraction(1)

    def advance(self) -> bool:
        """Turn to the next path; False when all have been walked."""
        del self.path[self.depth :], self.options[self.depth :]
        while self.path and self.path[-1] + 1 == self.options[-1]:
            self.path.pop()
            self.options.pop()
        if not self.path:
            return False
        self.path[-1] += 1
        self.begin()
        return True

    def __call__(self, size: int) -> bytes:
        frame = sys._getframe(1)
        if frame.f_code.co_name != "_carry":
            return self.key if size == 32 else bytes(size)
        units, width, sent = (frame.f_locals[name] for name in ("units", "width", "sent"))
        if frame.f_locals["metric"].one_hot:
            return self._number_for_category(units[1], width)
        return self._digits_for_bits(units, width, sent, size)

    def _choose(self, weights: list[Fraction]) -> int:
        possible = [i for i, weight in enumerate(weights) if weight]
        if self.depth == len(self.path):
            self.path.append(0)
            self.options.append(len(possible))
        choice = possible[self.path[self.depth]]
        self.depth += 1
        self.weight *= weights[choice]
        return choice

    def _number_for_category(self, other: int, width: int) -> bytes:
        truth = UNITS - other * (width - 1)
        choice = self._choose([Fraction(truth, UNITS)] + [Fraction(other, UNITS)] * (width - 1))
        number = UNITS - 1 if choice == 0 else other * (choice - 1)
        return number.to_bytes(PRECISION // 8, "little")

    def _digits_for_bits(self, units: tuple[int, int], width: int, sent: int, size: int) -> bytes:
        # The extreme numbers, all digits 0 and all digits 1, give a position its two outcomes (or one, if it is
        # certain); which gives which is asked of the code itself.
        outcomes = {digit: carry_bits(sent, width, units, [-digit & (1 << width) - 1] * PRECISION) for digit in (0, 1)}
        digits = 0
        for position in range(width):
            chance_of_1 = Fraction(units[0] if sent >> position & 1 else units[1], UNITS)
            arrives = self._choose([1 - chance_of_1, chance_of_1])
            digit = next(d for d, bits in outcomes.items() if bits >> position & 1 == arrives)
            digits |= digit << position
        return digits.to_bytes(size // PRECISION, "little") * PRECISION


def law_of(
    registries: Iterable[Registry], history: list[Epoch], keys: Iterable[bytes] = (bytes(32),), restart: bool = False
) -> Law:
    """The exact distribution of the messages that this history makes an install send.

    `registries` gives the one in force in each epoch (the last one stays). `keys` are equally likely. With `restart`
    the app is closed and opened again before each epoch.
    """
    law: Counter[tuple[bytes, ...]] = Counter()
    keys = list(keys)
    for key in keys:
        chance = Chance(key)
        while True:
            transcript = _run(list(registries), history, chance, restart)
            law[transcript] += chance.weight / len(keys)
            if not chance.advance():
                break
    assert sum(law.values()) == 1
    return dict(law)


def _run(registries: list[Registry], history: list[Epoch], chance: Chance, restart: bool) -> tuple[bytes, ...]:
    now = [float(START)]
    sent: list[bytes] = []

    def post(endpoint: str, body: bytes, batch_id: bytes, timeout: float) -> Outcome:
        sent.append(body)
        return Outcome("delivered")

    directory = tempfile.mkdtemp(dir=_fast_directory())
    original, upload.post = upload.post, post
    try:
        client = _client(registries[0], directory, now, chance)
        client.consent(True)
        for number, epoch in enumerate(history):
            now[0] += DAY
            registry = registries[min(number, len(registries) - 1)]
            if restart or registry is not client.registry:
                client.close()
                client = _client(registry, directory, now, chance)
                client.consent(True)
            for name, value in epoch.items():
                client.record(name, value)
            client.flush()
        now[0] += DAY
        client.flush()
        client.close()
    finally:
        upload.post = original
        shutil.rmtree(directory)
    return tuple(sent)


def _client(registry: Registry, directory: str, now: list[float], chance: Callable[[int], bytes]) -> Client:
    return Client(
        registry,
        endpoint="http://127.0.0.1:9",
        state_dir=directory,
        background=False,
        clock=lambda: now[0],
        send_delay=lambda span: 0.0,
        random=chance,
    )


def _fast_directory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def worst_odds(laws: Mapping[Any, Law], comparable: Callable[[Any, Any], bool]) -> Fraction:
    """The largest ratio of probabilities of one transcript under two comparable histories."""
    worst = Fraction(1)
    for first, law in laws.items():
        for second, other in laws.items():
            if first is not second and comparable(first, second):
                for transcript, probability in law.items():
                    assert transcript in other, f"{first} and {second} can be told apart for certain"
                    worst = max(worst, probability / other[transcript])
    return worst
