"""Several collector processes on one port (`--workers`), on a store that they share. The system spreads connections.

The first process only looks after the others: it passes SIGTERM, SIGINT and SIGHUP on, starts a worker again that died,
and ends when all have. A worker that ends before it collects ends them all: the next one would not do better.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.settings import Settings

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PAUSE_SECONDS = 1.0  # before a worker that died is started again

Serve = Callable[[Settings, Callable[[str], None]], int]


class Workers:
    """So many processes that run `serve`. `say` is for what the first of them has to say at its start."""

    def __init__(self, settings: Settings, serve: Serve, say: Callable[[str], None]) -> None:
        self._serve = serve
        self._say = say
        self._held, self._settings = _with_port(settings)
        self._pids: dict[int, int] = {}  # the number of each worker by its process
        self._collecting: set[int] = set()
        self._stopping = False
        self._status = 0
        self._operator_log = OperatorLog()

    def run(self) -> int:
        """Until all have ended; the first status that was not 0."""
        for number in _PASSED_ON:
            signal.signal(number, self._pass_on)
        try:
            greetings = [self._start(worker) for worker in range(self._settings.workers)]
            for line in greetings[0]:
                self._say(line)
            while self._pids:
                self._look_after(*os.wait())
        finally:
            if self._held is not None:
                self._held.close()
        return self._status

    def _start(self, worker: int) -> list[str]:
        """Returns when it collects, with what it says then, or has died."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            self._work(worker, writing)
        os.close(writing)
        self._pids[pid] = worker
        with open(reading, "rb") as told:  # noqa: PTH123  # a descriptor
            lines = told.read().decode().splitlines()
        if lines:
            self._collecting.add(pid)
        if self._stopping:
            os.kill(pid, signal.SIGTERM)  # it was told before it could listen
        return lines

    def _work(self, worker: int, writing: int) -> None:
        """In the worker's own process, which this never leaves."""
        status = 1
        for number in _PASSED_ON:  # until it listens: there is nothing to reload yet, and nothing to drain
            signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        told = os.fdopen(writing, "w")

        def say(line: str) -> None:
            told.write(line + "\n")
            if line.startswith("  data "):  # the last line of the greeting
                told.close()

        try:
            status = self._serve(self._settings, say)
        except BaseException as error:  # noqa: BLE001  # words for the operator; nothing above this belongs to us
            self._operator_log.error(str(error), worker=worker)
        finally:
            os._exit(status)

    def _look_after(self, pid: int, raw: int) -> None:
        worker, status = self._pids.pop(pid), os.waitstatus_to_exitcode(raw)
        collected = pid in self._collecting
        self._collecting.discard(pid)
        if self._stopping or not collected:
            told_early = self._stopping and status in (-signal.SIGTERM, -signal.SIGINT)
            self._status = self._status or (0 if told_early else abs(status))
            if not self._stopping:
                self._pass_on(signal.SIGTERM)
            return
        self._operator_log.error("a worker died and is started again", worker=worker, status=status)
        time.sleep(_PAUSE_SECONDS)
        self._start(worker)

    def _pass_on(self, number: int, _: object = None) -> None:
        self._stopping = self._stopping or number != signal.SIGHUP
        for pid in self._pids:
            with suppress(ProcessLookupError):  # it has just ended, and is still on the list
                os.kill(pid, number)


def _with_port(settings: Settings) -> tuple[socket.socket | None, Settings]:
    """One port for all. A free one is held, without listening, so that nobody else gets it."""
    if settings.port:
        return None, settings
    family = socket.getaddrinfo(settings.host, 0, type=socket.SOCK_STREAM)[0][0]
    held = socket.socket(family)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((settings.host, 0))
    return held, replace(settings, port=held.getsockname()[1])
