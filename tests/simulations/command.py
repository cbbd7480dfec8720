"""`hubbub`, called within this process: starting a Python for every sentence would take longer than saying it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from hubbub.command.main import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def hubbub(*arguments: str) -> Done:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(arguments)
    return Done(status, out.getvalue(), err.getvalue())
