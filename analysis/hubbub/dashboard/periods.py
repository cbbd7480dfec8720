"""Days, weeks and months as pages name them, and which of them a choice means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hubbub.protocol.cadence import epoch_start, parse_epoch
from hubbub.protocol.vocabulary import Cadence

UNITS = {"once": "month", "day": "day", "week": "week", "month": "month"}
LAST = {"last-4": 4, "last-13": 13}
ALL = "all"
MOST_SPARK = 13
"""So many periods are in the small line on a card."""


def chosen_periods(choice: str, periods: Sequence[str], every: Cadence) -> tuple[str, ...]:
    """Those that a choice means, in order. Nothing chosen: the newest; of what is asked once, all."""
    if choice == ALL or (not choice and every == "once"):
        return tuple(periods)
    if choice in LAST:
        return tuple(periods[-LAST[choice] :])
    return (choice,) if choice in periods else tuple(periods[-1:])


def periods_before(chosen: Sequence[str], periods: Sequence[str]) -> tuple[str, ...]:
    """As many before those chosen; none where there are not as many."""
    if not chosen:
        return ()
    first = list(periods).index(chosen[0])
    return tuple(periods[first - len(chosen) : first]) if first >= len(chosen) else ()


def choices(periods: Sequence[str], every: Cadence) -> tuple[tuple[str, str], ...]:
    """For a form: value and words. The newest is the empty choice, unless all are."""
    unit = UNITS[every]
    whole = [("" if every == "once" else ALL, f"All {unit}s together")]
    several = [(value, f"Last {number} {unit}s") for value, number in LAST.items() if len(periods) >= number]
    newest = [("", named(periods[-1:], every))] if periods and every != "once" else []
    older = [(period, named([period], every)) for period in reversed(periods[:-1] if newest else periods)]
    return (*newest, *several, *(whole if len(periods) > 1 or not newest else ()), *older)


def named(periods: Sequence[str], every: Cadence) -> str:
    """`Week of 9 to 15 November 2026`, `4 weeks, 19 October to 15 November 2026`."""
    if not periods:
        return f"no {UNITS[every]} yet"
    first, last = _start(periods[0], every), _end(periods[-1], every)
    if len(periods) > 1:
        return f"{len(periods)} {UNITS[every]}s, {_day(first, last)} to {_day(last)}"
    match UNITS[every]:
        case "day":
            return _day(first)
        case "week":
            same = first.month == last.month
            return f"Week of {first.day if same else _day(first, last)} to {_day(last)}"
    return f"{first:%B %Y}"


def short(period: str, every: Cadence) -> str:
    """`9 Nov`, or `Nov 2026`: for the axis of a chart."""
    start = _start(period, every)
    return f"{start:%b %Y}" if UNITS[every] == "month" else f"{start.day} {start:%b}"


def since(chosen: Sequence[str], every: Cadence) -> str:
    """`since last week`."""
    unit = UNITS[every]
    if len(chosen) > 1:
        return f"since the {len(chosen)} {unit}s before"
    return "since the day before" if unit == "day" else f"since last {unit}"


def next_numbers(every: Cadence, now: float) -> str:
    """When a period that runs now is over: `Monday, 23 November`."""
    moment = datetime.fromtimestamp(now, UTC)
    text = {"day": f"{moment:%Y-%m-%d}", "week": f"{moment:%G-W%V}"}.get(UNITS[every], f"{moment:%Y-%m}")
    start = datetime.fromtimestamp(epoch_start(every, parse_epoch(every, text) + 1), UTC)
    return f"{start:%A}, {start.day} {start:%B}"


def _start(period: str, every: Cadence) -> datetime:
    return datetime.fromtimestamp(epoch_start(every, parse_epoch(every, period)), UTC)


def _end(period: str, every: Cadence) -> datetime:
    return datetime.fromtimestamp(epoch_start(every, parse_epoch(every, period) + 1) - 1, UTC)


def _day(moment: datetime, beside: datetime | None = None) -> str:
    """Its year is left out beside a day of the same year."""
    year = "" if beside is not None and beside.year == moment.year else f" {moment.year}"
    return f"{moment.day} {moment:%B}{year}"
