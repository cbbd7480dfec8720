"""The door of `hubbub.client`: which names are public, what they cost to import, and where each module is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hubbub.client
from tests.client.processes import run_python

README = Path(__file__).resolve().parents[2] / "client" / "README.md"
PACKAGE = Path(hubbub.client.__file__).parent


def test_these_names_are_public_and_no_others() -> None:
    names = ["Answer", "Client", "Decision", "Invalid", "Pending", "Registry", "Status", "Transport"]
    assert hubbub.client.__all__ == dir(hubbub.client) == names
    assert [getattr(hubbub.client, name).__name__ for name in names] == names


def test_a_name_that_is_not_there_is_an_error_like_any_other() -> None:
    with pytest.raises(AttributeError, match=r"module 'hubbub\.client' has no attribute 'Clint'"):
        _ = hubbub.client.Clint
    assert not hasattr(hubbub.client, "Clint")


LOADED = "import sys, json; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"
ONLY_WHEN_SENDING = {"asyncio", "email", "http", "http.client", "logging", "ssl", "urllib.request", "uuid"}


def test_the_package_itself_loads_nothing() -> None:
    loaded = run_python(LOADED.format("import hubbub.client"))
    assert [name for name in loaded if name.startswith("hubbub")] == ["hubbub", "hubbub.client"]


def test_a_client_loads_nothing_that_only_sending_needs() -> None:
    loaded = set(run_python(LOADED.format("from hubbub.client import Client")))
    assert {"hubbub.client.client", "hubbub.client.upload", "sqlite3"} <= loaded
    assert loaded & ONLY_WHEN_SENDING == set()


def test_every_module_of_the_client_has_its_line_in_the_readme() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    told = re.findall(r"^\| `(\w+)` \| .+ \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules <= set(told)
