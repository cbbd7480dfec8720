"""`forget` leaves one number of an install's life: what it spent. That number counts for ever."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.client.answering_server import Answer
from tests.client.install import Install
from tests.client.processes import holding_the_state, hubbub
from tests.client.registries import metric, registry

ASKS = registry(
    metric("page", "string", num_bits=256, max_values=3), metric("color", "choice", max_values=3), lifetime=27.5
)


def a_life(install: Install):
    """Some days, with messages that could not be sent and a report being collected."""
    install.server.answer = lambda body: Answer(500)
    client = install.agreed(ASKS)
    for day in range(4):
        client.record("page", f"page {day}")
        client.record("color", "red")
        install.days(1)
    client.record("page", "page 1")
    client.flush()
    return client


def traces(install: Install) -> dict[str, bytes]:
    """All that the state holds of this life, as bytes to look for."""
    with sqlite3.connect(install.directory / "state.db") as db:
        found = {
            "key": db.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()[0],
            "agreed": ASKS.source.encode()[:40],
        }
        for table, column in (("memos", "memo"), ("memos", "fingerprint"), ("outbox", "body"), ("outbox", "batch_id")):
            rows = db.execute(f"SELECT {column} FROM {table} WHERE length({column}) >= 16").fetchall()
            assert rows, table
            found |= {f"{table}.{column} {number}": row[0] for number, row in enumerate(rows)}
        rows = db.execute("SELECT bits FROM reports WHERE length(bits) >= 16").fetchall()
        assert rows
        found |= {f"report {number}": row[0] for number, row in enumerate(rows)}
        found |= {f"metric {asked.name}": asked.metric_hash.encode() for asked in ASKS}
    db.close()
    return found


def remaining(install: Install, sought: dict[str, bytes]) -> set[str]:
    """Those that some file of the state directory still holds. Only when no client is open: reading a file would end
    the locks that SQLite has on it in this process."""
    contents = [path.read_bytes() for path in install.directory.rglob("*")]
    return {name for name, bytes_ in sought.items() if any(bytes_ in content for content in contents)}


def test_the_traces_are_there_to_be_found(install: Install) -> None:
    a_life(install)
    sought = traces(install)
    install.close()
    assert remaining(install, sought) == set(sought)


def test_forget_leaves_no_byte_of_identity_memos_and_outbox(install: Install) -> None:
    client = a_life(install)
    sought = traces(install)
    client.forget()
    install.close()
    assert remaining(install, sought) == set()


def test_the_forget_command_leaves_no_byte_either_while_the_app_still_runs(install: Install) -> None:
    client = a_life(install)
    sought = traces(install)
    assert hubbub("forget", "--state", install.directory).returncode == 0
    client.record("color", "blue")
    assert (client.status().mode, client.status().rule) == ("off", "you declined")
    assert "dropped_state" not in client.status().counts
    install.close()
    assert remaining(install, sought) == set()


def test_forget_wipes_a_copied_state(install: Install, tmp_path: Path) -> None:
    client = a_life(install)
    sought = traces(install)
    client.close()
    shutil.copytree(install.directory, tmp_path / "copy")
    install.directory = tmp_path / "copy"
    client = install.client()
    client.forget()
    install.close()
    assert remaining(install, sought) == set()


def test_forget_answers_no_and_keeps_what_was_set_aside_for_what_was_asked(install: Install) -> None:
    client = a_life(install)
    assert client.status().epsilon_spent == pytest.approx(3 * 3 + 3, abs=1e-4)
    client.forget()
    status = client.status()
    assert (status.mode, status.rule) == ("off", "you declined")
    assert status.epsilon_spent == pytest.approx(3 * 3 + 3 * 3, abs=1e-4)  # all slots of both, used or not
    assert (status.batches_waiting, status.reports_in_the_making, dict(status.counts)) == (0, 0, {})


def test_what_was_spent_before_forgetting_still_counts(install: Install) -> None:
    for life in range(6):
        client = install.agreed(ASKS)
        for day in range(4):
            client.record("page", f"page {day}")
            install.days(1)
            client.flush()
        status = client.status()
        assert status.epsilon_spent <= status.lifetime_epsilon == 27.5
        assert status.epsilon_spent == pytest.approx([12, 27, 27, 27, 27, 27][life], abs=1e-4)
        client.forget()


def test_a_larger_budget_in_a_later_release_does_not_count_after_forgetting(install: Install) -> None:
    client = install.agreed(ASKS)
    client.forget()
    larger = registry(*(metric(f"page_{i}", "string", max_values=3) for i in range(5)), lifetime=1000)
    client = install.agreed(larger)
    install.days(1)
    client.flush()
    assert client.status().lifetime_epsilon == 27.5
    assert len(install.arrived()) == 1  # 3 x 3 twice count as spent, and 3 x 3 once fits into what is left


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_later_life_is_asked_does_not_depend_on_what_an_earlier_one_recorded(install, recorded: bool) -> None:
    client = install.agreed(ASKS)
    for number in range(9 if recorded else 0):
        client.record("page", f"page {number}")
        install.days(1)
    client.forget()
    client = install.agreed(ASKS)
    install.days(1)
    client.flush()
    yesterday = max(report.epoch for report in install.arrived())
    assert [report.metric.name for report in install.arrived() if report.epoch == yesterday] == ["page"]
    assert client.status().epsilon_set_aside == pytest.approx(27, abs=1e-4)


def test_forgetting_before_anything_was_asked_costs_nothing(install: Install) -> None:
    client = install.client(ASKS)
    client.consent(True)  # reporting starts tomorrow
    client.forget()
    assert client.status().epsilon_spent == 0


def test_forgetting_twice_forgets_nothing_more(install: Install) -> None:
    client = a_life(install)
    client.forget()
    spent = client.status().epsilon_spent
    client.forget()
    assert install.client().status().epsilon_spent == spent


def test_a_new_life_has_another_identity(install: Install) -> None:
    keys = set()
    for _ in range(2):
        client = install.agreed(ASKS)
        client.record("page", "page")
        with client._state.transaction() as db:
            keys.add(db.execute("SELECT value FROM meta WHERE name = 'key'").fetchone())
        client.forget()
    assert len(keys) == 2


def test_a_state_too_busy_to_be_wiped_stops_this_client_and_is_told(install: Install, environment, caplog) -> None:
    environment.setattr("hubbub.client.control.INSISTENCE", 0.1)
    client = a_life(install)
    with holding_the_state(install.directory / "state.db"):
        client.forget()
    assert client.mode == "off"
    assert caplog.messages == ["the state could not be wiped: the state is busy"]


def test_the_fingerprint_of_a_status_is_that_of_what_was_agreed_to(install: Install) -> None:
    client = install.agreed(ASKS)
    assert client.status().fingerprint == ASKS.fingerprint
    client.close()
    other = registry(metric("color", "choice", max_values=3), lifetime=27.5)
    assert install.client(other).status().fingerprint == ASKS.fingerprint != other.fingerprint
