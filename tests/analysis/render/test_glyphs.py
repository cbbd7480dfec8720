"""Pictures keep the rules: from zero, inside their scale, in words that are no markup, without styles of their own."""

from __future__ import annotations

import re
from itertools import pairwise
from math import nan
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.analysis.render.glyphs import (
    Axis,
    Look,
    Moment,
    Svg,
    bar,
    below_limit,
    ends_of,
    guess_bar,
    line,
    number_axis,
    parts_bar,
    plain_bar,
    rail,
    round_above,
    share_axis,
    spark,
    time_axis,
)

HOSTILE = "\"'><script>alert(1)</script>&lt;\x1b\u202e"
numbers = st.floats(-1e6, 1e6)


def parsed(drawn: Svg) -> list[ElementTree.Element]:
    """Every shape of a picture, which must be well-formed."""
    return list(ElementTree.fromstring(drawn.__html__()).iter())  # our own words


def per_cent(element: ElementTree.Element, name: str) -> float:
    return float(element.attrib[name].rstrip("%"))


@given(numbers, numbers, numbers)
def test_no_bar_whisker_or_band_leaves_its_scale(estimate: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    for axis in (Axis(0, 1), Axis(-5, 20), Axis(3, 3)):
        for drawn in (bar(axis, estimate, low, high), rail(axis, estimate, low, high), below_limit(axis, high)):
            for element in parsed(drawn):
                for name in ("x", "x1", "x2", "cx", "width"):
                    if name in element.attrib:
                        assert 0 <= per_cent(element, name) <= 100
                if "width" in element.attrib and "x" in element.attrib:
                    assert per_cent(element, "x") + per_cent(element, "width") <= 100.5


def test_a_negative_estimate_has_no_bar() -> None:
    (_, box, whisker) = parsed(bar(Axis(0, 0.5), -0.02, -0.1, 0.05))
    assert per_cent(box, "width") == 0
    assert (per_cent(whisker, "x1"), per_cent(whisker, "x2")) == (0, 10)


def test_the_scale_of_shares_begins_at_zero_and_ends_at_a_round_number_above_the_largest_interval() -> None:
    assert share_axis([0.11, 0.332]) == Axis(0, 0.4)
    assert share_axis([0.93, 1.2]) == Axis(0, 1)
    assert share_axis([0.02], whole=True) == Axis(0, 1)
    assert share_axis([nan]) == Axis(0, 1)
    assert [round_above(x) for x in (0.3, 0.31, 7, 48_210, 0, nan)] == pytest.approx([0.3, 0.4, 8, 50_000, 1, 1])


def test_a_line_has_a_quarter_of_its_band_on_each_side() -> None:
    assert time_axis([(1.0, 2.0), (1.5, 3.0)]) == Axis(0.5, 3.5)
    assert time_axis([(0.0, 0.4), (nan, nan)], is_share=True) == Axis(0, 0.5)
    ends = number_axis([(1.0, 2.0)])  # an eighth more on each side, to the next round number
    assert (ends.low, ends.high) == (pytest.approx(0.8), pytest.approx(2.2))
    flat = number_axis([(4.0, 4.0)])
    assert flat.low < 4 < flat.high


@pytest.mark.parametrize(
    "ends", [(0.0, 1.0), (0.37, 0.41), (-3.0, 17.0), (1234.0, 1240.0), (0.0, 48_210.0), (5.0, 5.0)]
)
def test_an_axis_has_at_most_four_round_words(ends: tuple[float, float]) -> None:
    ticks = Axis(*ends).ticks()
    assert 1 <= len(ticks) <= 4
    assert all(ends[0] - 1e-9 <= tick <= ends[1] + 1e-9 for tick in ticks)
    assert ends[0] != 0 or ticks[0] == 0, "a scale from zero says so"


def test_below_the_detection_limit_there_is_an_empty_box_that_can_be_seen_and_no_estimate() -> None:
    (_, box) = parsed(below_limit(Axis(0, 0.5), 0.021))
    assert (box.attrib["class"], per_cent(box, "width")) == ("limit", 9)
    (_, wide) = parsed(below_limit(Axis(0, 0.5), 0.25))
    assert per_cent(wide, "width") == 50


def test_guesses_go_from_a_coin_toss_to_certainty() -> None:
    widths = [per_cent(parsed(guess_bar(right))[2], "width") for right in (50, 73, 100)]
    assert widths == [0, 46, 100]
    assert parsed(guess_bar(100, protected=False))[1].attrib["class"] == "none"


def test_the_parts_of_a_whole_lie_side_by_side_and_fill_it() -> None:
    (_, first, second) = parsed(parts_bar([("fill", 0.3), ("limit", 0.0), ("none", 0.1)]))
    assert (first.attrib["class"], second.attrib["class"]) == ("fill", "none")
    assert (per_cent(first, "x"), per_cent(second, "x")) == (0, 75)
    assert per_cent(first, "width") == pytest.approx(75 - 0.4)
    assert per_cent(second, "x") + per_cent(second, "width") <= 100


def look(**options: object) -> Look:
    return Look(**{"words": "how it went, week by week", "show": str, "axis": Axis(0, 4), **options})


WEEKS = [Moment(f"{day} Nov", 1 + day / 10, 1.0, 3.0) for day in range(1, 9)]


def test_a_line_has_its_band_its_releases_and_all_installs_behind_it() -> None:
    drawn = line(WEEKS, look(marks={2: "3.0", 6: "3.1"}, context=[2.0] * 8, label="1.8 s"))
    kinds = [element.attrib.get("class", "") for element in parsed(drawn)]
    assert (kinds.count("band"), kinds.count("line"), kinds.count("ctx"), kinds.count("release")) == (1, 1, 1, 2)
    words = [element.text for element in parsed(drawn) if element.text]
    assert {"3.0", "3.1", "1 Nov", "8 Nov", "1.8 s"} <= set(words)
    assert 'aria-label="how it went, week by week"' in drawn.__html__()


def test_no_line_goes_where_nothing_was_detected() -> None:
    """Two stretches of a line, and no point at its end; the band goes on."""
    some = [Moment(str(i), 1.0, 0.0, 2.0, hidden=i in (2, 3, 7)) for i in range(8)]
    drawn = parsed(line(some, look()))
    lines = [element.attrib["points"].split() for element in drawn if element.attrib.get("class") == "line"]
    assert [len(points) for points in lines] == [2, 3]
    (band,) = [element.attrib["points"].split() for element in drawn if element.attrib.get("class") == "band"]
    assert len(band) == 16
    assert not [element for element in drawn if element.tag == "circle"]
    assert "<circle" not in spark(some, "eight weeks, the last one hidden").__html__()
    alone = parsed(line([some[0], some[2]], look()))
    (point,) = [element.attrib["points"].split() for element in alone if element.attrib.get("class") == "line one"]
    assert point[0] == point[1], "a stretch of one moment is a dot"


def test_names_of_releases_do_not_lie_on_each_other() -> None:
    close = [Moment(str(i), 1, 0, 2) for i in range(60)]
    drawn = line(close, look(marks={i: f"10.{i}" for i in range(60)}, most_dates=2))
    shapes = parsed(drawn)
    assert sum(element.attrib.get("class") == "release" for element in shapes) == 60
    named = [element for element in shapes if element.attrib.get("y") == "11"]
    places = [per_cent(element, "x") for element in named]
    assert 5 < len(named) < 15
    assert min(b - a for a, b in pairwise(places)) > 6


@pytest.mark.parametrize(
    ("weeks", "dated"),
    [(1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3]), (8, [0, 2, 5, 7]), (9, [0, 2, 4, 6, 8]), (13, [0, 3, 6, 9, 12])],
)
def test_dates_are_nearly_as_far_apart_as_each_other(weeks: int, dated: list[int]) -> None:
    """Of eight weeks five would be 0, 2, 4, 5 and 7, of which two touch on a phone."""
    drawn = parsed(line([Moment(f"week {i}", 1, 0, 2) for i in range(weeks)], look()))
    words = [element.text for element in drawn if element.text and element.text.startswith("week")]
    assert words == [f"week {i}" for i in dated]


def test_only_exact_counts_are_filled_from_zero() -> None:
    assert 'class="band area"' in line(WEEKS, look(area=True)).__html__()
    assert "area" not in line(WEEKS, look()).__html__()


def test_what_happened_once_is_a_point_and_nothing_at_all_is_no_mistake() -> None:
    for some in (WEEKS[:1], []):
        parsed(line(some, look()))
        parsed(spark(some, "one week, and no more than that"))


def test_no_word_is_markup_and_no_picture_has_a_style() -> None:
    drawn = [
        line([Moment(HOSTILE, 1, 0, 2)] * 2, look(words=HOSTILE, show=lambda _: HOSTILE, marks={1: HOSTILE})),
        line(WEEKS, look(label=HOSTILE)),
        spark(WEEKS, HOSTILE),
        ends_of(Axis(0, 4), lambda _: HOSTILE, start="18%", end="68%", mark=(2.0, HOSTILE)),
        plain_bar(Axis(0, 4), 2),
    ]  # fmt: skip
    for picture in drawn:
        text = picture.__html__()
        assert not {element.tag for element in parsed(picture)} & {"script"}
        assert not re.search(r"<script|style=|\x1b|\u202e", text)
