"""`hubbub decode` of two answers at once: pair tallies, and metrics of kind cross with `--given`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from hubbub.analysis.candidates_file import paths_by_metric, read_candidates
from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.decoding import crosstab
from hubbub.analysis.options import Options
from hubbub.analysis.render.crosstab_export import crosstabs_to_csv, crosstabs_to_json, write_crosstabs_parquet
from hubbub.analysis.render.crosstab_text import crosstab_table
from hubbub.analysis.render.excel import write_crosstabs_excel
from hubbub.analysis.render.terminal import PLAIN, style_for
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.pair import PairTally
from hubbub.protocol.tally import Tally, by_segment, within
from hubbub.protocol.tally_files import Wanted, is_pair_file, read_pair_tallies, read_tallies

T = TypeVar("T", Tally, PairTally)
OF_ALL = "all"
"""In place of a factor: shares of all installs."""


def add_crosstab(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--given",
        metavar="FACTOR",
        help="two answers at once (a pair, or a cross): the shares of one given this metric; all: of all installs "
        "(default: given the first metric of a pair)",
    )
    parser.add_argument("--item", metavar="ITEM", help="a pair with a set: the item that is meant")


def is_crosstab(arguments: Namespace) -> bool:
    """Whether the files, or --given, ask for a table of two answers."""
    return arguments.given is not None or any(map(is_pair_file, arguments.tallies))


def run_crosstab(arguments: Namespace, options: Options) -> int:
    require(_contradictions(arguments))
    found = _crosstabs(arguments, options)
    if arguments.chart:
        _draw(arguments, found)
    match arguments.format:
        case "parquet":
            write_crosstabs_parquet(found, arguments.out)
            return 0
        case "xlsx":
            write_crosstabs_excel(found, arguments.out)
            return 0
        case "csv":
            text = crosstabs_to_csv(found)
        case "json":
            text = crosstabs_to_json(found)
        case _:
            style = PLAIN if arguments.out else style_for(sys.stdout)
            tables = (crosstab_table(table, _given(table, arguments.given), style) for table in found)
            text = "\n\n".join(tables) + "\n"
    if arguments.out:
        Path(arguments.out).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def _contradictions(arguments: Namespace) -> Iterator[str]:
    what = "a table of two answers"
    for flag in ("against", "against_only", "trend", "by_epoch", "installs", "rappor", "engine", "privacy_chart"):
        if getattr(arguments, flag):
            yield f"--{flag.replace('_', '-')} is not for {what}: leave it out, or --given and pair tallies"
    if arguments.format == "rappor":
        yield f"{what} is written as a table, csv, json, parquet or xlsx, got --format rappor"
    if arguments.format in ("parquet", "xlsx") and not arguments.out:
        yield f"--format {arguments.format} needs --out FILE"


def _crosstabs(arguments: Namespace, options: Options) -> list[Crosstab]:
    pair_files = [place for place in arguments.tallies if is_pair_file(place)]
    others = [place for place in arguments.tallies if place not in pair_files]
    pairs = read_pair_tallies(*pair_files, merge=arguments.merge)
    crosses = read_tallies(*others, merge=arguments.merge)
    found = []
    for some in _by_name(pairs).values():
        lists = _candidates(arguments, some[0])
        found += [crosstab(part, lists or None, options) for part in _apart(some, arguments)]
    for others_ in _by_name(crosses).values():
        found += [crosstab(part, None, options) for part in _apart(others_, arguments)]
    for table in found:
        _given(table, arguments.given)  # a wrong one is said before anything is written
    return found


def _by_name(tallies: Sequence[T]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for tally in tallies:
        found.setdefault(tally.metric.name, []).append(tally)
    return found


def _apart(tallies: Sequence[T], arguments: Namespace) -> list[list[T]]:
    """The epochs and segments that are asked for: all together, or each segment by itself."""
    split = [pair.partition("=") for pair in arguments.only]
    require(f"a segment must be KEY=VALUE, such as release=2.1, got {key!r}" for key, equals, _ in split if not equals)
    wanted = Wanted(None, arguments.start, arguments.end)
    kept = [
        tally.only(*(epoch for epoch in tally.epochs if wanted.has(tally.metric, epoch)))
        for tally in within(tallies, {key: value for key, _, value in split})
    ]
    return list(by_segment(kept, arguments.by).values()) if arguments.by else [kept]


def _candidates(arguments: Namespace, tally: PairTally) -> dict[str, list[str]]:
    metrics = {metric.name: metric for metric in tally.pair.metrics}
    open_metrics = [name for name, metric in metrics.items() if metric.shape.open_list]
    lists = paths_by_metric(arguments.candidates, list(metrics), open_metrics)
    found = {name: read_candidates(path) for name, path in lists.items()}
    if arguments.item is not None:
        sets = [name for name, metric in metrics.items() if metric.shape.kept_by_bit]
        if not sets:
            raise Invalid([f"--item is for a pair with a set, {tally.pair.name} has none"])
        found |= {name: [arguments.item] for name in sets}
    return found


def _given(table: Crosstab, name: str | None) -> int | None:
    if name == OF_ALL and OF_ALL not in [factor.name for factor in table.factors]:
        return None
    return 0 if name is None else table.factor(name)


def _draw(arguments: Namespace, found: Sequence[Crosstab]) -> None:
    if len(found) != 1:
        raise Invalid([f"--chart draws one table, got {len(found)}; decode them one by one"])
    from hubbub.analysis.render.charts import save
    from hubbub.analysis.render.crosstab_chart import crosstab_chart

    save(crosstab_chart(found[0], _given(found[0], arguments.given)), arguments.chart)
