"""The sender is a thread only while it has something to do, and nobody waits for it longer than agreed."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from hubbub.client import outbox
from tests.client.answering_server import DRIP, HANG, Answer, stored
from tests.client.install import Install
from tests.client.processes import run_python

# --- the thread -----------------------------------------------------------------------------------------------------


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hubbub-sender"]


def test_the_sender_is_a_daemon_thread_that_exists_only_while_something_is_due(install: Install) -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def answer(body: bytes) -> object:
        asked.set()
        answer_now.wait(30)
        return stored(body)

    install.server.answer = answer
    client = install.agreed(background=True)
    client.record("dark_theme", True)
    assert client.flush()
    assert senders() == []
    install.days(1)
    client.record("dark_theme", True)
    assert asked.wait(30)
    (thread,) = senders()
    assert thread.daemon
    client.record("dark_theme", True)
    assert senders() == [thread]
    answer_now.set()
    thread.join(30)
    assert senders() == []
    assert client.status().counts["sent"] == 1
    client.record("dark_theme", True)
    assert senders() == []


def test_record_does_not_wait_for_the_network(install: Install) -> None:
    install.server.answer = lambda body: HANG
    client = install.agreed(background=True)
    install.days(1)
    client.record("dark_theme", True)  # with a server that never answers, waiting would mean for ever
    (thread,) = senders()
    assert client.status().counts["made"] == 2
    install.server.over.set()
    thread.join(30)


def test_without_background_there_is_never_a_thread(install: Install) -> None:
    before = threading.active_count()
    seen = []
    install.server.answer = lambda body: seen.extend(senders()) or stored(body)
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
    (thread,) = senders()
    answer_now.set()
    thread.join(60)
    assert waited == [True]
    assert client.flush(timeout=0.05)


def test_a_flush_waits_for_the_thread_until_it_has_sent(install: Install) -> None:
    asked, flushing = threading.Event(), threading.Event()

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        asked.set()
        flushing.wait(60)
        return stored(body)

    client = install.agreed(background=True, post=post)
    install.days(1)
    client.record("dark_theme", True)
    assert asked.wait(60)
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        flushing.set()  # the caller waits: only now may the answer come
        join(thread, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "join", joined)
        assert client.flush(timeout=60)
    assert client.status().counts["sent"] == 1


def test_an_attempt_has_ten_seconds_and_never_more_than_the_caller(install: Install, monkeypatch) -> None:
    given = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        given.append(timeout)
        return stored(body)

    client = install.with_message(post=post)
    client.flush(timeout=1000)
    assert given == [10]
    monkeypatch.setattr("hubbub.client.sender.TIMEOUT", 1e6)
    install.days(1)
    client.flush(timeout=1000)
    assert 0 < given[1] <= 1000


def test_a_message_is_synced_to_the_disk_before_it_leaves(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it lost with the machine's power after it had left, its reports would be drawn a second time."""
    happened = []
    claim = outbox.claim

    def claimed(db: sqlite3.Connection, now: float):
        happened.append(("claim", *db.execute("PRAGMA synchronous").fetchone()))
        return claim(db, now)

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        happened.append(("leaves",))
        return stored(body)

    monkeypatch.setattr(outbox, "claim", claimed)
    client = install.with_message(post=post)
    assert client.flush()
    full = 2
    assert happened == [("claim", full), ("leaves",), ("claim", full)]
    with client._state.transaction() as db:
        assert db.execute("PRAGMA synchronous").fetchone() != (full,)  # a record does not wait for the disk


# --- leaving --------------------------------------------------------------------------------------------------------

FOR_EVER = 100_000
AN_APP_THAT_ENDS = """
import json, os, sys, time
from hubbub.client import Client, sender
from hubbub.client import client as module
registry, state, endpoint, now, patience, background, record = sys.argv[1:]
module.EXIT_PATIENCE, sender.TIMEOUT = float(patience), 1e6
telemetry = Client(registry, state_dir=state, endpoint=endpoint, clock=lambda: float(now), background=bool(background),
                   send_delay=lambda span: 0)
if record:
    telemetry.record("dark_theme", True)
begin = time.monotonic()
telemetry.close()
print(time.monotonic() - begin)
"""


@pytest.fixture
def ending(install: Install):
    """Lets an app end that has a message which is due; returns for how many seconds its end took. One that waits for
    what never comes is found out: a process that hangs fails the test."""
    client = install.agreed(send_delay=lambda span: span)
    client.close()
    install.days(1)
    (install.directory.parent / "metrics.toml").write_text(install.registry.source)

    def end(patience: float, background: bool = True, record: bool = False) -> float:
        arguments = ("x" if background else "", "x" if record else "")
        toml = install.directory.parent / "metrics.toml"
        url = install.server.url
        return run_python(AN_APP_THAT_ENDS, toml, install.directory, url, install.now, patience, *arguments)

    return end


@pytest.mark.parametrize("background", [True, False])
def test_the_end_of_an_app_waits_two_seconds_for_a_server_that_hangs(install: Install, ending, background) -> None:
    install.server.answer = lambda body: HANG
    assert ending(patience=2, background=background, record=background) >= 1.9
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
    ending(patience=FOR_EVER, record=True)  # though a message is due, and a sender hangs on it


def test_an_app_whose_last_attempt_failed_makes_none_when_it_ends(install: Install) -> None:
    attempts = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        attempts.append(body)
        return Answer(500)

    # Pauses are drawn with four bytes: this one is over at once, so the message is due again.
    client = install.with_message(post=post, random=lambda size: bytes(size) if size == 4 else install.chance(size))
    client.flush()
    client.close()
    assert len(attempts) == 1


def test_the_end_of_an_app_does_not_wait_where_nothing_is_due(install: Install, ending) -> None:
    ending(patience=60)
    assert install.server.connections == 1
    install.server.answer = lambda body: HANG
    ending(patience=FOR_EVER, record=True)
    assert install.server.connections == 1


def test_the_end_of_an_app_sends_what_is_due(install: Install, ending) -> None:
    ending(patience=60)
    assert len(install.arrived()) == 1


def test_an_app_that_never_closes_its_client_sends_at_exit(install: Install, ending) -> None:
    script = AN_APP_THAT_ENDS.replace("telemetry.close()", "")
    toml = install.directory.parent / "metrics.toml"
    run_python(script, toml, install.directory, install.server.url, install.now, 60, "x", "x")
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
