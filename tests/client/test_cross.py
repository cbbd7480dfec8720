"""Crosses on the device: found from what their factors kept, in plain until the epoch is over and nowhere after."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from hubbub.client import Client, Registry
from hubbub.client.gathering import in_words
from hubbub.client.state import Busy, State
from hubbub.command.main import main
from hubbub.protocol.cadence import epoch_of
from tests.client.install import DAY, Install
from tests.client.processes import hubbub, start_python
from tests.client.registries import clear, clear_metric, held, metric, registry
from tests.client.test_gathering import files_of

OS = clear_metric("os", "choice", choices='["linux", "macos"]')
CRASHED = clear_metric("crashed", accumulate='"any"')
BOTH = clear_metric("both", "cross", of='["os", "crashed"]', max_values=6)
ASKS = clear(BOTH, OS, CRASHED)
CELLS = ("linux · no", "linux · yes", "macos · no", "macos · yes", "absent · no", "absent · yes")


def cells(install: Install, name: str = "both") -> list[str]:
    """The combinations that have arrived, one for each message, all but without noise."""
    shape = install.registry[name].shape
    return [shape.answers[r.bits.bit_length() - 1] for r in install.arrived() if r.metric.name == name]


def cell_after(install: Install, asks: Registry, records: list[tuple[str, object]]) -> str:
    client = install.agreed(asks)
    for name, value in records:
        client.record(name, value)
    install.days(1)
    client.flush()
    (cell,) = cells(install)
    return cell


# --- what counts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "cell"),
    [
        ([("os", "linux"), ("crashed", True)], "linux · yes"),
        ([("crashed", True), ("os", "macos")], "macos · yes"),
        ([("os", "macos"), ("crashed", False)], "macos · no"),
        ([("os", "macos")], "macos · no"),
        ([("crashed", True)], "absent · yes"),
        ([], "absent · no"),
        ([("os", "linux"), ("os", "macos"), ("crashed", False), ("crashed", True)], "linux · yes"),  # first; any
        ([("os", "vms"), ("crashed", True)], "absent · yes"),  # an undeclared value is none
    ],
)
def test_it_follows_from_what_was_recorded_of_its_factors(install: Install, records, cell) -> None:
    assert cell_after(install, ASKS, records) == cell


@pytest.mark.parametrize(
    ("how", "values", "cell"),
    [
        ("first", [5, 500], "0 to 10 · no"),
        ("last", [5, 500], "100 to 1000 · no"),
        ("sum", [5, 4, 3], "10 to 100 · no"),
        ("sum", [], "0 to 10 · no"),  # nothing added is 0
        ("max", [50, 500, 5], "100 to 1000 · no"),
        ("max", [], "absent · no"),
    ],
)
def test_of_several_records_counts_what_counts_for_the_factor(install: Install, how, values, cell) -> None:
    size = clear_metric("size", "histogram", accumulate=f'"{how}"', buckets_per_report=1)
    asks = clear(size, CRASHED, clear_metric("both", "cross", of='["size", "crashed"]'))
    assert cell_after(install, asks, [("size", value) for value in values]) == cell


def test_a_mean_is_rounded_in_a_cross_as_it_is_by_itself(install: Install, tmp_path: Path) -> None:
    """Thirteen of thirty: with this chance some installs round it up and some down, each metric and cross alike. And
    silence, which stands for fifteen, is rounded by the same dither."""
    start = clear_metric("start", "mean", points=2, absent=15)
    asks = clear(start, CRASHED, clear_metric("both", "cross", of='["start", "crashed"]'))
    seen = set()
    for number, recorded in product(range(6), (True, False)):
        other = Install(tmp_path / f"{number} {recorded}", install.server)
        other.chance = lambda size, number=number: bytes([number]) * size
        client = other.agreed(asks)
        if recorded:
            client.record("start", 13)
        other.days(1)
        client.flush()
        client.close()
        other.registry = asks
        cell, own = cells(other)[-1], [r.bits for r in other.arrived() if r.metric.name == "start"][-1]
        assert cell == ("30 · no" if own else "0 · no")
        seen.add((cell, recorded))
    assert len(seen) == 4


def test_every_epoch_begins_with_nothing(install: Install) -> None:
    client = install.agreed(ASKS)
    client.record("os", "linux")
    client.record("crashed", True)
    install.days(1)
    client.record("os", "macos")
    install.days(1)
    install.days(1)
    client.flush()
    assert cells(install) == ["linux · yes", "macos · no", "absent · no"]
    assert client.status().counts["absent"] == 1 + 3  # a cross is absent where nothing was recorded of either


def test_one_factor_may_be_in_several_crosses(install: Install) -> None:
    size = clear_metric("size", "histogram", accumulate='"last"')
    more = clear_metric("more", "cross", of='["size", "os"]')
    client = install.agreed(clear(OS, size, CRASHED, BOTH, more))
    client.record("os", "linux")
    client.record("size", 50)
    assert client.status().gathered == {"os": "linux", "size": "50"}
    install.days(1)
    client.flush()
    assert cells(install) == ["linux · no"]
    assert cells(install, "more") == ["10 to 100 · linux"]


def test_what_comes_before_the_epoch_is_opened_counts_as_well(install: Install) -> None:
    client = install.agreed(ASKS)
    install.now = (install.now // DAY + 1) * DAY + 1  # nobody has looked since midnight
    for name, value in [("os", "macos"), ("os", "linux"), ("crashed", True)]:
        client.record(name, value)
    install.look()
    assert client.status().gathered == {"os": "macos", "crashed": "yes"}
    install.days(1)
    client.flush()
    assert cells(install)[-1] == "macos · yes"


# --- a factor that is not asked itself ------------------------------------------------------------------------------


def test_a_factor_that_has_expired_still_counts_for_the_cross(install: Install) -> None:
    ended = (
        clear_metric(name, **keys, expires="2026-11-01") for name, keys in (("a", {}), ("b", {"accumulate": '"any"'}))
    )
    asks = clear(*ended, clear_metric("both", "cross", of='["a", "b"]'))
    client = install.agreed(asks)
    for name, value in [("a", True), ("a", False), ("a", True), ("b", True)]:
        client.record(name, value)
    assert client.status().counts == {"gathered": 2, "ignored_later": 1, "repeated": 1}
    install.days(1)
    client.flush()
    assert [(report.metric.name, report.bits) for report in install.arrived()] == [("both", 0b1000)]


def test_where_the_cross_has_expired_too_nothing_is_kept(install: Install) -> None:
    metrics = [clear_metric(name, expires="2026-11-01") for name in "ab"]
    client = install.agreed(clear(*metrics, clear_metric("both", "cross", of='["a", "b"]', expires="2026-11-01")))
    client.record("a", True)
    assert client.status().counts == {"expired": 1}
    assert client.status().gathered == {}


def test_a_factor_without_room_in_the_budget_still_counts_for_the_cross(install: Install) -> None:
    """An earlier release asked with a smaller limit, which stays: the two flags of this one find no room."""
    both = metric("both", "cross", of='["a", "b"]', max_values=1)
    asks = registry(both, metric("a"), metric("b", accumulate='"any"'), lifetime=60)
    first = registry(metric("z", max_values=1), lifetime=6.5)
    install.agreed(first).close()
    client = install.client(asks)
    client.consent(True)
    install.days(1)
    client.record("a", True)
    client.record("b", True)
    assert client.status().gathered == {"a": "yes", "b": "yes"}
    install.days(1)
    client.flush()
    assert {r.metric.name for r in install.arrived(asks, first)} == {"both"}


def test_where_the_cross_finds_no_room_nothing_is_kept_for_it(install: Install) -> None:
    asks = registry(metric("a"), metric("b"), metric("both", "cross", of='["a", "b"]'), lifetime=60)
    install.agreed(registry(metric("z", max_values=1), lifetime=15.5)).close()
    client = install.client(asks)
    client.consent(True)
    install.days(1)
    client.record("a", True)
    assert client.status().counts["made"] == 1
    assert client.status().gathered == {}


def test_with_hold_the_cross_has_turns_of_its_own(install: Install) -> None:
    """In epochs in which a factor has its turn and the cross has none, nothing is kept for it; where it is the other
    way round, what is recorded counts."""
    asks = registry(held("a"), held("b"), held("both", "cross", of='["a", "b"]'))
    client = install.agreed(asks)
    for _ in range(16):
        client.record("a", True)
        client.record("b", False)
        kept = client.status().gathered
        assert kept in ({}, {"a": "yes", "b": "no"})
        install.days(1)
    client.flush()
    turns: dict[str, list[int]] = {}
    for report in install.arrived():
        turns.setdefault(report.metric.name, []).append(report.epoch)
    assert len(turns["both"]) >= 3
    assert not set(turns["both"]) <= set(turns["a"])
    assert "absent" not in client.status().counts


# --- mistakes -------------------------------------------------------------------------------------------------------

REFUSED = "record('both'): the value must not be recorded: it follows from os and crashed, got tuple"


@pytest.mark.parametrize("mode", ["on", "local"])
def test_to_record_a_cross_is_a_mistake_that_is_said_and_counted(install: Install, caplog, mode: str) -> None:
    client = install.agreed(ASKS) if mode == "on" else install.client(ASKS)
    client.record("both", (0, 1))
    assert [record.message for record in caplog.records] == [REFUSED]
    assert client.status().counts == {"wrong_value": 1}
    with pytest.raises(ValueError, match="must not be recorded"):
        install.client(strict=True).record("both", (0, 1))


# --- threads and processes ------------------------------------------------------------------------------------------

AN_APP_THAT_RECORDS = """
import sys
from hubbub.client import Client
from hubbub.client.state import Busy
registry, state, now, value = sys.argv[1:]
environ = {"HUBBUB_MODE": "on"}
client = Client(registry, state_dir=state, endpoint="http://127.0.0.1:9", clock=lambda: float(now), environ=environ)
print("ready", flush=True)
while True:
    client._recorder._answered.clear()
    for name, said in (("os", value), ("crashed", False)):
        try:
            print(name, client._recorder.record(client.registry[name], said, float(now)), flush=True)
        except Busy:
            pass
