"""Days, weeks and months as whole numbers, in UTC. Nothing here reads the clock.

    day    days since 1970-01-01                 2026-11-16
    week   ISO weeks, from Monday                2026-W47
    month  12 (year - 1970) + month - 1          2026-11

A metric asked `once` lives in months: one report per install, in the month it was made.
"""

from __future__ import annotations

import re
from datetime import date

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.protocol.vocabulary import Cadence

CADENCES: tuple[Cadence, ...] = ("once", "day", "week", "month")
HOUR = 3_600
DAY = 86_400
"""Seconds of a day; the epochs of UTC know no leap seconds."""

_ORIGIN = date(1970, 1, 1).toordinal()
_FIRST, _LAST = 0, date(9999, 12, 27).toordinal() - _ORIGIN


def epoch_of(every: Cadence, unix_seconds: float) -> int:
    """The number of the epoch that holds this moment."""
    day = min(max(int(unix_seconds // DAY), _FIRST), _LAST)
    match every:
        case "day":
            return day
        case "week":
            return (day + 3) // 7  # 1970-01-01 was a Thursday
        case _:
            moment = date.fromordinal(_ORIGIN + day)
            return 12 * (moment.year - 1970) + moment.month - 1


def epoch_start(every: Cadence, epoch: int) -> int:
    """The first second of an epoch; its end is the start of the next."""
    match every:
        case "day":
            return DAY * epoch
        case "week":
            return DAY * (7 * epoch - 3)
        case _:
            return DAY * (date(1970 + epoch // 12, epoch % 12 + 1, 1).toordinal() - _ORIGIN)


def epoch_text(every: Cadence, epoch: int) -> str:
    """`2026-11-16`, `2026-W47` or `2026-11`."""
    match every:
        case "day":
            return date.fromordinal(_ORIGIN + epoch).isoformat()
        case "week":
            year, week, _ = date.fromordinal(_ORIGIN + 7 * epoch).isocalendar()
            return f"{year:04d}-W{week:02d}"
        case _:
            return f"{1970 + epoch // 12:04d}-{epoch % 12 + 1:02d}"


_FORMS = {
    "day": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "YYYY-MM-DD"),
    "week": (r"[0-9]{4}-W[0-9]{2}", "YYYY-Www"),
    "month": (r"[0-9]{4}-[0-9]{2}", "YYYY-MM"),
}
"""Compiled when they are first used, which a client never does."""


def parse_epoch(every: Cadence, text: str) -> int:
    """The epoch that a text names; raises ValueError, with the form wanted, for anything else."""
    form, name = _FORMS["month" if every == "once" else every]
    try:
        if not re.fullmatch(form, text):
            raise ValueError
        match every:
            case "day":
                return date.fromisoformat(text).toordinal() - _ORIGIN
            case "week":
                return (date.fromisocalendar(int(text[:4]), int(text[6:]), 1).toordinal() - _ORIGIN + 3) // 7
            case _:
                first = date.fromisoformat(f"{text}-01")
                return 12 * (first.year - 1970) + first.month - 1
    except ValueError:
        raise ValueError(f"an epoch of cadence {every!r} must be a real {name}, got {text!r}") from None
