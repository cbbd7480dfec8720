"""One sleeping thread for each state, registry and endpoint, and nobody waits for it longer than agreed."""

from __future__ import annotations

import gc
import sqlite3
import threading

import pytest

from hubbub.client import Client, outbox
from hubbub.client.timer import LOOK_EVERY, Timer
from tests.client.answering_server import DRIP, HANG, Answer, stored
from tests.client.install import DAY, Install
from tests.client.processes import holding_the_state, run_python
from tests.client.registries import metric, registry

# --- the thread -----------------------------------------------------------------------------------------------------


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hubbub-timer"]


def clock(install: Install):
    return lambda: install.now


def test_a_client_that_is_on_has_one_daemon_thread_until_it_is_closed(install: Install) -> None:
    client = install.agreed(background=True)
    (thread,) = threads()
    assert thread.daemon
    client.record("dark_theme", True)
    client.flush()
    assert threads() == [thread]
    client.close()
    assert threads() == []


@pytest.mark.parametrize("options", [{"endpoint": None}, {"background": False}, {"environ": {"HUBBUB_MODE": "off"}}])
def test_there_is_no_thread_where_none_may_be_or_nothing_may_be_sent(install: Install, options: dict) -> None:
    install.agreed().close()
    client = install.client(**{"background": True, **options})
    client.record("dark_theme", True)
    client.flush()
    assert threads() == []


def test_a_yes_starts_the_thread_and_a_no_ends_it(install: Install) -> None:
    client = install.client(background=True)
    assert threads() == []
    client.consent(True)
    assert len(threads()) == 1
    client.consent(False)
    assert threads() == []
    client.consent(True)
    assert len(threads()) == 1
    client.forget()
    assert threads() == []


def test_clients_of_one_state_registry_and_endpoint_share_one_timer(install: Install) -> None:
    install.agreed().close()
    options = {"background": True, "clock": clock(install), "send_delay": None}
    one, two = install.client(**options), install.client(**options)
    other = install.client(registry(metric("dark_theme"), lifetime=50), **options)
    assert one._timer is two._timer is not other._timer
    assert len(threads()) == 2
    other.close()
    assert set(two._timer.owners()) == {one, two}
    one.close()
    one.close()
    assert two._timer.owners() == [two]
    assert len(threads()) == 1
    two.close()
    assert threads() == []


def test_a_client_that_is_dropped_leaves_its_timer_running(install: Install) -> None:
    install.agreed().close()
    arguments = {"endpoint": install.server.url, "state_dir": install.directory, "clock": clock(install)}
    Client(install.registry, **arguments).record("dark_theme", True)
    gc.collect()
    (thread,) = threads()
    with Client(install.registry, **arguments) as again:
        assert again._timer.thread is thread
    assert threads() == [thread]
    again._timer.thread = None
    with again._timer.condition:
        again._timer.condition.notify_all()
    thread.join(30)


def test_the_thread_repeats_steps_until_the_state_is_no_longer_busy(install: Install, environment) -> None:
    environment.setattr("hubbub.client.timer.BUSY_PAUSE", 0.01)
    install.agreed().close()
    with holding_the_state(install.directory / "state.db"):
        client = install.client(background=True)
        assert client.mode == "off"
        assert len(threads()) == 1
    looked = threading.Event()
    look = Timer.look

    def tell(timer: Timer) -> None:
        look(timer)
        looked.set()

    environment.setattr(Timer, "look", tell)
    assert client.mode == "on" or looked.wait(30)
    client.record("dark_theme", True)
    assert client.status().counts["made"] == 1


def test_a_flush_that_meets_a_busy_state_says_that_something_is_left(install: Install) -> None:
    client = install.with_message()
    with holding_the_state(install.directory / "state.db"):
        assert client.flush(0.1) is False
    assert client.flush(30) is True


def test_the_thread_ends_when_another_process_takes_the_yes_back(install: Install) -> None:
    client = install.agreed(background=True)
    (thread,) = threads()
    install.clients.append(other := install.client())
    other.consent(False)
    client._timer._looks_at = install.now  # 15 minutes are over
    with client._timer.condition:
        client._timer.poked = True
        client._timer.condition.notify_all()
    thread.join(30)
    assert not thread.is_alive()
    assert client.mode == "off"


# --- in virtual time ------------------------------------------------------------------------------------------------


def pass_time(install: Install, timer: Timer, until: float) -> list[float]:
    """What the thread would do until then, without it: when each step was made."""
    steps = []
    while install.now < until:
        steps.append(install.now)
        install.now = min(until, max(timer.step(), install.now))
    return steps


