"""The analyst's notebook runs from top to bottom, and finds what is true of the made-up people behind its tallies."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.blocks import ROOT

NOTEBOOK = ROOT / "docs" / "analyst.ipynb"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The notebook after it ran in a copy of its place, with this Python, and the folder it ran in."""
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples", checkout / "examples")
    (checkout / "docs").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(checkout / "docs")}}
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable
    client.execute()
    return checkout / "docs", notebook


def printed(notebook: Any) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def test_it_is_kept_without_output() -> None:
    """So that a change of the notebook is a change of its words and code."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]


def test_it_runs_and_says_what_is_true(run: tuple[Path, Any]) -> None:
    said = printed(run[1])
    assert "more than noise: True" in said  # 56 % to 63 %
    starts = re.findall(r"^(\w+): [\d.]+ s \(([\d.]+) to ([\d.]+)\)$", said, re.MULTILINE)
    assert [platform for platform, _, _ in starts] == ["linux", "macos", "windows"]
    assert float(starts[0][2]) < float(starts[2][1])  # 2.4 s and 4.16 s
    median = re.search(r"50% of answers are below [\d.]+ ms \((\d+) to (\d+)\)", said)
    assert median
    assert int(median[1]) <= 14 <= int(median[2])
    assert said.rstrip().splitlines()[-1].endswith(": True")  # 2.4 s to 3.4 s


def test_it_leaves_charts_for_slides_and_a_csv(run: tuple[Path, Any]) -> None:
    folder = run[0]
    for name in ("language.png", "dark_theme.png", "latency.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((folder / "found.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["metric"] for row in rows} == {"dark_theme", "language", "file_size", "startup_time"}


def test_a_decoding_shows_itself_as_a_table(run: tuple[Path, Any]) -> None:
    shown = [
        output.data.get("text/html", "")
        for cell in run[1].cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert any("<caption>language (choice)" in html and "Noise floor" in html for html in shown)
