"""hubbub.client.testing, used the way an app's own tests would: a pytest run of its own, in a directory of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hubbub.client import Client
from hubbub.client import client as of_client
from hubbub.client.testing import recording
from tests.client.answering_server import AnsweringServer
from tests.client.install import Install
from tests.client.processes import PATIENCE, clean_environment
from tests.client.registries import metric, registry, source

APP = """
from pathlib import Path
from hubbub.client import Client

telemetry = Client(Path(__file__).with_name("metrics.toml"), endpoint={endpoint!r})
telemetry.consent(True)

def start(theme):
    with Client(Path(__file__).with_name("metrics.toml"), endpoint={endpoint!r}) as another:
        another.consent(True)
        another.record("page", "example.org")
        another.flush()
    telemetry.record("dark_theme", theme)
    telemetry.flush()

def careless(name, value):
    telemetry.record(name, value)
"""

TESTS = """
import app

def test_what_is_recorded(hubbub_records):
    app.start(theme=True)
    assert hubbub_records == [("page", "example.org"), ("dark_theme", True)]

def test_each_test_begins_with_nothing(hubbub_records):
    assert hubbub_records == []

def test_the_mode_is_local(hubbub_records):
    app.start(theme=False)
    assert app.telemetry.mode == "local"

def test_a_wrong_value_fails(hubbub_records):
    app.careless("dark_theme", "yes")

def test_a_wrong_name_fails(hubbub_records):
    app.careless("dark_thema", True)

def test_without_the_fixture_nothing_is_checked_and_nothing_is_left():
    app.careless("dark_theme", "yes")
"""


@pytest.fixture(params=["found by pytest", "named in conftest.py"])
def app(tmp_path: Path, server: AnsweringServer, request: pytest.FixtureRequest) -> Path:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "metrics.toml").write_text(source(metric("dark_theme"), metric("page", "string")))
    (directory / "app.py").write_text(APP.format(endpoint=server.url))
    named = request.param == "named in conftest.py"
    (directory / "conftest.py").write_text('pytest_plugins = ["hubbub.client.testing"]\n' if named else "")
    (directory / "test_app.py").write_text(TESTS)
    return directory


def run_tests(app: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", *words],
        cwd=app,
        env=clean_environment(HOME=str(app.parent / "home"), HUBBUB_STATE=str(app.parent / "states")),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_an_app_can_assert_what_it_recorded_and_wrong_values_fail(app: Path) -> None:
    output = run_tests(app, "-k", "not without")
    assert "2 failed, 3 passed" in output, output
    assert "record('dark_theme', 'yes'): the value must be True or False, got str" in output
    assert re.search(r"record\('dark_thema'\): no such metric in org\.example\.editor", output)
    assert re.search(r"^app.py:\d+: AssertionError$", output, re.MULTILINE), output
    assert "hubbub/client/" not in output, "our own frames say nothing to an app's author"


def test_nothing_is_sent_and_nothing_is_left_behind(app: Path, server: AnsweringServer) -> None:
    output = run_tests(app)
    assert "2 failed, 4 passed" in output, output
    assert server.connections == 0
    assert sorted(path.name for path in app.parent.iterdir()) == ["app"]
    assert sorted(path.name for path in app.iterdir()) == ["app.py", "conftest.py", "metrics.toml", "test_app.py"]


def test_recording_sees_every_client_whatever_its_mode(install: Install) -> None:
    on = install.agreed(registry(metric("dark_theme"), metric("page", "string")))
    local = install.client(state_dir=install.directory.parent / "elsewhere")
    with recording() as records:
        on.record("dark_theme", True)
        local.record("page", "example.org")
    on.record("page", "example.com")
    assert records == [("dark_theme", True), ("page", "example.org")]


def test_recording_ends_with_its_block(install: Install) -> None:
    client: Client = install.client()
    with pytest.raises(AssertionError, match="no such metric"), recording():
        client.record("moon", True)
    client.record("moon", True)
    assert client.status().counts == {"unknown_metric": 1}


def test_a_client_with_a_clock_or_chance_of_its_own_says_that_it_is_a_test(tmp_path) -> None:
    """A seeded client would be `on` without a sign."""
    asks = registry(metric("theme"))
    assert not Client(asks, state_dir=tmp_path).status().test
    for option in ({"clock": lambda: 0.0}, {"random": bytes}, {"timing": lambda *_: bytes(16)}):
        assert Client(asks, state_dir=tmp_path, **option).status().test


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_recordings_leave_the_client_as_it_was_and_may_lie_within_one_another(
    install: Install, error: type[BaseException] | None
) -> None:
    client = install.client()
    with suppress(KeyboardInterrupt), recording() as outer:
        with recording() as inner:
            client.record("dark_theme", True)
        client.record("dark_theme", False)
        assert vars(of_client)["__tracebackhide__"], "the inner one has not taken it away"
        if error:
            raise error
    assert (len(outer), len(inner)) == (2, 1)
    assert of_client.observers == []
    assert "__tracebackhide__" not in vars(of_client)
