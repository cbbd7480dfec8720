"""Runs `hubbub` commands in processes of their own that need not begin with a second of imports.

One process imports what the commands need and forks for each of them: a hundred commands on the pages cost what ten
would. It is not the test process, so that no command finds itself under pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_LOOP = """
import json, os, sys, tempfile
import hubbub.analysis.render.charts, hubbub.analysis.commands.decode, hubbub.analysis.commands.plan
import hubbub.client.commands, hubbub.client.peek, hubbub.collector.commands, hubbub.simulations.audit.command
import altair, scipy.stats, vl_convert
from hubbub.command.main import main
for line in sys.stdin:
    words, folder, variables = json.loads(line)
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(variables)
            sys.path.insert(0, folder)
            sys.argv = ["hubbub", *words]
            try:
                status = main(words)
            except SystemExit as leaving:
                status = leaving.code or 0
            except BaseException:
                import traceback
                traceback.print_exc()
                status = 70
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        print(json.dumps([status, out.read().decode()]), flush=True)
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
        self._process.wait(120)
        self._process.stdout.close()

    def run(self, words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
        """Its exit status and all it printed."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([list(words), str(folder), dict(variables)]) + "\n")
        self._process.stdin.flush()
        status, printed = json.loads(self._process.stdout.readline())
        return status, printed
