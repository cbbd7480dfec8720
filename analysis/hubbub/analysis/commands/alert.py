"""`hubbub decode --fail-on-change`: what is said of changes that are more than noise, and the exit status."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from hubbub.analysis.alerts import LOOKS_A_YEAR, alert_levels, alerts
from hubbub.analysis.comparison import Comparison
from hubbub.analysis.result import NUMBER
from hubbub.protocol.printed import number, percent
from hubbub.protocol.tally_files import read_tallies


def say_alerts(arguments: Namespace, comparisons: Sequence[Comparison]) -> int:
    """Says on the standard error stream what changed, or that nothing did: the table may go to a program."""
    every = {tally.metric.name: tally.metric.every for tally in read_tallies(*arguments.tallies, merge=True)}
    looks = {name: arguments.looks or LOOKS_A_YEAR[cadence] for name, cadence in every.items()}
    found = alerts(comparisons, looks)
    for one in found:
        changed, row = one.comparison, one.row
        show = number if changed.roles[row] == NUMBER else percent
        before, after = show(changed.estimate_before[row]), show(changed.estimate_after[row])
        why = f"p = {changed.p_value[row]:.1e}, alert level {one.level:.1e}"
        what = f"{changed.after.metric}, {changed.values[row]}"
        print(f"alert: {what}: {before} before, {after} after ({why})", file=sys.stderr)
    if not found:
        least = min(alert_levels(comparisons, looks).values())
        print(f"no alert: no significant change (alert level {least:.1e})", file=sys.stderr)
    return 1 if found else 0
