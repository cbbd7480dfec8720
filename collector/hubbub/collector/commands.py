"""The collector's commands: collect, token, stop, backup, restore, clock, purge, repair.

Each imports what it needs when it runs: the server takes half a second to load, and whoever makes a token waits for
none of it.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.operator_places import Place, add_place, place_of
from hubbub.collector.settings import DEFAULTS, HELP, METAVARS, Settings, read_settings, unknown_variables
from hubbub.collector.stopped import doubts_about
from hubbub.collector.tokens import ROLES
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.printed import text_table


def add_collect(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Every setting is also a HUBBUB_* variable and a key of the --config file; flags win over variables, variables "
        "over the file.\n\nexample:\n  hubbub collect --metrics metrics.toml --data /var/lib/hubbub --host 0.0.0.0"
    )
    for name, text in HELP.items():
        default = DEFAULTS[name]
        if isinstance(default, bool):
            default = "yes" if default else "no"
        shown = f" (default {default})" if isinstance(default, int | float | str | Path) else ""
        option = parser.add_argument("--" + name.replace("_", "-"), metavar=METAVARS[name], help=text + shown)
        if isinstance(DEFAULTS[name], bool):  # `--rehearsal` is a yes
            option.nargs, option.const = "?", "yes"
    parser.add_argument("--config", metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--check", action="store_true", help="check settings, registries, certificate, port and directory, then exit"
    )
    parser.add_argument("--accept-clock", action="store_true", help="the clock is right, whatever the last stop says")


def run_collect(arguments: Namespace) -> int:
    flags = {name: getattr(arguments, name) for name in HELP}
    config = arguments.config or os.environ.get("HUBBUB_CONFIG")

    def read() -> Settings:
        return read_settings(flags, os.environ, Path(config) if config else None)

    settings = read()
    for sentence in unknown_variables(os.environ):
        OperatorLog().warning(sentence)
    if arguments.check:
        from hubbub.collector.start_check import check_start

        print("\n".join(check_start(settings)))
        return 0

    from hubbub.collector.serve import serve
    from hubbub.collector.workers import Workers

    def collect(settings: Settings, say: Callable[[str], None]) -> int:
        return serve(settings, say, accept_clock=arguments.accept_clock, on_terminal=sys.stdout.isatty(), reread=read)

    if settings.workers > 1:
        return Workers(settings, collect, _print_now).run()
    return collect(settings, _print_now)


def _print_now(line: str) -> None:
    print(line, flush=True)


def add_backup(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub backup --data /var/lib/hubbub --out /backup/hubbub-2026-11-16"
    parser.add_argument("--data", metavar="DIR", required=True, help="a collector's directory; it may be running")
    parser.add_argument("--out", metavar="DIR", required=True, help="a directory that is not there yet")


def run_backup(arguments: Namespace) -> int:
    from hubbub.collector.storage.backup import backup

    reports = backup(Path(arguments.data), Path(arguments.out))
    print(f"{arguments.out}: {plural(reports, 'report')}")
    return 0


def add_restore(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub restore /backup/hubbub-2026-11-16 --data /var/lib/hubbub"
    parser.add_argument("backup", metavar="BACKUP", help="what `hubbub backup` made")
    parser.add_argument("--data", metavar="DIR", required=True, help="a directory that is not there yet, or empty")


def run_restore(arguments: Namespace) -> int:
    from hubbub.collector.storage.backup import restore

    reports = restore(Path(arguments.backup), Path(arguments.data))
    print(f"{arguments.data}: {plural(reports, 'report')}")
    return 0


def add_clock(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub clock accept --data /var/lib/hubbub"
    parser.add_argument("action", choices=["accept"], help="say that the clock is right, though it jumped")
    add_place(parser, "a collector's directory; it may be running", required=True)


def run_clock(arguments: Namespace) -> int:
    place = place_of(arguments)
    place.accept_clock()
    print(f"{place.name}: the clock is accepted within a second, or at the next start")
    return 0


def add_purge(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub purge restore --data /var/lib/hubbub --metric language"
    parser.add_argument("action", choices=["list", "restore"], help="show what can be had back, or put it back")
    add_place(parser, "the directory of a collector that is not running", required=True)
    parser.add_argument("--metric", metavar="NAME", help="restore only this one")


def run_purge(arguments: Namespace) -> int:
    place = place_of(arguments)
    if arguments.action == "list":
        found = place.purged()
        for item in found:
            left = plural(item.days_left, "day")
            print(f"{item.metric}  {item.epoch}  {plural(item.reports, 'report')}, deleted for good in {left}")
        print(f"{place.name}: {plural(len(found), 'purged epoch')}")
        return 0
    found = place.restore_purged(arguments.metric)
    reports = sum(item.reports for item in found)
    print(f"{place.name}: {plural(len(found), 'epoch')} restored, {plural(reports, 'report')}")
    print("Before the next start, see that the clock and the retention of these metrics are right: what is still past")
    print("its retention is purged again.")
    return 0


def add_repair(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub repair --data /var/lib/hubbub --out /var/lib/hubbub-repaired"
    parser.add_argument("--data", metavar="DIR", required=True, help="a damaged collector's directory; it is only read")
    parser.add_argument("--out", metavar="DIR", required=True, help="a directory that is not there yet")


def run_repair(arguments: Namespace) -> int:
    from hubbub.collector.storage.backup import count_reports
    from hubbub.collector.storage.repair import repair

    lost = repair(Path(arguments.data), Path(arguments.out))
    for line in lost:
        print(f"lost: {line}")
    print(f"{arguments.out}: {plural(count_reports(Path(arguments.out)), 'report')}")
    print("Nothing is lost." if not lost else "What is listed is lost unless a backup has it; all else was saved.")
    return 1 if lost else 0


def add_token(parser: ArgumentParser) -> None:
    parser.epilog = (
        "A running collector takes a change up within a second.\n\nexamples:\n"
        "  hubbub token new --data /var/lib/hubbub --role relay --name gateway\n"
        "  hubbub token list --data /var/lib/hubbub\n"
        "  hubbub token revoke gateway --data /var/lib/hubbub"
    )
    parser.add_argument(
        "action", choices=["new", "list", "revoke"], help="make a token and show it, this once; or list, or take away"
    )
    parser.add_argument("revoked", metavar="NAME", nargs="?", help="which to revoke")
    add_place(parser, "the collector's directory")
    parser.add_argument("--role", choices=ROLES, default="read", help="what a new one allows (default read)")
    parser.add_argument("--name", default="unnamed", help="a word to know a new one by")


def run_token(arguments: Namespace) -> int:
    if (arguments.revoked is None) is (arguments.action == "revoke"):
        raise Invalid(["NAME must be given to `hubbub token revoke`, and to no other action"])
    place = place_of(arguments)
    match arguments.action:
        case "new":
            print(place.new_token(arguments.role, arguments.name))
        case "revoke":
            revoked = place.revoke_tokens(arguments.revoked)
            print(f"{plural(revoked, 'token')} named {arguments.revoked} revoked")
        case _:
            _list_tokens(place)
    return 0


def add_stop(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Reports of a stopped metric are accepted and thrown away; clients are told nothing.\n"
        "A running collector takes a change up within a second. A name that no metric\n"
        "has yet is stopped as well, and the command says so.\n\nexamples:\n"
        "  hubbub stop homepage --data /var/lib/hubbub\n"
        "  hubbub stop --list --data /var/lib/hubbub\n"
        "  hubbub stop homepage --undo --data /var/lib/hubbub"
    )
    parser.add_argument("metric", metavar="NAME", nargs="?", help="the metric, all of its definitions")
    add_place(parser, "the collector's directory")
    parser.add_argument("--list", action="store_true", help="show what is stopped")
    parser.add_argument("--undo", action="store_true", help="count it again from now on")


def run_stop(arguments: Namespace) -> int:
    if arguments.list is (arguments.metric is not None) or (arguments.list and arguments.undo):
        raise Invalid(["either NAME or --list must be given"])
    place = place_of(arguments)
    if arguments.list:
        print("\n".join(place.stopped()) or "no metric is stopped")
    elif arguments.undo:
        place.undo_stop(arguments.metric)
        print(f"{arguments.metric} is counted again; what came meanwhile is gone")
    else:
        place.stop_metric(arguments.metric)
        print(f"{arguments.metric} is stopped: its reports are accepted and thrown away")
        if doubts := doubts_about(arguments.metric, place.metrics()):
            print(doubts)
    return 0


def _list_tokens(place: Place) -> None:
    tokens, bad_lines = place.tokens()
    rows = [(token.name, token.role, token.digest.hex()[:8]) for token in tokens]
    print("\n".join(text_table(("name", "role", "SHA-256 begins with"), rows, left=(0, 1, 2), longest=None)))
    for number in bad_lines:
        print(f"line {number} of {Path(place.name) / 'tokens'} is not a token and lets nobody in")
