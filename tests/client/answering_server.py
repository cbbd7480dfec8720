"""A real HTTP server on a loopback port, in a thread, that answers as it is told and remembers what it was sent.

`answer` is a function from the body of a request to one of: an `Answer`; bytes, written to the socket as they are
before it is closed; `HANG`, which says nothing for as long as the server lives; `DRIP`, which sends a byte now and then
for as long; `RESET`, which breaks the connection.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hubbub.client import Answer
from hubbub.protocol.refusal import PROBLEM_MEDIA_TYPE, Refused

HANG = object()
DRIP = object()
RESET = object()


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


def stored(body: bytes, status: str = "stored") -> Answer:
    """What a collector says to a batch that it has, or already had."""
    return Answer(200, json.dumps({"status": status, "batch_id": batch_id(body).hex()}).encode())


def batch_id(body: bytes) -> bytes:
    return body[8:24]


def problem(reason: str, status: int | None = None, **headers: str) -> Answer:
    """The collector's own refusal; with another `status`, one that it would never give."""
    refused = Refused(reason, "told by a test")
    document = json.dumps(refused.to_json()).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status or refused.status, document, {"Content-Type": PROBLEM_MEDIA_TYPE, **named})


class AnsweringServer:
    def __init__(self, answer: Callable[[bytes], Any] = stored, certificate: Path | None = None) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self.connections = 0
        self.over = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The handshake belongs to the thread of the connection: a client that refuses must not stop the others.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def bodies(self) -> list[bytes]:
        return [received.body for received in self.received]

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> AnsweringServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    owner: AnsweringServer
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def process_request(self, request: Any, client_address: Any) -> None:
        self.owner.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that turn away are the point of many tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        owner = self.server.owner
        owner.received.append(Received(self.path, dict(self.headers.items()), body))
        answer = owner.answer(body)
        if answer is HANG:
            owner.over.wait()
        elif answer is DRIP:
            self._drip()
        elif answer is RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif isinstance(answer, bytes):
            self.wfile.write(answer)
        else:
            self._send(answer)
        self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()  # a redirect that is followed would come as one

    def _drip(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not self.server.owner.over.wait(0.05):
                self.wfile.write(b" ")

    def _send(self, answer: Answer) -> None:
        with suppress(OSError):
            self.send_response_only(answer.status)
            for name, text in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Not in the output of tests."""
