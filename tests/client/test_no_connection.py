"""Where nobody agreed, or somebody objects, not one connection is attempted: not by record, flush, close or exit.

Two witnesses: a server to which a message is due, and an audit hook that hears of every socket call Python makes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.install import Install
from tests.client.processes import run_python

AN_APP = """
import atexit, json, sys
heard = []
def hear(event, arguments):
    if event.startswith("socket."):
        heard.append(event)
sys.addaudithook(hear)
atexit.register(lambda: print(json.dumps(heard)))  # registered first, so the last to run

if "pytest" in sys.argv[5:]:
    import pytest
from hubbub.client import Client
registry, endpoint, now, given = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
now = [now]
def client(background):
    return Client(registry, endpoint=endpoint or None, state_dir=given or None, background=background,
                  clock=lambda: now[0], send_delay=lambda span: 0)
one, other = client(True), client(False)
for _ in range(3):
    for telemetry in (one, other):
        telemetry.record("dark_theme", True)
        telemetry.flush(5)
    now[0] += 86_400
other.close()
"""


@pytest.fixture
def due(install: Install) -> Install:
    """An install with a message that is due, whose person agreed."""
    client = install.agreed(send_delay=lambda span: span)
    client.record("dark_theme", True)
    install.days(1)
    client.close()
    install.days(1)
    assert install.server.connections == 0
    (install.directory.parent / "metrics.toml").write_text(install.registry.source)
    return install


def run_app(due: Install, *words: str, endpoint: str | None = None, state: Path | str | None = None, **environment):
    given = due.directory if state is None else state
    server = due.server.url if endpoint is None else endpoint
    return run_python(AN_APP, due.directory.parent / "metrics.toml", server, due.now, given, *words, **environment)


@pytest.mark.parametrize(
    "objection",
    [
        {"DO_NOT_TRACK": "1"},
        {"DO_NOT_TRACK": "1", "HUBBUB_MODE": "on"},
        {"HUBBUB_MODE": "off"},
        {"HUBBUB_MODE": "local"},
        {"HUBBUB_MODE": "onn"},
        {"CI": "true"},
        {"PYTEST_CURRENT_TEST": "test_something (call)"},
    ],
    ids=lambda objection: " ".join(f"{name}={value}" for name, value in objection.items()),
)
def test_no_connection_is_attempted_where_the_environment_objects(due: Install, objection: dict[str, str]) -> None:
    assert run_app(due, **objection) == []
    assert due.server.connections == 0


def test_no_connection_is_attempted_under_pytest(due: Install) -> None:
    # pytest itself asks for the machine's name while it is imported, which is no connection.
    heard = set(run_app(due, "pytest"))
    assert not heard & {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"}, heard
    assert due.server.connections == 0


def test_no_connection_is_attempted_after_a_no(due: Install) -> None:
    due.client().consent(False)
    assert run_app(due) == []
    assert due.server.connections == 0


def test_no_connection_is_attempted_while_nobody_has_been_asked(due: Install, tmp_path: Path) -> None:
    assert run_app(due, state=tmp_path / "elsewhere") == []
    assert due.server.connections == 0
    assert not (tmp_path / "elsewhere").exists()


def test_no_connection_is_attempted_without_an_endpoint(due: Install) -> None:
    assert run_app(due, endpoint="") == []


def test_no_connection_is_attempted_from_a_container_without_a_state_directory(due: Install, tmp_path: Path) -> None:
    directory = tmp_path / "home" / ".local" / "state" / "hubbub" / due.registry.app
    directory.parent.mkdir(parents=True)
    due.directory.rename(directory)
    assert run_app(due, state="", container="podman", HOME=str(tmp_path / "home")) == []
    assert due.server.connections == 0


def test_the_same_app_does_connect_where_nobody_objects(due: Install) -> None:
    heard = run_app(due)
    assert heard.count("socket.connect") == due.server.connections == 4
    assert sorted(report.epoch - 20_774 for report in due.arrived()) == [0, 1, 2, 3]
