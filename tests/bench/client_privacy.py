"""Whether what the clients send is private at all: measured, not read. Nothing here is a race.

Three things that a reader of a library's own claims would not see: a bit that never lies in one direction, a noise
that is drawn afresh for each report of one value and so averages away, and a noise that a seed repeats.
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np

from hubbub.client.respond import draw_bits, respond
from hubbub.protocol.kinds import Choice, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from tests.bench.environments import Peer
from tests.bench.rows import US, Row

REPORTS, USERS = 365, 40


def privacy(peers: dict[str, Peer], count: int) -> list[Row]:
    return [*bits_as_sent(peers["pure-ldp"], count), *averaged(peers["multi-freq-ldpy"]), *seeded(peers)]


def _measured(table: str, case: str, who: str, value: float, unit: str, repeats: int, note: str = "") -> Row:
    figures = {"value": value, "low": value, "high": value, "repeats": repeats}
    return Row(part="client", table=table, case=case, who=who, unit=unit, unranked=True, note=note, **figures)


def bits_as_sent(peer: Peer, count: int) -> list[Row]:
    """RAPPOR's permanent stage, f = 0.5: how often a 1 arrives where 1 was sent, and where 0 was."""
    theirs = peer.ask("bit_law", f=0.5, count=count)
    shape = String(num_bits=128, num_hashes=1, num_cohorts=1)
    metric = Definition(
        name="asked", every="week", shape=shape, noise=rappor_noise(Fraction(1, 2), Fraction(0), Fraction(1))
    )
    mask = shape.encode("https://example.org/", 0).mask
    sent = [respond(metric, mask, 0, os.urandom).bits for _ in range(count)]
    ours = {
        "p11": sum((bits & mask).bit_count() for bits in sent) / count,
        "p10": sum((bits & ~mask).bit_count() for bits in sent) / count / 127,
    }
    broken = (
        f"of {theirs['ones']:,} ones none arrived as 0, so a 0 proves that the bit was not set: epsilon is infinite, "
        f"where {theirs['stated']:.3f} is stated"
    )
    rows = []
    for key, case in (("p11", "P(1 given 1), meant: 0.75"), ("p10", "P(1 given 0), meant: 0.25")):
        rows.append(_measured("RAPPOR's bits as sent", case, US, ours[key], "share of bits", count))
        note = broken if theirs["p11"] == 1 else ""
        rows.append(_measured("RAPPOR's bits as sent", case, "pure-ldp", theirs[key], "share of bits", count, note))
    return rows


def averaged(peer: Peer) -> list[Row]:
    """The averaging attack: add up a year of daily reports of one value of 100, and name the largest."""
    betrayed = peer.ask("averaging", d=100, eps_perm=3.0, eps_1=1.0, reports=REPORTS, users=USERS)
    table = f"Values that adding up {REPORTS} reports reveals"
    case, unit = "100 choices, ε 1 a report, 3 for ever", "share of users"
    note = "its longitudinal clients keep no memo: every report draws both stages anew" if betrayed > 0.5 else ""
    return [
        _measured(table, case, US, own_averaged(), unit, USERS),
        _measured(table, case, "multi-freq-ldpy, L-OSUE", betrayed, unit, USERS, note),
    ]


def own_averaged() -> float:
    """The same attack on hubbub's client: the memo is drawn once, so adding up reports shows the memo and no more."""
    names = tuple(f"c{i}" for i in range(100))
    shape = Choice(choices=names, absent=names[0])
    metric = Definition(name="asked", every="week", shape=shape, noise=shape.best_noise(Fraction(1), Fraction(3)))
    betrayed = 0
    for user in range(USERS):
        memo = respond(metric, 1 << user, 0, os.urandom).memo
        total = np.zeros(100)
        for _ in range(REPORTS):
            bits = draw_bits(metric, memo, 0, os.urandom)
            total += np.array([bits >> i & 1 for i in range(100)])
        betrayed += int(np.argmax(total)) == user
    return betrayed / USERS


def seeded(peers: dict[str, Peer]) -> list[Row]:
    """Whether a seed gives the same noise again: then whoever guesses it can take the noise off."""
    table, case = "Reports that a seed repeats bit by bit", "100 choices"
    rows = [_measured(table, case, US, 0.0, "share of 20 reports", 20, "draws from os.urandom, which has no seed")]
    for name in ("pure-ldp", "multi-freq-ldpy"):
        same = float(peers[name].ask("repeats_with_seed"))
        note = "draws from a general-purpose generator: whoever knows its state knows the noise" if same else ""
        rows.append(_measured(table, case, name, same, "share of 20 reports", 20, note))
    return rows
