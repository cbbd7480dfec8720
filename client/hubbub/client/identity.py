"""Who an install is, to itself alone: a secret key and one number, drawn once. Neither ever leaves the device."""

from __future__ import annotations

import sqlite3
from itertools import count

from hubbub.client.facts import Facts, put
from hubbub.protocol.blake2 import blake2b
from hubbub.protocol.encoding import DITHER_BITS
from hubbub.protocol.metric import Definition
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Random

NUMBER_BITS = 62
_BLOCK = 64


class Identity(Value):
    """What an install adds to its answers."""

    key: bytes
    """32 secret bytes, for hashes that nobody else can compute."""
    number: int
    """62 random bits, the install's place on a line: each metric's cohorts are equal pieces of it, uniform beyond
    notice. Pieces of one line nest where remainders would multiply: 128, 5 and 4 of them make 132 groups, not 640."""

    def cohort(self, metric: Definition) -> int:
        return cohort_of(self.number, metric.shape.num_cohorts)

    def is_sampled(self, metric: Definition) -> bool:
        """Whether this install is one of the share that is asked: if its second number lies in that first part of the
        line. One number for all metrics and for ever, drawn by key: whoever is in a sample is in every larger one, and
        it has nothing to do with cohorts."""
        if metric.sample == 1:
            return True
        second = int.from_bytes(self.keyed(b"sample", b"", size=8), "little")
        return second * metric.sample.denominator < metric.sample.numerator << 64

    def dither(self, metric: Definition) -> int:
        """Fixed for install and metric; decides which way a `mean` rounds values between its ends."""
        return int.from_bytes(self.keyed(b"dither", metric.metric_hash.encode(), size=DITHER_BITS // 8), "little")

    def keyed(self, purpose: bytes, data: bytes, size: int = 16) -> bytes:
        """A hash that nobody without the key can test guesses against."""
        return blake2b(data, digest_size=size, key=self.key, person=purpose).digest()

    def chance(self, data: bytes) -> Random:
        """Random bytes that are the same whenever this install draws for the same data: BLAKE2b, counting up. Whoever
        has no key cannot tell them from others; that much rests on a hash, not on the operating system's chance."""
        seed, blocks = self.keyed(b"chance", data, size=32), count()

        def random(size: int) -> bytes:
            drawn = (
                blake2b(next(blocks).to_bytes(8, "little"), digest_size=_BLOCK, key=seed).digest()
                for _ in range(-(-size // _BLOCK))
            )
            return b"".join(drawn)[:size]

        return random


def cohort_of(number: int, num_cohorts: int) -> int:
    """Which of `num_cohorts` equal pieces of the line an install's number lies in."""
    return number * num_cohorts >> NUMBER_BITS


def known_identity(facts: Facts) -> Identity | None:
    """The install's identity, if it was ever drawn."""
    if facts.key is None or facts.number is None:
        return None
    return Identity(facts.key, facts.number)


def ensure_identity(db: sqlite3.Connection, facts: Facts, random: Random) -> Identity:
    """The install's identity; drawn and kept when there is none."""
    who = known_identity(facts)
    if who is None:
        who = Identity(random(32), int.from_bytes(random(8), "little") >> 64 - NUMBER_BITS)
        put(db, "key", who.key)
        put(db, "number", who.number)
    return who
