"""The command that makes figures for the public: release."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubbub.analysis.candidates_file import paths_by_metric, read_candidates
from hubbub.analysis.commands.decode import add_candidates
from hubbub.analysis.commands.once import Once
from hubbub.analysis.options import Options
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.ledger import Budget, open_ledger
from hubbub.analysis.publishing.published_segments import Division, divided
from hubbub.analysis.publishing.release import news, release, require_outputs
from hubbub.analysis.publishing.released_file import document, to_csv, to_json, verify
from hubbub.analysis.publishing.released_page import to_html
from hubbub.protocol.arguments import number, whole
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally, undivided
from hubbub.protocol.tally_files import read_tallies

LEDGER = "release.ledger"
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?([eE]-?[0-9]{1,2})?")


def add_release(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  hubbub release tallies/dark_theme.json --out figures.html --out figures.json --budget 3,1e-9\n"
        "  hubbub release tallies/homepage.json --candidates domains.txt --count-noise gaussian:60 --out sites.csv "
        "--ledger sites.ledger --budget 9,1e-9\n"
        "  hubbub release --verify figures.json\n"
        "\n"
        "exit status: 0 done, 1 with --verify: a statement does not follow from the file, 2 wrong use or no budget left"
    )
    parser.add_argument("tallies", metavar="TALLY", nargs="*", help="tally files, or folders of them")
    parser.add_argument(
        "--out", metavar="FILE", action="append", default=[], help=".json, .csv or .html; may be repeated"
    )
    parser.add_argument(
        "--count-noise",
        metavar="NOISE",
        default="gaussian:20",
        help="on the number of reports and on every bit's count: gaussian:DEVIATION or laplace:EPSILON "
        "(default: gaussian:20)",
    )
    parser.add_argument(
        "--budget",
        metavar="EPSILON,DELTA",
        help="the most that all releases together may tell about whether an install took part; for a new ledger",
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help=f"what was published (default: {LEDGER} beside the first TALLY)"
    )
    add_candidates(parser)
    parser.add_argument("--confidence", type=number, default=0.95, help="of the intervals (default: 0.95)")
    parser.add_argument(
        "--by", metavar="KEY", action=Once, help="figures of each platform or release by itself; with --metrics"
    )
    parser.add_argument("--metrics", metavar="FILE", help="the registry that declares the values of KEY")
    parser.add_argument(
        "--top", metavar="K", type=whole, help="with --by: only the K values with the most reports, chosen with noise"
    )
    parser.add_argument(
        "--choice-epsilon",
        metavar="EPSILON",
        default="0.1",
        help="what each of these K choices may tell about whether an install took part (default: 0.1)",
    )
    parser.add_argument(
        "--again", action="store_true", help="also what was published before and has grown since; spends again"
    )
    parser.add_argument(
        "--same-collector",
        action="store_true",
        help="the ledger is of these tallies' collector, though none of its published counts are kept any more",
    )
    parser.add_argument("--verify", metavar="FILE", help="whether a file's statements follow from what stands in it")


def run_release(arguments: Namespace) -> int:
    if arguments.verify is not None:
        return _verify(arguments)
    if not arguments.tallies or not arguments.out:
        raise Invalid(["give at least one TALLY and one --out FILE, or --verify FILE"])
    require_outputs(arguments.out)
    noise, options = CountNoise.parse(arguments.count_noise), Options(confidence=arguments.confidence)
    budget = None if arguments.budget is None else _budget(arguments.budget)
    tallies = read_tallies(*arguments.tallies)
    candidates = _candidates(arguments.candidates, tallies)
    first = Path(arguments.tallies[0])
    path = Path(arguments.ledger) if arguments.ledger else (first if first.is_dir() else first.parent) / LEDGER
    division = _division(arguments)
    with open_ledger(path, budget) as ledger:
        new = news(
            undivided(tallies) if division is None else divided(tallies, division.key, division.values),
            noise,
            ledger,
            again=arguments.again,
            same_collector=arguments.same_collector,
            besides=undivided(tallies),
        )
        for line in new.left_out:
            print(f"{line}; left out", file=sys.stderr)
        published = release(new.tallies, noise, ledger, os.urandom, options, candidates, division)
        facts = document(published, noise, ledger.budget, ledger.spent, arguments.confidence, division)
        left = ledger.budget.epsilon - ledger.spent
    for out in arguments.out:
        _put(Path(out), facts)
        print(out)
    print(f"{path}: epsilon {ledger.spent:.3f} of {ledger.budget.epsilon:g} is spent, {left:.3f} is left")
    return 0


def _division(arguments: Namespace) -> Division | None:
    if arguments.by is None:
        if arguments.top is not None:
            raise Invalid(["--top K needs --by KEY: of what the K largest are"])
        return None
    if arguments.top is not None and arguments.again:
        raise Invalid(["--top K and --again do not go together: what has grown was chosen before"])
    if arguments.metrics is None:
        raise Invalid(["--by KEY needs --metrics FILE: which values there are must not come from the counts"])
    declared = Registry.load(arguments.metrics).segments
    return Division.of(declared, arguments.by, arguments.top, arguments.choice_epsilon)


def _candidates(given: Sequence[str], tallies: Sequence[Tally]) -> dict[str, list[str]]:
    metrics = [tally.metric for tally in tallies]
    open_metrics = [metric.name for metric in metrics if metric.shape.open_list]
    paths = paths_by_metric(given, {metric.name for metric in metrics}, open_metrics)
    for path in paths.values():
        if Path(path).is_dir():
            raise Invalid([f"--candidates must be a file here, got a folder, {path!r}"])
    return {name: read_candidates(path) for name, path in paths.items()}


def _budget(text: str) -> Budget:
    parts = text.split(",")
    if len(parts) != 2 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise Invalid([f"--budget must be EPSILON,DELTA such as 3,1e-9, got {brief(text)}"])
    return Budget(epsilon=float(parts[0]), delta=float(parts[1]))


def _put(path: Path, facts: dict[str, Any]) -> None:
    """Put into its place whole: nobody ever reads half of it."""
    text = {".json": to_json, ".csv": to_csv, ".html": to_html}[path.suffix](facts)
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _verify(arguments: Namespace) -> int:
    if arguments.tallies or arguments.out:
        raise Invalid(["--verify FILE takes neither TALLY nor --out"])
    problems = verify(Path(arguments.verify).read_text(encoding="utf-8"))
    for problem in problems:
        print(f"{arguments.verify}: {problem}")
    if not problems:
        print(f"{arguments.verify}: every statement follows from what stands in the file")
    return int(bool(problems))
