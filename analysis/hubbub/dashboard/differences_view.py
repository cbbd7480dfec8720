"""Two decodings compared, as plain values for `templates/_differences.html`: a sentence, and the table behind it."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.analysis.comparison import Comparison, compare
from hubbub.analysis.render.digits import Digits
from hubbub.analysis.render.text import compared
from hubbub.analysis.result import NUMBER, Decoding
from hubbub.dashboard import tables
from hubbub.dashboard.row_choice import MOST_TABLE_ROWS
from hubbub.dashboard.tables import Table, Verdicts

OVER_TIME = Verdicts("change", "changed", "no significant change")
APART = Verdicts("difference", "differ", "no significant difference")


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencesView:
    """`lead` says what differs. `significant`: something does, so that the table is worth its place."""

    lead: str
    significant: bool
    table: Table | None
    cells: Table | None
    """Of a range: its quantiles say more than its cells."""


def differences_view(
    before: Decoding, after: Decoding, sides: tuple[str, str], verdicts: Verdicts, between: str = ""
) -> DifferencesView:
    """`between` goes into the sentence: ` between 3.1 and 3.2`. Raises `Invalid` where the two cannot be compared."""
    found = compare(before, after)
    # A sum grows with the number of installs: two of them differ, whatever these answer.
    numbers = [i for i, role in enumerate(found.roles) if role == NUMBER and found.values[i] != "sum"]
    shares = [i for i in compared(found, MOST_TABLE_ROWS) if found.roles[i] != NUMBER]
    tested = numbers or [i for i, role in enumerate(found.roles) if role != NUMBER]
    parts = [tables.differences(found, part, sides, verdicts) for part in (numbers, shares) if part]
    return DifferencesView(
        lead=_lead(found, tested, verdicts, between),
        significant=any(bool(found.changed[i]) for i in tested),
        table=parts[0] if parts else None,
        cells=parts[1] if len(parts) == 2 else None,
    )


def _lead(found: Comparison, tested: list[int], verdicts: Verdicts, between: str) -> str:
    changed = [i for i in tested if found.changed[i]]
    if not changed:
        return f"No significant {verdicts.noun}{between}."
    if len(tested) > 1:
        return f"{len(changed)} of {len(tested)} values {verdicts.verb} significantly{between}."
    (i,) = changed
    is_number = found.roles[i] == NUMBER
    ends = float(found.low[i]), float(found.high[i])
    digits = Digits.of([ends], unit=found.after.unit if is_number else "", is_share=not is_number)
    difference = float(found.difference[i])
    return f"A significant {verdicts.noun}{between}: {digits.signed(difference, difference)} ({digits.signed(*ends)})."
