"""Parses the command line, calls one subcommand, turns mistakes into sentences.

Exit status: 0 done; 1 done, and the answer is no (`hubbub diff` found that more is asked); 2 wrong use or bad input;
3 an extra is not installed, or this system lacks a part of Python; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from hubbub.command.table import GROUPS, SUBCOMMANDS, Subcommand

MISSING_EXTRA = 3
WRONG = 2


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _answer(arguments)
        finally:
            sys.stdout.flush()  # here, not at exit, where a reader that has left would be an error
    except BrokenPipeError:  # `hubbub label ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        return _fail(arguments[0] if arguments else "", _in_words(error))
    except KeyboardInterrupt:
        return 130


def _answer(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    name = arguments[0]
    if name in ("-V", "--version"):
        print(f"hubbub {_version()}")
        return 0
    if name not in SUBCOMMANDS:
        return _fail("", f"{name!r} is no hubbub command{_nearest(name)}; `hubbub --help` lists them")
    return _run(name, SUBCOMMANDS[name], arguments[1:])


def _run(name: str, command: Subcommand, arguments: list[str]) -> int:
    try:
        return _call(name, command, arguments)
    except ModuleNotFoundError as error:
        if command.extra is None or (error.name or "").startswith("hubbub"):
            raise
        from hubbub.protocol.missing import needed  # `hubbub --help` loads nothing of the protocol

        _fail(name, needed(error, command.extra))
        return MISSING_EXTRA


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: the usage of a command with many options would push it off the screen."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message}; `{self.prog} --help` lists all\n")


def _call(name: str, command: Subcommand, arguments: list[str]) -> int:
    module = importlib.import_module(command.module)
    parser = _Parser(
        prog=f"hubbub {name}",
        description=command.help[0].upper() + command.help[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    attribute = name.replace("-", "_")
    getattr(module, f"add_{attribute}")(parser)
    status: int = getattr(module, f"run_{attribute}")(parser.parse_args(arguments))
    return status


def _overview() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:<{width}}  {command.help}" for name, command in commands.items())])
        for group, commands in GROUPS.items()
    )
    return (
        "usage: hubbub COMMAND ...\n\n"
        "Telemetry under local differential privacy. One voice is noise; the crowd is signal.\n\n"
        f"{lines}\n\n"
        "`hubbub COMMAND --help` explains a command and shows an example."
    )


def _version() -> str:
    from importlib.metadata import version

    return version("hubbub")


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, SUBCOMMANDS, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _fail(name: str, message: str) -> int:
    command = f"hubbub {name}".strip()
    for line in message.splitlines():
        print(f"{command}: {line}", file=sys.stderr)
    return WRONG