def test_a_timer_wakes_four_times_an_hour_and_once_at_midnight(install: Install) -> None:
    client = install.agreed(send_delay=None)
    begin = install.now = install.now + 100
    steps = pass_time(install, client._timer, begin + 3600)
    assert len(steps) in (4, 5)
    install.now = (install.now // DAY + 1) * DAY - 400
    client._timer.step()
    assert client._timer.step() == (install.now // DAY + 1) * DAY


def test_a_message_leaves_at_its_stored_moment_to_the_second(install: Install) -> None:
    departures = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        departures.append(install.now)
        return stored(body)

    client = install.agreed(send_delay=lambda span: 1234.5, post=post)
    midnight = (install.now // DAY + 1) * DAY
    pass_time(install, client._timer, midnight + 3 * DAY)
    assert departures == [midnight + day * DAY + 1234.5 for day in range(3)]


def test_a_message_is_claimed_a_minute_before_it_leaves(install: Install) -> None:
    client = install.agreed(send_delay=lambda span: 1234.5)
    timer = client._timer
    leaves = (install.now // DAY + 1) * DAY + 1234.5
    pass_time(install, timer, leaves - 60)
    assert timer._held == []
    install.now = leaves - 60
    assert timer.step() == leaves
    assert [claimed.departs for claimed in timer._held] == [leaves]
    client.close()


def test_a_state_that_another_process_holds_does_not_delay_a_message_that_was_claimed(install: Install) -> None:
    departures = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        departures.append(install.now)
        return stored(body)

    client = install.agreed(send_delay=lambda span: 1234.5, post=post)
    leaves = (install.now // DAY + 1) * DAY + 1234.5
    pass_time(install, client._timer, leaves)
    install.now = leaves
    with holding_the_state(install.directory / "state.db"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("hubbub.client.timer.INSISTENCE", 0.1)
        client._timer.step()
    assert departures == [leaves]


def test_forty_idle_days_are_answered_all_the_same(install: Install) -> None:
    client = install.agreed(send_delay=None)
    first = install.now // DAY
    pass_time(install, client._timer, install.now + 40 * DAY)
    assert sorted(report.epoch for report in install.arrived())[:39] == [first + day for day in range(39)]
    assert LOOK_EVERY == 900


# --- flush ----------------------------------------------------------------------------------------------------------


def test_record_does_not_wait_for_the_network(install: Install) -> None:
    install.agreed().close()
    install.days(1)
    asked = threading.Event()

    def answer(body: bytes) -> object:
        asked.set()
        return HANG

    install.server.answer = answer
    client = install.client(background=True)  # with a server that never answers, waiting would mean for ever
    assert asked.wait(60)
    client.record("dark_theme", True)
    assert client.status().counts["made"] == 2
    install.server.over.set()


def test_without_background_there_is_never_a_thread(install: Install) -> None:
    before = threading.active_count()
    seen = []
    install.server.answer = lambda body: seen.extend(threads()) or stored(body)
    client = install.with_message()
    client.record("dark_theme", True)
    assert install.server.connections == 0
    client.flush()
    assert len(install.server.bodies) == 1
    assert seen == []
    assert threading.active_count() <= before + 1  # the server's, which may still be closing its connection


def test_a_flush_waits_for_the_thread_at_most_so_long(install: Install) -> None:
    answer_now = threading.Event()
    waited = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        waited.append(answer_now.wait(60))
        return stored(body)

    client = install.with_message(background=True, post=post)
    assert not client.flush(timeout=0.05)  # were the thread waited for, it would end only after its own minute
    answer_now.set()
    assert client.flush(timeout=60)
    assert waited == [True]


def test_a_flush_waits_for_the_thread_until_it_has_sent_all_that_is_due(install: Install) -> None:
    client = install.agreed(background=True)
    install.days(20)
    assert client.flush(timeout=60)
    assert client.status().counts["sent"] == 20


def test_a_flush_claims_nothing_ahead(install: Install) -> None:
    client = install.agreed(send_delay=lambda span: 1234.5)
    install.now = (install.now // DAY + 1) * DAY + 1200
    assert client.flush()
    with client._state.transaction() as db:
        assert db.execute("SELECT claimed_until FROM outbox").fetchall() == [(0,)]


def test_close_starts_nothing(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.now += DAY
    client.close()
    with install.client() as again:
        assert again.status().batches_waiting == 1
    assert install.server.connections == 0


def test_an_attempt_has_ten_seconds_and_never_more_than_the_caller(install: Install, monkeypatch) -> None:
    given = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        given.append(timeout)
        return stored(body)

    client = install.with_message(post=post)
    client.flush(timeout=1000)
    assert given == [10]
    monkeypatch.setattr("hubbub.client.timer.TIMEOUT", 1e6)
    install.days(1)
    client.flush(timeout=1000)
    assert 0 < given[1] <= 1000


def test_a_message_is_synced_to_the_disk_before_it_leaves(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it lost with the machine's power after it had left, its reports would be drawn a second time."""
    happened = []
    claim = outbox.claim

    def claimed(db: sqlite3.Connection, now: float, ahead: float):
        happened.append(("claim", *db.execute("PRAGMA synchronous").fetchone()))
        return claim(db, now, ahead)

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        happened.append(("leaves",))
        return stored(body)

    monkeypatch.setattr(outbox, "claim", claimed)
    client = install.with_message(post=post)
    assert client.flush()
    full = 2
    assert happened == [("claim", full), ("leaves",)]
    with client._state.transaction() as db:
        assert db.execute("PRAGMA synchronous").fetchone() != (full,)  # a record does not wait for the disk


# --- leaving --------------------------------------------------------------------------------------------------------

FOR_EVER = 100_000
AN_APP_THAT_ENDS = """
import json, os, sys, time
from hubbub.client import Client, timer
from hubbub.client import client as module
registry, state, endpoint, now, patience = sys.argv[1:]
module.EXIT_PATIENCE, timer.TIMEOUT = float(patience), 1e6
telemetry = Client(registry, state_dir=state, endpoint=endpoint, clock=lambda: float(now), send_delay=lambda span: 0)
begin = time.monotonic()
telemetry.close()
print(time.monotonic() - begin)
"""


@pytest.fixture
def ending(install: Install):
    """Lets an app begin and end at once that has a message which is due; returns for how many seconds its end took. One
    that waits for what never comes is found out: a process that hangs fails the test."""
    client = install.agreed()
    client.close()
    install.days(1)
    (install.directory.parent / "metrics.toml").write_text(install.registry.source)

    def end(patience: float, script: str = AN_APP_THAT_ENDS) -> float:
        toml = install.directory.parent / "metrics.toml"
        return run_python(script, toml, install.directory, install.server.url, install.now, patience)

    return end


def test_the_end_of_an_app_waits_two_seconds_for_a_server_that_hangs(install: Install, ending) -> None:
    install.server.answer = lambda body: HANG
    assert ending(patience=2) >= 1.9
    assert install.server.connections == 1
    assert install.client().status().failures == 1


def test_the_end_of_an_app_waits_no_longer_for_an_answer_that_drips(install: Install, ending) -> None:
    install.server.answer = lambda body: DRIP  # no single wait ever times out
    ending(patience=0.5)
    assert install.client().status().batches_waiting == 1


def test_the_end_of_an_app_does_not_wait_where_the_last_attempt_failed(install: Install, ending) -> None:
    install.server.answer = lambda body: HANG
    ending(patience=0.1)
    install.days(1)
    ending(patience=FOR_EVER)  # though messages are due, and the thread hangs on one


def test_the_end_of_an_app_does_not_wait_where_nothing_is_due(install: Install, ending) -> None:
    ending(patience=60)
    assert install.server.connections == 1
    install.server.answer = lambda body: HANG
    ending(patience=FOR_EVER)
    assert install.server.connections == 1


def test_a_process_however_short_sends_what_it_finds_due(install: Install, ending) -> None:
    ending(patience=60)
    assert len(install.arrived()) == 1


@pytest.mark.parametrize("end", ["", "del telemetry"])
def test_an_app_that_never_closes_its_client_sends_what_is_due_all_the_same(install: Install, ending, end) -> None:
    ending(patience=60, script=AN_APP_THAT_ENDS.replace("telemetry.close()", end))
    assert len(install.arrived()) == 1


def test_what_is_claimed_and_not_yet_due_is_left_to_the_next_process(install: Install) -> None:
    client = install.agreed(send_delay=lambda span: 1234.5, background=True)
    install.now = (install.now // DAY + 1) * DAY + 1234.5 - 30
    install.look()
    client._timer.claim(60)
    client.close()
    install.now += 30
    with install.client() as again:
        assert again.flush()
    assert len(install.arrived()) == 1


def test_counts_that_were_not_yet_saved_are_saved_at_the_end(install: Install) -> None:
    with install.agreed() as client:
        for _ in range(5):
            client.record("dark_theme", True)
    assert install.client().status().counts == {"made": 1, "repeated": 4}


def test_a_client_can_be_closed_twice_and_used_again(install: Install) -> None:
    client = install.agreed()
    client.close()
    client.close()
    client.record("dark_theme", True)
    assert client.status().counts["made"] == 1
