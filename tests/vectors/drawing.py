"""Section 10 of docs/wire-format.md: what is drawn from given random bytes, position by position."""

import hashlib
from fractions import Fraction
from math import comb

from wire import UNITS, width


def random_bytes(label, size):
    return hashlib.shake_128(label.encode()).digest(size)


def random_size(metric, stage, cohort):
    if "categories" in metric[stage]:
        return 6 if "size" in metric[stage] else 3
    return 24 * -(-width(metric["kind"], metric["shape"], cohort) // 8)


def drawn(metric, stage, sent, cohort, chance):
    channel, bits = metric[stage], width(metric["kind"], metric["shape"], cohort)
    if "size" in channel:
        return drawn_subset(channel, sent, int.from_bytes(chance, "little"))
    if "categories" in channel:
        other = int(Fraction(channel["other"]) * UNITS)
        u, category = int.from_bytes(chance, "little"), sent.bit_length() - 1
        if u >= (bits - 1) * other:
            return sent
        found = u // other
        return 2 ** (found if found < category else found + 1)
    size = len(chance) // 24
    when_one, when_zero = (Fraction(channel[key]) * UNITS for key in ("when_one", "when_zero"))
    arrived = 0
    for i in range(bits):
        bit = sent >> i & 1
        v = UNITS - 1 - sum((chance[j * size + i // 8] >> i % 8 & 1) << j for j in range(24))
        if when_one + when_zero == UNITS:
            arrived |= (bit ^ (v < when_zero)) << i
        else:
            arrived |= (v < (when_one if bit else when_zero)) << i
    return arrived


def drawn_subset(channel, sent, u):
    d, w, held, other = (channel[key] for key in ("categories", "size", "held", "other"))
    with_sent = comb(d - 1, w - 1) * held
    if u < with_sent:
        others, itself = masks_of_weight(w - 1, d - 1)[u // held], sent
    else:
        others, itself = masks_of_weight(w, d - 1)[(u - with_sent) // other], 0
    digits = [others >> i & 1 for i in range(d - 1)]
    digits.insert(sent.bit_length() - 1, 0)
    return itself + sum(digit << i for i, digit in enumerate(digits))


def masks_of_weight(weight, width):
    """All masks with so many bits set, in ascending order."""
    return [mask for mask in range(2**width) if bin(mask).count("1") == weight]
