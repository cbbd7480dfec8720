"""Workers import all test modules, each from a place of its own on; what cannot be imported is left to pytest."""

from __future__ import annotations

import sys

import pytest

from tests import divided_imports
from tests.divided_imports import ROOT, DividedImports, asked_modules


def test_folders_files_and_single_tests_can_be_asked_for() -> None:
    assert "tests.quality.test_divided_imports" in asked_modules(["tests"])
    assert asked_modules(["tests/test_flow.py", f"{ROOT}/tests/test_chance.py::test_any"]) == [
        "tests.test_chance",
        "tests.test_flow",
    ]
    assert asked_modules(["README.md", "no/such/test_file.py", "/elsewhere/test_file.py"]) == []


def test_each_worker_begins_elsewhere_and_leaves_out_nothing(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[str]] = []
    monkeypatch.setattr(divided_imports, "_import", lambda name: tried[-1].append(name))
    monkeypatch.setattr(request.config, "args", ["tests/quality"])
    for worker in range(3):
        tried.append([])
        DividedImports(worker, 3).pytest_collectstart(request.session)
        DividedImports(worker, 3).pytest_collectstart(request.node.parent)  # a module: nothing is done again
    assert len({names[0] for names in tried}) == 3
    assert [sorted(names) for names in tried] == [asked_modules(["tests/quality"])] * 3


@pytest.mark.parametrize(
    "source", ["import nothing_of_that_name", "import pytest; pytest.skip('', allow_module_level=True)"]
)
def test_what_cannot_be_imported_is_as_if_it_had_not_been_tried(source, tmp_path, monkeypatch) -> None:
    (tmp_path / "it_cannot_be_imported.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    divided_imports._import("it_cannot_be_imported")
    assert "it_cannot_be_imported" not in sys.modules
