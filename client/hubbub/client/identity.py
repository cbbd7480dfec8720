"""Who an install is, to itself alone: a secret key and one number, drawn once. Neither ever leaves the device."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from hubbub.client.facts import Facts, put
from hubbub.client.respond import Random
from hubbub.protocol.blake2 import blake2b
from hubbub.protocol.encoding import DITHER_BITS
from hubbub.protocol.metric import Definition


class Identity(NamedTuple):
    """What an install adds to its answers."""

    key: bytes
    """32 secret bytes, for hashes that nobody else can compute."""
    number: int
    """62 random bits, which place the install in every metric's cohorts: uniform beyond notice."""

    def cohort(self, metric: Definition) -> int:
        return self.number % metric.shape.num_cohorts

    def dither(self, metric: Definition) -> int:
        """Fixed for install and metric; decides which way a `mean` rounds values between its ends."""
        return int.from_bytes(self.keyed(b"dither", metric.metric_hash.encode(), size=DITHER_BITS // 8), "little")

    def keyed(self, purpose: bytes, data: bytes, size: int = 16) -> bytes:
        """A hash that nobody without the key can test guesses against."""
        return blake2b(data, digest_size=size, key=self.key, person=purpose).digest()


def known_identity(facts: Facts) -> Identity | None:
    """The install's identity, if it was ever drawn."""
    if facts.key is None or facts.number is None:
        return None
    return Identity(facts.key, facts.number)


def ensure_identity(db: sqlite3.Connection, facts: Facts, random: Random) -> Identity:
    """The install's identity; drawn and kept when there is none."""
    who = known_identity(facts)
    if who is None:
        who = Identity(random(32), int.from_bytes(random(8), "little") >> 2)
        put(db, "key", who.key)
        put(db, "number", who.number)
    return who
