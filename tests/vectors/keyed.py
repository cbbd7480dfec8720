"""What follows from an install's key, as docs/client-contract.md tells of the reference client: BLAKE2b, keyed.

Another client may use another keyed function; so behaviour.json has the numbers that come of these besides the keys.
"""

import hashlib

from wire import UNITS


def keyed(key, purpose, data, size=16):
    return hashlib.blake2b(data, digest_size=size, key=key, person=purpose).digest()


class Stream:
    """Random bytes by key. Every call begins a new block of 64."""

    def __init__(self, key, data):
        self.seed, self.count = keyed(key, b"chance", data, 32), 0

    def take(self, size):
        found = b""
        while len(found) < size:
            found += hashlib.blake2b(self.count.to_bytes(8, "little"), digest_size=64, key=self.seed).digest()
            self.count += 1
        return found[:size]

    def below(self, limit):
        digits = (limit - 1).bit_length()
        size = -(-digits // 8)
        while True:
            number = int.from_bytes(self.take(size), "little") >> 8 * size - digits
            if number < limit:
                return number


def numbers_for(channel, width, take):
    """The numbers of section 10 that decide one crossing of a channel; `take` gives random bytes."""
    if channel["sort"] == "category":
        return [int.from_bytes(take(3), "little")]
    if channel["sort"] == "subset":
        while True:
            number = int.from_bytes(take(6), "little")
            if number < channel["units"]:
                return [number]
    return positions_of(take(24 * -(-width // 8)), width)


def positions_of(chance, width):
    size = len(chance) // 24
    return [sum((chance[j * size + i // 8] >> i % 8 & 1) << j for j in range(24)) for i in range(width)]


def crossed(channel, sent, width, numbers):
    """What arrives, section 10."""
    if channel["sort"] == "subset":
        from drawing import drawn_subset

        return drawn_subset(channel, sent, numbers[0])
    if channel["sort"] == "category":
        other = channel["other"]
        if numbers[0] >= (width - 1) * other:
            return sent
        found = numbers[0] // other
        return 1 << found + (found >= sent.bit_length() - 1)
    when_one, when_zero = channel["when_one"], channel["when_zero"]
    arrived = 0
    for i, u in enumerate(numbers):
        bit, v = sent >> i & 1, UNITS - 1 - u
        if when_one + when_zero == UNITS:
            arrived |= (bit ^ (v < when_zero)) << i
        else:
            arrived |= (v < (when_one if bit else when_zero)) << i
    return arrived
