"""Copied, corrupt, foreign and busy state: what it had spent is never lost, and the app never notices."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hubbub.client import state as state_module
from hubbub.client.state import PATIENCE, State, Unusable
from tests.client.install import Install
from tests.client.processes import holding_the_state, hubbub, run_python
from tests.client.registries import metric, registry


def a_past(install: Install, days: int = 2, lifetime: float = 6.5) -> float:
    """Lets an install live for some days, and end. Returns what it spent."""
    client = install.agreed(registry(metric("theme", max_values=1), metric("beta", max_values=1), lifetime=lifetime))
    for _ in range(days):
        client.record("theme", True)
        install.days(1)
        client.flush()
    spent = client.status().epsilon_spent
    client.close()
    assert spent == pytest.approx(6)
    return spent


# --- copies ---------------------------------------------------------------------------------------------------------


def copy(install: Install, to: Path) -> None:
    shutil.copytree(install.directory, to)


def test_a_copied_state_asks_again_drops_what_waits_and_keeps_what_it_spent(install: Install, tmp_path: Path) -> None:
    spent = a_past(install)
    copy(install, tmp_path / "copy")
    client = install.client(state_dir=tmp_path / "copy")
    status = client.status()
    assert (status.mode, status.rule) == ("local", "nobody has been asked yet")
    assert status.epsilon_spent == spent
    assert status.batches_waiting == status.reports_in_the_making == 0


def test_a_copied_state_goes_on_with_the_memos_of_its_origin_and_spends_nothing(
    install: Install, tmp_path: Path
) -> None:
    a_past(install)
    copy(install, tmp_path / "copy")
    client = install.client(state_dir=tmp_path / "copy")
    client.consent(True)
    for value in (True, False, True):
        install.days(1)
        client.record("theme", value)
        client.flush()
    assert client.status().epsilon_spent == pytest.approx(6)
    assert memos(tmp_path / "copy") == memos(install.directory)


def test_the_no_of_a_copied_state_stays_a_no(install: Install, tmp_path: Path) -> None:
    client = install.agreed()
    client.consent(False)
    client.close()
    copy(install, tmp_path / "copy")
    assert install.client(state_dir=tmp_path / "copy").status().rule == "you declined"


def memos(directory: Path) -> set[tuple[bytes, bytes]]:
    with closing(sqlite3.connect(directory / "state.db")) as db:
        return set(db.execute("SELECT fingerprint, memo FROM memos"))


PAGES = [metric("page", "string", max_values=4, epsilon_permanent=1)]


def lived_again(install: Install, directory: Path, times: int) -> set[tuple[bytes, bytes]]:
    """All memos that a state ever drew which was put back, again and again, to how it was before its first answer."""
    client = install.agreed(registry(*PAGES, lifetime=4))
    client.close()
    drawn = set()
    for life in range(times):
        shutil.copytree(install.directory, directory / f"restored-{life}")
        client = install.client(state_dir=directory / f"restored-{life}")
        client.consent(True)
        for number in range(4):
            install.days(1)
            client.record("page", f"page {number}")
        client.close()
        drawn |= memos(directory / f"restored-{life}")
    return drawn


def test_a_state_that_is_restored_again_and_again_spends_its_budget_once(install: Install, tmp_path: Path) -> None:
    """Five lives from one backup, four answers each of epsilon 1: four memos in all, so 4 of a limit of 4."""
    assert len(lived_again(install, tmp_path, 5)) == 4


def test_without_a_key_five_restored_lives_would_spend_twenty(install: Install, tmp_path: Path, environment) -> None:
    environment.setattr("hubbub.client.respond.RandomDraws.of_a_memo", lambda draws, random: draws)  # as it was
    assert len(lived_again(install, tmp_path, 5)) == 20


def test_a_copied_state_keeps_the_smallest_lifetime_budget(install: Install, tmp_path: Path) -> None:
    a_past(install)
    copy(install, tmp_path / "copy")
    client = install.client(registry(metric("gamma"), lifetime=1000), state_dir=tmp_path / "copy")
    client.consent(True)
    assert client.status().lifetime_epsilon == 6.5
    install.days(1)
    client.record("gamma", True)
    assert client.status().counts["not_asked"] == 1


def test_copies_of_copies_spend_nothing_more(install: Install, tmp_path: Path) -> None:
    a_past(install, lifetime=100)
    for number in range(3):
        copy(install, tmp_path / f"copy {number}")
        install.directory = tmp_path / f"copy {number}"
        client = install.agreed()
        client.record("theme", True)
        install.days(1)
        client.flush()
        assert client.status().epsilon_spent == pytest.approx(6)
        client.close()


def test_a_copy_made_while_the_app_runs_is_one_too(install: Install, tmp_path: Path) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    run_python("import shutil, sys; shutil.copytree(*sys.argv[1:])", install.directory, tmp_path / "copy")
    other = install.client(state_dir=tmp_path / "copy")
    assert other.mode == "local"
    assert other.status().epsilon_spent == pytest.approx(3)  # the slot that was used: the key goes on, and so do memos


def test_a_state_from_another_machine_is_a_copy(install: Install, environment: pytest.MonkeyPatch) -> None:
    a_past(install)
    environment.setattr("hubbub.client.state.machine_id", lambda: "another machine")
    assert install.client().status().rule == "nobody has been asked yet"


def test_the_origin_of_a_copy_goes_on_as_before(install: Install, tmp_path: Path) -> None:
    a_past(install)
    copy(install, tmp_path / "copy")
    install.client(state_dir=tmp_path / "copy").consent(True)
    client = install.client()
    assert client.mode == "on"
    assert client.status().set_aside == ()


def test_a_directory_that_was_moved_is_no_copy(install: Install, tmp_path: Path) -> None:
    a_past(install)
    install.directory = install.directory.rename(tmp_path / "moved")
    client = install.client()
    assert (client.mode, client.status().set_aside) == ("on", ())


# --- corruption -----------------------------------------------------------------------------------------------------


def garbage(path: Path) -> None:
    path.write_bytes(b"\x7fELF" * 3000)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def tables(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xaa" * (len(whole) - 100))


@pytest.mark.parametrize("damage", [garbage, half, nothing, zeros, tables])
def test_a_corrupt_state_is_set_aside_and_reported_and_never_replaced_by_a_fresh_budget(
    install: Install, caplog: pytest.LogCaptureFixture, damage
) -> None:
    a_past(install)
    damage(install.directory / "state.db")
    sent = len(install.server.bodies)
    for run in range(3):
        client = install.client()
        client.consent(True)
        client.record("theme", True)
        install.days(1)
        client.flush()
        assert client.mode == "off", run
        assert "corrupt" in client.status().rule
        assert "nothing is sent" in client.status().rule
        client.close()
    assert len(install.server.bodies) == sent
    (aside,) = client.status().set_aside
    assert aside == str(install.directory / "state.corrupt-1.db")
    assert Path(aside).stat().st_size == 0  # what may lie in it in plain goes with its day; the name is what counts
    assert not (install.directory / "state.db").exists()
    assert aside in caplog.text


def test_corruption_that_shows_while_the_app_runs_stops_it_without_a_word_to_the_app(install: Install) -> None:
    client = install.agreed()
    client._state.close()  # as a fork would; the file is opened again when it is next needed
    tables(install.directory / "state.db")
    client.record("dark_theme", True)
    assert (client.mode, client._state.set_aside()) == ("on", [])  # a record decides nothing
    install.look()
    status = client.status()
    assert (status.mode, status.counts["dropped_state"]) == ("off", 1)
    assert len(status.set_aside) == 1


@pytest.mark.parametrize("noticed", [True, False])
def test_forget_deletes_a_corrupt_state_and_nothing_is_asked_there_again(install: Install, noticed: bool) -> None:
    """What it had spent is unknown: a fresh budget would spend it twice."""
    a_past(install)
    garbage(install.directory / "state.db")
    client = install.client() if noticed else None
    done = hubbub("forget", "--state", install.directory)
    assert (done.returncode, done.stdout) == (
        0,
        "Forgotten: the state was corrupt and is deleted. Off. What was spent is unknown, so nothing will be asked "
        "here again.\n",
    )
    assert [path.name for path in install.directory.iterdir()] == ["state.db"]
    if client is not None:
        client.forget()
    sent = len(install.server.bodies)
    client = install.agreed()
    install.days(2)
    client.flush()
    assert (client.mode, client.status().lifetime_epsilon) == ("on", 0)
    assert len(install.server.bodies) == sent


def test_a_person_who_deletes_the_corrupt_file_starts_anew(install: Install) -> None:
    a_past(install)
    garbage(install.directory / "state.db")
    (aside,) = install.client().status().set_aside
    Path(aside).unlink()
    assert install.agreed().mode == "on"


@pytest.mark.parametrize("version", [-1, 1, 1000])
def test_a_state_of_another_version_is_refused_in_words_and_left_alone(install: Install, version: int) -> None:
    a_past(install)
    path = install.directory / "state.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    client = install.client()
    client.consent(True)
    client.record("theme", True)
    client.close()
    assert client.mode == "off"
    assert client.status().rule == (
        f"the answer could not be kept: {path} must have schema 4, got {version}: another release of hubbub wrote it. "
        "It is left as it is, and nothing is sent. Use the release of the app that wrote it, or delete the file to "
        "start anew"
    )
    assert path.read_bytes() == before
    path.unlink()
    assert install.agreed().mode == "on"


# --- locks ----------------------------------------------------------------------------------------------------------


def test_a_record_under_a_lock_held_by_another_process_is_dropped_and_counted(install: Install) -> None:
    client = install.agreed(registry(metric("theme"), metric("beta")))
    client.record("theme", True)
    with holding_the_state(install.directory / "state.db"):
        client.record("beta", True)
        client.record("beta", True)
        assert client.mode == "on"
    assert client.status().counts == {"made": 1, "dropped_busy": 2}
    client.record("beta", True)
    assert client.status().counts == {"made": 2, "dropped_busy": 2}


def test_a_state_that_is_busy_when_the_app_starts_is_asked_again_by_the_timer_and_by_no_record(install) -> None:
    install.agreed().close()
    with holding_the_state(install.directory / "state.db"):
        client = install.client()
        client._timer.join(client)
        client.record("dark_theme", True)
        assert (client.mode, client.status().rule) == ("off", "the state is busy just now")
        assert client._timer.step() == install.now + 1
    client.record("dark_theme", True)
    assert client.mode == "off"
    client._timer.step()
    assert client.mode == "on"
    client.record("dark_theme", True)
    assert client.status().counts == {"made": 1, "dropped_busy": 2}


def test_without_a_thread_a_state_that_was_busy_is_asked_again_by_the_next_flush(install: Install) -> None:
    install.agreed().close()
    with holding_the_state(install.directory / "state.db"):
        client = install.client()
    client.flush()
    client.record("dark_theme", True)
    assert client.status().counts == {"made": 1}


def test_sending_under_a_lock_is_no_dropped_record(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.record("dark_theme", True)
    with holding_the_state(install.directory / "state.db"):
        client.flush()
    assert "dropped_busy" not in client.status().counts
    assert client.flush()
    assert len(install.arrived()) == 1


def test_the_command_says_that_the_state_is_in_use(install: Install) -> None:
    install.agreed().close()
    with holding_the_state(install.directory / "state.db"):
        done = hubbub("preview", "--state", install.directory)
    assert done.returncode == 2
    assert done.stderr == "hubbub preview: the state is in use by another process just now; try again\n"


def test_another_thread_is_waited_for_no_longer_than_another_process(install: Install) -> None:
    client = install.agreed()
    with client._state._lock:
        client.record("dark_theme", True)
    assert PATIENCE == 0.1
    assert client.status().counts == {"dropped_busy": 1}


# --- one file, many clients -----------------------------------------------------------------------------------------


def test_a_process_keeps_a_bounded_number_of_files_open(install: Install, environment, tmp_path: Path) -> None:
    environment.setattr(state_module, "MAX_OPEN", 4)
    clients = []
    for number in range(12):
        client = install.client(state_dir=tmp_path / str(number))
        client.consent(True)
        clients.append(client)
    assert sum(client._state._connection is not None for client in clients) <= 4
    install.days(1)
    for client in clients:
        client.record("dark_theme", True)
    assert [client.status().counts["made"] for client in clients] == [1] * 12


def insert_and_fail(state: State) -> None:
    with state.transaction() as db:
        db.execute("INSERT INTO counts VALUES ('made', 1)")
        raise ZeroDivisionError


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(state)
    with state.transaction() as db:
        assert db.execute("SELECT count(*) FROM counts").fetchone() == (0,)
    state.close()


def test_a_mistake_in_a_query_leaves_the_state_usable(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(Unusable, match="no such table: moon"), state.transaction() as db:
        db.execute("SELECT * FROM moon")
    with state.transaction() as db:
        assert db.execute("SELECT count(*) FROM memos").fetchone() == (0,)
    state.close()
