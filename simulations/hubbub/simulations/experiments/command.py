"""`hubbub experiments`: predict, run, compare, and say so in a table, in JSON or on a page."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hubbub.analysis import progress
from hubbub.protocol.arguments import whole
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import text_table
from hubbub.simulations.experiments.experiment import Experiment, ExperimentResult
from hubbub.simulations.experiments.page import page
from hubbub.simulations.experiments.run import conduct, named
from hubbub.simulations.html_page import require_page_packages

SEED = 1


def add_experiments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "exit status: 0 every figure was found where theory puts it, 1 one was not, 2 wrong use\n\n"
        "examples:\n"
        "  hubbub experiments --list\n"
        "  hubbub experiments --report experiments.html\n"
        "  hubbub experiments averaging tracking --quick"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="which experiments to run (default: all)")
    parser.add_argument("--list", action="store_true", help="name the experiments and their questions, and run none")
    parser.add_argument("--quick", action="store_true", help="smaller crowds, fewer repeats: half a minute in all")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with pictures, tables and explanations")
    parser.add_argument("--seed", type=whole, default=SEED, help=f"where all chance comes from (default: {SEED})")
    parser.add_argument("--json", action="store_true", help="all figures as JSON")


def run_experiments(arguments: Namespace) -> int:
    chosen = named(arguments.names)
    if arguments.list:
        print(_listing(chosen))
        return 0
    if arguments.seed < 0:
        raise Invalid([f"--seed must be at least 0, got {arguments.seed}"])
    report = None if arguments.report is None else _writable(arguments.report)
    results = []
    for number, experiment in enumerate(chosen):
        bar = progress.shown(f"{experiment.name} ({number + 1} of {len(chosen)})")
        bar(0.0)
        result = conduct(experiment, quick=arguments.quick, seed=arguments.seed, progress=bar)
        results.append(result)
        progress.clear()
        if not arguments.json:
            print("\n".join(_lines(result)), flush=True)
    if arguments.json:
        print(json.dumps(_as_json(results, arguments), indent=2))
    elif len(results) > 1:
        print(_summary(results))
    if report is not None:
        text = page(results, seed=arguments.seed, quick=arguments.quick, command=_command(arguments))
        report.write_text(text, encoding="utf-8")
        if not arguments.json:
            print(f"The report is in {report}.")
    return 0 if all(result.met for result in results) else 1


def _listing(experiments: list[Experiment]) -> str:
    return "\n".join(text_table((), [(one.name, one.question) for one in experiments], left=(0, 1), longest=None))


def _lines(result: ExperimentResult) -> list[str]:
    """One line for what was found as predicted, and one for each figure that was not."""
    met = sum(finding.met for finding in result.findings)
    lines = [f"{result.name:<20} {met} of {len(result.findings)} figures as predicted  ({result.seconds:.1f} s)"]
    for finding in result.findings:
        if not finding.met:
            p = finding.prediction
            lines.append(f"  not met: {p.what}: predicted {p.expected}, found {p.say(finding.found)} ({p.why})")
    return lines


def _summary(results: list[ExperimentResult]) -> str:
    findings = [finding for result in results for finding in result.findings]
    met, seconds = sum(finding.met for finding in findings), sum(result.seconds for result in results)
    return f"{met} of {len(findings)} figures as predicted, in {seconds:.0f} s of processor time."


def _as_json(results: list[ExperimentResult], arguments: Namespace) -> dict[str, object]:
    return {
        "seed": arguments.seed,
        "quick": arguments.quick,
        "met": all(result.met for result in results),
        "experiments": [result.to_json() for result in results],
    }


def _writable(name: str) -> Path:
    """Said before the work is done, not after it."""
    path = Path(name)
    if not path.parent.is_dir():
        raise Invalid([f"--report must name a file in a directory that exists, got {name}"])
    require_page_packages()
    return path


def _command(arguments: Namespace) -> str:
    seed = [] if arguments.seed == SEED else ["--seed", str(arguments.seed)]
    return " ".join(["hubbub experiments", *arguments.names, *(["--quick"] if arguments.quick else []), *seed])
