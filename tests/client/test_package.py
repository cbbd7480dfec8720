"""What the door of `hubbub.client` costs to import, and where each module is told. Its names: tests/quality."""

from __future__ import annotations

import re
from pathlib import Path

import hubbub.client
from tests.client.processes import run_python

README = Path(__file__).resolve().parents[2] / "client" / "README.md"
PACKAGE = Path(hubbub.client.__file__).parent


LOADED = "import sys, json; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"
ONLY_WHEN_SENDING = {"asyncio", "email", "http", "http.client", "logging", "ssl", "urllib.request", "uuid"}
ONLY_FOR_TYPE_CHECKERS = {"hubbub.client.vocabulary", "hubbub.protocol.vocabulary"}


def test_the_package_itself_loads_nothing() -> None:
    loaded = run_python(LOADED.format("import hubbub.client"))
    own = [name for name in loaded if name.startswith("hubbub")]
    assert own == ["hubbub", "hubbub.client", "hubbub.protocol", "hubbub.protocol.door"]


def test_a_client_loads_nothing_that_only_sending_needs() -> None:
    loaded = set(run_python(LOADED.format("from hubbub.client import Client")))
    assert {"hubbub.client.client", "hubbub.client.upload", "sqlite3"} <= loaded
    assert loaded & ONLY_WHEN_SENDING == set()
    assert loaded & (ONLY_FOR_TYPE_CHECKERS | {"dataclasses", "importlib"}) == set(), "they cost an app's start"


def test_every_module_of_the_client_has_its_line_in_the_readme() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    told = re.findall(r"^\| `(\w+)` \| .+ \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules <= set(told)
