"""`hubbub decode`, run as its users run it: files in, words and files out."""

from __future__ import annotations

import csv
import io
import json
import re
from argparse import ArgumentParser
from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis.commands.decode import add_decode, run_decode
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Range, String
from tests.analysis.discoveries import SMALL, Crowd, asked
from tests.analysis.test_rappor import write_files
from tests.analysis.worlds import Strings, define, tally_of


def decode(*arguments: object) -> int:
    parser = ArgumentParser()
    add_decode(parser)
    return run_decode(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def world(tmp_path):
    """A folder with a flag's tally of two epochs in two files, and a string's with its candidates."""
    rng = np.random.default_rng(1)
    flag = define(Flag())
    for epoch in (2960, 2961):
        (tmp_path / f"flag{epoch}.json").write_text(tally_of(flag, [7_000, 3_000], rng, epochs=(epoch,)).to_json())
    strings = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=64)), 100)
    named = type(flag)(name="page", every="week", shape=strings.metric.shape, noise=strings.metric.noise)
    tally = tally_of(named, [60_000, 40_000] + [0] * 98, rng, strings.where)
    (tmp_path / "page.json").write_text(tally.to_json())
    (tmp_path / "pages.txt").write_text("\ufeff" + "\r\n".join(strings.texts.tolist()) + "\n\n", encoding="utf-8")
    return tmp_path


def test_a_table_pools_the_epochs_of_several_files(world, capsys):
    assert decode(world / "flag2960.json", world / "flag2961.json") == 0
    out = capsys.readouterr().out
    assert out.startswith("asked (flag), 2026-W39..2026-W40 (2), 20,000 reports")
    assert "yes" in out


