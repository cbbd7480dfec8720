"""Bodies that are nearly right, in both formats; every 200 is held against the protocol's own reading of the body."""

from __future__ import annotations

import gzip
import json
import selectors
import socket
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from random import Random

from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import Batch, by_short_hash
from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON, from_json, pack, to_json, unpack
from tests.collector.kit import REGISTRY, random_batch

KNOWN = by_short_hash(REGISTRY)
METRICS = list(REGISTRY)
ODD = [None, True, -1, 0, 1.5, 2**70, "", "x", "00" * 16, [], {}, [[]], {"a": 1}, "\ud800", "é" * 100, 1e308, -(2**31)]


def bodies(random: Random) -> Iterator[tuple[bytes, str, str]]:
    """Endlessly: a body, its Content-Type, its Content-Encoding. One in ten is left as it should be."""
    while True:
        batch = random_batch(
            random, random.sample(METRICS, random.randint(1, 8)), time.time(), epochs=random.choice([1, 1, 3])
        )
        kind = random.random()
        if kind < 0.1:
            yield pack(batch), MEDIA_TYPE, ""
        elif kind < 0.6:
            yield _mutate_packed(pack(batch), random), MEDIA_TYPE, ""
        elif kind < 0.9:
            yield _mutate_json(to_json(batch), random), MEDIA_TYPE_JSON, ""
        elif kind < 0.95:
            yield (
                gzip.compress(_mutate_packed(pack(batch), random), 1),
                MEDIA_TYPE,
                random.choice(["gzip", "deflate", "br"]),
            )
        else:
            yield (
                random.randbytes(random.randint(0, 300)),
                random.choice([MEDIA_TYPE, MEDIA_TYPE_JSON, "text/plain"]),
                "",
            )


def _mutate_packed(message: bytes, random: Random) -> bytes:
    data = bytearray(message)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        at = random.randrange(len(data)) if data else 0
        match random.randrange(6):
            case 0 if data:
                data[at] ^= 1 << random.randrange(8)
            case 1 if data:
                data[at] = random.choice([0, 1, 127, 128, 255])
            case 2:
                del data[at : at + random.randint(1, 20)]
            case 3:
                data[at:at] = random.randbytes(random.randint(1, 20))
            case 4:
                data[at : at + 4] = struct.pack("<I", random.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 65536]))
            case _:
                data += data[: random.randint(0, 64)]
    if random.random() < 0.7 and len(data) >= 32:  # a right length and crc, so that what lies behind them is read
        data[24:28] = struct.pack("<I", len(data) - 32)
        data[28:32] = bytes(4)
        data[28:32] = struct.pack("<I", zlib.crc32(data))
    return bytes(data)


def _mutate_json(document: dict, random: Random) -> bytes:
    for _ in range(random.choice([1, 1, 2])):
        target = (
            document if random.random() < 0.3 or not document.get("reports") else random.choice(document["reports"])
        )
        if not isinstance(target, dict) or not target:
            break
        key = random.choice(list(target))
        match random.randrange(5):
            case 0:
                target[key] = random.choice(ODD)
            case 1:
                del target[key]
            case 2:
                target[str(random.random())] = random.choice(ODD)
            case 3 if isinstance(target[key], int):
                target[key] += random.choice([-1, 1, 1000, -(10**9)])
            case 4 if isinstance(target[key], str) and target[key]:
                at = random.randrange(len(target[key]))
                target[key] = target[key][:at] + random.choice("0fgZ\0\u2028") + target[key][at + 1 :]
        if "reports" not in document or not isinstance(document["reports"], list):
            break
    text = json.dumps(document).encode()
    if random.random() < 0.1:
        at = random.randrange(len(text))
        text = (
            text[:at]
            + random.choice([b"", b"[" * 5000, b'"', b"\xff", b"1e999999"])
            + text[at + random.randint(0, 3) :]
        )
    return text


def judge(body: bytes, media_type: str, encoding: str) -> Batch | None:
    """The batch in a body, as the protocol reads it; epochs and counts are the collector's own affair."""
    try:
        if encoding:
            body = zlib.decompress(body, {"gzip": 31, "deflate": 15}.get(encoding, 8))
        return unpack(body, KNOWN) if media_type == MEDIA_TYPE else from_json(body, KNOWN)
    except (Refused, zlib.error):
        return None


class Fuzzer:
    """Sends bodies over a few connections and keeps what was stored."""

    def __init__(self, port: int, seed: int, connections: int = 16) -> None:
        self._port = port
        self._bodies = bodies(Random(seed))
        self._selector = selectors.DefaultSelector()
        self._connections = connections
        self.statuses: Counter[int] = Counter()
        self.stored: list[Batch] = []
        self.surprises: list[str] = []

    def run(self, count: int) -> None:
        left = count
        for _ in range(min(self._connections, count)):
            self._open()
            left -= 1
        while self._selector.get_map():
            for key, _ in self._selector.select(30):
                open_still = self._receive(key.fileobj, *key.data)
                if open_still is None:
                    continue
                self._selector.unregister(key.fileobj)
                if left and open_still:
                    self._send(key.fileobj)
                    left -= 1
                else:
                    key.fileobj.close()
                    if left:
                        self._open()
                        left -= 1

    def _open(self) -> None:
        self._send(socket.create_connection(("127.0.0.1", self._port)))

    def _send(self, sock: socket.socket) -> None:
        body, media_type, encoding = next(self._bodies)
        head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Encoding: {encoding}\r\n\r\n" if encoding else "\r\n"
        sock.sendall(head.encode() + body)
        self._selector.register(sock, selectors.EVENT_READ, ((body, media_type, encoding), bytearray()))

    def _receive(self, sock: socket.socket, sent: tuple[bytes, str, str], received: bytearray) -> bool | None:
        """Whether the connection can be used again; None while the answer is incomplete."""
        part = sock.recv(65536)
        received += part
        head, found, answer = bytes(received).partition(b"\r\n\r\n")
        if not found:
            if not part:
                self.surprises.append(f"no answer to {sent}")
                return False
            return None
        lines = head.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        if len(answer) < int(headers["content-length"]):
            return None
        status = int(lines[0].split()[1])
        self.statuses[status] += 1
        self._keep(status, answer, sent)
        return headers.get("connection") != "close"

    def _keep(self, status: int, answer: bytes, sent: tuple[bytes, str, str]) -> None:
        document = json.loads(answer)
        batch = judge(*sent)
        if status == 200:
            if batch is None or document["batch_id"] != batch.batch_id.hex():
                self.surprises.append(f"200 for {sent}")
            elif document["status"] == "stored":
                self.stored.append(batch)
        elif status >= 500 or not document["type"].startswith("urn:hubbub:problem:") or not document["detail"]:
            self.surprises.append(f"{status} {document} for {sent}")
        elif batch is not None and status == 400:
            self.surprises.append(f"400 {document} for a batch that the protocol reads: {sent}")
