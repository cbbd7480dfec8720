"""The whole loop, live: a real collector, thousands of installs through the real client, truth beside estimate.

Only the people are made up. The collector is the real command in a process of its own; every install is the real
client with a state of its own and a clock that runs through the last days in milliseconds; estimates are what an
analyst would get from the same tallies, of all installs and of some platforms and releases by themselves. The truth
is known to the demo alone.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import webbrowser
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TextIO

import numpy as np
import numpy.typing as npt

from hubbub.analysis import Crosstab, by_segment, decode, progress, undivided
from hubbub.analysis.kinds.factor import Categories
from hubbub.analysis.render.terminal import PLAIN, Style, style_for
from hubbub.analysis.result import NUMBER, Decoding
from hubbub.client import Registry
from hubbub.client.upload import attempt, post
from hubbub.protocol.cadence import DAY
from hubbub.protocol.metric import Metric
from hubbub.protocol.printed import fixed_percent, text_table
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import fetch_pair_tallies, fetch_tallies
from hubbub.simulations.demo.crowd_size import crowd_size
from hubbub.simulations.demo.people import CANDIDATES, DAYS, demo_registry, make_crowd
from hubbub.simulations.fleet import FleetRun, run_fleet
from hubbub.simulations.people.histories import InstallCrowd
from hubbub.simulations.people.truth import truth_of
from hubbub.simulations.server import Collector, running_collector, running_dashboard

RUBBISH_MESSAGES = 25
LOOK_SECONDS = 1.0
TELLS = 10
"""How often a demo without a terminal says how far it is."""
TOLD_APART = (("startup_time", "mean", "platform"), ("exports", "[0, 1)", "release"))
"""What the table also shows by segment: how long the editor takes to start, and how many never export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRow:
    """One line of the table: what is true, what was found."""

    metric: str
    value: str
    truth: float
    estimate: float
    low: float
    high: float
    noise_floor: float
    visible: bool
    number: bool
    segment: str = ""
    """Whose line it is: `platform linux`; empty for all installs together."""

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def seen(self) -> bool:
        """Whether it stands out from noise; a number always does."""
        return self.number or self.visible


def run_demo(installs: int | None, processes: int, seed: int, out: TextIO, once: bool, browser: bool) -> int:
    """Run it, show it, and leave nothing behind. The dashboard is for those who stay; `once` needs none."""
    started = time.monotonic()
    registry = demo_registry()
    screen = Screen(out)
    if installs is None:
        screen.say("Looking how fast this machine is, and starting a collector ...")
        installs = crowd_size(registry, processes)
    else:
        screen.say("Starting a collector ...")
    with tempfile.TemporaryDirectory(prefix="hubbub-demo-") as directory:
        metrics = Path(directory, "metrics.toml")
        metrics.write_text(registry.source, encoding="utf-8")
        with running_collector(metrics, Path(directory, "data")) as collector, ExitStack() as beside:
            screen.say(f"A real collector listens on {collector.url}; its read token is {collector.token}")
            if not once:
                url = beside.enter_context(_dashboard(collector, Path(directory)))
                screen.say(f"Watch the estimates arrive on {url}")
                if browser:
                    webbrowser.open(url)
            screen.say(f"{installs:,} installs of an editor live through the last {DAYS} days, noise and all.\n")
            crowd = make_crowd(installs, seed)
            counts = _watch(screen, collector, registry, crowd, processes, seed)
            _send_rubbish(collector, seed)
            rows = list(read(collector, registry, crowd))
            screen.show(_table(rows, installs, installs, screen.style), last=True)
            for line in _summary(rows, counts, collector, time.monotonic() - started, once):
                screen.say(line)
            if not once:
                screen.say(f"\nCollector and dashboard ({url}) go on until you press Ctrl-C.")
                _wait_for_interrupt()
    return 0


def _dashboard(collector: Collector, folder: Path) -> AbstractContextManager[str]:
    """It knows the token and the candidates: an analyst who runs one for a team would start it the same way."""
    candidates = folder / "pages.txt"
    candidates.write_text("\n".join(CANDIDATES), encoding="utf-8")
    options = ("--candidates", f"homepage={candidates}", "--every", f"{LOOK_SECONDS:g}")
    return running_dashboard([collector.url], folder, *options, token=collector.token)


