"""Which rows of a decoding a page shows, and which one leads. Nothing else on the pages chooses among rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hubbub.analysis.result import ANSWER, NUMBER, Decoding

MOST_TABLE_ROWS = 50
MOST_CARD_ROWS = 5
MOST_CHART_ROWS = 12
CARD_QUANTILES = ("quantile 0.1", "quantile 0.25", "quantile 0.5", "quantile 0.75", "quantile 0.9")


def table_rows(decoding: Decoding) -> list[int]:
    """For a metric's own page: the rows that `hubbub decode` prints."""
    return decoding.top_rows(MOST_TABLE_ROWS)


def card_rows(decoding: Decoding, most: int = MOST_CARD_ROWS) -> list[int]:
    """For a card: as many rows as it has place for. Of longer lists one row less: the last says how many more."""
    numbers = [i for i, role in enumerate(decoding.roles) if role == NUMBER and decoding.values[i] != "sum"]
    if numbers:
        chosen = [i for i in numbers if len(numbers) == 1 or decoding.values[i] in CARD_QUANTILES]
        return [i for i in chosen if np.isfinite(decoding.estimate[i])]
    answers = estimated_answers(decoding)
    largest = decoding.largest_answers(most if len(answers) <= most else most - 1)
    return sorted(largest) if decoding.natural_order else largest


def followed_value(decoding: Decoding) -> str | None:
    """The value most would like to see over time."""
    row = decoding.leading_row
    return None if row is None else decoding.values[row]


def leading_answer(decoding: Decoding, rows: Iterable[int]) -> int:
    """The row with the largest estimate among these."""
    return max(rows, key=lambda i: float(decoding.estimate[i]))


def estimated_answers(decoding: Decoding) -> list[int]:
    return [i for i, role in enumerate(decoding.roles) if role == ANSWER and np.isfinite(decoding.estimate[i])]
