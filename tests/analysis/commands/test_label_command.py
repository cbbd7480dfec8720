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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weeks", "4"], "--weeks and --delta are for --installs N, got them without"),
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
    assert "invalid whole number value: '0.5'" in capsys.readouterr().err


def test_a_bare_install_says_what_is_missing(registry: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "hubbub.analysis.publishing.reader_words", raising=False)
    monkeypatch.setitem(sys.modules, "hubbub.analysis.publishing.reader", None)
    assert main(["label", registry, "--installs", "1000"]) == 2
    assert capsys.readouterr().err.startswith("hubbub label: --installs needs hubbub.analysis.publishing.reader")
