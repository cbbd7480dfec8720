"""The command of the analyst: decode."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from hubbub.analysis import progress
from hubbub.analysis.candidate_lists import is_long
from hubbub.analysis.candidates_file import paths_by_metric, read_candidates
from hubbub.analysis.commands.alert import say_alerts
from hubbub.analysis.commands.crosstab import add_crosstab, is_crosstab, run_crosstab
from hubbub.analysis.commands.installs import installs_text
from hubbub.analysis.commands.once import Once
from hubbub.analysis.commands.search import add_search, decode_and_say
from hubbub.analysis.comparison import Comparison, compare
from hubbub.analysis.decoding import decode_lists
from hubbub.analysis.engines.engine import engine_from
from hubbub.analysis.installs import active_installs
from hubbub.analysis.options import CORRECTIONS, ESTIMANDS, QUANTILES, Options
from hubbub.analysis.rappor import decode_rappor, to_rappor
from hubbub.analysis.render.excel import write_excel
from hubbub.analysis.render.export import comparisons_to_json, to_csv, to_json, write_parquet
from hubbub.analysis.render.segments import segment_tables
from hubbub.analysis.render.terminal import PLAIN, Style, style_for
from hubbub.analysis.render.text import comparison_table, table
from hubbub.analysis.result import Decoding
from hubbub.analysis.trends import Annotation, read_annotations, releases, trend
from hubbub.protocol.arguments import number, whole
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.tally import Tally, by_segment, undivided, within
from hubbub.protocol.tally_files import Wanted, read_tallies

FORMATS = ("table", "csv", "json", "parquet", "xlsx", "rappor")


def add_decode(parser: ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n"
        "  hubbub decode dark_theme.json\n"
        "  hubbub decode homepage.json --candidates domains.txt --chart homepage.png\n"
        "  hubbub decode homepage.json --candidates domains/ --engine local\n"
        "  hubbub decode plugin.json --beam 500\n"
        "  hubbub decode dark_theme.json --against released/dark_theme.json\n"
        "  hubbub decode dark_theme.json --against released/dark_theme.json --fail-on-change\n"
        "  hubbub decode dark_theme.json --by-epoch --chart over_time.png\n"
        "  hubbub decode tallies --by release\n"
        "  hubbub decode by_segment --only release=2.1 --against-only release=2.0\n"
        "  hubbub decode dark_theme.json --trend --from 2026-W40 --annotate releases.toml\n"
        "  hubbub decode tallies --out found.xlsx\n"
        "  hubbub decode tallies --installs\n"
        "  hubbub decode theme_os.json --given os\n"
        "  hubbub decode latency.json --between 0 100 --quantile 0.5 --quantile 0.99\n"
        "  hubbub decode --rappor params.csv counts.csv map.csv --format rappor\n"
        "\n"
        "exit status: 0 done, 1 with --fail-on-change: a value changed, 2 wrong use"
    )
    parser.add_argument(
        "tallies", metavar="TALLY", nargs="*", help="tally files, or folders of them; epochs of one metric are pooled"
    )
    add_candidates(parser)
    add_search(parser)
    add_crosstab(parser)
    parser.add_argument(
        "--rappor", metavar=("PARAMS", "COUNTS", "MAP"), nargs=3, help="decode files of google/rappor instead"
    )
    _add_segments(parser)
    _add_comparison(parser)
    parser.add_argument("--by-epoch", action="store_true", help="each epoch by itself; a chart shows it over time")
    parser.add_argument(
        "--installs",
        action="store_true",
        help="how many installs were active in each period, instead of what they said",
    )
    _add_trend(parser)
    _add_numbers(parser)
    parser.add_argument("--merge", action="store_true", help="add up tallies that hold the same epoch")
    parser.add_argument("--format", choices=FORMATS, help="how to write the result (default: as --out ends, or table)")
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    parser.add_argument("--out", metavar="FILE", help="where to write; needed for parquet and xlsx (Excel)")
    parser.add_argument("--chart", metavar="FILE", help="draw the result: .png, .svg or .html")
    parser.add_argument(
        "--privacy-chart", metavar="FILE", help="draw what a growing number of reports of one value reveals at most"
    )
    parser.add_argument("--confidence", type=number, default=0.95, help="of the intervals (default: 0.95)")
    parser.add_argument(
        "--estimand",
        choices=ESTIMANDS,
        help="whom the intervals describe (default: reporting; with --fail-on-change population)",
    )
    parser.add_argument("--correction", choices=CORRECTIONS, default="bonferroni", help="for many values at once")
    parser.add_argument("--exclude-absent", action="store_true", help="shares among those who answered")
    parser.add_argument("--fake-share", type=number, default=0.01, help="assumed share of fake reports (default: 0.01)")


def _add_trend(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--trend", action="store_true", help="values over time: each epoch, and what changed since the one before"
    )
    parser.add_argument(
        "--value",
        metavar="VALUE",
        action="append",
        default=[],
        help="which values a trend or a chart over time shows; may be repeated (default: those that say most)",
    )
    parser.add_argument(
        "--annotate",
        metavar="FILE",
        help="a TOML file of [[annotations]], each with a date and a text, to be shown in trends (besides releases, "
        "where they are a segment)",
    )


def _add_segments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--by", metavar="KEY", action=Once, help="each segment by itself: a key of [segments], such as release"
    )
    whom = {"--only": "only these installs", "--against-only": "compare with these installs, the before"}
    for flag, what in whom.items():
        parser.add_argument(
            flag,
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help=f"{what}: a segment, such as platform=linux; may be repeated",
        )
    parser.add_argument("--from", dest="start", metavar="PERIOD", help="first day, week or month (default: all)")
    parser.add_argument("--to", dest="end", metavar="PERIOD", help="last day, week or month")


def _add_numbers(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--between",
        metavar=("LOW", "HIGH"),
        type=number,
        nargs=2,
        action="append",
        help="range metrics: the share of numbers in [LOW, HIGH), in place of evenly wide cells; may be repeated",
    )
    parser.add_argument(
        "--quantile",
        metavar="Q",
        type=number,
        action="append",
        help="range metrics: the number below which the share Q of answers lies; may be repeated",
    )


def _add_comparison(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--against", metavar="TALLY", action="append", default=[], help="compare with these, the before"
    )
    parser.add_argument(
        "--fail-on-change",
        action="store_true",
        help="with --against: exit with 1 if a value changed. Strict enough to be asked every day: in a whole year a "
        "false alert has a probability of at most 5 %% (1 - confidence)",
    )
    parser.add_argument(
        "--looks",
        metavar="N",
        type=whole,
        help="with --fail-on-change: how many such comparisons are made in a year (default: one for each day, week or "
        "month that the metric is collected in)",
    )


def add_candidates(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--candidates",
        metavar="[METRIC=]FILE",
        action="append",
        default=[],
        help="the strings to look for, one a line, UTF-8; for one metric or for all",
    )


def run_decode(arguments: Namespace) -> int:
    options = Options(
        confidence=arguments.confidence,
        # Other installs report today than yesterday: that their shares differ a little is no change of anything.
        estimand=arguments.estimand or ("population" if arguments.fail_on_change else "reporting"),
        correction=arguments.correction,
        exclude_absent=arguments.exclude_absent,
        fake_share=arguments.fake_share,
        ranges=tuple((low, high) for low, high in arguments.between or ()),
        quantiles=tuple(arguments.quantile or QUANTILES),
        beam=arguments.beam,
    )
    arguments.format = arguments.format or _format_of(arguments.out)
    require(_contradictions(arguments))
    if is_crosstab(arguments):
        return run_crosstab(arguments, options)
    if arguments.installs:
        return _show_installs(arguments)
    arguments.by_epoch = arguments.by_epoch or arguments.trend
    decodings = _decodings(arguments, options)
    if arguments.chart:
        _draw(arguments, decodings)
    if arguments.privacy_chart:
        _draw_privacy(arguments)
    if not (arguments.against or arguments.against_only):
        _write(arguments, decodings)
        return 0
    comparisons = _comparisons(arguments, options, decodings)
    _write_comparisons(arguments, comparisons)
    return say_alerts(arguments, comparisons) if arguments.fail_on_change else 0


def _show_installs(arguments: Namespace) -> int:
    tallies = _selected(arguments.tallies, arguments.only, arguments)
    apart = by_segment(tallies, arguments.by).values() if arguments.by else [tallies]
    found = [installs for some in apart for installs in active_installs(some)]
    text = installs_text(found, arguments.format, _style(arguments))
    if arguments.chart:
        from hubbub.analysis.render.charts import installs_chart, save

        save(installs_chart(found), arguments.chart)
    _put(arguments, text)
    return 0


def _format_of(out: str | None) -> str:
    """What the ending of a file says. One that no format has would else hold a table that its program cannot open."""
    ending = Path(out or "").suffix.lower().removeprefix(".")
    if ending in ("csv", "json", "parquet", "xlsx"):
        return ending
    if ending in ("", "txt", "text", "md", "log"):
        return "table"
    known = ".csv, .json, .parquet, .xlsx or .txt (a table)"
    raise Invalid([f"--out must end in {known}, or --format say what to write, got {out!r}"])


def _contradictions(arguments: Namespace) -> Iterator[str]:
    if arguments.rappor:
        if arguments.tallies or arguments.candidates or arguments.against or arguments.engine:
            yield "--rappor takes its three files and neither tallies nor candidates"
        if arguments.by_epoch or arguments.privacy_chart:
            yield "--by-epoch and --privacy-chart need a TALLY: files of google/rappor say neither epochs nor metric"
    elif not arguments.tallies:
        yield "give at least one TALLY, or --rappor PARAMS COUNTS MAP"
    if arguments.installs and (arguments.rappor or arguments.against or arguments.by_epoch or arguments.privacy_chart):
        yield "--installs counts the reports of tallies: leave out --rappor, --against, --by-epoch and --privacy-chart"
        if arguments.by or arguments.only or arguments.against_only:
            yield "--by, --only and --against-only need a TALLY: files of google/rappor have no segments"
    against = arguments.against or arguments.against_only
    if arguments.by_epoch and against:
        yield "--by-epoch and a comparison exclude each other: it has two sides"
    if arguments.by and against:
        yield f"--by and a comparison exclude each other: it has two sides, got --by {arguments.by}"
    if arguments.fail_on_change and not against:
        yield "--fail-on-change needs --against TALLY or --against-only KEY=VALUE: what it is compared with"
    if arguments.looks is not None and not arguments.fail_on_change:
        yield f"--looks is for --fail-on-change, got it without: {arguments.looks}"
    if arguments.looks is not None and arguments.looks < 1:
        yield f"--looks must be at least 1, got {arguments.looks}"
    over_time = arguments.trend or (arguments.by_epoch and arguments.chart)
    if arguments.value and not over_time:
        yield f"--value says what --trend or --by-epoch --chart shows, got it without: {arguments.value[0]!r}"
    if arguments.annotate and not over_time:
        yield f"--annotate is for --trend or --by-epoch --chart, got it without: {arguments.annotate!r}"
    if arguments.trend and against:
        yield "--trend and a comparison exclude each other: it has two sides"
    if arguments.trend and arguments.format in ("parquet", "xlsx", "rappor"):
        yield f"--trend writes a table, csv or json, got --format {arguments.format}"
    if against and arguments.format in ("parquet", "xlsx", "rappor"):
        yield f"a comparison writes a table, csv or json, got --format {arguments.format}"


def _decodings(arguments: Namespace, options: Options) -> list[Decoding]:
    if arguments.rappor:
        params, counts, map_file = arguments.rappor
        return [decode_rappor(params, counts, map_file, options)]
    return _decode_all(arguments.tallies, arguments.only, arguments, options)


def _selected(paths: Sequence[str], only: Sequence[str], arguments: Namespace) -> list[Tally]:
    """The tallies in these files, of these segments, from --from to --to."""
    found = within(read_tallies(*paths, merge=arguments.merge), _segment(only))
    if arguments.start is None and arguments.end is None:
        return found
    wanted = Wanted(None, arguments.start, arguments.end)
    return [Tally(t.metric, {e: counts for e, counts in t.epochs.items() if wanted.has(t.metric, e)}) for t in found]


def _segment(pairs: Sequence[str]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    require(f"a segment must be KEY=VALUE, such as release=2.1, got {key!r}" for key, equals, _ in split if not equals)
    return {key: value for key, _, value in split}


def _decode_all(paths: Sequence[str], only: Sequence[str], arguments: Namespace, options: Options) -> list[Decoding]:
    by_name: dict[str, list[Tally]] = {}
    for tally in _selected(paths, only, arguments):
        by_name.setdefault(tally.metric.name, []).append(tally)
    open_metrics = [name for name, tallies in by_name.items() if tallies[0].metric.shape.open_list]
    lists = paths_by_metric(arguments.candidates, by_name, open_metrics)
    long = {name: path for name, path in lists.items() if arguments.engine or is_long(path)}
    require(_contradictions_of_long_lists(arguments, long))
    short = {name: path for name, path in lists.items() if name not in long}
    read = {path: read_candidates(path) for path in dict.fromkeys(short.values())}
    found = []
    with closing(engine_from(arguments.engine or "local:1")) as engine:
        for name, tallies in by_name.items():
            for some in _apart(tallies, arguments):
                if name in long:
                    found.append(decode_lists(some, long[name], options, engine, progress.show))
                    progress.clear()
                else:
                    listed = read[short[name]] if name in short else None
                    found.append(decode_and_say(name, some, listed, options))
    return found


def _apart(tallies: Sequence[Tally], arguments: Namespace) -> list[list[Tally]]:
    """What is decoded by itself: all together, or each segment, each epoch, or both."""
    segments = by_segment(tallies, arguments.by).values() if arguments.by else [list(tallies)]
    return [part for some in segments for part in (each_epoch(some) if arguments.by_epoch else [some])]


def _contradictions_of_long_lists(arguments: Namespace, long: Mapping[str, str]) -> Iterator[str]:
    if arguments.engine and not long:
        yield f"--engine {arguments.engine}: it spreads lists of candidates, and no --candidates were given"
    if (arguments.against or arguments.against_only) and long:
        what = "a folder, --engine, Parquet or more than a million lines"
        yield f"a comparison needs a row for each candidate, which {what} do not give: give a shorter FILE"


def each_epoch(tallies: Sequence[Tally]) -> list[list[Tally]]:
    """The same counts epoch by epoch, in order; an epoch may hold reports of several definitions."""
    epochs = sorted({epoch for tally in tallies for epoch in tally.epochs})
    apart = [
        [Tally(tally.metric, {epoch: tally.epochs[epoch]}) for tally in tallies if epoch in tally.epochs]
        for epoch in epochs
    ]
    return apart or [list(tallies)]  # no reports at all are still a result


def _comparisons(arguments: Namespace, options: Options, decodings: Sequence[Decoding]) -> list[Comparison]:
    paths, only = arguments.against or arguments.tallies, arguments.against_only or arguments.only
    before = {decoding.metric: decoding for decoding in _decode_all(paths, only, arguments, options)}
    for after in decodings:
        if after.metric not in before:
            raise Invalid([f"--against: no tally of {after.metric} was given"])
    return [compare(before[after.metric], after) for after in decodings]


def _write_comparisons(arguments: Namespace, comparisons: Sequence[Comparison]) -> None:
    match arguments.format:
        case "csv":
            text = to_csv(comparisons)
        case "json":
            text = comparisons_to_json(comparisons)
        case _:
            style = _style(arguments)
            text = "\n\n".join(comparison_table(comparison, style=style) for comparison in comparisons) + "\n"
    _put(arguments, text)


def _draw(arguments: Namespace, decodings: Sequence[Decoding]) -> None:
    metrics = {decoding.metric for decoding in decodings}
    if len(metrics) > 1:
        raise Invalid([f"--chart draws one metric, got {len(metrics)}; decode them one by one"])
    from hubbub.analysis.render.charts import decoding_chart, save
    from hubbub.analysis.render.segment_charts import segments_chart
    from hubbub.analysis.render.trends import series_chart

    if arguments.by_epoch:
        chart = series_chart(decodings, arguments.value, _annotations(arguments))
    else:
        chart = segments_chart(decodings) if arguments.by else decoding_chart(decodings[0])
    save(chart, arguments.chart)


def _draw_privacy(arguments: Namespace) -> None:
    tallies = undivided(read_tallies(*arguments.tallies, merge=True))
    metrics = {tally.metric.metric_hash: tally.metric for tally in tallies}
    if len(metrics) > 1:
        raise Invalid([f"--privacy-chart draws one definition of one metric, got {len(metrics)}"])
    from hubbub.analysis.render.charts import epsilon_chart, save

    (metric,) = metrics.values()
    save(epsilon_chart(metric), arguments.privacy_chart)


def _annotations(arguments: Namespace) -> list[Annotation]:
    tallies = _selected(arguments.tallies, arguments.only, arguments)
    found = [] if arguments.by == "release" else releases(tallies)
    return found + (read_annotations(arguments.annotate, tallies[0].metric.every) if arguments.annotate else [])


def _write(arguments: Namespace, decodings: Sequence[Decoding]) -> None:
    if arguments.trend:
        from hubbub.analysis.render.trends import trend_text

        points = trend(decodings, arguments.value, _annotations(arguments))
        return _put(arguments, trend_text(points, arguments.format, _style(arguments)))
    match arguments.format:
        case "parquet" | "xlsx":
            if not arguments.out:
                raise Invalid([f"--format {arguments.format} needs --out FILE"])
            return (write_parquet if arguments.format == "parquet" else write_excel)(decodings, arguments.out)
        case "csv":
            text = to_csv(decodings)
        case "json":
            text = to_json(decodings)
        case "rappor":
            if len(decodings) > 1:
                raise Invalid([f"--format rappor writes one metric, got {len(decodings)}"])
            text = to_rappor(decodings[0])
        case _:
            style = _style(arguments)
            tables = segment_tables if arguments.by and not arguments.by_epoch else _one_by_one
            text = "\n\n".join(tables(decodings, style)) + "\n"
    _put(arguments, text)


def _one_by_one(decodings: Sequence[Decoding], style: Style) -> Iterator[str]:
    return (table(decoding, style=style) for decoding in decodings)


def _style(arguments: Namespace) -> Style:
    return PLAIN if arguments.out else style_for(sys.stdout)


def _put(arguments: Namespace, text: str) -> None:
    if arguments.out:
        Path(arguments.out).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