def _watch(
    screen: Screen, collector: Collector, registry: Registry, crowd: InstallCrowd, processes: int, seed: int
) -> Counter[str]:
    """Let the fleet run and look at the estimates about once a second, as an impatient analyst would."""
    installs = crowd.installs
    today = time.time() // DAY * DAY
    fleet = FleetRun(
        source=registry.source,
        endpoint=collector.url,
        start=today - DAYS * DAY,
        make_crowd=partial(make_crowd, installs, seed),
    )
    counts: Counter[str] = Counter()
    looked, told = time.monotonic(), 1
    for finished in run_fleet(fleet, installs, processes):
        counts += finished
        counts["installs"] += finished["made"] // (DAYS * len(registry))
        if time.monotonic() - looked >= LOOK_SECONDS and screen.live:
            rows = list(read(collector, registry, crowd))
            screen.show(_table(rows, counts["installs"], installs, screen.style))
            looked = time.monotonic()
        elif not screen.live and counts["installs"] * TELLS >= installs * told:
            said = _first_estimate(collector, registry, crowd) if told == 1 else ""
            screen.say(f"{counts['installs']:,} of {installs:,} installs have reported.{said}")
            told += 1
    return counts


def _first_estimate(collector: Collector, registry: Registry, crowd: InstallCrowd) -> str:
    """The first row of the table, in words, for whoever watches no table."""
    row = next(read(collector, registry, crowd))
    interval = f"{_figure(row, max(row.low, 0.0))} to {_figure(row, min(row.high, 1.0))}"
    estimate, truth = _figure(row, row.estimate), _figure(row, row.truth)
    return f" First estimate: {row.metric} {row.value} {estimate} ({interval}); true {truth}."


def read(collector: Collector, registry: Registry, crowd: InstallCrowd) -> Iterator[DemoRow]:
    """What an analyst would read off this collector now, the truth beside it: of all installs, then by segment."""
    tallies = list(fetch_tallies(collector.url, collector.token))
    together = {tally.metric.name: tally for tally in undivided(tallies)}
    for metric in registry:
        if metric.name in together:
            yield from _rows(_decode(together[metric.name]), metric, crowd)
    for name, value, key in TOLD_APART:
        counted = [tally for tally in tallies if tally.metric.name == name]  # none, before the first has reported
        for segment, (tally,) in by_segment(counted, key).items() if counted else ():
            rows = _rows(_decode(tally), registry[name], crowd.only(key, segment), f"{key} {segment}")
            yield from (row for row in rows if row.value == value)
    for pair in undivided(fetch_pair_tallies(collector.url, collector.token)):
        yield from _given(decode(pair), crowd)


def _given(table: Crosstab, crowd: InstallCrowd) -> Iterator[DemoRow]:
    """Of two answers at once: the last one of the first metric, given each answer to the second."""
    first, second = table.factors
    shares, outcome = table.given[1].shares, len(first) - 1
    told = [_told(crowd, factor) for factor in table.factors]
    for j in second.answers:
        among = told[1] == j
        if among.any():
            low, high = np.clip([shares.low[outcome, j], shares.high[outcome, j]], 0, 1)  # nothing known: all of it
            yield DemoRow(
                metric=first.name,
                value=first.values[outcome],
                truth=float(np.mean(told[0][among] == outcome)),
                estimate=float(shares.estimate[outcome, j]),
                low=float(low),
                high=float(high),
                noise_floor=float(shares.limit[outcome, j]),
                visible=bool(shares.detected[outcome, j]),
                number=False,
                segment=f"{second.name} {second.values[j]}",
            )


def _told(crowd: InstallCrowd, factor: Categories) -> npt.NDArray[np.int64]:
    """Which category each install is in, day by day; silence is the last."""
    history = crowd.histories[factor.name]
    names = {True: "yes", False: "no"}
    places = [factor.values.index(names.get(value, value)) for value in history.values]
    return np.array([*places, -1, len(factor) - 1])[history.answers]  # away is at -2, nothing recorded at -1


def _decode(tally: Tally) -> Decoding:
    return decode(tally, CANDIDATES if tally.metric.shape.open_list else None)


def _rows(decoding: Decoding, metric: Metric, crowd: InstallCrowd, segment: str = "") -> Iterator[DemoRow]:
    truth = truth_of(decoding, metric, crowd.histories[metric.name].counts(), DAYS)
    detected = decoding.detected
    numbers = NUMBER in decoding.roles  # 64 cells of a range would fill the screen; its quantiles say more
    for i, (value, role) in enumerate(zip(decoding.values, decoding.roles, strict=True)):
        if (role == NUMBER or not numbers) and value != "sum" and np.isfinite(truth[i]):
            yield DemoRow(
                metric=decoding.metric,
                value=value,
                truth=float(truth[i]),
                estimate=float(decoding.estimate[i]),
                low=float(decoding.low[i]),
                high=float(decoding.high[i]),
                noise_floor=decoding.noise_floor,
                visible=bool(detected[i]),
                number=role == NUMBER,
                segment=segment,
            )


