"""The commands that need nothing but the protocol: label, check, verify, diff, compile, export, merge."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

from hubbub.protocol.arguments import number, whole
from hubbub.protocol.changes import changes
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.label import WIDTH, facts, in_fours, short, words
from hubbub.protocol.lint import warnings
from hubbub.protocol.missing import needed
from hubbub.protocol.pair import PairTally
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import in_words
from hubbub.protocol.tally import Tally, by_segment, merge
from hubbub.protocol.tally_files import (
    HandedOut,
    Wanted,
    Withheld,
    fetch_answer,
    fetch_pair_answer,
    read_any_tally,
    write_tallies,
    write_tally,
)

T = TypeVar("T", Tally, PairTally)


def add_label(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  hubbub label metrics.toml\n"
        "  hubbub label metrics.toml --html privacy.html --language de\n"
        "  hubbub label metrics.toml --installs 100000 --weeks 52\n"
        "  hubbub label metrics.toml --installs 100000 --chart guessing.svg\n"
        "\n"
        "The chart has a line for each metric: whoever guesses your answer from published figures and is wrong about\n"
        "others so often (false alarms) is wrong about you at least so often (missed). The nearer the line is to the\n"
        "diagonal, blind guessing, the less can be learnt."
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry an app ships")
    parser.add_argument("--json", action="store_true", help="the facts as JSON instead of words")
    parser.add_argument(
        "--html", metavar="FILE", help="write the page for the people who are asked: one file, with pictures"
    )
    parser.add_argument("--short", action="store_true", help="a few lines to ask for consent with")
    parser.add_argument("--language", choices=("en", "de", "fr"), help="with --html: of the page (default: en)")
    parser.add_argument(
        "--installs",
        metavar="N",
        type=whole,
        help="also say what someone learns who sees only published figures of so many installs",
    )
    parser.add_argument("--weeks", type=whole, help="with --installs: of how many weeks (default: 52)")
    parser.add_argument("--delta", type=number, help="with --installs: but for this chance in all (default: 1e-9)")
    parser.add_argument(
        "--chart",
        metavar="FILE",
        help="with --installs: also draw how well anybody could guess from published figures, as .svg, .png or .html",
    )


def _write_page(registry: Registry, arguments: Namespace) -> int:
    from hubbub.protocol.privacy_page import privacy_page

    for name in ("json", "installs", "chart"):
        if getattr(arguments, name):
            raise Invalid([f"--html writes a page of the registry alone, got --{name}, too"])
    Path(arguments.html).write_text(privacy_page(registry, arguments.language or "en"), encoding="utf-8")
    print(arguments.html)
    return 0


def run_label(arguments: Namespace) -> int:
    registry = Registry.load(arguments.metrics)
    if arguments.html is not None:
        return _write_page(registry, arguments)
    if arguments.language is not None:
        raise Invalid([f"--language is for --html FILE, got it without: {arguments.language!r}"])
    if arguments.short:
        print(short(registry))
        return 0
    label, said = facts(registry), words(registry)
    if arguments.installs is not None:
        reader = _reader_label(registry, arguments)
        label, said = {**label, "published_figures": reader.facts()}, f"{said}\n\n{reader.words()}"
        if arguments.chart is not None:
            import_module("hubbub.analysis.publishing.reader_chart").draw(reader, arguments.chart)
    elif any(given is not None for given in (arguments.weeks, arguments.delta, arguments.chart)):
        raise Invalid(["--weeks, --delta and --chart are for --installs N, got them without"])
    print(json.dumps(label, indent=2) if arguments.json else said)
    return 0


def _reader_label(registry: Registry, arguments: Namespace) -> Any:
    # By name, because the accounting is the analyst's and needs its packages; the label alone needs none of them.
    try:
        make = import_module("hubbub.analysis.publishing.reader_words").ReaderLabel
    except ImportError as error:
        raise Invalid([f"--installs {needed(error, 'analysis')}"]) from None
    if arguments.installs < 1:
        raise Invalid([f"--installs must be at least 1, got {arguments.installs}"])
    given = {name: getattr(arguments, name) for name in ("weeks", "delta") if getattr(arguments, name) is not None}
    return make(registry, arguments.installs, **given)


def add_check(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 every file is right, 1 with --strict there are warnings, 2 a file is wrong\n\n"
        "example:\n  hubbub check metrics.toml"
    )
    parser.add_argument("files", metavar="METRICS.TOML", nargs="+", help="registries")
    parser.add_argument("--strict", action="store_true", help="warnings make the exit status 1")


def run_check(arguments: Namespace) -> int:
    wrong: list[str] = []
    doubts = 0
    for path in arguments.files:
        try:
            registry = Registry.load(path)
        except Invalid as error:
            wrong.extend(error.problems)
            continue
        found = warnings(registry, datetime.now(UTC).date())
        doubts += len(found)
        for doubt in found:
            print(*wrap(f"{path}: warning: {doubt}", WIDTH, subsequent_indent="    "), sep="\n")
        print(f"{path}: right, {plural(len(registry), 'metric')}, {in_fours(registry.fingerprint)}")
    if wrong:
        raise Invalid(wrong)
    return int(arguments.strict and doubts > 0)


def add_verify(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 the same, 1 another or none is shown there, 2 something is wrong\n\n"
        "The collector's own address is refused: it could show every person another registry.\n\n"
        "example:\n  hubbub verify metrics.toml released/metrics.toml"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry on this machine")
    parser.add_argument(
        "source", metavar="SOURCE", help="a release page or package (wheel, zip, tar), as a file or https address"
    )


def run_verify(arguments: Namespace) -> int:
    from hubbub.protocol.published import fingerprints_in

    registry = Registry.load(arguments.metrics)
    shown, mine = fingerprints_in(arguments.source, registry), registry.fingerprint
    if mine in shown:
        print(f"The same: {in_fours(mine)}")
        return 0
    there = ", ".join(in_fours(found) for found in sorted(shown)) or "none"
    print(f"Not the same: {in_fours(mine)} here, {there} in {arguments.source}")
    return 1


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


def add_compile(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 written, or the same; 1 with --check the file is another; 2 the registry is wrong, or cannot\n"
        "be compiled\n\n"
        "example:\n  hubbub compile metrics.toml --out metrics.json"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry an app ships")
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="where the compiled registry goes, such as metrics.json"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say whether FILE is what would be written")


def run_compile(arguments: Namespace) -> int:
    from hubbub.protocol.compiled import compiled_text

    registry, out = Registry.load(arguments.metrics), Path(arguments.out)
    if out.exists() and out.samefile(arguments.metrics):
        raise Invalid([f"--out must be another file than the registry, got {arguments.out}"])
    try:
        text = compiled_text(registry)
    except Invalid as error:
        raise Invalid(f"{arguments.metrics}: {problem}" for problem in error.problems) from None
    if arguments.check:
        same = out.exists() and out.read_bytes() == text.encode("ascii")
        said = "the same" if same else f"not what {arguments.metrics} compiles to"
        print(f"{out}: {said}, {in_fours(registry.fingerprint)}")
        return int(not same)
    out.write_text(text, encoding="ascii", newline="\n")
    print(f"{out}: {plural(len(registry), 'metric')}, {in_fours(registry.fingerprint)}")
    return 0


def add_export(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  hubbub export --url https://telemetry.example.org --token T --out tallies\n"
        "  hubbub export --data /var/lib/hubbub --metric homepage --from 2026-W40 --out tallies"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--url", help="a running collector")
    source.add_argument("--data", metavar="DIR", help="the directory of a collector that is not running")
    source.add_argument("--store", metavar="URL", help="the postgresql:// address of the store that collectors share")
    parser.add_argument("--token", help="a read token, for --url; or HUBBUB_TOKEN")
    parser.add_argument("--trust", metavar="FILE", help="certificates to trust, for --url")
    parser.add_argument("--metric", help="one metric, by name or hash (default: all)")
    parser.add_argument("--from", dest="start", metavar="PERIOD", help="first day, week or month")
    parser.add_argument("--to", dest="end", metavar="PERIOD", help="last day, week or month")
    parser.add_argument(
        "--by", metavar="KEY", help="of segments tell only this key apart, such as release (default: all of them)"
    )
    parser.add_argument("--out", metavar="DIR", required=True, help="where the tally files go")
    parser.add_argument("--json", action="store_true", help="say what was written as JSON")


def run_export(arguments: Namespace) -> int:
    wanted = Wanted(arguments.metric, arguments.start, arguments.end)
    if arguments.data or arguments.store:
        answer = _in_store(arguments.data, arguments.store, wanted)
    else:
        token = arguments.token or os.environ.get("HUBBUB_TOKEN")
        if not token:
            raise Invalid(["token must be given with --url: --token T or HUBBUB_TOKEN"])
        answer = fetch_answer(arguments.url, token, wanted, arguments.trust)
        pairs = fetch_pair_answer(arguments.url, token, wanted, arguments.trust)
        answer = HandedOut(answer.tallies, [*answer.withheld, *pairs.withheld], pairs.pairs)
    found: list[Tally | PairTally] = [
        *_told_apart(answer.tallies, arguments.by),
        *_told_apart(answer.pairs, arguments.by),
    ]
    paths = write_tallies(found, arguments.out)
    for line in _withheld(answer.withheld):
        print(line, file=sys.stderr)
    if arguments.json:
        rows = [
            {
                "file": str(path),
                "metric": t.metric.name,
                "segment": dict(t.metric.segment),
                "epochs": len(t.epochs),
                "num_reports" if isinstance(t, Tally) else "num_batches": _size(t),
            }
            for path, t in zip(paths, found, strict=True)
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for path, tally in zip(paths, found, strict=True):
        print(f"{path}: {_contents(tally)}")
    if not found and not answer.withheld:
        print("nothing has been counted for that", file=sys.stderr)
    return 0


def _told_apart(tallies: list[T], key: str | None) -> list[T]:
    if not key or not tallies:
        return tallies
    return [tally for some in by_segment(tallies, key).values() for tally in some]


def _size(tally: Tally | PairTally) -> int:
    return tally.num_reports if isinstance(tally, Tally) else tally.num_batches


def _withheld(items: list[Withheld]) -> list[str]:
    """A line for each metric of which reports are not handed out yet."""
    by_metric: dict[str, list[Withheld]] = {}
    for item in items:
        by_metric.setdefault(item.metric, []).append(item)
    lines = []
    for name, found in by_metric.items():
        reports = sum(item.num_reports for item in found)
        where = f"{reports} of {found[0].min_reports}" if len(found) == 1 else f"{reports} in {len(found)} epochs"
        lines.append(f"{name}: withheld: {where}; counts are shown in steps of at least {found[0].min_reports} reports")
    return lines


def _in_store(data: str | None, address: str | None, wanted: Wanted) -> HandedOut:
    # By name, because the store is the collector's and needs its packages; a collector that runs needs none of them.
    flag, extra = ("--data", "collector") if address is None else ("--store", "postgres")
    try:
        export = import_module("hubbub.collector.export")
        found: HandedOut = (
            export.from_database(address, wanted) if data is None else export.from_data(Path(data), wanted, time.time)
        )
    except ImportError as error:
        raise Invalid([f"{flag} {needed(error, extra)}; or ask a running collector, --url"]) from None
    return found


def add_merge(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub merge eu/homepage.json us/homepage.json --out homepage.json"
    parser.add_argument("tallies", metavar="TALLY", nargs="+", help="tally files of one metric, or of one pair")
    parser.add_argument("--out", metavar="FILE", required=True, help="where the sum is written")


def run_merge(arguments: Namespace) -> int:
    read = [read_any_tally(Path(path)) for path in arguments.tallies]
    merged: dict[str, Tally | PairTally] = {
        **merge(tally for tally in read if isinstance(tally, Tally)),
        **merge(tally for tally in read if isinstance(tally, PairTally)),
    }
    if len(merged) > 1:
        names = ", ".join(f"{tally.metric.name} {tally.metric.metric_hash}" for tally in merged.values())
        raise Invalid([f"tallies must be of one definition to be merged, got {names}"])
    (tally,) = merged.values()
    path = write_tally(tally, Path(arguments.out))
    print(f"{path}: {_contents(tally)}")
    return 0


def _contents(tally: Tally | PairTally) -> str:
    what = ", ".join(filter(None, (tally.metric.name, in_words(tally.metric.segment))))
    counted = plural(_size(tally), "report" if isinstance(tally, Tally) else "message")
    return f"{what}, {plural(len(tally.epochs), 'epoch')}, {counted}"
