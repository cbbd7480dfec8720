"""`hubbub sweep`: a grid of settings, run by an engine's workers, resumed where it stopped."""

from __future__ import annotations

import csv
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from hubbub.analysis import progress
from hubbub.analysis.engines.engine import FORMS, engine_from
from hubbub.protocol.arguments import number, share, whole
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.printed import fixed_percent, plain_percent, text_table
from hubbub.simulations.kinds import KINDS, kind_class
from hubbub.simulations.people.histories import MOST_EPOCHS
from hubbub.simulations.sweep.run import AXES, Figures, Point, grid, run

SHAPE_AXES = ("bits", "cohorts", "hashes")
WHOLE_AXES = ("installs", *SHAPE_AXES)


def add_sweep(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Axes take several values, separated by commas; all combinations are run. `error` is the root mean square\n"
        "error of a share (of a mean: of its range), `theory` what the formulas predict, `bound` the least that any\n"
        "mechanism with the same epsilon could have. With --out, points done are kept and never run again.\n\n"
        "examples:\n"
        "  hubbub sweep --epsilon 0.5,1,2,4 --installs 1e5,1e6,1e7 --chart sweep.png\n"
        "  hubbub sweep --bits 16,32,64,128 --cohorts 16,64,256 --out sweep.jsonl --csv > sweep.csv\n"
        "  hubbub sweep --kind choice --epsilon 1,2 --epochs 12 --change 0,2%,10% --max-values 2\n"
        "  hubbub sweep --hashes 1,2,4 --population exponential:10,100 --repeats 20"
    )
    parser.add_argument("--kind", choices=tuple(KINDS), default="string", help="of the metric (default: string)")
    parser.add_argument("--epsilon", default="1", help="axis: epsilon_one_report (default: 1)")
    parser.add_argument("--installs", default="1e6", help="axis: installs (default: 1e6)")
    parser.add_argument("--change", default="0", help="axis: share of answers drawn anew in an epoch (default: 0)")
    parser.add_argument("--bits", help="axis: num_bits of strings (default: 64)")
    parser.add_argument("--cohorts", help="axis: num_cohorts of strings (default: 128)")
    parser.add_argument("--hashes", help="axis: num_hashes of strings (default: 1)")
    parser.add_argument("--permanent", type=number, help="epsilon_permanent (default: twice the largest, at least 2)")
    parser.add_argument("--max-values", type=whole, default=3, help="slots of an install (default: 3)")
    parser.add_argument("--epochs", type=whole, default=1, help="epochs pooled (default: 1)")
    parser.add_argument("--population", default="", help="as `hubbub simulate --help` lists them (default: the kind's)")
    parser.add_argument("--repeats", type=whole, default=5, help="simulations of each point (default: 5)")
    parser.add_argument("--seed", type=whole, default=1, help="of the first of them (default: 1)")
    parser.add_argument("--processes", type=whole, help="the same as --engine local:N")
    parser.add_argument("--engine", help=f"who works at it: {FORMS} (default: local, one process for each core)")
    parser.add_argument("--out", metavar="FILE.jsonl", help="keep points that are done here; go on from it")
    parser.add_argument("--chart", metavar="FILE", help="draw it: .png, .svg or .html")
    parser.add_argument("--csv", action="store_true", help="a row for each point")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run_sweep(arguments: Namespace) -> int:
    points, axes = _points(arguments)
    rows = _run(arguments, points)
    varying = [name for name in AXES if len(axes.get(name, ())) > 1]
    if arguments.chart:
        from hubbub.analysis.render.charts import save
        from hubbub.simulations.sweep.chart import sweep_chart

        save(sweep_chart(rows, varying), arguments.chart)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    elif arguments.csv:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        print(_table(rows, varying or ["epsilon", "installs"]))
    return 0


def _points(arguments: Namespace) -> tuple[list[Point], dict[str, Sequence[float]]]:
    for name, most in (("epochs", MOST_EPOCHS), ("repeats", 10_000), ("max_values", 10_000), ("processes", 256)):
        value = getattr(arguments, name)
        if value is not None and not 1 <= value <= most:
            raise Invalid([f"--{name.replace('_', '-')} must be in [1, {most}], got {value}"])
    if arguments.engine and arguments.processes:
        raise Invalid([f"--processes N is --engine local:N: give one of them, got both, {brief(arguments.engine)}"])
    if arguments.seed < 0:
        raise Invalid([f"--seed must not be negative, got {arguments.seed}"])
    own = kind_class(arguments.kind).shape_axes
    axes: dict[str, Sequence[float]] = {}
    for name in AXES:
        given = getattr(arguments, name)
        if given is None and name in own:
            axes[name] = (own[name],)
        elif given is not None and name in SHAPE_AXES and name not in own:
            raise Invalid([f"--{name} is for strings, a {arguments.kind} has none"])
        elif given is not None:
            axes[name] = _values(name, given)
    if arguments.epochs == 1 and any(axes["change"]):
        raise Invalid(["--change shows over several --epochs, got --epochs 1"])
    permanent = arguments.permanent
    if permanent is None:
        permanent = min(16.0, max(2.0, 2 * max(axes["epsilon"])))
    common = Point(
        kind=arguments.kind,
        epsilon=1.0,
        permanent=permanent,
        installs=1,
        max_values=arguments.max_values,
        epochs=arguments.epochs,
        population=arguments.population,
        repeats=arguments.repeats,
        seed=arguments.seed,
    )
    return grid(common, axes), axes


def _values(axis: str, text: str) -> list[float]:
    found: list[float] = []
    for part in text.split(","):
        try:
            found.append(whole(part) if axis in WHOLE_AXES else share(part))
        except Invalid as error:
            raise Invalid([f"--{axis} {brief(text)}: each {error}"]) from None
        if axis in WHOLE_AXES and found[-1] < 1:
            raise Invalid([f"--{axis} must be whole numbers of at least 1, got {brief(part)}"])
    return list(dict.fromkeys(found))


def _run(arguments: Namespace, points: Sequence[Point]) -> list[Figures]:
    """In the order of the grid, whoever was done first."""
    found: dict[str, Figures] = {}
    results = Path(arguments.out) if arguments.out else None
    known = 0
    named = arguments.engine or f"local:{min(arguments.processes or os.cpu_count() or 1, len(points))}"
    with closing(engine_from(named)) as engine:
        for point, figures, before in run(points, engine, results):
            found[point.key] = figures
            known += before
            progress.show(len(found) / len(points), f"{len(found)} of {len(points)} points")
    progress.clear()
    if known:
        print(f"{known} of {len(points)} points were done before, in {arguments.out}", file=sys.stderr)
    return [{**asdict(point), **found[point.key]} for point in points]


def _table(rows: Sequence[Figures], axes: Sequence[str]) -> str:
    header = [*axes, "error", "theory", "bound", "error/bound", "found", "false", "coverage", "stale"]
    lines = [header]
    for row in rows:
        lines.append(
            [
                *(f"{row[axis]:g}" for axis in axes),
                *(plain_percent(row[name], 3) for name in ("error", "theory", "bound")),
                f"{row['error'] / row['bound']:.2f}",
                f"{row['found']:.1f}",
                f"{row['false']:.1f}",
                fixed_percent(row["coverage"]),
                fixed_percent(row["stale"]),
            ]
        )
    return "\n".join(text_table(lines[0], lines[1:], left=()))
