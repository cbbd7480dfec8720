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


_PROTOCOL = "hubbub.protocol.commands"
_CLIENT = "hubbub.client.commands"

SUBCOMMANDS: dict[str, Subcommand] = {
    "label": Subcommand("the privacy facts of a metrics.toml, in plain words", _PROTOCOL),
    "diff": Subcommand("what a new metrics.toml asks more of people than an old one", _PROTOCOL),
    "peek": Subcommand("one value on its way: mask, memo and three reports side by side", _CLIENT),
    "status": Subcommand("whether an app reports on this machine, why, and what it has spent", _CLIENT),
    "preview": Subcommand("what waits to be sent from this machine, bit by bit", _CLIENT),
    "on": Subcommand("agree to an app's metrics", _CLIENT),
    "off": Subcommand("decline, and delete what waits to be sent", _CLIENT),
    "forget": Subcommand("wipe identity and answers, keep only the epsilon spent", _CLIENT),
    "merge": Subcommand("add up the tally files of several collectors", _PROTOCOL),
}
