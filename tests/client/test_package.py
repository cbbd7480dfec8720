"""What the door of `hubbub.client` costs to import, and where each module is told. Its names: tests/quality."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import hubbub.client
from hubbub.client.developer_log import warn
from tests.client.processes import run_python

README = Path(__file__).resolve().parents[2] / "client" / "README.md"
PACKAGE = Path(hubbub.client.__file__).parent
EXAMPLE = README.parents[1] / "examples" / "metrics.toml"


LOADED = "import sys, json; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"
ONLY_WHEN_SENDING = {"asyncio", "email", "http", "http.client", "logging", "ssl", "urllib.request", "uuid"}
ONLY_FOR_TYPE_CHECKERS = {"typing", "hubbub.client.vocabulary", "hubbub.protocol.vocabulary"}


def test_the_package_itself_loads_nothing() -> None:
    loaded = run_python(LOADED.format("import hubbub.client"))
    own = [name for name in loaded if name.startswith("hubbub")]
    assert own == ["hubbub", "hubbub.client", "hubbub.protocol", "hubbub.protocol.door"]


def test_a_client_loads_nothing_that_only_sending_needs() -> None:
    loaded = set(run_python(LOADED.format("from hubbub.client import Client")))
    assert {"hubbub.client.client", "hubbub.client.upload", "sqlite3"} <= loaded
    assert loaded & ONLY_WHEN_SENDING == set()
    assert loaded & (ONLY_FOR_TYPE_CHECKERS | {"dataclasses", "importlib"}) == set(), "they cost an app's start"


WARNED = """
import contextlib, io, json, sys
from hubbub.client import Client

if {loads}:
    import logging  # with nothing set up, as the app has it
said = io.StringIO()
with contextlib.redirect_stderr(said):
    Client({example!r}, state_dir={state!r}, environ={{}}).close()
print(json.dumps(["logging" in sys.modules, said.getvalue()]))
"""


def test_a_warning_reads_the_same_whether_or_not_the_app_has_loaded_logging(tmp_path: Path) -> None:
    """Here: no release is named, and the registry tells releases apart."""
    asked = {"example": str(EXAMPLE), "state": str(tmp_path)}
    without, with_logging = (run_python(WARNED.format(loads=loads, **asked)) for loads in (False, True))
    assert [without[0], with_logging[0]] == [False, True]
    assert without[1] == with_logging[1]
    assert "release" in without[1]


def test_a_warning_that_nobody_can_read_harms_nobody(monkeypatch) -> None:
    """An app without a console has no stderr, and a daemon may have closed it."""
    monkeypatch.delitem(sys.modules, "logging")
    closed = io.StringIO()
    closed.close()
    for stderr in (None, closed):
        monkeypatch.setattr(sys, "stderr", stderr)
        warn("a warning")


def test_every_module_of_the_client_has_its_line_in_the_readme() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    told = re.findall(r"^\| `(\w+)` \| .+ \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules <= set(told)
