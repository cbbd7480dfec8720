"""Runs `hubbub` commands and Python in processes of their own that need not begin with a second of imports.

One process imports what they need and forks for each of them: a hundred commands on the pages cost what ten would. It
is not the test process, so that nothing finds itself under pytest. Python blocks find only other people's libraries
imported, never ours: an import that a page forgets is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE = 120.0
_LOOP = """
import contextlib, io, json, os, signal, sys, tempfile, threading, time, traceback, warnings
import altair, aiohttp.web, scipy.optimize, scipy.stats, vl_convert
theirs = set(sys.modules)
import hubbub.analysis.render.charts, hubbub.analysis.commands.decode, hubbub.analysis.commands.plan
import hubbub.client.commands, hubbub.client.peek, hubbub.collector.commands, hubbub.simulations.audit.command
import hubbub.dashboard.app, hubbub.dashboard.commands, hubbub.collector.serve, hubbub.simulations.simulate.command
import hubbub.simulations.sweep.command
from hubbub.command.main import main


def in_place(out, errors, folder, variables):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    sys.path.insert(0, folder)


def command(words):
    sys.argv = ["hubbub", *words]
    try:
        status = main(words)
    except SystemExit as leaving:
        status = leaving.code or 0
    except BaseException:
        traceback.print_exc()
        status = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run(words, folder, variables):
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            in_place(out.fileno(), out.fileno(), folder, variables)
            command(words)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        return [status, out.read().decode()]


def start(words, folder, variables, terminal, log):
    out = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    child = os.fork()
    if child == 0:
        os.setsid()
        in_place(out, errors, folder, variables)
        command(words)
    os.close(out)
    os.close(errors)
    return child


def stop(child, patience):
    os.kill(child, signal.SIGTERM)
    timer = threading.Timer(patience, os.kill, (child, signal.SIGKILL))
    timer.start()
    os.waitpid(child, 0)
    timer.cancel()
    timer.join()


def python(folder, variables, asked, answered):
    child = os.fork()
    if child == 0:
        in_place(2, 2, folder, variables)
        warnings.simplefilter("error")
        for name in set(sys.modules) - theirs:
            if name.partition(".")[0] == "hubbub":
                del sys.modules[name]
        names = {"__name__": "__main__"}
        with open(asked) as questions, open(answered, "w") as answers:
            for line in questions:
                out, wrong = io.StringIO(), ""
                with contextlib.redirect_stdout(out):
                    try:
                        place, source = json.loads(line)
                        exec(compile(source, place, "exec"), names)
                    except BaseException:
                        wrong = traceback.format_exc()
                print(json.dumps([out.getvalue(), wrong]), file=answers, flush=True)
        sys.exit()  # as an interpreter ends, with all that was left for then
    return child


def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


for line in sys.stdin:
    name, arguments = json.loads(line)
    print(json.dumps(globals()[name](*arguments)), flush=True)
"""


class Hubbub:
    """Answers like the command itself."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def run(self, words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
        """Its exit status and all it printed."""
        status, printed = self._ask("run", list(words), str(folder), dict(variables))
        return status, printed

    def start(self, words: Sequence[str], folder: Path, variables: Mapping[str, str], terminal: str, log: Path) -> int:
        """Begin a command that goes on until it is stopped; its output goes to a terminal, its errors to a file."""
        return int(self._ask("start", list(words), str(folder), dict(variables), terminal, str(log)))

    def stop(self, server: int) -> None:
        self._ask("stop", server, PATIENCE)

    def python(self, folder: Path, variables: Mapping[str, str], asked: Path, answered: Path) -> int:
        """Begin an interpreter that runs what it reads from one pipe and answers into another."""
        return int(self._ask("python", str(folder), dict(variables), str(asked), str(answered)))

    def wait(self, interpreter: int) -> int:
        """Its exit status; it ends when nobody can ask it any more."""
        return int(self._ask("wait", interpreter))

    def _ask(self, name: str, *arguments: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
