"""What a rehearsal exchanges in its process is as it was before, whatever the app did."""

from __future__ import annotations

import atexit
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import ModuleType

import pytest

import hubbub.client
import hubbub.client.client as of_client
from hubbub.simulations.rehearse.app_file import AppFailed, find_app
from hubbub.simulations.rehearse.installs import Plan, RehearsedClient, try_out
from hubbub.simulations.rehearse.replaced import chance_from, importable, replaced
from tests.client.registries import metric, source

START = """
from pathlib import Path
import atexit, random, sys
from hubbub.client import Client
telemetry = Client({place!r}, endpoint="https://telemetry.example.org", environ={{"HUBBUB_MODE": "{mode}"}})
"""
MEDDLING = """
def rehearse():
    telemetry.record("dark", True)
    atexit.register(telemetry.close)
    sys.argv.clear()
    sys.path.append("/nowhere")
    random.random()
    print("to nobody")
    {end}
"""
ENDS = {
    "well": "pass",
    "with an error": "1 / 0",
    "with a status": "sys.exit(3)",
    "by Ctrl-C": "raise KeyboardInterrupt",
    "with an error at its end": "atexit.register(int, 'x')",
    "having deleted what was exchanged": "del sys.argv, Client; sys.modules.pop('hubbub_rehearsed_app')",
}


@pytest.fixture(autouse=True)
def no_clients_of_other_tests() -> Iterator[None]:
    """Those of apps that raised live on in their tracebacks."""
    RehearsedClient.living.clear()
    yield
    RehearsedClient.living.clear()


def plan_of(folder: Path, text: str, mode: str = "on") -> Plan:
    (folder / "metrics.toml").write_text(source(metric("dark")))
    (folder / "app.py").write_text(START.format(place=str(folder / "metrics.toml"), mode=mode) + text)
    return Plan(app=find_app(folder / "app.py", None, ()), days=1, seed=1)


def exchanged() -> list[object]:
    """All that a rehearsal exchanges, as it is now."""
    return [
        hubbub.client.Client,
        of_client.Client,
        list(of_client.observers),
        vars(RehearsedClient).get("machine"),
        atexit.register,
        id(sys.argv),
        list(sys.argv),
        id(sys.path),
        list(sys.path),
        sys.modules["__main__"],
        sys.modules.get("hubbub_rehearsed_app"),
        sys.stdout,
        sys.stderr,
        random.getstate(),
    ]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_all_is_as_it_was_however_an_app_ends(tmp_path: Path, end: str) -> None:
    plan = plan_of(tmp_path, MEDDLING.format(end=end))
    before = exchanged()
    with suppress(AppFailed, KeyboardInterrupt):
        try_out(plan)
    assert exchanged() == before


def test_an_app_finds_another_client_and_its_own_arguments(tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    seen = "from hubbub.client.client import Client as Same\nout = Path(__file__).with_name('seen')\n"
    use = "import json\ndef rehearse():\n    out.write_text(json.dumps([Same is Client, Client.__name__, sys.argv]))\n"
    try_out(plan_of(tmp_path, seen + use))
    assert json.loads((tmp_path / "seen").read_text()) == [True, "RehearsedClient", [str(tmp_path / "app.py")]]


class Owner:
    there = 1


MODULE = ModuleType("a_module_that_nobody_has")


@pytest.mark.parametrize(
    ("manager", "state"),
    [
        (lambda: replaced(Owner, there=2, new=3), lambda: (Owner.there, hasattr(Owner, "new"))),
        (lambda: importable(MODULE), lambda: MODULE.__name__ in sys.modules),
        (lambda: chance_from(0.5), random.getstate),
    ],
    ids=["replaced", "importable", "chance_from"],
)
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_each_puts_back_what_there_was(
    manager: Callable[[], AbstractContextManager[None]],
    state: Callable[[], object],
    error: type[BaseException] | None,
) -> None:
    before = state()
    with suppress(ValueError, KeyboardInterrupt), manager():
        assert state() != before
        if error:
            raise error
    assert state() == before


# --- clients that a library's module holds --------------------------------------------------------------------------

LIBRARY = """
from hubbub.client import Client

class Own(Client):
    def __init__(self):
        super().__init__({place!r}, environ={{"HUBBUB_MODE": "{mode}"}})

held = Own()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    yield place / "a_library_of_tests.py"
    sys.modules.pop("a_library_of_tests", None)


def test_a_held_client_of_a_class_of_its_own_is_started_anew(tmp_path: Path, library: Path) -> None:
    """Its `__init__` takes other arguments than the client's, and is called once."""
    library.write_text(LIBRARY.format(place=str(tmp_path / "metrics.toml"), mode="on"))
    use = "from a_library_of_tests import held\ndef rehearse():\n    held.record('dark', True)\n"
    plan = plan_of(tmp_path, use)
    assert [try_out(plan).records["dark"] for _ in range(2)] == [1, 1]


def test_a_held_client_keeps_nothing_of_the_run_before(tmp_path: Path, library: Path) -> None:
    library.write_text(LIBRARY.format(place=str(tmp_path / "metrics.toml"), mode="local"))
    use = "from a_library_of_tests import held\ndef rehearse():\n    held.record('dark', True)\n"
    plan = plan_of(tmp_path, use)
    kept = []
    for _ in range(2):
        try_out(plan)
        held = sys.modules["a_library_of_tests"].held
        kept.append((held._examples, held._sweeper))
    assert kept[0][0] is not kept[1][0]
    assert kept[0][1] is not kept[1][1]
