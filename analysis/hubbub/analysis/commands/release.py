"""The command that makes figures for the public: release."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubbub.analysis.candidates_file import paths_by_metric, read_candidates
from hubbub.analysis.commands.decode import add_candidates
from hubbub.analysis.options import Options
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.ledger import Budget, open_ledger
from hubbub.analysis.publishing.release import release, require_outputs
from hubbub.analysis.publishing.released_file import document, to_csv, to_json, verify
from hubbub.analysis.publishing.released_page import to_html
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import read_tallies

LEDGER = "release.ledger"


def add_release(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  hubbub release tallies/dark_theme.json --out figures.html --out figures.json --budget 3,1e-9\n"
        "  hubbub release tallies/homepage.json --candidates domains.txt --count-noise gaussian:60 --out sites.csv\n"
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
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default: 0.95)")
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
    with open_ledger(path, budget) as ledger:
        published = release(tallies, noise, ledger, os.urandom, options, candidates)
        facts = document(published, noise, ledger.budget, ledger.spent, arguments.confidence)
        left = ledger.budget.epsilon - ledger.spent
    for out in arguments.out:
        _put(Path(out), facts)
        print(out)
    print(f"{path}: epsilon {ledger.spent:.3f} of {ledger.budget.epsilon:g} is spent, {left:.3f} is left")
    return 0


def _candidates(given: Sequence[str], tallies: Sequence[Tally]) -> dict[str, list[str]]:
    metrics = [tally.metric for tally in tallies]
    open_metrics = [metric.name for metric in metrics if metric.shape.open_list]
    paths = paths_by_metric(given, {metric.name for metric in metrics}, open_metrics)
    for path in paths.values():
        if Path(path).is_dir():
            raise Invalid([f"--candidates must be a file here, got a folder, {path!r}"])
    return {name: read_candidates(path) for name, path in paths.items()}


def _budget(text: str) -> Budget:
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        raise Invalid([f"--budget must be EPSILON,DELTA such as 3,1e-9, got {brief(text)}"]) from None
    return Budget(epsilon=epsilon, delta=delta)


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
