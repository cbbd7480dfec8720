"""Pages are escaped, whole, and made only where the packages for it are there: a missing one is named at once."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hubbub.analysis.render.plots import PlotRow, RowPlot, Scale
from hubbub.simulations.experiments.pictures import save
from hubbub.simulations.html_page import html_page
from tests.simulations.command import hubbub

PAGE = {
    "app": "<script>alert(1)</script>",
    "crowd": "3 simulated installs",
    "scorecard": [],
    "metrics": [],
    "command": "hubbub simulate 'a&b'",
    "repeatable": "",
}


def test_what_a_registry_says_is_shown_and_never_obeyed() -> None:
    text = html_page("hubbub.simulations.simulate", "simulation", PAGE)
    assert "<script" not in text
    assert "<h1>What &lt;script&gt;alert(1)&lt;/script&gt; would see</h1>" in text
    assert "a&amp;b" in text


def test_the_page_explains_stale_answers_as_the_manual_does() -> None:
    manual = Path("docs/simulating.md").read_text(encoding="utf-8")
    (explained,) = re.findall(r"^\| stale \| (.*) \|$", manual, re.MULTILINE)
    text = html_page("hubbub.simulations.simulate", "simulation", PAGE)
    (shown,) = re.findall(r"<dt>stale</dt>\n<dd>(.*)</dd>", text)
    assert re.sub("</?code>", "`", shown).startswith(f"{explained}. ")


def test_a_name_that_is_missing_is_an_error_and_no_empty_place() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="'repeatable' is undefined"):
        html_page("hubbub.simulations.simulate", "simulation", {k: v for k, v in PAGE.items() if k != "repeatable"})


@pytest.mark.parametrize("command", [("simulate", "examples/metrics.toml"), ("experiments", "dbitflip")])
def test_a_missing_package_is_named_before_the_work_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path, command: tuple[str, str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if it were not installed
    done = hubbub(*command, "--report", str(tmp_path / "page.html"))
    assert done.returncode == 2
    assert "needs jinja2, which is not installed: pip install 'hubbub[dashboard]'" in done.stderr
    assert done.stdout == ""


def test_pages_are_drawn_without_the_packages_of_charts(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for package in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, package, None)
    page = tmp_path / "page.html"
    done = hubbub("experiments", "dbitflip", "--quick", "--report", str(page))
    assert done.returncode == 0, done.stderr
    assert '<svg class="plot"' in page.read_text(encoding="utf-8")


def test_a_picture_is_a_file_of_its_own_with_its_style(tmp_path) -> None:
    picture = RowPlot(scale=Scale.linear(0, 1, str), rows=(PlotRow(name="a & b", dot=("blue", 0.5)),))
    save(picture, "what it shows", tmp_path / "picture.svg")
    root = ElementTree.fromstring((tmp_path / "picture.svg").read_text(encoding="utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == "what it shows"
    assert "prefers-color-scheme: dark" in root[0].text
