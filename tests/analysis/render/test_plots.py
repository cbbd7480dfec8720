"""Pictures of reports: everything lies on its scale, every word is escaped, and colours are the page's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hubbub.analysis.render.plots import Panel, Plot, PlotRow, RowPlot, Scale, Series

HOSTILE = '<script>alert("x")</script>&'
UNIT = Scale.linear(0, 1, "{:g}".format, HOSTILE)


def panel(*series: Series, y: Scale = UNIT) -> Plot:
    return Plot(
        rows=((Panel(x=UNIT, y=y, series=series, title=HOSTILE, rules=((0.5, HOSTILE),)),),),
        legend=(("blue", HOSTILE),),
    )


@pytest.mark.parametrize(
    "picture",
    [
        panel(Series(css="blue", line=[(0, 0), (1, 1)], dots=[(0.5, 0.5)], band=[(0, 0, 1), (1, 0, 1)])),
        RowPlot(
            scale=UNIT, rows=(PlotRow(name=HOSTILE, bars=(("blue", 0.4),), mark=0.2),), legend=(("blue", HOSTILE),)
        ),
    ],
    ids=["panel", "rows"],
)
def test_every_word_is_escaped_and_the_picture_is_well_formed(picture: Plot | RowPlot) -> None:
    markup = picture.drawn(HOSTILE).markup
    assert "<script" not in markup
    root = ElementTree.fromstring(markup)
    assert root.get("role") == "img"
    assert root.get("aria-label") == HOSTILE
    assert HOSTILE[:20] in "".join(root.itertext())
    assert "style=" not in markup


def test_what_lies_beyond_a_scale_is_drawn_at_its_end() -> None:
    wild = [(-5.0, -7.0), (9.0, float("inf")), (0.5, float("nan")), (2.0, 3.0)]
    markup = (
        panel(Series(css="blue", dots=wild, line=wild, whiskers=[(0.5, -9, 9)], bars=[(0.5, 40), (0.2, -40)]))
        .drawn("")
        .markup
    )
    numbers = [float(x) for x in re.findall(r'(?:cx|x1|x2|cy|y1|y2)="(-?[\d.]+)%?"', markup)]
    assert min(numbers) >= 0
    assert "nan" not in markup
    assert "inf" not in markup
    circles = re.findall(r'<circle class="fill blue" cx="([\d.]+)%" cy="([\d.]+)"', markup)
    assert circles == [("0.00", "230.0"), ("100.00", "0.0")]


def test_scales_are_linear_or_logarithmic_and_have_round_ticks() -> None:
    scale = Scale.linear(0, 0.4, "{:g}".format)
    assert [words for _, words in scale.ticks] == ["0", "0.1", "0.2", "0.3", "0.4"]
    assert [scale.at(x) for x in (-1, 0.1, 0.4, 9)] == pytest.approx([0, 25, 100, 100])
    powers = Scale.logarithmic([1, 100, 10_000], "{:g}".format)
    assert [powers.at(x) for x in (0.001, 1, 10, 100, 10_000, 1e9)] == pytest.approx([0, 0, 25, 50, 100, 100])


def test_bars_begin_at_zero_whatever_the_scale() -> None:
    scale = Scale.linear(-1, 1, "{:g}".format)
    rows = (PlotRow(name="a", bars=(("blue", 0.5), ("orange", -0.5))), PlotRow(name="b", bars=(("blue", 0.5),)))
    markup = RowPlot(scale=scale, rows=rows).drawn("").markup
    found = re.findall(r'<rect class="fill (\w+)" x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"', markup)
    assert found == [("blue", "50.00", "25.00"), ("orange", "25.00", "25.00"), ("blue", "50.00", "25.00")]
    stacked = RowPlot(scale=UNIT, rows=(PlotRow(name="a", bars=(("blue", 0.2), ("orange", 0.3)), stacked=True),))
    found = re.findall(r'<rect class="fill (\w+)" x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"', stacked.drawn("").markup)
    assert found == [("blue", "0.00", "20.00"), ("orange", "20.00", "30.00")]
