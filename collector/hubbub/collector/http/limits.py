"""How often one sender may ask, without keeping who it is.

A sender is a keyed hash of its address; the key is random, lives in memory, and changes every hour together with the
whole table. IPv6 senders are told apart by their /64: whoever has one address there has all of them. Time is an
argument.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import random
from collections.abc import Callable, Sequence

from hubbub.collector.settings import Network

_KEY_SECONDS = 3600.0
_MAX_SENDERS = 200_000


class Limits:
    """Token buckets: `burst` requests at once, `rate` a second after that."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._renew(clock())

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
    if ":" not in address:
        return address.encode("ascii", "replace")
    try:
        return ipaddress.IPv6Address(address.partition("%")[0]).packed[:8]
    except ValueError:
        return address.encode("ascii", "replace")[:64]


def address_behind(peer: str, forwarded: str | None, proxies: Sequence[Network]) -> str:
    """The sender's address: the peer's, or what the outermost proxy we believe says about who asked it."""
    if not forwarded or not proxies or not _within(peer, proxies):
        return peer
    hops = [hop.strip() for hop in forwarded.split(",")]
    for hop in reversed(hops[-16:]):
        if not _is_address(hop):
            return peer  # a proxy of ours would have written an address
        if not _within(hop, proxies):
            return hop
        peer = hop
    return peer


def retry_after(reason: str) -> int:
    """Seconds to wait, spread out so that those refused together do not come back together."""
    slow = {"rate-limited": (30, 120), "storage-full": (300, 900), "clock-not-believed": (300, 900)}
    low, high = slow.get(reason, (5, 30))
    return random.randint(low, high)  # noqa: S311  # spreads load, keeps no secret


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _within(address: str, networks: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)
