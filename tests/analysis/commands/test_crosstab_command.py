"""`hubbub decode` of pairs and crosses, run as its users run it: files in, words and files out."""

from __future__ import annotations

import csv
import io
import json
from argparse import ArgumentParser

import numpy as np
import pytest

from hubbub.analysis.commands.decode import add_decode, run_decode
from hubbub.analysis.crosstab_result import COLUMNS
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.pair import Pair
from hubbub.protocol.tally_files import write_tally
from hubbub.simulations import sample_tally
from tests.analysis.joint_worlds import drawn, metric
from tests.analysis.render.test_excel import cells
from tests.analysis.test_crosstab import INSTALLS, OS, cross_tally


def decode(*arguments: object) -> int:
    parser = ArgumentParser()
    add_decode(parser)
    return run_decode(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A pair of two weeks, the same by platform, a cross and a flag."""
    folder, rng = tmp_path_factory.mktemp("tallies"), np.random.default_rng(1)
    pair = Pair("theme_os", (metric("dark", Flag(), 2, 4), metric("os", OS, 2, 4)))
    write_tally(drawn(pair, INSTALLS, rng, (2950, 2951)), folder / "pair.json")
    for platform in ("linux", "windows"):
        part = drawn(pair.in_segment((("platform", platform),)), INSTALLS, rng)
        write_tally(part, folder / f"{platform}.json")
    write_tally(cross_tally(INSTALLS, rng), folder / "cross.json")
    write_tally(sample_tally(pair.metrics[0], [100], [[30]], rng), folder / "flag.json")
    odd = Pair("odd", (metric("dark", Flag(), 2, 4), metric("what", Choice(choices=("=1+1", "<b>\u202e")), 2, 4)))
    write_tally(drawn(odd, INSTALLS[:, :3], rng), folder / "odd.json")
    return folder


def test_the_sentence_comes_first_then_the_table(world, capsys):
    assert decode(world / "pair.json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("theme_os (pair of dark and os), 2026-W29..2026-W30 (2), 200,")
    assert lines[0].endswith(" reports of both")
    assert lines[1].startswith("dark and os are related (p < 0.0001). Of installs with dark yes, ")
    assert lines[3] == "os, given dark: each row adds up to 100 %. 95 % interval in brackets."
    assert lines[5].split() == ["dark", "of", "installs", "linux", "macos", "windows", "absent"]
    assert [line.split("  ")[0] for line in lines[6:9]] == ["no", "yes", "all installs"]
    assert "Test of independence: chi-square" in "\n".join(lines)
    assert "9 times in 10 at the 5 % level" in "\n".join(lines)
    assert "\N{NO-BREAK SPACE}" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("given", "caption"),
    [("os", "dark, given os: each row"), ("all", "Shares of all installs; all cells add up to 100 %.")],
)
def test_given_turns_the_table(world, capsys, given, caption):
    assert decode(world / "pair.json", "--given", given) == 0
    assert caption in capsys.readouterr().out


def test_a_cross_is_a_table_with_given(world, capsys):
    assert decode(world / "cross.json", "--given", "dark") == 0
    assert capsys.readouterr().out.startswith("theme_os (cross of dark and os), 2026-W29, 100,")


def test_segments_together_apart_and_alone(world, capsys):
    both = world / "linux.json", world / "windows.json"
    assert decode(*both) == 0
    assert capsys.readouterr().out.count("are related") == 1
    assert decode(*both, "--by", "platform") == 0
    out = capsys.readouterr().out
    assert "theme_os, platform linux (pair" in out
    assert "theme_os, platform windows (pair" in out
    assert decode(*both, "--only", "platform=linux", "--from", "2026-W01") == 0
    assert capsys.readouterr().out.count("are related") == 1
    with pytest.raises(Invalid, match=r"a segment must be KEY=VALUE, such as release=2\.1, got 'linux'"):
        decode(*both, "--only", "linux")


def test_files_for_programs(world, tmp_path, capsys):
    assert decode(world / "pair.json", "--out", tmp_path / "table.csv") == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 30
    assert decode(world / "pair.json", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["independence"]["degrees"] == 3
    assert found["clearest"]["dark"]["outcome"] == "linux"
    assert len(found["rows"]) == 30
    pq = pytest.importorskip("pyarrow.parquet")
    assert decode(world / "pair.json", "--out", tmp_path / "table.parquet") == 0
    read = pq.read_table(tmp_path / "table.parquet").to_pydict()
    assert read["estimate"][0] == pytest.approx(float(rows[0]["estimate"]))


def test_an_excel_workbook_has_the_rows_of_the_csv_and_no_formula(world, tmp_path):
    for name in ("pair", "odd"):  # the second has a choice that begins with "="
        for ending in ("csv", "xlsx"):
            assert decode(world / f"{name}.json", "--out", tmp_path / f"{name}.{ending}") == 0
        wanted = list(csv.DictReader(io.StringIO((tmp_path / f"{name}.csv").read_text(encoding="utf-8"))))
        head, *rows = cells(tmp_path / f"{name}.xlsx")
        assert tuple(head.values()) == COLUMNS
        letters = {column: letter for letter, column in head.items()}
        assert [row.get(letters["second"], "") for row in rows] == [row["second"].removeprefix("'") for row in wanted]
        for row, plain in zip(rows, wanted, strict=True):
            assert float(row[letters["estimate"]]) == pytest.approx(float(plain["estimate"]))


def test_a_chart_is_a_heat_map(world, tmp_path, capsys):
    pytest.importorskip("vl_convert")
    assert decode(world / "pair.json", "--given", "os", "--chart", tmp_path / "heat.svg") == 0
    svg = (tmp_path / "heat.svg").read_text()
    assert "windows" in svg
    assert "are related" in svg


def test_hostile_answers_neither_run_nor_turn_a_line_round(world, tmp_path, capsys):
    assert decode(world / "odd.json") == 0
    assert "\u202e" not in capsys.readouterr().out
    assert decode(world / "odd.json", "--out", tmp_path / "odd.csv") == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "odd.csv").read_text())))
    assert {row["second"] for row in rows} >= {"'=1+1"}


def test_what_cannot_be_done_is_said(world):
    pair = world / "pair.json"
    wrong = {
        ("--given", "crashed"): "a factor of theme_os must be one of dark, os, got 'crashed'",
        ("--against", str(pair)): "--against is not for a table of two answers: leave it out, or --given and pair",
        ("--by-epoch",): "--by-epoch is not for a table of two answers",
        ("--installs",): "--installs is not for a table of two answers",
        ("--format", "parquet"): "--format parquet needs --out FILE",
        ("--format", "rappor"): "a table of two answers is written as a table, csv, json, parquet or xlsx",
        ("--item", "export"): "--item is for a pair with a set, theme_os has none",
        ("--candidates", "list.txt"): "--candidates list.txt: none of the tallies is of a string metric",
    }
    for arguments, message in wrong.items():
        with pytest.raises(Invalid) as error:
            decode(pair, *arguments)
        assert message in str(error.value)
    with pytest.raises(Invalid, match="a crosstab is of a cross or of a pair, dark is a flag"):
        decode(world / "flag.json", "--given", "dark")
    with pytest.raises(Invalid, match="--chart draws one table, got 2"):
        decode(pair, world / "odd.json", "--chart", "x.png")
