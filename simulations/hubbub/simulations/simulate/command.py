"""`hubbub simulate`: what would be seen, before a single report is collected."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from hubbub.analysis import progress
from hubbub.analysis.candidates_file import read_candidates
from hubbub.analysis.commands.once import Once
from hubbub.analysis.engines.engine import FORMS as ENGINES
from hubbub.analysis.engines.engine import engine_from
from hubbub.protocol.arguments import day, number, share, whole
from hubbub.protocol.invalid import Invalid, brief, plural, require
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import OTHER, Segment
from hubbub.protocol.tally_files import write_tally
from hubbub.simulations.html_page import require_page_packages
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import FORMS, Distribution, default_population, parse_population
from hubbub.simulations.people.histories import MOST_EPOCHS
from hubbub.simulations.simulate.clients import MOST_INSTALLS as MOST_CLIENTS
from hubbub.simulations.simulate.joint import FORMS as JOINT_FORMS
from hubbub.simulations.simulate.joint import joint_facts, joint_settings, joint_words, simulate_joint, write_joint
from hubbub.simulations.simulate.run import START, WAYS, Setting, SimulationResult, simulate_clients, simulate_metric
from hubbub.simulations.simulate.scorecard import table

MOST_INSTALLS = 10**12
T = TypeVar("T")


def add_simulate(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Without --population every kind has one that an app might see: 30 % yes, zipf over the choices or\n"
        "1000 strings, a bell of numbers. Options with [METRIC=] are for one metric, or for all.\n\n"
        f"{FORMS}\n{JOINT_FORMS}\n\n"
        "examples:\n"
        "  hubbub simulate metrics.toml --installs 1e6\n"
        "  hubbub simulate metrics.toml --installs 1e9 --report seen.html\n"
        "  hubbub simulate metrics.toml --population homepage=zipf:1.1,500 --population startup_time=normal:3,1\n"
        "  hubbub simulate metrics.toml --population homepage=csv:domains.csv --consent 30%\n"
        "  hubbub simulate metrics.toml --epochs 30 --change 2% --absent language=10%    answers that change\n"
        "  hubbub simulate metrics.toml --by platform --split linux:6,macos:1,windows:3\n"
        "  hubbub simulate metrics.toml --installs 1e7 --out tallies && hubbub decode tallies/dark_theme.json\n"
        "  hubbub simulate metrics.toml --installs 1e5 --way reports --engine local    every report drawn, on all cores"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry to try")
    parser.add_argument("--installs", type=whole, default=1_000_000, help="that run the app (default: 1e6)")
    parser.add_argument("--epochs", type=whole, default=1, help="how many days, weeks or months (default: 1)")
    parser.add_argument("--seed", type=whole, default=1, help="other people, other noise (default: 1)")
    parser.add_argument("--metric", action="append", default=[], help="only this one; may be given again")
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--population", metavar="METRIC=POPULATION", help="who answers what; see below", **several)
    parser.add_argument(
        "--joint",
        metavar="NAME=RELATION",
        help="how the answers of a pair or a cross go together; below",
        **several,
    )
    _add_segments(parser)
    parser.add_argument("--change", metavar="[METRIC=]SHARE", help="answers drawn anew in each epoch", **several)
    parser.add_argument(
        "--drift",
        metavar="[METRIC=]SHARE",
        help="each epoch numbers grow by so much, or so many people move on to the next value of the list",
        **several,
    )
    parser.add_argument(
        "--season",
        metavar="[METRIC=]PERIOD,SHARE",
        help="numbers swing by so much, or so many people take the next value and come back, over PERIOD epochs",
        **several,
    )
    parser.add_argument("--absent", metavar="[METRIC=]SHARE", help="epochs with nothing to record", **several)
    parser.add_argument("--away", type=share, default=0.0, help="epochs in which the app is not run (default: 0)")
    parser.add_argument(
        "--churn", type=share, default=0.0, help="installs replaced by new ones each epoch (default: 0)"
    )
    parser.add_argument("--consent", type=share, default=1.0, help="share of installs that agree (default: 1)")
    parser.add_argument(
        "--candidates",
        metavar="[METRIC=]FILE",
        help="strings the analyst looks for, one a line (default: all there are, and as many that nobody holds)",
        **several,
    )
    _add_results(parser)


def _add_results(parser: ArgumentParser) -> None:
    parser.add_argument("--start", type=day, metavar="DATE", help="first day (default: 2026-01-05)")
    parser.add_argument(
        "--way",
        choices=(*WAYS, "clients"),
        help="exact tallies, every report drawn, or real clients (default: tallies, or reports where they must be)",
    )
    parser.add_argument("--engine", help=f"who draws single reports: {ENGINES} (default: this process)")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with pictures that needs no network")
    parser.add_argument("--out", metavar="DIR", help="write tallies and candidates for `hubbub decode`, and the truth")
    parser.add_argument("--json", action="store_true", help="everything as JSON")


def _add_segments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--by", metavar="KEY", action=Once, help="each segment by itself: a key of [segments], such as platform"
    )
    parser.add_argument(
        "--split",
        metavar="VALUE:WEIGHT,...",
        help="with --by: how the installs are divided, such as linux:6,macos:1,windows:3 (default: evenly). "
        "METRIC@VALUE=POPULATION is a population of one segment",
    )


def run_simulate(arguments: Namespace) -> int:
    registry = Registry.load(arguments.metrics)
    settings = _settings(arguments, registry)
    together = joint_settings(registry, settings, arguments)
    # A cross whose answers are said to go together is simulated so, and not once more as if they did not.
    settings = [each for each in settings if each.metric.name not in {joint.name for joint in together}] or settings
    if arguments.report:
        if Path(arguments.report).suffix.lower() not in (".html", ".htm"):
            raise Invalid([f"--report must end in .html, got {brief(arguments.report)}"])
        require_page_packages()
    if arguments.way == "clients":
        results = simulate_clients(registry, settings, arguments.seed, progress.shown("real clients"))
    else:
        with closing(engine_from(arguments.engine)) if arguments.engine else nullcontext() as engine:
            results = [
                simulate_metric(
                    setting,
                    arguments.seed,
                    arguments.way,
                    progress.shown(setting.metric.name, number, len(settings)),
                    engine,
                )
                for number, setting in enumerate(settings)
            ]
    joint = [simulate_joint(each, arguments.seed) for each in together]
    progress.clear()
    if arguments.out:
        write(Path(arguments.out), results)
        write_joint(Path(arguments.out), joint)
    if arguments.report:
        from hubbub.simulations.simulate.page import page

        Path(arguments.report).write_text(page(registry.app, results, _command(arguments)), encoding="utf-8")
    facts = _facts(arguments, results) | ({"joint": [joint_facts(each) for each in joint]} if joint else {})
    words = "\n\n".join(filter(None, (_words(results), joint_words(joint))))
    print(json.dumps(facts, indent=1, ensure_ascii=False) if arguments.json else words)
    return 0


# --- what is asked for --------------------------------------------------------------------------------------------


def _settings(arguments: Namespace, registry: Registry) -> list[Setting]:
    for option, most in (("installs", MOST_INSTALLS), ("epochs", MOST_EPOCHS)):
        if not 1 <= getattr(arguments, option) <= most:
            raise Invalid([f"--{option} must be in [1, {most:,}], got {getattr(arguments, option):,}"])
    if arguments.seed < 0:
        raise Invalid([f"--seed must not be negative, got {arguments.seed}"])
    if arguments.engine and arguments.way in ("clients", "tallies"):
        raise Invalid([f"--engine draws single reports; with --way {arguments.way} it has nothing to do"])
    if arguments.way == "clients" and arguments.installs > MOST_CLIENTS:
        raise Invalid([f"--installs must be at most {MOST_CLIENTS:,} for --way clients, got {arguments.installs:,}"])
    for name in arguments.metric:
        if name not in registry.metrics:
            raise Invalid([f"--metric must be one of {', '.join(registry.metrics)}, got {brief(name)}"])
    asked = [registry[name] for name in arguments.metric] or list(registry)
    # A cross follows from its factors, whether they are asked for or not.
    metrics = list(dict.fromkeys([*asked, *(registry[factor.name] for m in asked for factor in m.shape.factors)]))
    parts = _by_segment(arguments, registry)
    people = _by_metric("population", arguments.population, metrics, parse_people, [dict(c.segment) for c in parts])
    rates = {
        name: _by_metric(name, getattr(arguments, name), metrics, lambda metric, text: share(text))
        for name in ("change", "drift", "absent")
    }
    seasons = _by_metric("season", arguments.season, metrics, lambda metric, text: _season(text))
    candidates = _by_metric("candidates", arguments.candidates, metrics, _listed)
    start = START if arguments.start is None else int(_midnight(arguments.start))

    def setting(metric: Metric, part: _SegmentInstalls) -> Setting:
        own = _people_of(people, metric, part.segment)
        of = () if own else tuple(setting(registry[factor.name], part) for factor in metric.shape.factors)
        return Setting(
            metric=metric.in_segment(part.segment),
            people=own or (_both(of) if of else default_population(metric.shape)),
            behaviour=Behaviour(
                **{name: found[metric.name] for name, found in rates.items() if metric.name in found},
                season=seasons.get(metric.name, Behaviour().season),
                away=arguments.away,
                churn=arguments.churn,
                consent=arguments.consent,
            ),
            installs=part.installs,
            epochs=arguments.epochs,
            candidates=candidates.get(metric.name),
            start=start,
            of=of,
        )

    return [setting(metric, part) for metric in asked for part in parts]


class _SegmentInstalls(NamedTuple):
    """The installs of one segment."""

    segment: Segment
    installs: int


def _by_segment(arguments: Namespace, registry: Registry) -> list[_SegmentInstalls]:
    """The installs by segment; all of them where none are told apart."""
    if arguments.by is None:
        require(["--split divides what --by tells apart, got it without"] if arguments.split else [])
        return [_SegmentInstalls((), arguments.installs)]
    if arguments.way == "clients":
        raise Invalid([f"--by is for tallies and reports, not for --way clients, got --by {brief(arguments.by)}"])
    if arguments.by not in registry.segments:
        known = ", ".join(registry.segments) or "none, because the registry has no [segments]"
        raise Invalid([f"--by must be a key of segments: {known}, got {brief(arguments.by)}"])
    values = registry.segments[arguments.by]
    weights = _weights(arguments.split, (*values, OTHER)) if arguments.split else dict.fromkeys(values, 1.0)
    total, left = sum(weights.values()), arguments.installs
    found = []
    for value, weight in weights.items():
        installs = min(left, round(arguments.installs * weight / total))
        left -= installs
        found.append(_SegmentInstalls(((arguments.by, value),), installs))
    return [part for part in found if part.installs]


def _weights(split: str, values: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in split.split(","):
        value, colon, written = part.rpartition(":")
        try:
            weight = number(written)
        except Invalid:
            weight = -1.0
        if not colon or value not in values or value in found or weight <= 0:
            words = f"VALUE:WEIGHT with a value of {', '.join(values)}, each once, and a weight above 0"
            raise Invalid([f"--split must be {words}, got {brief(part)}"])
        found[value] = weight
    return found


def _people_of(people: Mapping[str, Distribution], metric: Metric, segment: Segment) -> Distribution | None:
    """Those of this segment, if it has its own; else those of the metric, if somebody said."""
    own = [people[key] for _, value in segment if (key := f"{metric.name}@{value}") in people]
    return next(iter(own), None) or people.get(metric.name)


def _both(of: Sequence[Setting]) -> Distribution:
    """Of a cross, in words: its values follow from those of its factors."""
    words = ", with ".join(f"{each.metric.name}: {each.people.words}" for each in of)
    return Distribution((), np.zeros(0), words, numeric=False)


def _by_metric(
    option: str,
    given: Sequence[str],
    metrics: Sequence[Metric],
    read: Callable[[Metric, str], T | None],
    segments: Sequence[Mapping[str, str]] = (),
) -> dict[str, T]:
    """`NAME=text` is for one metric, `NAME@VALUE=text` for one of its segments; a text without a name for all; the last
    word on a metric counts."""
    by_name = {metric.name: metric for metric in metrics}
    by_name |= {f"{m.name}@{value}": m for m in metrics for segment in segments for value in segment.values()}
    found: dict[str, T] = {}
    for item in given:
        name, equals, text = item.partition("=")
        named = bool(equals) and name in by_name
        if equals and not named and (name.isidentifier() or "@" in name):
            raise Invalid([f"--{option} {brief(item)}: must name one of {', '.join(by_name)}, got {brief(name)}"])
        if option == "population" and not named and len(metrics) > 1:
            raise Invalid([f"--population must be METRIC=POPULATION, one of {', '.join(by_name)}, got {brief(item)}"])
        for metric in [by_name[name]] if named else metrics:
            try:
                value = read(metric, text if named else item)
            except Invalid as error:
                raise Invalid([f"--{option} {brief(item)}: {error}"]) from None
            if value is not None:
                found[name if named else metric.name] = value
    return found


def parse_people(metric: Metric, text: str) -> Distribution:
    return parse_population(metric.shape, text)


def _listed(metric: Metric, path: str) -> tuple[str, ...] | None:
    """The candidates in a file, each once; none for a metric whose answers are known."""
    return tuple(dict.fromkeys(read_candidates(path))) if metric.shape.open_list else None


def _season(text: str) -> tuple[float, float]:
    period, comma, swing = text.partition(",")
    if not comma:
        raise Invalid([f"must be PERIOD,SHARE, such as 7,20%, got {brief(text)}"])
    return number(period), share(swing)


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _command(arguments: Namespace) -> str:
    return shlex.join(["hubbub", "simulate", *sys.argv[2:]]) if sys.argv[1:2] == ["simulate"] else "hubbub simulate"


# --- what comes of it ---------------------------------------------------------------------------------------------


def write(directory: Path, results: Sequence[SimulationResult]) -> None:
    """Tallies and candidates as an analyst would have them, and what the analyst would not have: the truth."""
    directory.mkdir(parents=True, exist_ok=True)
    for result in results:
        name = "-".join([result.setting.metric.name, *(quote(value, "") for _, value in result.setting.metric.segment)])
        write_tally(result.tally, directory / f"{name}.json")
        if result.setting.candidates is not None:
            lines = "".join(f"{text}\n" for text in result.setting.candidates)
            (directory / f"{name}.candidates.txt").write_text(lines, encoding="utf-8")
        rows = {"metric": result.card.metric, "rows": _rows(result), "scorecard": result.card.to_json()}
        (directory / f"{name}.truth.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _rows(result: SimulationResult) -> list[dict[str, Any]]:
    decoding = result.decoding
    columns = (result.truth, decoding.estimate, decoding.low, decoding.high)
    return [
        {
            "value": value,
            "role": role,
            **{
                name: float(column[i]) if np.isfinite(column[i]) else None
                for name, column in zip(("truth", "estimate", "low", "high"), columns, strict=True)
            },
            "detected": bool(decoding.detected[i]),
        }
        for i, (value, role) in enumerate(zip(decoding.values, decoding.roles, strict=True))
    ]


def _facts(arguments: Namespace, results: Sequence[SimulationResult]) -> dict[str, Any]:
    return {
        "installs": arguments.installs,
        "epochs": arguments.epochs,
        "seed": arguments.seed,
        "metrics": [
            {
                **result.card.to_json(),
                "way": result.way,
                "population": result.setting.people.words,
                "habits": result.setting.behaviour.words(),
                "sentence": result.sentence,
                "rows": _rows(result),
            }
            for result in results
        ],
    }


def _words(results: Sequence[SimulationResult]) -> str:
    setting = results[0].setting
    installs = sum(result.setting.installs for result in results if result.setting.metric.name == setting.metric.name)
    lines = [
        f"{installs:,} installs, {plural(setting.epochs, 'epoch')}; {setting.behaviour.words()}",
        *(f"  {result.card.metric}: {result.setting.people.words}" for result in results),
        "",
        table([result.card for result in results]),
        "",
        *(result.sentence for result in results),
    ]
    return "\n".join(lines)
