"""Chance for moments and ids, apart from the chance of answers.

When a message leaves and what it is called must not depend on what was recorded. So each of these draws stands by
itself, named by what it is for, the epoch and the attempt: however many memos and reports were drawn before, a test
that fixes this chance finds the same moments and ids. In production all of it is the operating system's.
"""

from __future__ import annotations

import os

from hubbub.protocol.blake2 import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Chance, Purpose, Random
    from hubbub.protocol.vocabulary import Cadence

SIZE = 16
"""Bytes of every draw: as many as a batch's id has."""


def fresh(purpose: Purpose, every: Cadence, epoch: int, attempt: int, /) -> bytes:
    """The operating system's."""
    return os.urandom(SIZE)


def chance_from(random: Random) -> Chance:
    """Of the same source as a client's other chance: drawn afresh where that is the operating system's, and following
    from 32 of its bytes where a test gave it."""
    if random is os.urandom:
        return fresh
    keys: list[bytes] = []

    def keyed(purpose: Purpose, every: Cadence, epoch: int, attempt: int, /) -> bytes:
        if not keys:
            keys.append(random(32))
        return blake2b(f"{purpose} {every} {epoch} {attempt}".encode(), digest_size=SIZE, key=keys[0]).digest()

    return keyed


def fraction(drawn: bytes) -> float:
    """A number in [0, 1), evenly."""
    return int.from_bytes(drawn[:6], "little") / 2**48