def test_strings_are_found_among_candidates(world, capsys):
    for argument in (world / "pages.txt", f"page={world / 'pages.txt'}"):
        assert decode(world / "page.json", world / "flag2960.json", "--candidates", argument, "--format", "csv") == 0
        rows = {row["value"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
        assert rows["text 0"]["detected"] == "true"
        assert rows["text 50"]["detected"] == "false"
        assert rows["yes"]["metric"] == "asked"


def test_json_parquet_charts_and_files(world, capsys):
    decode(world / "flag2960.json", "--json", "--estimand", "population", "--confidence", "0.9")
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["estimand"], found["confidence"]) == ("population", 0.9)
    decode(world / "flag2960.json", "--format", "csv", "--out", world / "out.csv")
    assert (world / "out.csv").read_text().startswith("metric,segment,epochs,value")
    pytest.importorskip("pyarrow")
    decode(world / "flag2960.json", "--format", "parquet", "--out", world / "out.parquet")
    assert (world / "out.parquet").read_bytes()[:4] == b"PAR1"
    pytest.importorskip("altair")
    decode(world / "flag2960.json", "--chart", world / "chart.svg")
    assert (world / "chart.svg").read_text().startswith("<svg")


def test_two_releases_are_compared(world, capsys):
    decode(world / "flag2961.json", "--against", world / "flag2960.json")
    out = capsys.readouterr().out
    assert "2026-W39" in out
    assert "no change seen" in out


def test_a_change_fails_the_command_and_none_does_not(world, capsys):
    """Once a year for one row: at 5 %. The default is once a week of the year, over the population."""
    rng = np.random.default_rng(9)
    (world / "after.json").write_text(tally_of(define(Flag()), [5_000, 5_000], rng, epochs=(2962,)).to_json())
    assert decode(world / "flag2961.json", "--against", world / "flag2960.json", "--fail-on-change") == 0
    assert capsys.readouterr().err == "no alert: no significant change (alert level 9.4e-04)\n"
    assert decode(world / "after.json", "--against", world / "flag2960.json", "--fail-on-change", "--json") == 1
    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert said.err.startswith("alert: asked, yes: 2")
    assert said.err.endswith(f"after (p = {row['p_value']:.1e}, alert level 9.4e-04)\n")
    options = ("--against", world / "flag2960.json", "--json", "--estimand")
    decode(world / "after.json", *options, "population")
    assert json.loads(capsys.readouterr().out) == [row], "of the population unless said otherwise"
    arguments = (world / "after.json", *options, "reporting", "--fail-on-change", "--looks", 1)
    assert decode(*arguments) == 1
    said = capsys.readouterr()
    assert said.err.endswith("alert level 5.0e-02)\n")
    assert json.loads(said.out)[0]["std_error"] < row["std_error"]
    assert decode(world / "after.json", "--against", world / "flag2960.json") == 0, "only where it was asked for"


def test_a_comparison_is_written_as_tidy_rows(world, capsys):
    decode(world / "flag2961.json", "--against", world / "flag2960.json", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["difference"] == pytest.approx(row["estimate_after"] - row["estimate_before"])
    assert (row["epochs_before"], row["epochs_after"], row["changed"]) == ("2026-W39", "2026-W40", False)
    decode(world / "flag2961.json", "--against", world / "flag2960.json", "--format", "csv")
    (same,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert list(same) == list(row)
    assert float(same["p_value"]) == row["p_value"]


def test_epochs_one_by_one_are_rows_and_a_chart_over_time(world, capsys):
    both = (world / "flag2960.json", world / "flag2961.json")
    alone = []
    for path in both:
        decode(path, "--format", "csv")
        alone.append(capsys.readouterr().out.splitlines()[1])
    decode(*both, "--by-epoch", "--format", "csv", "--chart", world / "time.svg")
    assert capsys.readouterr().out.splitlines()[1:] == alone
    assert "share of installs: yes" in (world / "time.svg").read_text()
    decode(*both, "--privacy-chart", world / "privacy.svg")
    assert "reports of one value" in (world / "privacy.svg").read_text()


def test_any_range_and_any_quantile_of_a_distribution(world, capsys):
    shape = Range(low=Fraction(0), high=Fraction(64), num_leaves=64, branching=4, unit="s")
    tally = tally_of(define(shape, "4", "8"), [1_000] * 32 + [0] * 32 + [0], np.random.default_rng(3))
    (world / "range.json").write_text(tally.to_json())
    decode(world / "range.json", "--between", 0, 8, "--between", 40, 64, "--quantile", "0.99", "--json")
    (found,) = json.loads(capsys.readouterr().out)
    rows = {row["value"]: row for row in found["rows"]}
    assert list(rows) == ["[0, 8) s", "[40, 64) s", "absent", "quantile 0.99"]
    assert rows["[0, 8) s"]["low"] < 0.25 < rows["[0, 8) s"]["high"]
    assert rows["[0, 8) s"]["detected"]
    assert not rows["[40, 64) s"]["detected"]
    assert rows["quantile 0.99"]["low"] <= 31.68 <= rows["quantile 0.99"]["high"]
    with pytest.raises(Invalid, match=r"a bound must be an edge, .* got 0.4; the nearest is 0"):
        decode(world / "range.json", "--between", 0.4, 8)


def test_files_of_google_rappor(tmp_path, capsys):
    files = write_files(tmp_path, np.random.default_rng(2))
    assert decode("--rappor", *files, "--format", "rappor") == 0
    assert capsys.readouterr().out.splitlines()[1].startswith('"string, 0",')


def test_mistakes_are_refused_in_words(world):
    flag, page = world / "flag2960.json", world / "page.json"
    (world / "latin.txt").write_bytes(b"caf\xe9\n")
    (world / "empty.txt").write_text("\n")
    (world / "broken.json").write_text("{}")
    for arguments, words in (
        ([], "give at least one TALLY, or --rappor PARAMS COUNTS MAP"),
        ([flag, flag], r"epoch 2960 of asked was read before; --merge \(in Python, merge=True\) adds such files up"),
        ([flag, "--candidates", world / "pages.txt"], "none of the tallies is of a string metric"),
        ([page, "--candidates", "nothing=pages.txt"], "no tally of a metric 'nothing' was given"),
        ([page, "--candidates", world / "latin.txt"], "must be UTF-8, got a wrong byte at 3"),
        ([page, "--candidates", world / "empty.txt"], "empty.txt: at least one candidate is needed, got none"),
        ([world / "broken.json"], "broken.json: not a tally: format must be 'hubbub.tally', got None"),
        ([flag, "--format", "parquet"], "--format parquet needs --out FILE"),
        ([flag, "--format", "xlsx"], "--format xlsx needs --out FILE"),
        ([flag, "--out", "found.docx"], "--out must end in .csv, .*, or --format say what to write, got 'found.docx'"),
        ([flag, page, "--format", "rappor"], "--format rappor writes one metric, got 2"),
        ([flag, page, "--chart", "x.png"], "--chart draws one metric, got 2"),
        ([flag, "--rappor", "a", "b", "c"], "--rappor takes its three files and neither tallies nor candidates"),
        ([flag, "--against", page], "--against: no tally of asked was given"),
        (
            [flag, "--against", flag, "--format", "rappor"],
            "a comparison writes a table, csv or json, got --format rappor",
        ),
        ([flag, "--fail-on-change"], "--fail-on-change needs --against TALLY"),
        ([flag, "--against", flag, "--looks", "9"], "--looks is for --fail-on-change, got it without: 9"),
        ([flag, "--against", flag, "--fail-on-change", "--looks", "0"], "--looks must be at least 1, got 0"),
        ([flag, "--against", flag, "--by-epoch"], "--by-epoch and a comparison exclude each other"),
        ([flag, "--value", "yes"], "--value says what --trend or --by-epoch --chart shows, got it without: 'yes'"),
        ([flag, "--between", "0", "1"], "ranges and quantiles are for range metrics, asked is a flag"),
        ([flag, "--between", "1", "1"], "a range's low end must be below its high end, got 1 and 1"),
        ([flag, "--quantile", "1.5"], "a quantile must be above 0 and below 1, got 1.5"),
        ([flag, page, "--privacy-chart", "x.svg"], "--privacy-chart draws one definition of one metric, got 2"),
        (["--rappor", "a", "b", "c", "--by-epoch"], "--by-epoch and --privacy-chart need a TALLY"),
        (
            [flag, "--exclude-absent"],
            r"\(--exclude-absent\) needs installs that did not answer: asked is a flag, in which those that recorded "
            "nothing count as no",
        ),
        ([flag, "--by", "release", "--by", "platform"], "--by must be given once, got release and platform"),
        ([flag, "--confidence", "2"], "confidence must be at least 0.5 and below 1, got 2.0"),
    ):
        with pytest.raises(Invalid, match=words):
            decode(*arguments)


def test_the_same_epoch_twice_is_added_up_when_asked(world, capsys):
    assert decode(world / "flag2960.json", world / "flag2960.json", "--merge") == 0
    assert "20,000 reports" in capsys.readouterr().out


def test_a_folder_stands_for_the_tallies_in_it(world, capsys):
    (world / "tallies").mkdir()
    with pytest.raises(Invalid, match=r"a folder must hold tally files, got none that ends in \.json"):
        decode(world / "tallies")
    for name in ("flag2960.json", "page.json"):
        (world / "tallies" / name).write_bytes((world / name).read_bytes())
    assert decode(world / "tallies") == 0
    out = capsys.readouterr().out
    assert "(flag)" in out
    assert "(string)" in out


def test_a_choice_excludes_those_who_did_not_answer(world, capsys):
    tally = tally_of(define(Choice(choices=("a", "b"))), [5_000, 3_000, 2_000], np.random.default_rng(1))
    (world / "choice.json").write_text(tally.to_json())
    decode(world / "choice.json", "--exclude-absent")
    out = capsys.readouterr().out
    assert "absent" not in out.split("\n\n")[1]
    assert "as shares of those who answered" in out


def test_candidates_beyond_a_million_are_refused(world, monkeypatch):
    monkeypatch.setattr("hubbub.analysis.candidates_file.MOST_CANDIDATES", 3)
    with pytest.raises(Invalid, match="at most 3 candidates, got 100"):
        decode(world / "page.json", "--candidates", world / "pages.txt")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "txt", "xlsx"])
def test_a_file_is_what_its_ending_says_unless_a_format_is_given(world, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    out = world / f"found.{ending}"
    assert decode(world / "flag2960.json", "--out", out) == 0
    start = {
        "csv": b"metric,segment,epochs,value",
        "json": b"[",
        "parquet": b"PAR1",
        "txt": b"asked (flag)",
        "xlsx": b"PK",
    }[ending]
    assert out.read_bytes().startswith(start)
    assert decode(world / "flag2960.json", "--out", out, "--format", "table") == 0
    assert out.read_bytes().startswith(b"asked (flag)")


# --- installs -------------------------------------------------------------------------------------------------------


def test_installs_are_shown_as_a_table_csv_json_and_chart(world, capsys):
    files = world / "flag2960.json", world / "flag2961.json"
    assert decode(*files, "--installs", "--chart", world / "installs.svg") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "Active installs per week",
        "period    installs  change  as counted by",
        "2026-W39    10,000          asked",
        "2026-W40    10,000  +0.0 %  asked",
    ]
    assert "<svg" in (world / "installs.svg").read_text()
    decode(*files, "--installs", "--json")
    assert [row["installs"] for row in json.loads(capsys.readouterr().out)] == [10_000, 10_000]
    decode(*files, "--installs", "--out", world / "installs.csv")
    rows = list(csv.DictReader(io.StringIO((world / "installs.csv").read_text())))
    assert rows[0] == {
        "counts": "active installs",
        "segment": "",
        "every": "week",
        "period": "2026-W39",
        "installs": "10000",
        "metric": "asked",
    }


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--by-epoch"], "--installs counts the reports of tallies: leave out"),
        (["--format", "parquet", "--out", "x.parquet"], "--installs writes a table, csv or json, got --format parquet"),
    ],
)
def test_what_does_not_go_with_installs_is_refused_in_words(world, more, sentence):
    with pytest.raises(Invalid, match=sentence):
        decode(world / "flag2960.json", "--installs", *more)


