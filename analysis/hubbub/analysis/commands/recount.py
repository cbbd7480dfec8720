"""The command recount: tallies from kept reports, and whether they are what was counted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from hubbub.analysis import progress
from hubbub.analysis.engines.engine import FORMS, engine_from
from hubbub.analysis.recounting import differences, recount
from hubbub.protocol.arguments import whole
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.printed import text_table
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import Wanted, read_tallies, write_tallies


def add_recount(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Reports are kept for metrics with keep_reports = true, as Parquet files in the collector's data folder,\n"
        "one for each closed epoch. --parts deals them out at random: what was found in one part can be tested in\n"
        "another.\n\n"
        "examples:\n"
        "  hubbub recount /var/lib/hubbub/reports --out recounted\n"
        "  hubbub recount /var/lib/hubbub/reports --against tallies      are these the counts? exit status 1 if not\n"
        "  hubbub recount reports --metric homepage --from 2026-11 --parts 2 --out halves --engine local\n"
        "\nexit status: 0 done, 1 with --against: the counts are others, 2 wrong use"
    )
    parser.add_argument("reports", metavar="REPORTS", nargs="+", help="files of kept reports, or folders of them")
    parser.add_argument("--out", metavar="DIR", help="write tallies here; of several parts into part-1, part-2, ...")
    parser.add_argument(
        "--against", metavar="TALLY", action="append", default=[], help="compare with these tallies: an audit"
    )
    parser.add_argument("--metric", help="only this one, by name or hash")
    parser.add_argument("--from", dest="start", metavar="PERIOD", help="the first day, week or month")
    parser.add_argument("--to", dest="end", metavar="PERIOD", help="the last day, week or month")
    parser.add_argument("--parts", metavar="N", type=whole, default=1, help="deal the reports out to N tallies")
    parser.add_argument("--engine", default="local:1", help=f"who counts: {FORMS} (default: local:1)")


def run_recount(arguments: Namespace) -> int:
    if arguments.against and arguments.parts != 1:
        raise Invalid([f"--against compares all reports, so --parts must be 1, got {arguments.parts}"])
    wanted = Wanted(arguments.metric, arguments.start, arguments.end)
    with closing(engine_from(arguments.engine)) as engine:
        parts = recount(arguments.reports, engine, wanted, arguments.parts, progress.shown("counting"))
    progress.clear()
    for number, tallies in enumerate(parts, 1):
        if arguments.out:
            folder = Path(arguments.out) / f"part-{number}" if len(parts) > 1 else Path(arguments.out)
            write_tallies(tallies, folder)
    print(_table(parts))
    return _audit(parts[0], arguments.against) if arguments.against else 0


def _table(parts: Sequence[Sequence[Tally]]) -> str:
    """Metric, periods, and the reports of each part."""
    names = ["reports"] if len(parts) == 1 else [f"part {number}" for number in range(1, len(parts) + 1)]
    rows = []
    for tallies in zip(*parts, strict=True):
        metric, epochs = tallies[0].metric, sorted({epoch for tally in tallies for epoch in tally.epochs})
        periods = dict.fromkeys(epoch_text(metric.every, epochs[at]) for at in (0, -1))
        rows.append([metric.name, " to ".join(periods), *(f"{tally.num_reports:,}" for tally in tallies)])
    return "\n".join(text_table(["metric", "periods", *names], rows, left=(0, 1)))


def _audit(recounted: Sequence[Tally], places: Sequence[str]) -> int:
    """Print what is not as it was counted; the exit status."""
    by_name = {tally.metric.name: tally.metric for tally in recounted}
    wrong = list(differences(recounted, read_tallies(*places)))
    for name, epoch, kept, counted in wrong:
        period = epoch_text(by_name[name].every, epoch)
        if counted is None:
            print(f"{name} {period}: {plural(kept, 'report')} kept, no counts there")
        elif counted == kept:
            print(f"{name} {period}: as many reports, {kept:,}, but other bits")
        else:
            print(f"{name} {period}: {kept:,} reports kept, {counted:,} counted")
    checked = sum(len(tally.epochs) for tally in recounted)
    if not wrong:
        print(f"Counts and kept reports agree, bit for bit, in {plural(checked, 'period')}.")
        return 0
    print(
        f"{len(wrong)} of {plural(checked, 'period')} differ. Fewer counted: what was exported may be a step of "
        "--min-reports.\nFewer kept: keep_reports was set later, or the folder of a collector is missing here."
    )
    return 1
