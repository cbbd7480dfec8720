"""Charts: every picture is drawn for real, and its axes say what they show."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.accounting.mechanisms import gaussian_count, laplace_count
from hubbub.analysis.accounting.trade_off import trade_off_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Mean, Range, String
from tests.analysis.worlds import Strings, define, tally_of

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
from hubbub.analysis.render.charts import bar_chart, cdf_chart, decoding_chart, epsilon_chart, save
from hubbub.analysis.render.trade_off_chart import trade_off_chart
from hubbub.analysis.render.trends import series_chart

RNG = np.random.default_rng(1)


def flags():
    metric = define(Flag())
    return [decode(tally_of(metric, [700 - 10 * i, 300 + 10 * i], RNG, epochs=(2960 + i,))) for i in range(5)]


def numbers():
    metric = define(Range(low=Fraction(0), high=Fraction(60), num_leaves=64, branching=4, unit="s"))
    return decode(tally_of(metric, [200] * 64 + [1_000], RNG))


def texts(spec):
    """Every title in a chart's specification."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key in ("title", "text", "subtitle") and isinstance(value, str):
                yield value
            else:
                yield from texts(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from texts(value)


def chart_of(kind: str):
    match kind:
        case "string":
            world = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 50)
            found = decode(tally_of(world.metric, [50_000] + [0] * 50, RNG, world.where), world.texts.tolist())
            return decoding_chart(found)
        case "choice":
            return decoding_chart(decode(tally_of(define(Choice(choices=("a", "b"))), [500, 300, 200], RNG)))
        case "mean":
            metric = define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0), unit="s"))
            return decoding_chart(decode(tally_of(metric, [500, 300], RNG)))
        case "range":
            return decoding_chart(numbers())
        case "series":
            return series_chart(flags(), ["yes"])
        case "trade-off":
            curves = {"Gaussian": trade_off_of(gaussian_count(5)), "Laplace": trade_off_of(laplace_count(10))}
            return trade_off_chart({"a count": curves, "another": curves}, title="Two counts")
        case _:
            return epsilon_chart(define(Flag()))


def test_no_point_of_a_curve_is_compared_with_the_schema_when_it_is_drawn(monkeypatch, tmp_path):
    """A label's curves have 12,000 points, two seconds of it. That charts are as it says is tested below."""

    def compared(spec, *_, **__):
        assert "'panel': 'another'" not in str(spec), "the points"

    monkeypatch.setattr("altair.utils.schemapi.validate_jsonschema", compared)
    save(chart_of("trade-off"), str(tmp_path / "curve.svg"))
    assert "<svg" in (tmp_path / "curve.svg").read_text()


@pytest.mark.parametrize(
    ("kind", "axis"),
    [
        ("string", "share of installs"),
        ("choice", "share of installs"),
        ("mean", "mean (s)"),
        ("range", "asked (s)"),
        ("series", "share of installs: yes"),
        ("epsilon", "reports of one value"),
        ("trade-off", "false alarms"),
    ],
)
def test_every_chart_is_drawn_about_600_pixels_wide_with_its_axis_named(kind, axis, tmp_path):
    chart = chart_of(kind)
    assert axis in set(texts(chart.to_dict()))
    path = tmp_path / "chart.png"
    save(chart, str(path))
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, _ = struct.unpack(">II", data[16:24])
    assert 460 <= width / 2 <= 700  # drawn at twice the size, for sharp screens


def test_svg_and_a_page_that_needs_no_network(tmp_path):
    chart = chart_of("choice")
    save(chart, str(tmp_path / "chart.svg"))
    assert (tmp_path / "chart.svg").read_text(encoding="utf-8").startswith("<svg")
    save(chart, str(tmp_path / "chart.html"))
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "<script src" not in page
    assert "import " not in page.split("<script", 1)[0]


def test_what_cannot_be_drawn_is_refused_in_words(tmp_path):
    with pytest.raises(Invalid, match=r"must end in one of .png, .svg, .html, got 'chart.gif'"):
        save(chart_of("choice"), "chart.gif")
    with pytest.raises(Invalid, match="a distribution needs a range metric, asked is a flag"):
        cdf_chart(flags()[0])
    with pytest.raises(Invalid, match="the value must be one of yes, which every epoch has, got 'maybe'"):
        series_chart(flags(), ["maybe"])
    with pytest.raises(Invalid, match="a time series needs at least one decoding, got none"):
        series_chart([])


def test_a_string_called_other_has_a_bar_of_its_own():
    world = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 1)
    found = decode(tally_of(world.metric, [500], RNG, world.where), ["other"])
    values = [row["value"] for row in bar_chart(found).to_dict()["layer"][0]["data"]["values"]]
    assert values == ['"other"', "absent", "other"]
