"""Every transcript a small client can send, with its exact probability.

The real client runs from `record` to wire bytes, again and again; `EveryDraw` stands where random numbers are drawn
and walks each draw through all of its outcomes, keeping the product of their exact probabilities. Nothing is sampled:
the result is the law of what the collector sees, as fractions.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from hashlib import blake2b
from math import comb
from pathlib import Path
from typing import Any

from hubbub.client import Answer, Client, Registry
from hubbub.client.respond import carry_bits
from hubbub.protocol.channel import PRECISION, UNITS, SubsetChannel, Units
from hubbub.protocol.history import History
from tests.client.answering_server import stored

DAY = 86_400
START = 20_000 * DAY
Epoch = Mapping[str, Any]
"""What an app records in one epoch: values by metric, several as a list or tuple; nothing of one that is missing."""

Law = dict[tuple[bytes, ...], Fraction]


class EveryDraw:
    """The client's `Draws`, through every outcome of every draw, depth first.

    A draw is told which channel it decides and what is sent, so each bit has exactly the two outcomes that matter, with
    their exact weights; the numbers that lead to them go through the client's own arithmetic. What else is random (the
    key, the install's number, ids of messages) says nothing about values; the key, which places overflowing answers, is
    given.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.path: list[int] = []
        self.options: list[int] = []
        self.begin()

    def random(self, size: int) -> bytes:
        return self.key if size == 32 else bytes(size)

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

    def _choose(self, weights: list[Fraction]) -> int:
        possible = [i for i, weight in enumerate(weights) if weight]
        if self.depth == len(self.path):
            self.path.append(0)
            self.options.append(len(possible))
        choice = possible[self.path[self.depth]]
        self.depth += 1
        self.weight *= weights[choice]
        return choice

    def number(self, units: Units, width: int) -> int:
        other = units[1]
        truth = UNITS - other * (width - 1)
        choice = self._choose([Fraction(truth, UNITS)] + [Fraction(other, UNITS)] * (width - 1))
        return UNITS - 1 if choice == 0 else other * (choice - 1)

    def subset(self, channel: SubsetChannel, sent: int) -> int:
        ranges = [channel.held] * channel.with_sent + [channel.other] * channel.without_sent
        return sum(ranges[: self._choose([Fraction(size, channel.units) for size in ranges])])

    def below(self, limit: int) -> int:
        return self._choose([Fraction(1, limit)] * limit)

    def flags(self, history: History) -> int:
        law = [history.count_law[z.bit_count()] / comb(history.flags, z.bit_count()) for z in range(1 << history.flags)]
        return self._choose(law)

    def of_a_memo(self, random: Callable[[int], bytes]) -> EveryDraw:
        return self  # every outcome, whatever the key would make of it

    def digits(self, units: Units, width: int, sent: int) -> bytes:
        # The extreme numbers, all digits 0 and all digits 1, give a position its two outcomes (or one, if it is
        # certain); which gives which is asked of the code itself.
        outcomes = {digit: carry_bits(sent, width, units, [-digit & (1 << width) - 1] * PRECISION) for digit in (0, 1)}
        digits = 0
        for position in range(width):
            chance_of_1 = Fraction(units[0] if sent >> position & 1 else units[1], UNITS)
            arrives = self._choose([1 - chance_of_1, chance_of_1])
            digit = next(d for d, bits in outcomes.items() if bits >> position & 1 == arrives)
            digits |= digit << position
        return digits.to_bytes((width + 7) // 8, "little") * PRECISION


def law_of(
    registries: Iterable[Registry],
    history: list[Epoch],
    keys: Iterable[bytes] = (bytes(32),),
    restart: bool = False,
    span: int = DAY,
) -> Law:
    """The exact distribution of the messages that this history makes an install send.

    `registries` gives the one in force in each epoch (the last one stays). `keys` are equally likely. With `restart`
    the app is closed and opened again before each epoch. Records are `span` seconds apart.
    """
    law: Counter[tuple[bytes, ...]] = Counter()
    keys = list(keys)
    for key in keys:
        draws = EveryDraw(key)
        while True:
            transcript = _run(list(registries), history, draws, restart, span)
            law[transcript] += draws.weight / len(keys)
            if not draws.advance():
                break
    assert sum(law.values()) == 1
    return dict(law)


def _run(
    registries: list[Registry], history: list[Epoch], draws: EveryDraw, restart: bool, span: int
) -> tuple[bytes, ...]:
    now = float(START)
    sent: list[bytes] = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        sent.append(body)
        return stored(body)

    def start(registry: Registry) -> Client:
        return Client(
            registry,
            endpoint="http://127.0.0.1:9",
            state_dir=directory,
            background=False,
            post=post,
            environ={"HUBBUB_MODE": "on"},
            clock=lambda: now,
            send_delay=lambda span: 0.0,
            random=draws.random,
            draws=draws,
            timing=_same_for_every_key,
        )

    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        client = start(registries[0])
        client.consent(True)
        for number, epoch in enumerate(history):
            now += span
            registry = registries[min(number, len(registries) - 1)]
            if restart or registry is not client.registry:
                client.close()
                client = start(registry)
                client.consent(True)
            for name, value in epoch.items():
                for each in value if isinstance(value, list | tuple) else [value]:
                    client.record(name, each)
            client.flush()
        now += span
        client.flush()
        client.close()
    return tuple(sent)


def _same_for_every_key(*what: object) -> bytes:
    """Ids of messages come from chance of their own. From the key that is given here, they would tell it."""
    return blake2b(repr(what).encode(), digest_size=16).digest()


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
