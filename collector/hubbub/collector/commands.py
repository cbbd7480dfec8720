"""The collector's commands: collect, export, token, backup, restore."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hubbub.collector.catalog import Catalog
from hubbub.collector.export import Wanted, from_data, from_url, write
from hubbub.collector.http.tokens import ROLES, new_token
from hubbub.collector.serve import check_aiohttp, serve, tls_context
from hubbub.collector.settings import DEFAULTS, HELP, METAVARS, read_settings
from hubbub.collector.storage.backup import backup, restore
from hubbub.protocol.invalid import Invalid


def add_collect(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Every setting is also a HUBBUB_* variable and a key of the --config file; flags win over variables, variables "
        "over the file.\n\nexample:\n  hubbub collect --metrics metrics.toml --data /var/lib/hubbub --host 0.0.0.0"
    )
    for name, text in HELP.items():
        default = DEFAULTS[name]
        shown = f" (default {default})" if isinstance(default, int | float | str | Path) else ""
        parser.add_argument("--" + name.replace("_", "-"), metavar=METAVARS[name], help=text + shown)
    parser.add_argument("--config", metavar="FILE", help="settings in TOML")
    parser.add_argument("--check", action="store_true", help="check settings, registries and certificate, then exit")


def run_collect(arguments: Namespace) -> int:
    flags = {name: getattr(arguments, name) for name in HELP}
    config = arguments.config or os.environ.get("HUBBUB_CONFIG")
    settings = read_settings(flags, os.environ, Path(config) if config else None)
    if arguments.check:
        check_aiohttp()
        catalog = Catalog.load(settings.metrics, settings.older_metrics)
        tls_context(settings)
        print(f"{settings.metrics}: {len(catalog.registry)} metrics; {len(catalog.metrics)} definitions are counted")
        return 0
    return serve(settings, say=_print_now)


def _print_now(line: str) -> None:
    print(line, flush=True)


def add_export(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  hubbub export --url https://telemetry.example.org --token T --out tallies\n"
        "  hubbub export --data /var/lib/hubbub --metric homepage --from 2026-W40 --out tallies"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--url", help="a running collector")
    source.add_argument("--data", metavar="DIR", help="the directory of a collector that is not running")
    parser.add_argument("--token", help="a read token, for --url; or HUBBUB_TOKEN")
    parser.add_argument("--trust", metavar="FILE", help="certificates to trust, for --url")
    parser.add_argument("--metric", help="one metric, by name or hash (default: all)")
    parser.add_argument("--from", dest="start", metavar="PERIOD", help="first day, week or month")
    parser.add_argument("--to", dest="end", metavar="PERIOD", help="last day, week or month")
    parser.add_argument("--out", metavar="DIR", required=True, help="where the tally files go")
    parser.add_argument("--json", action="store_true", help="say what was written as JSON")


def run_export(arguments: Namespace) -> int:
    wanted = Wanted(arguments.metric, arguments.start, arguments.end)
    if arguments.data:
        found = from_data(Path(arguments.data), wanted, time.time)
    else:
        token = arguments.token or os.environ.get("HUBBUB_TOKEN")
        if not token:
            raise Invalid(["token must be given with --url: --token T or HUBBUB_TOKEN"])
        query = {"metric": arguments.metric, "from": arguments.start, "to": arguments.end}
        found = from_url(arguments.url, token, query, Path(arguments.trust) if arguments.trust else None)
    paths = write(found, Path(arguments.out))
    if arguments.json:
        rows = [
            {"file": str(path), "metric": t.metric.name, "epochs": len(t.epochs), "num_reports": t.num_reports}
            for path, t in zip(paths, found, strict=True)
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for path, tally in zip(paths, found, strict=True):
        epochs, reports = _counted(len(tally.epochs), "epoch"), _counted(tally.num_reports, "report")
        print(f"{path}: {tally.metric.name}, {epochs}, {reports}")
    if not found:
        print("nothing has been counted for that", file=sys.stderr)
    return 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def add_backup(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub backup --data /var/lib/hubbub --out /backup/hubbub-2026-11-16"
    parser.add_argument("--data", metavar="DIR", required=True, help="a collector's directory; it may be running")
    parser.add_argument("--out", metavar="DIR", required=True, help="a directory that is not there yet")


def run_backup(arguments: Namespace) -> int:
    reports = backup(Path(arguments.data), Path(arguments.out))
    print(f"{arguments.out}: {_counted(reports, 'report')}")
    return 0


def add_restore(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub restore /backup/hubbub-2026-11-16 --data /var/lib/hubbub"
    parser.add_argument("backup", metavar="BACKUP", help="what `hubbub backup` made")
    parser.add_argument("--data", metavar="DIR", required=True, help="a directory that is not there yet, or empty")


def run_restore(arguments: Namespace) -> int:
    reports = restore(Path(arguments.backup), Path(arguments.data))
    print(f"{arguments.data}: {_counted(reports, 'report')}")
    return 0


def add_token(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub token new --data /var/lib/hubbub --role relay --name gateway"
    parser.add_argument("action", choices=["new"], help="make a token and show it, this once")
    parser.add_argument("--data", metavar="DIR", default=str(DEFAULTS["data"]), help="the collector's directory")
    parser.add_argument("--role", choices=ROLES, default="read", help="what it allows (default read)")
    parser.add_argument("--name", default="unnamed", help="a word to know it by in the tokens file")


def run_token(arguments: Namespace) -> int:
    data = Path(arguments.data)
    if not data.is_dir():
        raise Invalid([f"data must be a collector's directory, got {data}"])
    print(new_token(data / "tokens", arguments.role, arguments.name))
    return 0
