"""A load generator for loopback: so many connections, each sending its next request when the last one is answered."""

from __future__ import annotations

import os
import selectors
import socket
import statistics
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random


@dataclass(frozen=True)
class Load:
    """What a run took, in seconds; `cpu` is that of the whole server process, kernel time included."""

    requests: int
    cpu: float
    wall: float
    latencies: tuple[float, ...]

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)

    @property
    def p99(self) -> float:
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]

    @property
    def per_cpu_second(self) -> float:
        return self.requests / self.cpu


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads and the kernel's work for them, in nanosecond steps."""
    return time.clock_gettime(~pid << 3 | 2)  # how Linux numbers the CPU clock of another process


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def with_fresh_ids(message: bytes, random: Random) -> Iterator[bytes]:
    """The same reports again and again, each time a batch of its own."""
    head, body = message[:8], message[32:]
    length = message[24:28]
    while True:
        start = head + random.randbytes(16) + length
        yield start + struct.pack("<I", zlib.crc32(body, zlib.crc32(start + b"\0\0\0\0"))) + body


def as_request(message: bytes, path: str, headers: str = "") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/vnd.hubbub.reports\r\n"
        f"{headers}Content-Length: {len(message)}\r\n\r\n"
    )
    return head.encode() + message


def run(port: int, pid: int, requests: Iterable[bytes], connections: int = 64) -> Load:
    """Send every request once; raises if any answer is not a 200."""
    selector = selectors.DefaultSelector()
    waiting = iter(requests)
    latencies: list[float] = []
    started_at: dict[socket.socket, float] = {}
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    for _ in range(connections):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(sock, selectors.EVENT_READ)
        started_at[sock] = time.perf_counter()
        sock.sendall(next(waiting))
    while started_at:
        for key, _ in selector.select(30):
            sock = key.fileobj
            answer = sock.recv(65536)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise AssertionError(f"got {answer[:400]!r}")
            now = time.perf_counter()
            latencies.append(now - started_at[sock])
            following = next(waiting, None)
            if following is None:
                selector.unregister(sock)
                del started_at[sock]
                sock.close()
            else:
                started_at[sock] = now
                sock.sendall(following)
    wall = time.perf_counter() - begun
    return Load(len(latencies), cpu_seconds(pid) - cpu, wall, tuple(latencies))
