"""Small pictures inside the text: a bar with its whisker, a number on its scale. Each stands beside its number, so
screen readers pass over it. Lengths are attributes, because the page allows no styles of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.dashboard.html import Html, el


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to per cent of the width."""

    low: float
    high: float

    def at(self, x: float) -> float:
        span = self.high - self.low
        return float(np.clip(100 * (x - self.low) / span, 0, 100)) if span > 0 and np.isfinite(x) else 0.0


def bar(scale: Scale, estimate: float, low: float, high: float, *, certain: bool) -> Html:
    """A share as a bar from nothing, with its interval."""
    return _drawing(
        el(
            "rect",
            class_="bar-fill" if certain else "bar-faint",
            x="0",
            y="2",
            height="8",
            rx="1",
            width=_at(scale, estimate),
        ),
        _whisker(scale, low, high),
    )


def point(scale: Scale, estimate: float, low: float, high: float) -> Html:
    """A number on its scale, with its interval."""
    middle = scale.at(estimate)
    return _drawing(
        el("line", class_="rail", x1="0", x2="100", y1="6", y2="6"),
        el(
            "rect",
            class_="bar-band",
            x=_at(scale, low),
            y="2",
            height="8",
            rx="1",
            width=f"{max(scale.at(high) - scale.at(low), 0.5):.2f}",
        ),
        el("line", class_="whisker", x1=f"{middle:.2f}", x2=f"{middle:.2f}", y1="0", y2="12"),
    )


def _whisker(scale: Scale, low: float, high: float) -> Html:
    return el("line", class_="whisker", x1=_at(scale, low), x2=_at(scale, high), y1="6", y2="6")


def _at(scale: Scale, x: float) -> str:
    return f"{scale.at(x):.2f}"


def _drawing(*parts: Html) -> Html:
    return el("svg", *parts, class_="glyph", viewBox="0 0 100 12", preserveAspectRatio="none", aria_hidden="true")
