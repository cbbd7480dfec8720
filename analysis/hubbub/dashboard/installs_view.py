"""Active installs, as plain values for `templates/_installs.html`: the newest number, how it went, and by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.analysis.installs import ActiveInstalls, active_installs
from hubbub.analysis.render.glyphs import Axis, Look, Moment, Svg, line, plain_bar, round_above
from hubbub.dashboard.chart_rows import Chart, ChartRow
from hubbub.dashboard.periods import MOST_SPARK, UNITS, named, short, since
from hubbub.dashboard.series_view import marks_of
from hubbub.dashboard.snapshot import Snapshot
from hubbub.dashboard.tables import NUMBERS, Column, Table, TableRow
from hubbub.protocol.printed import fixed_percent
from hubbub.protocol.segments import NOT_SAID, OTHER, Segment, segment_order
from hubbub.protocol.tally import Tally
from hubbub.protocol.vocabulary import Cadence

_FIRST: tuple[Cadence, ...] = ("week", "day", "month")
"""Which cadence leads, where there are several: people think in weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallsView:
    """The newest number, its change, the line before it, and rows by platform and release."""

    title: str
    figure: str
    change: str
    sign: str
    picture: Svg | None
    chart: Chart | None
    table: Table


def installs_view(snapshot: Snapshot, only: Segment = ()) -> InstallsView | None:
    """None where nothing was counted. Exact numbers: no noise is in them."""
    tallies = [
        tally
        for found in snapshot.tallies.values()
        for tally in found
        if tally.metric.every != "once" and set(only) <= set(tally.metric.segment)
    ]
    every = next((each for each in _FIRST if any(t.metric.every == each and t.epochs for t in tallies)), None)
    if every is None:
        return None
    mine = [tally for tally in tallies if tally.metric.every == every]
    found = active_installs(mine)[-MOST_SPARK:]
    last = found[-1]
    change, sign = _change(found, every)
    return InstallsView(
        title=f"Active installs, {_lower(named([last.period], every))}",
        figure=f"{last.installs:,}",
        change=change,
        sign=sign,
        picture=_picture(mine, found, every) if len(found) > 1 else None,
        chart=_chart(mine, last),
        table=_table(found, every),
    )


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _change(found: Sequence[ActiveInstalls], every: Cadence) -> tuple[str, str]:
    if len(found) < 2:
        return "", ""
    before, after = found[-2].installs, found[-1].installs
    when = since([found[-1].period], every)
    if before == after:
        return f"As many as {when.removeprefix('since ')}", ""
    share = f" ({fixed_percent(abs(after - before) / before)})" if before else ""
    way, sign = ("Up", "▲") if after > before else ("Down", "▼")
    return f"{way} {abs(after - before):,}{share} {when}", sign


def _picture(tallies: Sequence[Tally], found: Sequence[ActiveInstalls], every: Cadence) -> Svg:
    most = max(each.installs for each in found)
    leading = [tally for tally in tallies if tally.metric.name == found[-1].metric]
    first, last = found[0], found[-1]
    words = (
        f"Active installs, {len(found)} {UNITS[every]}s, from {first.installs:,} to {last.installs:,}; "
        f"the last is {named([last.period], every)}"
    )
    moments = [Moment(short(each.period, every), each.installs, each.installs, each.installs) for each in found]
    return line(
        moments,
        Look(
            words=words,
            show=lambda x: f"{x:,.0f}",
            axis=Axis(0, round_above(most)),
            height=150,
            marks=marks_of(leading, [each.period for each in found]),
            area=True,
            most_dates=4,
        ),
    )


def _chart(tallies: Sequence[Tally], last: ActiveInstalls) -> Chart | None:
    """The newest period by platform, and the newest releases."""
    rows: list[tuple[str, int]] = []
    keys = sorted({key for tally in tallies for key, _ in tally.metric.segment})
    for place, key in enumerate(keys):
        apart: dict[str, list[Tally]] = {}  # counted apart, and not merged: that would add up every bit
        for tally in tallies:
            apart.setdefault(dict(tally.metric.segment).get(key, NOT_SAID), []).append(tally)
        values = [value for value in sorted(apart, key=segment_order) if value not in (OTHER, NOT_SAID)]
        if len(apart) < 2:
            continue
        some = values[:3] if place == 0 and len(keys) > 1 else list(reversed(values))
        label = "{}" if place == 0 else f"{key.capitalize()} {{}}"
        for value in some[: 5 - len(rows)]:
            counted = active_installs(apart[value], last.epoch)
            rows.append((label.format(value), counted[0].installs if counted else 0))
    if not rows:
        return None
    axis = Axis(0, round_above(max(count for _, count in rows)))
    shown = tuple(ChartRow(name, plain_bar(axis, count), f"{count:,}") for name, count in rows)
    return Chart(caption=f"Active installs by {' and '.join(keys[:2])}", rows=shown)


def _table(found: Sequence[ActiveInstalls], every: Cadence) -> Table:
    unit = UNITS[every]
    return Table(
        caption=f"Active installs per {unit}",
        columns=(Column(unit.capitalize()), Column("Installs", NUMBERS)),
        rows=tuple(TableRow(name=short(each.period, every), cells=(f"{each.installs:,}",)) for each in reversed(found)),
    )
