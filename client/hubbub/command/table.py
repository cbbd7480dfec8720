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
_COLLECTOR = "hubbub.collector.commands"
_STORE = "hubbub.collector.store_commands"
_ANALYSIS = "hubbub.analysis.commands.decode"
_RECOUNT = "hubbub.analysis.commands.recount"
_RELEASE = "hubbub.analysis.commands.release"
_PLAN = "hubbub.analysis.commands.plan"
_DASHBOARD = "hubbub.dashboard.commands"
_AUDIT = "hubbub.simulations.audit.command"
_DEMO = "hubbub.simulations.demo.command"
_REHEARSE = "hubbub.simulations.rehearse.command"
_SIMULATE = "hubbub.simulations.simulate.command"
_SWEEP = "hubbub.simulations.sweep.command"
_EXPERIMENTS = "hubbub.simulations.experiments.command"

GROUPS: dict[str, dict[str, Subcommand]] = {
    "to begin": {
        "demo": Subcommand(
            "the whole loop, live: a collector, a crowd of installs, truth beside estimate", _DEMO, "all"
        ),
        "init": Subcommand("start an app: a commented metrics.toml and a few lines that use it", "hubbub.command.init"),
        "rehearse": Subcommand(
            "your own app's telemetry with a crowd of installs, before anybody has it", _REHEARSE, "all"
        ),
    },
    "what an app asks": {
        "label": Subcommand("the privacy facts of a metrics.toml, in plain words", _PROTOCOL),
        "check": Subcommand("whether a metrics.toml is right, and what in it tells much about people", _PROTOCOL),
        "plan": Subcommand("what must be collected to see something, or what will be seen", _PLAN, "analysis"),
        "diff": Subcommand("what a new metrics.toml asks more of people than an old one", _PROTOCOL),
        "verify": Subcommand("whether a metrics.toml is the one that a release page or package shows", _PROTOCOL),
        "compile": Subcommand("a metrics.toml as the JSON that clients in other languages read", _PROTOCOL),
        "peek": Subcommand("one value on its way: mask, memo and three reports side by side", "hubbub.client.peek"),
    },
    "the person who is asked": {
        "status": Subcommand("whether an app reports on this machine, why, and what it has spent", _CLIENT),
        "preview": Subcommand("what waits to be sent from this machine, bit by bit", _CLIENT),
        "on": Subcommand("agree to an app's metrics", _CLIENT),
        "off": Subcommand("decline, and delete what waits to be sent", _CLIENT),
        "forget": Subcommand("wipe identity and answers, keep only the epsilon spent", _CLIENT),
    },
    "the operator of a collector": {
        "collect": Subcommand(
            "run a collector: acknowledged means durable and counted exactly once", _COLLECTOR, "collector"
        ),
        "token": Subcommand(
            "make, list or revoke tokens: who may read tallies, who may relay", _COLLECTOR, "collector"
        ),
        "stop": Subcommand(
            "throw a metric's reports away from now on, without a word to clients", _COLLECTOR, "collector"
        ),
        "store": Subcommand("make, check or fill a PostgreSQL store that several collectors share", _STORE, "postgres"),
        "backup": Subcommand("copy a running collector's store, whole and at one moment", _COLLECTOR, "collector"),
        "restore": Subcommand("make a collector's directory from a backup", _COLLECTOR, "collector"),
        "repair": Subcommand("save what can be saved of a damaged collector's directory", _COLLECTOR, "collector"),
        "clock": Subcommand("tell a collector that its clock is right, though it jumped", _COLLECTOR, "collector"),
        "purge": Subcommand(
            "list or restore counts that a collector deleted in the last 7 days", _COLLECTOR, "collector"
        ),
    },
    "the analyst": {
        "export": Subcommand("write a collector's tallies to files", _PROTOCOL),
        "merge": Subcommand("add up the tally files of several collectors", _PROTOCOL),
        "recount": Subcommand("tallies anew from kept reports; or whether the counts are right", _RECOUNT, "analysis"),
        "decode": Subcommand("estimates with honest error bars, from tally files", _ANALYSIS, "analysis"),
        "release": Subcommand("figures for the public, with noise on every count, on a budget", _RELEASE, "analysis"),
        "dashboard": Subcommand(
            "estimates in a browser, live, from a collector or from tallies", _DASHBOARD, "dashboard"
        ),
    },
    "is it true, and what if": {
        "audit": Subcommand("measured epsilon of the real client code, against the claim", _AUDIT, "all"),
        "simulate": Subcommand("what an app with so many installs would see, truth beside estimate", _SIMULATE, "all"),
        "sweep": Subcommand("how well a grid of settings does, against theory and the bound", _SWEEP, "all"),
        "experiments": Subcommand("published experiments and attacks, predicted and then run", _EXPERIMENTS, "all"),
    },
    "besides": {
        "completion": Subcommand("a script that completes these commands in your shell", "hubbub.command.completion"),
    },
}
"""By whom they are for, in the order in which one meets them."""

SUBCOMMANDS: dict[str, Subcommand] = {name: command for group in GROUPS.values() for name, command in group.items()}
