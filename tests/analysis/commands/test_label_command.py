"""`hubbub label --installs`: the label with what a reader of published figures learns below it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hubbub.command.main import main
from hubbub.protocol.registry import Registry
from tests.registry_head import head

METRIC = """
[metrics.dark_theme]
kind = "flag"
why = "Decide whether the light theme is still worth its upkeep"
owner = "ui@editor.example.org"
expires = 2028-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 2
absent = false
"""


@pytest.fixture
def registry(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(head("org.example.editor", 60) + METRIC, encoding="utf-8")
    return str(path)


def test_the_statement_stands_below_the_label_and_never_in_it(registry: str, capsys) -> None:
    assert main(["label", registry]) == 0
    alone = capsys.readouterr().out
    assert main(["label", registry, "--installs", "1e5"]) == 0
    both = capsys.readouterr().out
    assert both.startswith(alone)
    said = " ".join(both.removeprefix(alone).split())
    assert said.startswith("TO SOMEONE WHO SEES ONLY PUBLISHED FIGURES")
    assert "With 100,000 installs and figures of 52 weeks, trusting the collector" in said
    assert "Only if nobody joined, left or changed in all that time" in said


def test_more_weeks_tell_more_and_more_installs_less(registry: str, capsys) -> None:
    found = []
    for options in (["--installs", "100000"], ["--installs", "100000", "--weeks", "4"], ["--installs", "1000"]):
        assert main(["label", registry, "--json", *options]) == 0
        facts = json.loads(capsys.readouterr().out)["published_figures"]
        found.append(float(facts["metrics"]["dark_theme"]["epsilon_life"]))
    year, month, few = found
    assert month < year < few <= float(Registry.load(registry)["dark_theme"].epsilon_lifetime)


def test_the_chart_is_drawn_beside_the_words(registry: str, tmp_path: Path, capsys) -> None:
    pytest.importorskip("vl_convert")
    assert main(["label", registry, "--installs", "1000"]) == 0
    words = capsys.readouterr().out
    assert main(["label", registry, "--installs", "1000", "--chart", str(tmp_path / "guessing.svg")]) == 0
    assert capsys.readouterr().out == words
    picture = (tmp_path / "guessing.svg").read_text(encoding="utf-8")
    for said in ("dark_theme", "1,000 installs, figures of 52 weeks, trusting the collector.", "blind guessing"):
        assert said in picture


def test_a_metric_without_a_statement_is_named_and_not_drawn(registry: str, tmp_path: Path, capsys) -> None:
    pytest.importorskip("vl_convert")
    text = Path(registry).read_text(encoding="utf-8")
    clear = METRIC.replace("dark_theme", "clear").replace("epsilon_one_report = 1", "epsilon_one_report = 2")
    path, chart = tmp_path / "two.toml", tmp_path / "two.svg"
    path.write_text(text + clear, encoding="utf-8")
    assert main(["label", str(path), "--installs", "1000", "--chart", str(chart)]) == 0
    assert "No statement about clear." in chart.read_text(encoding="utf-8")
    path.write_text(text.replace("epsilon_one_report = 1", "epsilon_one_report = 2"), encoding="utf-8")
    assert main(["label", str(path), "--installs", "1000", "--chart", str(tmp_path / "none.svg")]) == 2
    assert "there is nothing to draw: of no metric can anything be said" in capsys.readouterr().err
    assert not (tmp_path / "none.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weeks", "4"], "--weeks, --delta and --chart are for --installs N, got them without"),
        (["--chart", "it.svg"], "--weeks, --delta and --chart are for --installs N, got them without"),
        (
            ["--installs", "1000", "--chart", "it.gif"],
            "a chart's file must end in one of .png, .svg, .html, got 'it.gif'",
        ),
        (["--installs", "1000", "--delta", "0.5"], "delta must be below 1/1000"),
        (["--installs", "1000", "--weeks", "0"], "weeks must be at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(registry: str, options: list[str], message: str, capsys) -> None:
    assert main(["label", registry, *options]) == 2
    assert message in capsys.readouterr().err


def test_half_an_install_is_refused(registry: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["label", registry, "--installs", "0.5"])
    assert "--installs: must be a whole number such as 100000, 100,000 or 1e5, got '0.5'" in capsys.readouterr().err


def test_a_bare_install_says_what_is_missing(registry: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "hubbub.analysis.publishing.reader_words", raising=False)
    monkeypatch.setitem(sys.modules, "hubbub.analysis.publishing.reader", None)
    assert main(["label", registry, "--installs", "1000"]) == 2
    assert capsys.readouterr().err.startswith("hubbub label: --installs needs hubbub.analysis.publishing.reader")
