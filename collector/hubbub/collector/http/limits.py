"""How often one sender may ask, without keeping who it is.

A sender is a keyed hash of its address; the key is random, lives in memory, and changes every hour together with the
whole table. IPv6 senders are told apart by their /64: whoever has one address there has all of them. Time is an
argument. An IPv4 address is the same sender whether or not it is written as an IPv6 one (`::ffff:192.0.2.1`).
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import random
import re
from collections.abc import Callable, Sequence
from typing import Literal

from hubbub.collector.settings import Network
from hubbub.protocol.refusal import Reason

_KEY_SECONDS = 3600.0
_MAX_SENDERS = 200_000
_MOST_HOPS = 16
_BRACKETED = re.compile(r"\[([^\]]*)\](?::\d{1,5})?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Limits:
    """Token buckets: `burst` requests at once, `rate` a second after that."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._renew(clock())

    def change(self, rate: float, burst: int) -> None:
        """Other limits from now on, also for senders that are known already."""
        self._rate, self._burst = rate, float(burst)

    def name(self, address: str) -> bytes:
        """What a sender is called while `key` is in force."""
        return hashlib.blake2b(sender_of(address), digest_size=8, key=self.key).digest()

    def allows(self, sender: bytes) -> bool:
        """Whether a sender, by its name, may go on; takes one token if so."""
        now = self._clock()
        if now >= self._key_ends or len(self._buckets) >= _MAX_SENDERS:
            self._renew(now)
        level, since = self._buckets.get(sender, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._rate)
        if level < 1.0:
            return False
        self._buckets[sender] = (level - 1.0, now)
        return True

    def _renew(self, now: float) -> None:
        self.key = os.urandom(32)
        self._key_ends = now + _KEY_SECONDS
        self._buckets: dict[bytes, tuple[float, float]] = {}


def sender_of(address: str) -> bytes:
    """What tells senders apart: an IPv4 address, or the first half of an IPv6 one."""
    found = _parse(address)
    if found is None:
        return address.encode("ascii", "replace")[:64]
    return found.packed if found.version == 4 else found.packed[:8]


def address_behind(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """The sender's address: the peer's, or what the outermost proxy we believe says about who asked it.

    `forwarded` has all X-Forwarded-For lines in their order. They are one list: a proxy of ours adds to its end, maybe
    on a line of its own, and what a sender has made up stands before that.
    """
    if not forwarded or not _within(_parse(peer), proxies):
        return peer
    hops = ",".join(forwarded).split(",")
    for hop in reversed(hops[-_MOST_HOPS:]):
        found = _parse(hop)
        if found is None:
            return peer  # a proxy of ours would have written an address
        peer = str(found)
        if not _within(found, proxies):
            break
    return peer


def retry_after(reason: Reason | Literal["too-many-reads"]) -> int:
    """Seconds to wait, spread out so that those refused together do not come back together."""
    slow = {
        "rate-limited": (30, 120),
        "storage-full": (300, 900),
        "too-many-ids": (300, 900),
        "clock-not-believed": (300, 900),
    }
    low, high = slow.get(reason, (5, 30))
    return random.randint(low, high)  # noqa: S311  # spreads load, keeps no secret


def _parse(text: str) -> Address | None:
    """An address as servers and proxies write it: with a port, in brackets, with a zone, or IPv4 dressed up as IPv6."""
    text = text.strip()
    if bracketed := _BRACKETED.fullmatch(text):
        text = bracketed[1]
    elif text.count(":") == 1:  # an IPv4 address and a port
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _within(address: Address | None, networks: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in networks)
