"""`hubbub sweep`: every point of the grid, each once, however often it is interrupted."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from hubbub.analysis.engines.engine import engine_from
from hubbub.protocol.invalid import Invalid
from hubbub.simulations.kinds import KINDS, kind_class
from hubbub.simulations.sweep.chart import sweep_chart
from hubbub.simulations.sweep.run import MOST_POINTS, Point, grid, measure, run
from tests.simulations.command import hubbub

HERE = engine_from("local:1")
FLAG = Point(kind="flag", epsilon=1.0, permanent=2.0, installs=1000, repeats=2, max_values=2)


def test_a_grid_has_every_combination_in_order():
    points = grid(FLAG, {"epsilon": [1, 3], "installs": [1e3, 1e4]})
    assert [(point.epsilon, point.installs) for point in points] == [(1, 1000), (1, 10_000), (3, 1000), (3, 10_000)]
    assert [point.permanent for point in points] == [2, 2, 3, 3], "never below epsilon_one_report"
    assert len({point.key for point in points}) == 4


def test_a_point_gives_the_same_figures_whoever_measures_it():
    ((_, figures, before),) = run([FLAG], HERE, None)
    assert figures == measure(FLAG)
    assert not before
    assert set(figures) == {
        "error", "theory", "bound", "found", "missed", "false", "distance", "coverage", "stale"
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_swept(kind: str) -> None:
    axes = {name: int(default) for name, default in kind_class(kind).shape_axes.items()}
    found = {"installs": 200_000, "epsilon": 4.0, "permanent": 4.0}  # what is searched for must be found
    crowd = found if kind == "discovery" else {"installs": 10_000}
    figures = measure(replace(FLAG, kind=kind, repeats=1, **axes, **crowd))
    assert figures["error"] > 0
    assert figures["bound"] > 0


def test_what_is_done_is_not_run_again_and_a_torn_line_costs_one_point(tmp_path):
    results = tmp_path / "sweep.jsonl"
    points = grid(FLAG, {"epsilon": [1, 2], "installs": [1000, 2000]})
    first = {point.key: figures for point, figures, _ in run(points[:2], HERE, results)}
    assert [before for _, _, before in run(points[:2], HERE, results)] == [True, True]
    results.write_text(results.read_text()[:-20])
    rest = list(run(points, HERE, results))
    assert sorted(before for _, _, before in rest) == [False, False, False, True]
    again = {point.key: figures for point, figures, _ in run(points, HERE, results)}
    assert {key: again[key] for key in first} == first
    assert all(before for _, _, before in run(points, HERE, results))


def test_a_result_of_another_setting_is_no_result(tmp_path):
    results = tmp_path / "sweep.jsonl"
    list(run([FLAG], HERE, results))
    line = json.loads(results.read_text())
    line["point"]["seed"] = 99
    results.write_text(json.dumps(line) + "\n")
    assert [before for _, _, before in run([FLAG], HERE, results)] == [False]


def test_the_command_writes_a_table_csv_json_and_a_picture(tmp_path):
    out, picture = str(tmp_path / "sweep.jsonl"), tmp_path / "sweep.svg"
    options = ["--kind", "flag", "--epsilon", "1,2", "--installs", "1e4,1e6", "--repeats", "2", "--out", out]
    options += ["--processes", "2"]
    done = hubbub("sweep", *options, "--chart", str(picture))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:5] == ["epsilon", "installs", "error", "theory", "bound"]
    assert len(done.stdout.splitlines()) == 5
    assert "Error over settings" in picture.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(hubbub("sweep", *options, "--csv").stdout)))
    again = hubbub("sweep", *options, "--json")
    assert "4 of 4 points were done before" in again.stderr
    facts = json.loads(again.stdout)
    assert [float(row["error"]) for row in rows] == [row["error"] for row in facts]
    assert all(row["error"] < 6 * row["theory"] for row in facts)
    assert all(row["theory"] > 0.99 * row["bound"] for row in facts)


def test_strings_vary_in_bits_cohorts_and_hashes():
    common = Point(kind="string", epsilon=1.0, permanent=2.0, installs=1000, bits=16, cohorts=8, hashes=1)
    points = grid(common, {"bits": [16, 32], "cohorts": [8], "hashes": [1, 2]})
    assert [(p.metric.shape.num_bits, p.metric.shape.num_hashes) for p in points] == [
        (16, 1),
        (16, 2),
        (32, 1),
        (32, 2),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", "1,x"], "--epsilon '1,x': each must be a number or percentage such as 0.02 or 2%, got 'x'"),
        (["--installs", "0"], "--installs must be whole numbers of at least 1, got '0'"),
        (["--kind", "flag", "--bits", "8"], "--bits is for strings, a flag has none"),
        (["--change", "10%"], "--change shows over several --epochs, got --epochs 1"),
        (["--cohorts", "3"], "num_cohorts must be a power of two"),
        (["--population", "normal:1,2,3"], "a population must have the form normal:COUNT"),
        (["--repeats", "0"], "--repeats must be in [1, 10000], got 0"),
        (["--seed", "-1"], "--seed must not be negative, got -1"),
    ],
)
def test_wrong_use_is_refused_in_words(options, words):
    done = hubbub("sweep", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_too_many_points_and_too_many_axes_are_refused():
    with pytest.raises(Invalid, match=f"at most {MOST_POINTS:,} points, got 10,201"):
        grid(FLAG, {"epsilon": [1] * 101, "installs": [1000] * 101})
    with pytest.raises(Invalid, match="at most three axes that vary, got epsilon, installs, change, bits"):
        sweep_chart([], ["epsilon", "installs", "change", "bits"])
    with pytest.raises(Invalid, match="needs an axis with at least two values"):
        sweep_chart([], [])
