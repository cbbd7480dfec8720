"""Whatever a session waits for is given up in the end, also what is said on a connection before anything is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hubbub.collector.postgres.session import Session, Unreachable, Watch


class SwallowsAfterTheGreeting:
    """Lets a connection begin, and swallows what is said once it has: a middleman whose other side has gone."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=[near], daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._target), 5) as far:
            threading.Thread(target=self._answers, args=[far, near], daemon=True).start()
            while data := near.recv(65536):
                if data[:1] not in (b"Q", b"P"):  # a query; everything before it is the greeting
                    far.sendall(data)

    @staticmethod
    def _answers(far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def middleman(postgres) -> Iterator[str]:
    """The address of the database through it."""
    found = SwallowsAfterTheGreeting(postgres.port)
    yield postgres.url("postgres").replace(f":{postgres.port}", f":{found.port}")
    found.close()


def test_a_connection_whose_settings_are_swallowed_is_given_up(middleman) -> None:
    session = Session(middleman, 1.0)
    watch, ended = Watch([session]), []

    def work() -> None:
        try:
            session.run(lambda connection: connection.execute("select 1"))
        except Unreachable as error:
            ended.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    watch.end()
    assert ended, "it waits for ever"
    session.close()