"""


def test_of_threads_and_processes_the_first_one_stays_and_a_kill_loses_nothing(
    install: Install, tmp_path: Path
) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(ASKS.source)
    client = install.agreed(ASKS)
    client.record("os", "macos")
    apps = [start_python(AN_APP_THAT_RECORDS, toml, install.directory, install.now, "linux") for _ in range(2)]

    def add() -> None:
        for _ in range(25):
            client._recorder._answered.clear()
            with suppress(Busy):
                client._recorder.record(ASKS["os"], "linux", install.now)
            with suppress(Busy):
                client._recorder.record(ASKS["crashed"], True, install.now)

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for app in apps:
        assert app.stdout is not None
        lines = [app.stdout.readline() for _ in range(20)]
        app.kill()
        app.communicate()
        assert {line for line in lines if line.startswith("os")} == {"os repeated\n"}
    assert client.status().gathered == {"os": "macos", "crashed": "yes"}
    install.days(1)
    client.flush()
    assert cells(install) == ["macos · yes"]


# --- what lies in plain ---------------------------------------------------------------------------------------------

MANY = ", ".join(f'"{i}"' for i in range(100))
TRACED = clear(
    clear_metric("page", "choice", choices=f"[{MANY}]", max_values=3),
    clear_metric("crashed"),
    clear_metric("both", "cross", of='["page", "crashed"]', max_values=3),
)
TRACE = b'{"category": 87}'


def traced(install: Install) -> Client:
    client = install.agreed(TRACED)
    client.record("page", "87")
    assert TRACE in files_of(install)
    return client


def test_the_category_lies_in_the_state_until_the_epoch_is_over_and_nowhere_after(install: Install) -> None:
    client = traced(install)
    with State(install.directory).glance() as db:
        assert db.execute("SELECT value FROM gathered").fetchall() == [(TRACE.decode(),)]  # not the value itself
    install.days(1)
    assert client.status().gathered == {}
    assert b'"category"' not in files_of(install)  # the client is still open: neither in the file nor in its log


@pytest.mark.parametrize("way", ["no", "forget", "environment"])
def test_it_is_gone_after_a_no_and_after_forget(install: Install, environment, way: str) -> None:
    client = traced(install)
    if way == "no":
        client.consent(False)
    elif way == "forget":
        client.forget()
    else:
        environment.setenv("DO_NOT_TRACK", "1")
        install.client()
    assert TRACE not in files_of(install)


def test_where_somebody_reads_the_log_is_emptied_later(install: Install) -> None:
    traced(install)
    with State(install.directory).glance() as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM gathered").fetchone() == (1,)
        install.days(1)
        assert TRACE in files_of(install)
        reader.execute("ROLLBACK")
    install.look()
    assert TRACE not in files_of(install)


def test_a_copy_has_nothing_of_it(install: Install, tmp_path: Path) -> None:
    traced(install).close()
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / "state.db").write_bytes((install.directory / "state.db").read_bytes())
    assert TRACE in (copy / "state.db").read_bytes()
    install.directory = copy
    install.client().close()
    assert TRACE not in files_of(install)


def test_without_deleting_securely_it_would_be_found(install: Install) -> None:
    """The planted defect: that the category is searched for in a way that finds it."""
    traced(install).close()
    db = sqlite3.connect(install.directory / "state.db")
    db.execute("PRAGMA secure_delete = OFF")
    db.execute("DELETE FROM gathered")
    db.commit()
    db.close()
    assert TRACE in files_of(install)


# --- what the person sees -------------------------------------------------------------------------------------------


def test_the_person_sees_what_is_kept(install: Install) -> None:
    client = install.agreed(ASKS)
    client.record("os", "linux")
    client.record("crashed", True)
    client.close()
    shown = hubbub("status", "--state", install.directory).stdout
    assert "  kept as it is   os: linux, until its period is over" in shown
    assert "  kept as it is   crashed: yes, until its period is over" in shown
    assert in_words('{"category": 3}') == "answer 3"  # of a registry that is not at hand


def test_preview_shows_the_cross_of_what_was_recorded(install: Install) -> None:
    client = install.client(ASKS)
    for recorded, mask in (("crashed", 1 << 5), ("os", 1 << 1)):
        client.record(recorded, True if recorded == "crashed" else "linux")
        (message,) = client.preview()
        (report,) = [report for report in message.reports if report["metric"] == "both"]
        assert int.from_bytes(bytes.fromhex(report["bits"]), "little") == mask


def test_a_message_that_waits_shows_the_cross(install: Install) -> None:
    client = install.agreed(ASKS)
    install.days(1)
    (message, *_) = client.preview()
    assert [report["metric"] for report in message.reports] == ["both", "os", "crashed"]
    assert message.not_before == (epoch_of("day", install.now)) * DAY


def test_peek_takes_a_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(ASKS.source)
    assert main(["peek", "both", "macos,yes", "--metrics", str(toml)]) == 0
    assert "mask      000100  stays on the device" in capsys.readouterr().out
    assert main(["peek", "both", "vms,yes", "--metrics", str(toml)]) == 2
    said = "VALUE must be a category of os and crashed with a comma between, got 'vms,yes'"
    assert said in capsys.readouterr().err
