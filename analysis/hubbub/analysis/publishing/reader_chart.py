"""The label's second part as a picture: how well anybody could guess your answers from published figures."""

from __future__ import annotations

from typing import Any

from hubbub.analysis.publishing.reader_words import ReaderLabel
from hubbub.analysis.render.charts import save
from hubbub.analysis.render.trade_off_chart import trade_off_chart
from hubbub.protocol.invalid import Invalid, plural

ONE_ANSWER, LIFE = "which of two kept answers", "all your answers"


def reader_chart(label: ReaderLabel) -> Any:
    """A square for each metric of which something can be said; the others are named."""
    found = label.curves
    panels = {
        name: {ONE_ANSWER: curves.one_answer, LIFE: curves.life} for name, curves in found.items() if curves is not None
    }
    if not panels:
        raise Invalid(["there is nothing to draw: of no metric can anything be said, see the words"])
    subtitle = [
        f"{label.installs:,} installs, figures of {plural(label.weeks, 'week')}, trusting the collector.",
        "No way of guessing is below its line; the nearer to blind guessing, the less can be learnt.",
    ]
    left_out = [name for name, curves in found.items() if curves is None]
    if left_out:
        subtitle.append(f"No statement about {', '.join(left_out)}.")
    return trade_off_chart(panels, title="Guessing from published figures", subtitle=subtitle)


def draw(label: ReaderLabel, path: str) -> None:
    save(reader_chart(label), path)
