"""What lies in plain is gone when the app next runs after its epoch, also where that run makes no message of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Client, sweep
from hubbub.client.state import State
from hubbub.client.state_dir import state_directory
from tests.client.install import Install
from tests.client.registries import metric, registry
from tests.client.test_gathering import BUCKETS, TRACE, WRITTEN, files_of

CATEGORY = b'{"category": '
EXPORTS = metric("exports", "histogram", accumulate='"sum"', max_values=3, **BUCKETS)
TOOLS = metric("tools", "set", max_values=2)
FACTORS = metric("os", "choice") + metric("crashed")
BOTH = metric("both", "cross", of='["os", "crashed"]', max_values=3)
ASKS = registry(EXPORTS, TOOLS, FACTORS, BOTH, lifetime=100)
FEWER = registry(FACTORS, lifetime=100)
OTHER_CADENCE = registry(metric("weekly", every="week"))
MORE = registry(EXPORTS, metric("new"))
NO_ENDPOINT = {"endpoint": None}


def recorded(install: Install, **options: Any) -> Client:
    """A client with everything in plain that there can be, in the epoch of this day."""
    client = install.agreed(ASKS, **options)
    client.add("exports", TRACE)
    client.record("tools", ["macros"])
    client.record("os", "red")
    client.record("crashed", True)
    return client


def plain_rows(directory: Path) -> int:
    with closing(sqlite3.connect(f"file:{directory}/state.db?mode=ro", uri=True)) as db:
        (number,) = db.execute("SELECT count(*) FROM gathered").fetchone()
    return int(number)


def is_plain(install: Install) -> bool:
    """Whether the files have any of it: rows, freed pages, or SQLite's log."""
    found = files_of(install)
    return WRITTEN in found or CATEGORY in found or plain_rows(install.directory) > 0


def no_endpoint(install: Install) -> None:
    assert install.client(**NO_ENDPOINT).reason == "no_endpoint"


def another_endpoint(install: Install) -> None:
    assert install.client(endpoint="https://elsewhere.example").reason == "wrong_endpoint"


def a_test_run(install: Install) -> None:
    assert install.client(environ={}).reason == "test_run"


def switched_off(install: Install) -> None:
    assert install.client(environ={"HUBBUB_MODE": "off"}).reason == "environment"


def local(install: Install) -> None:
    assert install.client(environ={"HUBBUB_MODE": "local"}).reason == "environment"


def do_not_track(install: Install) -> None:
    assert install.client(environ={"HUBBUB_MODE": "on", "DO_NOT_TRACK": "1"}).reason == "do_not_track"


def asks_more(install: Install) -> None:
    assert install.client(MORE).reason == "asks_more"


def asks_more_in_a_test_run(install: Install) -> None:
    assert install.client(MORE, environ={}).mode == "local"


def asks_fewer(install: Install) -> None:
    assert install.client(FEWER).mode == "on"


def asks_another_cadence_without_an_endpoint(install: Install) -> None:
    assert install.client(OTHER_CADENCE, **NO_ENDPOINT).mode == "local"


def the_clock_was_ahead(install: Install) -> None:
    install.asleep(-400)
    assert install.client().mode == "on"


def the_clock_was_ahead_and_there_is_no_endpoint(install: Install) -> None:
    install.asleep(-400)
    assert install.client(**NO_ENDPOINT).mode == "local"


