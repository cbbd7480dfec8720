"""Where the client's threads use TLS, and how they leave it before the process ends.

OpenSSL frees its tables when a process exits, whether or not a thread still reads them. To load the trusted
certificates takes a tenth of a second outside of Python's lock: an app that ends within it would crash. So none of our
threads is inside OpenSSL without having come in here, and the end of the process waits until all are out. Who waits for
the network is cut off: an app's end does not wait for a server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket


PATIENCE = 10.0
"""Seconds that the end of the process waits for work that has begun: longer than it takes on the slowest of machines,
because to go before it is done would be a crash."""


class Ended(Exception):
    """The process ends: there is no TLS any more."""


class TlsUse:
    """Which threads are inside OpenSSL, and on which connection."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: dict[int, socket | None] = {}
        self.ended = False

    @contextmanager
    def without_connection(self) -> Iterator[None]:
        """For work of this thread that waits for nobody. Raises `Ended`."""
        self._enter(None)
        try:
            yield
        finally:
            self.leave()

    def on(self, connection: socket) -> None:
        """This thread begins to use TLS on a connection, until it leaves. Raises `Ended`."""
        copy = connection.dup()  # which stays good: TLS takes the file of the one that is given to it
        try:
            self._enter(copy)
        except Ended:
            copy.close()
            raise

    def _enter(self, connection: socket | None) -> None:
        with self._changed:
            if self.ended:
                raise Ended
            self._inside[threading.get_ident()] = connection

    def leave(self) -> None:
        """This thread is done with TLS, if it ever used it."""
        with self._changed:
            connection = self._inside.pop(threading.get_ident(), None)
            self._changed.notify_all()
        if connection is not None:
            connection.close()

    def end(self, patience: float = PATIENCE) -> None:
        """Let nobody in any more, cut off the connections, and wait until all are out, `patience` seconds at most."""
        with self._changed:
            self.ended = True
            for connection in self._inside.values():
                if connection is not None:
                    with suppress(OSError):  # the other side was faster
                        connection.shutdown(2)  # SHUT_RDWR, without an import that costs every start
            self._changed.wait_for(lambda: not self._inside, patience)


in_use = TlsUse()
"""Of this process."""


def begin_again_in_child() -> None:
    """After a fork: those inside are threads of the parent."""
    global in_use
    in_use = TlsUse()
