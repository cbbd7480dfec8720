"""How numbers, shares and days are written on a command line, and what is said to those that are none."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import date
from fractions import Fraction

import pytest

from hubbub.protocol import arguments
from hubbub.protocol.invalid import Invalid

WHOLE = "must be a whole number such as 100000, 100,000 or 1e5"
NUMBER = "must be a number such as 0.5 or 1e-9"
SHARE = "must be a number or percentage such as 0.02 or 2%"
EXACT = "must be a number or a fraction such as 0.5 or 1/3, of at most 100 digits"
DAY = "must be a date such as 2026-11-16"


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        *((arguments.whole, text, 100_000) for text in ("100000", "100,000", "100_000", "1e5", "1E+5", "100000.0")),
        (arguments.whole, "-1", -1),
        (arguments.whole, "9007199254740993", 9_007_199_254_740_993),  # no float is between
        (arguments.whole, "1e20", 10**20),
        (arguments.number, "1e-9", 1e-9),
        (arguments.share, "0.02", 0.02),
        (arguments.share, "2%", 0.02),
        (arguments.share, "2 %", 0.02),
        (arguments.exact, "0.1", Fraction(1, 10)),
        (arguments.exact, "1/3", Fraction(1, 3)),
        (arguments.exact, "1e-9", Fraction(1, 10**9)),
        (arguments.day, "2026-11-16", date(2026, 11, 16)),
    ],
)
def test_a_form_reads_what_a_person_would_write(form, text, value) -> None:
    assert form(text) == value
    assert type(form(text)) is type(value)


@pytest.mark.parametrize(
    ("form", "rule", "texts"),
    [
        (arguments.whole, WHOLE, ["", "many", "0.5", "1e-1", "inf", "-inf", "nan", "1,0", "10,00", "1,0000", ",100"]),
        (arguments.whole, f"must be a whole number of at most {10**20:,}", ["1e400", "1e999999999", "-1e21"]),
        (arguments.number, NUMBER, ["", "fast", "inf", "nan", "1e400", "1,5", "2%"]),
        (arguments.share, SHARE, ["", "%", "often", "inf", "nan%", "1e400%"]),
        (arguments.exact, EXACT, ["", "x", "1/0", "inf", "nan", "1e400", "1e999999999", "1" * 101, "1/3.0"]),
        (arguments.day, DAY, ["", "today", "2026-13-01"]),
    ],
)
def test_what_is_none_is_refused_with_the_rule_and_the_text(form, rule, texts) -> None:
    for text in texts:
        with pytest.raises(Invalid) as refused:
            form(text)
        shown = repr(text) if len(text) < 60 else repr(text)[:57] + "..."
        assert refused.value.problems == (f"{rule}, got {shown}",)


def test_argparse_says_it_after_the_option(capsys) -> None:
    parser = ArgumentParser()
    parser.add_argument("--installs", type=arguments.whole)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--installs", "inf"])
    assert capsys.readouterr().err.endswith(f"error: argument --installs: {WHOLE}, got 'inf'\n")