RUNS: list[Callable[[Install], None]] = [
    *(no_endpoint, another_endpoint, a_test_run, switched_off, local, do_not_track, asks_more, asks_more_in_a_test_run),
    *(asks_fewer, asks_another_cadence_without_an_endpoint),
    *(the_clock_was_ahead, the_clock_was_ahead_and_there_is_no_endpoint),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_it_is_gone_after_the_next_run_whatever_that_run_does(install: Install, run: Callable[[Install], None]) -> None:
    recorded(install).close()
    assert is_plain(install)
    install.asleep(1)
    run(install)
    assert not is_plain(install)  # the client is still open: not even in SQLite's log


@pytest.mark.parametrize("options", [NO_ENDPOINT, {"environ": {}}], ids=str)
def test_what_is_in_the_making_is_left_to_the_client_that_reports(install: Install, options: dict[str, Any]) -> None:
    client = recorded(install)
    install.client(**options).close()
    assert len(client.status().gathered) == 4
    install.days(1)
    client.flush()
    assert {report.metric.name for report in install.arrived()} == set(ASKS.metrics)


def test_an_app_without_an_endpoint_that_runs_on_into_the_next_day_sweeps_with_a_record(install: Install) -> None:
    recorded(install).close()
    client = install.client(**NO_ENDPOINT)
    install.asleep(1)
    assert is_plain(install)
    client.record("crashed", False)
    assert not is_plain(install)


def test_a_state_that_is_busy_is_swept_by_a_later_record(install: Install) -> None:
    recorded(install).close()
    install.asleep(1)
    state = State(install.directory)
    with state.transaction():
        client = install.client(environ={"HUBBUB_MODE": "on"}, **NO_ENDPOINT)
    assert is_plain(install)
    client.flush()
    assert not is_plain(install)
    state.close()


def test_a_container_sweeps_the_state_of_its_host_and_leaves_it_what_it_is(
    install: Install, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A home directory that is mounted in a container: its state is another machine's there, and stays so."""
    environ = {"HUBBUB_MODE": "on", "HOME": str(tmp_path / "home")}
    install.directory = Path(state_directory(ASKS.app, environ, None))
    recorded(install).close()
    install.asleep(1)
    with environment.context() as inside:
        inside.setattr("hubbub.client.state.machine_id", lambda: "the container's")
        client = install.client(state_dir=None, environ={**environ, "container": "podman"})
        assert client.reason == "no_place"
        assert not is_plain(install)
        client.close()
    assert install.client().mode == "on"  # no copy: nobody is asked again


@pytest.mark.parametrize("later", [0, 1])
def test_a_corrupt_file_keeps_its_name_and_nothing_else_once_its_day_is_over(install: Install, later: int) -> None:
    install.directory.mkdir()
    path, aside = install.directory / "state.db", install.directory / "state.corrupt-1.db"
    path.write_bytes(b"no database at all" * 500 + WRITTEN)
    os.utime(path, (install.now, install.now))
    assert install.client().status().set_aside == (str(aside),)
    log = install.directory / "state.corrupt-1.db-wal"
    log.write_bytes(WRITTEN)
    os.utime(log, (install.now, install.now))
    install.asleep(later)
    client = install.client()
    assert "set aside" in client.status().rule
    found = files_of(install)
    assert (found.count(WRITTEN), found == b"") == ((2, False) if later == 0 else (0, True))
    assert client.status().set_aside == (str(aside),)


def test_whether_anything_was_recorded_changes_nothing_that_leaves(install: Install, tmp_path: Path) -> None:
    """A run without an endpoint closes the epochs that are over, those in which nothing was recorded as well."""
    seen = []
    for name, lives in {"silent": lambda place: place.agreed(ASKS), "recorded": recorded}.items():
        other = Install(tmp_path / name, install.server)
        lives(other).close()
        other.asleep(1)
        other.client(**NO_ENDPOINT).close()
        client = other.client()
        other.days(2)
        seen.append([(pending.epoch, len(pending.reports), len(pending.body)) for pending in client.preview()])
        other.close()
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2  # the days after; none of the day that was closed


def test_without_sweeping_it_would_be_found(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted defect."""
    recorded(install).close()
    install.asleep(1)
    monkeypatch.setattr(sweep, "_sweep", lambda state, now: None)
    no_endpoint(install)
    assert is_plain(install)


def test_a_sweep_of_nothing_makes_no_file(install: Install) -> None:
    client = install.client(**NO_ENDPOINT)
    install.asleep(1)
    client.flush()
    assert not install.directory.exists()
