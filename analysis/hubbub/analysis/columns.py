"""The columns of a decoding, and what a row can be about."""

from __future__ import annotations

COLUMNS = (
    "metric",
    "epochs",
    "value",
    "estimate",
    "std_error",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "detected",
    "best_guess",
    "low_selected",
    "high_selected",
    "num_reports",
)

ANSWER, ABSENT, OTHER, NUMBER = "answer", "absent", "other", "number"
"""What a row is: the share of an answer, of those without one, of strings not listed; or a number in its unit."""


def epoch_span(epochs: tuple[str, ...]) -> str:
    """`2026-W47`, or first and last: `2026-W40..2026-W47 (8)`."""
    if not epochs:
        return ""
    return epochs[0] if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]} ({len(epochs)})"
