"""`hubbub` commands in processes of their own that need not begin with a second of imports.

One process imports what commands need, once, and forks for each of them: a hundred collectors cost what twenty would.
It is not the test process, so that nothing finds itself under pytest. It hands what it forked over: the processes that
run tests adopt orphans (leftovers.py), so a command becomes a child of the test that began it, and can be waited for.
Where nobody adopts orphans a command is begun in the plain way.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from tests.leftovers import adopts_orphans

ROOT = Path(__file__).parents[1]
_LOOP = """
import importlib, json, os, signal, socket, sys, traceback
from hubbub.command.main import main


def command(words, folder, variables, fds):
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, 4096)
    sys.stdout = open(1, "w", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["hubbub", *words]
    try:
        status = main(words)
    except SystemExit as leaving:
        status = leaving.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, fds, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    if not message:
        break
    modules, words, folder, variables = json.loads(message)
    for module in modules:
        importlib.import_module(module)
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            asked.detach()
            command(words, folder, variables, fds)
        asked.send(str(child).encode())
        os._exit(0)
    os.waitpid(between, 0)  # now the command is an orphan, and adopted
    asked.send(b".")
    for fd in fds:
        os.close(fd)
"""


class Forked:
    """A running command, with what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float) -> int:
        fd = os.pidfd_open(self.pid) if self.poll() is None else None
        if fd is not None:
            try:
                select.select([fd], [], [], timeout)
            finally:
                os.close(fd)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def begin(
    words: Sequence[str], modules: Sequence[str], *, stderr: IO[bytes], env: Mapping[str, str]
) -> Forked | subprocess.Popen[bytes]:
    """`hubbub WORDS`, whose output can be read from `stdout`. `modules` are what it will import."""
    if not adopts_orphans():
        plain = [sys.executable, "-m", "hubbub.command", *words]
        return subprocess.Popen(plain, stdout=subprocess.PIPE, stderr=stderr, env=env)
    reading, writing = os.pipe()
    with Path(os.devnull).open("rb") as nothing, os.fdopen(writing, "wb") as out:
        message = json.dumps([list(modules), list(words), str(Path.cwd()), dict(env)]).encode()
        forge = _forge()
        socket.send_fds(forge, [message], [nothing.fileno(), out.fileno(), stderr.fileno()])
        pid = int(forge.recv(64))
        assert forge.recv(64) == b"."
    return Forked(pid, os.fdopen(reading, "rb"))


@cache
def _forge() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        _RUNNING.append(
            subprocess.Popen([sys.executable, "-c", _LOOP, str(theirs.fileno())], cwd=ROOT, pass_fds=[theirs.fileno()])
        )
    return ours


_RUNNING: list[subprocess.Popen[bytes]] = []


def end() -> None:
    """When the last test is over."""
    if _RUNNING:
        _forge().close()
        _RUNNING.pop().wait(120)
        _forge.cache_clear()