def _send_rubbish(collector: Collector, seed: int) -> None:
    """Somebody sends rubbish. It is refused whole, with words, and counts for nothing."""
    rng = Random(seed)
    for _ in range(RUBBISH_MESSAGES):
        attempt(post, collector.url, b"HUBB" + rng.randbytes(60), bytes(16), timeout=10.0)


# --- what is shown ------------------------------------------------------------------------------------------------


class Screen:
    """A terminal, on which a table is drawn over the last one; or a file, which gets the last table only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._height = 0
        self.live = out.isatty()
        self.style = style_for(out)

    def say(self, line: str) -> None:
        print(line, file=self._out, flush=True)
        self._height = 0

    def show(self, lines: list[str], *, last: bool = False) -> None:
        """On a terminal that is too low for it a table is cut, but for the last: what has left the screen cannot be
        drawn over."""
        if self.live and not last:
            lines = lines[: max(1, shutil.get_terminal_size().lines - 1)]
        if self.live and self._height:
            self._out.write(f"\x1b[{self._height}A")
        end = "\x1b[K\n" if self.live else "\n"
        self._out.write("".join(line + end for line in lines))
        self._out.flush()
        self._height = len(lines)


def _table(rows: list[DemoRow], reported: int, installs: int, style: Style = PLAIN) -> list[str]:
    bar = progress.bar(round(30 * reported / installs), 30)
    names = [row.metric for row in rows]
    cells = [_cells(row, first=row.metric != last) for row, last in zip(rows, ["", *names], strict=False)]
    header, *lines = text_table(_HEADER, cells, left=(0, 1, 2, 5, 7), widths=_WIDTHS, gap=" ")
    styled = [_styled(line, row, style) for line, row in zip(lines, rows, strict=True)]
    together = sum(not row.segment for row in rows)
    apart = ["", *styled[together:]] if styled[together:] else []
    return [f"{bar} {reported:,} of {installs:,} installs have reported", "", header, *styled[:together], *apart]


_HEADER = ("", "metric", "value", "truth", "estimate", "  95 % interval", "noise floor", "")
_WIDTHS = (1, 13, 26, 8, 9, 20, 11, 0)
"""Fixed: a table that is drawn over the last one should not jump."""


def _cells(row: DemoRow, *, first: bool) -> list[str]:
    return [
        "",
        row.metric if first else "",
        f"{row.value}, {row.segment}" if row.segment else row.value,
        _figure(row, row.truth),
        _figure(row, row.estimate),
        f"  {_figure(row, row.low)} to {_figure(row, row.high)}",
        _figure(row, row.noise_floor) if first and not row.number else "",
        "" if row.holds and row.seen else " below the noise floor" if row.holds else " misses the truth",
    ]


def _styled(line: str, row: DemoRow, style: Style) -> str:
    if not row.holds:
        return style.warning(line)
    return line if row.seen else style.faint(line)


def _figure(row: DemoRow, x: float) -> str:
    return f"{x:.2f}" if row.number else fixed_percent(x)


def _summary(
    rows: list[DemoRow], counts: Counter[str], collector: Collector, seconds: float, once: bool
) -> Iterator[str]:
    holding = sum(row.holds for row in rows)
    health = collector.health()
    yield ""
    yield f"{holding} of {len(rows)} intervals of 95 % hold the truth. {seconds:.0f} s."
    yield (
        f"{counts['sent']:,} reports of {counts['installs']:,} installs were sent, "
        f"{health.reports:,} counted. "
        f"{health.duplicates} messages came twice and count once; {sum(health.refused.values())} were rubbish and are "
        "refused."
    )
    yield "No answer ever left an install: look at one, and at what is asked, with these:"
    yield ""
    yield "  hubbub init my-app"  # first: the others need its metrics.toml, which only a checkout would have
    yield "  hubbub peek homepage https://news.example/ --metrics my-app/metrics.toml"
    yield "  hubbub label my-app/metrics.toml"
    if not once:  # there is still a collector to ask
        yield f"  hubbub export --url {collector.url} --token {collector.token} --out tallies"


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print(file=sys.stderr)
