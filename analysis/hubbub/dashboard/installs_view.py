"""Active installs, as plain values for `templates/_installs.html`: the newest number, and the series, by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.analysis.installs import ActiveInstalls, active_installs
from hubbub.dashboard.sentences import PERIODS, several
from hubbub.dashboard.snapshot import Snapshot
from hubbub.dashboard.tables import Column, Row, Table
from hubbub.protocol.cadence import Cadence
from hubbub.protocol.tally import Tally, by_segment

MOST_PERIODS = 12
_FIRST: tuple[Cadence, ...] = ("week", "day", "month")
"""Which cadence leads, where there are several: people think in weeks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallsView:
    """The newest number, what it is, and the numbers before it."""

    figure: str
    caption: str
    tables: tuple[Table, ...]


def installs_view(snapshot: Snapshot) -> InstallsView | None:
    """None where nothing was counted."""
    tallies = [tally for found in snapshot.tallies.values() for tally in found if tally.metric.every != "once"]
    cadences = [every for every in _FIRST if any(tally.metric.every == every for tally in tallies)]
    if not any(tally.epochs for tally in tallies):
        return None
    series = {every: _newest([t for t in tallies if t.metric.every == every]) for every in cadences}
    newest = next(found for found in series.values() if found)
    last = newest[-1]
    caption = f"active installs in the {PERIODS[last.every]} {last.period}"
    if len(newest) > 1:
        caption += f"; {several(newest[-2].installs, 'install')} in {newest[-2].period}"
    return InstallsView(
        figure=f"{last.installs:,}",
        caption=caption + ". Late messages still arrive, so the newest number grows.",
        tables=tuple(_table(tallies, every) for every, found in series.items() if found),
    )


def _newest(tallies: Sequence[Tally]) -> list[ActiveInstalls]:
    return active_installs(tallies)[-MOST_PERIODS:]


def _table(tallies: Sequence[Tally], every: Cadence) -> Table:
    """A row for each period, the newest first; a column for all installs and for each segment of the first key."""
    mine = [tally for tally in tallies if tally.metric.every == every]
    keys = sorted({key for tally in mine for key, _ in tally.metric.segment})
    apart = by_segment(mine, keys[0]) if keys else {}
    columns = {value: {each.epoch: each.installs for each in active_installs(some)} for value, some in apart.items()}
    rows = [
        Row(
            name=each.period,
            cells=(f"{each.installs:,}", *(f"{column.get(each.epoch, 0):,}" for column in columns.values())),
        )
        for each in reversed(_newest(mine))
    ]
    names = [Column(PERIODS[every]), Column("all", "number"), *(Column(value, "number") for value in columns)]
    by = f", by {keys[0]}" if keys else ""
    return Table(
        caption=f"Active installs per {PERIODS[every]}{by}", columns=tuple(names), rows=tuple(rows), visible=True
    )
