"""Estimates as small drawings in rows: a name, the drawing, the number. `templates/_lines.html` shows them."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.analysis.result import NUMBER, Decoding
from hubbub.dashboard.figures import Drawing, Scale, draw
from hubbub.dashboard.sentences import cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One estimate. `unsure`: below the noise floor."""

    name: str
    drawing: Drawing
    estimate: str
    unsure: bool


def line(decoding: Decoding, row: int, name: str, scale: Scale) -> Line:
    """The estimate of a row, under this name, on a scale that others may share."""
    is_number, detected = decoding.roles[row] == NUMBER, bool(decoding.detected[row])
    estimate, low, high = (float(column[row]) for column in (decoding.estimate, decoding.low, decoding.high))
    return Line(
        name=name,
        drawing=draw(scale, estimate, low, high, is_point=is_number, certain=detected),
        estimate=f"{estimate:,.3g}" if is_number else cell(decoding, row, estimate),
        unsure=not is_number and not detected,
    )