def test_a_chart_of_installs_has_one_cadence(tmp_path):
    for every in ("day", "week"):
        metric = define(Flag()).replace(name=every, every=every)
        (tmp_path / f"{every}.json").write_text(tally_of(metric, [70, 30], np.random.default_rng(1)).to_json())
    with pytest.raises(Invalid, match="a chart of installs needs tallies of one cadence, got day, week"):
        decode(tmp_path, "--installs", "--chart", tmp_path / "installs.svg")


def test_texts_are_discovered_without_candidates_and_the_search_says_what_it_took(tmp_path, capsys):
    tally, _ = Crowd(asked(SMALL, 4), ["ab", "q1"]).draw(5_000, seed=1)
    (tmp_path / "plugin.json").write_text(tally.to_json())
    assert decode(tmp_path / "plugin.json", "--beam", "10") == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["ab", "q1"]
    assert re.fullmatch(r"plugin: searched in \d+\.\d s of CPU time, with at most \d+ MB\n", err)


def test_a_folder_of_lists_is_not_for_strings_that_are_discovered(tmp_path):
    tally, _ = Crowd(asked(SMALL, 4), ["ab", "q1"]).draw(5_000, seed=1)
    (tmp_path / "plugin.json").write_text(tally.to_json())
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "a.txt").write_text("ab\n")
    with pytest.raises(Invalid, match="lists in a folder are for strings without discover; give plugin a file"):
        decode(tmp_path / "plugin.json", "--candidates", tmp_path / "lists")
