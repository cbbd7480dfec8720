"""Every subcommand: what it is for, the module that knows how, and the extra that module needs.

A module listed here has a function `add_<command>(parser)` that declares arguments, and `run_<command>(arguments)`
that does the work and returns an exit status. Nothing is imported before the command is known: `hubbub --help` works
on a bare install.
"""

from __future__ import annotations

from typing import NamedTuple


class Subcommand(NamedTuple):
    help: str
    module: str
    extra: str | None = None


_LABEL = "hubbub.protocol.commands"

SUBCOMMANDS: dict[str, Subcommand] = {
    "label": Subcommand("the privacy facts of a metrics.toml, in plain words", _LABEL),
    "diff": Subcommand("what a new metrics.toml asks more of people than an old one", _LABEL),
    "merge": Subcommand("add up the tally files of several collectors", _LABEL),
}
