"""What a report costs on the device: hubbub, its peers, the standard library bit by bit, and the floor.

A report is all that happens between a value and the bits to send, without storing or sending: encoding, the permanent
draw (the first time a value is met), the instantaneous draw. Peers draw one stage, where they know of only one. All
parties are at epsilon 1 for one report (hubbub and L-OSUE: 3 for ever), and repeats are interleaved.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from fractions import Fraction
from random import SystemRandom

import mmh3

from hubbub.client.respond import draw_bits, respond
from hubbub.protocol.channel import PRECISION
from hubbub.protocol.kinds import Choice, Flag, Mean, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Shape
from tests.bench.client_privacy import privacy
from tests.bench.environments import BARE, NAMES, ONE_THREAD, Peer, Say, installed_bytes, peer, prepare
from tests.bench.rows import US, Row, times

TEXT = "https://example.org/page"
COHORT = 7
FIRST, LATER = US + ", a value's first report", US
FLOOR, PER_BIT = "floor: one urandom, one hash", "SystemRandom, bit by bit"
IMPORTS = {
    BARE: "from hubbub.client import Client",
    "pure-ldp": "import pure_ldp.frequency_oracles",
    "multi-freq-ldpy": "from multi_freq_ldpy.pure_frequency_oracles import GRR, UE",
    "opendp": "import opendp.prelude",
    "diffprivlib": "import diffprivlib",
}
SECURE = {"opendp", "diffprivlib"}
INSECURE = "its generator is not secure"


def choice(size: int) -> tuple[Shape, object]:
    names = tuple(f"c{i}" for i in range(size))
    return Choice(choices=names, absent=names[0]), names[size // 2]


CASES: dict[str, tuple[Shape, object]] = {
    "flag": (Flag(), True),
    "choice, d = 4": choice(4),
    "choice, d = 100": choice(100),
    "choice, d = 1000": choice(1000),
    "string, 128 bits": (String(num_bits=128, num_hashes=1, num_cohorts=64), TEXT),
    "mean": (Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0), unit="s"), 12.5),
}


def own_subjects(case: str) -> dict[str, Callable[[], object]]:
    """What is timed in this very process."""
    shape, value = CASES[case]
    metric = Definition(name="asked", every="week", shape=shape, noise=shape.best_noise(Fraction(1), Fraction(3)))
    cohort = COHORT % shape.num_cohorts
    dither = 1 << 63
    memo = respond(metric, shape.encode(value, cohort, dither).mask, cohort, os.urandom).memo
    width = shape.width(cohort)
    # What the report needs at least: one call for all its random bytes, one hash of one text.
    size = PRECISION // 8 * (1 if metric.one_hot else width)
    text = TEXT.encode()
    draw, below = SystemRandom().random, float(metric.noise.p_star)

    def later() -> int:
        shape.encode(value, cohort, dither)  # its fingerprint is how the memo is found again
        return draw_bits(metric, memo, cohort, os.urandom)

    def floor() -> object:
        return os.urandom(size), mmh3.mmh3_x64_128_utupledigest(text, 0)

    return {
        LATER: later,
        FIRST: lambda: respond(metric, shape.encode(value, cohort, dither).mask, cohort, os.urandom),
        FLOOR: floor,
        PER_BIT: lambda: [draw() < below for _ in range(width)],
    }


def spent(call: Callable[[], object], number: int) -> float:
    """Microseconds of CPU a call."""
    start = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - start) / number * 1e6


def time_all(peers: dict[str, Peer], repeats: int, slice_ms: float, say: Say) -> list[Row]:
    rows = []
    asked = {name: set(one.ask("cases")) for name, one in peers.items()}
    for case in CASES:
        say(f"client: {case}")
        timers: dict[str, Callable[[int], float]] = {
            who: (lambda number, call=call: spent(call, number)) for who, call in own_subjects(case).items()
        }
        for name, one in peers.items():
            if case in asked[name]:
                timers[name] = lambda number, one=one, case=case: one.ask("spent", case=case, number=number)
        numbers = {who: max(5, int(slice_ms * 1e3 / max(timer(50), 0.05))) for who, timer in timers.items()}
        samples: dict[str, list[float]] = {who: [] for who in timers}
        for _ in range(repeats):
            for who, timer in timers.items():
                samples[who].append(timer(numbers[who]))
        for who, found in samples.items():
            rows.append(
                Row(
                    part="client",
                    table="A report",
                    case=case,
                    who=who,
                    unit="microseconds of CPU",
                    limit=who == FLOOR,
                    unranked=who == FIRST,
                    excused=INSECURE if who in NAMES and who not in SECURE else "",
                    **times(found),
                )
            )
    return rows


def import_and_size(repeats: int, say: Say) -> list[Row]:
    """CPU time of a fresh interpreter that imports the library, less that of one that imports nothing."""
    say("client: import time and installed size")
    pythons = {name: prepare(name, say) for name in IMPORTS}
    samples: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for turn in range(repeats + 1):
        for name, statement in IMPORTS.items():
            both = [_child_cpu(str(pythons[name]), code) for code in ("pass", statement)]
            if turn:  # the first one compiles
                samples[name].append((both[1] - both[0]) * 1e3)
    common = {"part": "client", "case": "the library and what it needs"}
    rows = [
        Row(table="Import", who=name, unit="milliseconds of CPU", **common, **times(found))
        for name, found in samples.items()
    ]
    for name in IMPORTS:
        size = installed_bytes(name) / 1e6
        rows.append(
            Row(table="Installed size", who=name, unit="MB", value=size, low=size, high=size, repeats=1, **common)
        )
    return rows


def _child_cpu(python: str, code: str) -> float:
    environ = {**{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}, **ONE_THREAD}
    pid = os.posix_spawn(python, [python, "-W", "ignore", "-c", code], environ)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"{python} -c {code!r} failed"
    return usage.ru_utime + usage.ru_stime


def measure(quick: bool, say: Say) -> list[Row]:
    peers = {name: peer(name, say) for name in NAMES}
    rows = time_all(peers, repeats=7 if quick else 21, slice_ms=8 if quick else 20, say=say)
    rows += import_and_size(2 if quick else 5, say)
    say("client: what the peers' noise really is")
    return rows + privacy(peers, 2_000 if quick else 20_000)
