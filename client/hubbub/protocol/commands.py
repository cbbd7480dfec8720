"""The commands that need nothing but the protocol: label, diff, merge."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from textwrap import wrap

from hubbub.protocol.changes import changes
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import WIDTH, facts, words
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally, merge


def add_label(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub label metrics.toml"
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry an app ships")
    parser.add_argument("--json", action="store_true", help="the facts as JSON instead of words")


def run_label(arguments: Namespace) -> int:
    registry = Registry.load(arguments.metrics)
    print(json.dumps(facts(registry), indent=2) if arguments.json else words(registry))
    return 0


def add_diff(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 nothing more is asked, 1 more is asked and people must agree anew, 2 a file is wrong\n\n"
        "example:\n  hubbub diff released/metrics.toml metrics.toml"
    )
    parser.add_argument("old", metavar="OLD.TOML", help="the registry people agreed to")
    parser.add_argument("new", metavar="NEW.TOML", help="the registry of the next release")
    parser.add_argument("--json", action="store_true", help="the changes as JSON")


def run_diff(arguments: Namespace) -> int:
    found = changes(Registry.load(arguments.old), Registry.load(arguments.new))
    more = [change for change in found if change.asks_more]
    if arguments.json:
        rows = [{"metric": c.metric, "change": c.text, "asks_more": c.asks_more} for c in found]
        print(json.dumps({"asks_more": bool(more), "changes": rows}, indent=2))
        return int(bool(more))
    for title, group in (
        ("Asks more, so people will be asked again:", more),
        ("Asks no more:", [change for change in found if not change.asks_more]),
    ):
        if group:
            print(title)
            for change in group:
                print(*wrap(str(change), WIDTH, initial_indent="  ", subsequent_indent="    "), sep="\n")
    if not found:
        print("The two registries ask the same.")
    return int(bool(more))


def add_merge(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub merge eu/homepage.json us/homepage.json --out homepage.json"
    parser.add_argument("tallies", metavar="TALLY", nargs="+", help="tally files of one metric")
    parser.add_argument("--out", metavar="FILE", required=True, help="where the sum is written")


def run_merge(arguments: Namespace) -> int:
    merged = merge(_read_tally(path) for path in arguments.tallies)
    if len(merged) > 1:
        names = ", ".join(f"{tally.metric.name} {tally.metric.metric_hash}" for tally in merged.values())
        raise Invalid([f"tallies must be of one definition to be merged, got {names}"])
    (tally,) = merged.values()
    out = Path(arguments.out)
    unfinished = out.with_name(out.name + ".part")
    unfinished.write_text(tally.to_json(), encoding="utf-8")
    unfinished.replace(out)
    epochs = f"{len(tally.epochs)} epoch{'s' * (len(tally.epochs) != 1)}"
    print(f"{out}: {tally.metric.name}, {epochs}, {tally.num_reports} report{'s' * (tally.num_reports != 1)}")
    return 0


def _read_tally(path: str) -> Tally:
    try:
        return Tally.from_json(Path(path).read_bytes())
    except Invalid as error:
        raise Invalid(f"{path}: {problem}" for problem in error.problems) from None
