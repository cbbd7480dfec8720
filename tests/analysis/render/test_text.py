"""What people and programs read."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.render.export import to_csv, to_json, write_parquet
from hubbub.analysis.render.terminal import PLAIN, style_for
from hubbub.analysis.render.text import decoding_html, table
from hubbub.analysis.result import COLUMNS
from hubbub.protocol.kinds import Choice, String
from tests.analysis.worlds import Strings, define, tally_of

ORDER = [
    "metric",
    "segment",
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
    "from",
    "to",
]


@pytest.fixture(scope="module")
def strings():
    world = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=64)), 300)
    counts = [60_000, 30_000] + [0] * 298 + [10_000]
    tally = tally_of(world.metric, counts, np.random.default_rng(1), world.where, epochs=(2960, 2961))
    return decode(tally, [*world.texts[:299].tolist(), "<b>\x1b[31m & co"])


@pytest.fixture(scope="module")
def choices():
    metric = define(Choice(choices=("a", "b", "c")))
    return decode(tally_of(metric, [60_000, 30_000, 0, 10_000], np.random.default_rng(1), epochs=(2960,)))


def test_columns_are_tidy_and_in_the_order_agreed(strings):
    assert list(COLUMNS) == ORDER
    rows = list(csv.DictReader(io.StringIO(to_csv([strings]))))
    assert list(rows[0]) == ORDER
    assert len(rows) == 302
    assert [row["value"] for row in rows[-2:]] == ["absent", "other"]
    first = rows[0]
    assert first["metric"] == "asked"
    assert first["epochs"] == "2026-W39..2026-W40 (2)"
    assert first["detected"] == "true"
    assert float(first["low"]) < 0.6 < float(first["high"])
    assert float(first["low_selected"]) <= 0.6 <= float(first["high_selected"])
    assert rows[10]["detected"] == "false"
    assert rows[10]["low_selected"] == ""
    assert first["num_reports"] == "200000"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("https://evil.example","x")', '\'=HYPERLINK("https://evil.example","x")'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("-2.5", "-2.5"),
        ("a=b", "a=b"),
        ("'quoted", "'quoted"),
    ],
)
def test_no_cell_is_a_formula_and_numbers_stay_numbers(text, cell):
    world = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=8)), 3)
    tally = tally_of(world.metric, [60_000, 30_000, 0, 10_000], np.random.default_rng(1), world.where)
    rows = list(csv.DictReader(io.StringIO(to_csv([decode(tally, [text, "plain"])]), newline="")))
    assert cell in {row["value"] for row in rows}
    numbers = [row[column] for row in rows for column in ("estimate", "std_error", "low", "high")]
    assert all(float(number) is not None for number in numbers if number)
    assert any(number.startswith("-") for number in numbers), "a negative estimate stays a number"


def test_json_says_all_that_the_table_says(strings):
    (found,) = json.loads(to_json([strings]))
    assert found["estimand"] == "reporting"
    assert found["noise_floor"] == pytest.approx(strings.noise_floor)
    assert found["rows"][0]["role"] == "answer"
    assert found["rows"][-1]["role"] == "other"
    assert found["diagnostics"]["rank"] == 300
    assert len(found["diagnostics"]["cohort_p"]) == 64


def test_parquet_pandas_and_polars_hold_the_same(strings, tmp_path):
    pandas, polars, parquet = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow.parquet"))
    write_parquet([strings], str(tmp_path / "out.parquet"))
    stored = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(stored) == ORDER
    assert stored == strings.columns()
    assert isinstance(strings.to_pandas(), pandas.DataFrame)
    assert list(strings.to_pandas().columns) == ORDER
    frame = strings.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame["estimate"].to_list() == stored["estimate"]
    assert frame["detected"].dtype == polars.Boolean


def test_a_table_speaks_plain_words(strings, choices):
    text = table(choices)
    lines = text.splitlines()
    assert lines[0] == "asked (choice), 2026-W39, 100,000 reports"
    assert lines[3].split()[0] == "a"
    assert "detected" in lines[3]
    assert "below the noise floor" in lines[5]
    assert "Intervals describe the installs that reported (reporting)." in text
    assert "Noise floor: an estimate under" in text
    assert "If 1.00 % of the reports were fake, an estimate could be off by" in text
    shown = table(strings)
    assert "given that" in shown
    assert "288 more values are not shown; --format csv has them all." in shown


def test_candidates_cannot_write_to_a_terminal_or_a_page(strings):
    assert "\x1b" not in table(strings, most=1_000)
    page = decoding_html(strings, most=1_000)
    assert strings._repr_html_() == decoding_html(strings)
    assert "<b>" not in page
    assert "<table>" in page


def test_counts_are_installs_of_an_average_epoch(strings):
    assert strings.num_reports == 200_000
    assert strings.installs == 100_000
    assert strings.counts[0] == pytest.approx(100_000 * strings.estimate[0])


def test_a_value_called_other_is_not_the_row_other():
    world = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=16)), 2)
    found = decode(tally_of(world.metric, [500, 500], np.random.default_rng(1), world.where), ["other", "text 0"])
    assert found.index("other") == 0
    assert found.index("other", "other") == 3
    with pytest.raises(KeyError, match="'nothing' is no answer row of asked"):
        found.index("nothing")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_emphasis_is_for_terminals_and_for_those_who_want_it(monkeypatch):
    """On a terminal what is not detected is faint; NO_COLOR, a dumb terminal or a file gets the same words plain."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    found = decode(tally_of(define(Choice(choices=("a", "b"))), [5_000, 0, 5_000], np.random.default_rng(1)))
    shown = table(found, style=style_for(Terminal()))
    assert "\x1b[2mb " in shown
    assert re.sub("\x1b\\[[0-9]m", "", shown) == table(found)
    assert style_for(io.StringIO()) == PLAIN
    monkeypatch.setenv("TERM", "dumb")
    assert style_for(Terminal()) == PLAIN
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert style_for(Terminal()) == PLAIN
