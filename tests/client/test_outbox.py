"""What waits is kept within limits, leaves one message at a time, and after a failure not before a pause has ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

import pytest

from hubbub.client import Client, control, outbox, upload
from hubbub.client.chance import fresh
from hubbub.client.facts import put, read_facts
from hubbub.client.state import FILE, State
from hubbub.protocol.wire import is_whole
from tests.client.answering_server import Answer, batch_id, problem, stored
from tests.client.install import DAY, Install
from tests.client.registries import metric, registry


@pytest.fixture
def client(install: Install) -> Client:
    """A client with one message that is due."""
    return install.with_message()


HOUR = 3600


def at_the(part: float):
    """Chance that draws every moment at this part of its hour, and ids of their own."""
    drawn = int(part * 2**48).to_bytes(6, "little") + bytes(10)

    def timing(purpose: str, every: str, epoch: int, attempt: int) -> bytes:
        return drawn if purpose == "pause" else f"{epoch:08d}{attempt:08d}".encode()

    return timing


def next_hour(moment: float) -> float:
    return (moment // HOUR + 1) * HOUR


# --- tried again --------------------------------------------------------------------------------------------------


def test_every_retry_has_identical_bytes_across_runs(install: Install, client: Client) -> None:
    install.server.answer = lambda body: Answer(503)
    for _ in range(5):
        client.flush()
        client.close()
        install.now += 8 * 3600 + 1
        client = install.client(send_delay=lambda span: 90 * DAY)  # nothing else is sent meanwhile
    client.flush()
    assert len(install.server.bodies) == 6
    assert len(set(install.server.bodies)) == 1


def test_an_unknown_metric_is_kept_and_tried_again_daily_and_holds_nothing_up(install: Install, client: Client) -> None:
    install.server.answer = lambda body: problem("metric-unknown")
    client.flush()
    assert client.status().failures == 0
    (unknown,) = install.server.bodies

    def is_unknown(body: bytes) -> bool:
        return body[32:] == unknown[32:]  # the id, and so the checksum, are others

    install.server.answer = lambda body: problem("metric-unknown") if is_unknown(body) else stored(body)
    tries = []
    for _ in range(12):
        install.now += 6 * 3600
        client.flush()
        tries.append(sum(map(is_unknown, install.server.bodies)) - 1)
    assert tries == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert client.status().counts["sent"] == 3
    install.server.answer = stored
    install.days(1)
    client.flush()
    assert client.status().batches_waiting == 0


# --- backing off ----------------------------------------------------------------------------------------------------


def pauses(install: Install, client: Client, answer: object, number: int) -> Iterator[float]:
    """How long the client waits after each of so many failures."""
    install.server.answer = lambda body: answer
    for failure in range(1, number + 1):
        client.flush()
        assert client.status().failures == failure
        pause = client.status().next_send - install.now
        yield pause
        install.now += pause


def test_pauses_grow_by_two_from_half_a_minute_to_six_hours_and_end_in_the_hour_after(install: Install) -> None:
    client = install.with_message(timing=at_the(0.25))
    began = install.now
    for failure, pause in enumerate(pauses(install, client, Answer(500), 14)):
        assert began + pause == next_hour(began + min(30 * 2**failure, 6 * HOUR)) + HOUR / 4
        began += pause


def test_the_moment_of_a_retry_is_drawn_from_a_whole_hour_so_the_file_tells_no_time_of_day(install: Install) -> None:
    found = set()
    for minute in range(40):  # attempts at every minute of an hour and a half
        state = State(install.directory / str(minute))
        with state.transaction() as db:
            message = outbox.Message(bytes(16), "day", 20_000, 1, b"body")
            outbox.back_off(db, message, 600_000 * HOUR + minute, fresh)
            found.add(read_facts(db).retry_at)
        state.close()
    assert {moment // HOUR for moment in found} == {600_001}
    # Evenly drawn, none of 40 falls into a given half of the hour with probability 2**-40.
    assert {int(2 * (moment % HOUR) / HOUR) for moment in found} == {0, 1}


def test_the_longest_pause_is_kept_and_a_longer_one_comes_from_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """A day that the server asked for, the rest of an hour, and the latest moment of the next."""
    state, now = State(tmp_path), 600_000 * HOUR + 1.0
    with state.transaction() as db:
        message = outbox.Message(bytes(16), "day", 20_000, 1, b"body")
        outbox.back_off(db, message, now, lambda *_: b"\xff" * 16, retry_after=1e9)
        until = read_facts(db).retry_at
        assert until - now == pytest.approx(DAY + 2 * HOUR, abs=2)
        outbox.prune(db, now)
        assert read_facts(db).retry_at == until
        outbox.prune(db, now - 60)
        assert read_facts(db).retry_at == 0
    state.close()


def test_the_pause_holds_for_later_runs(install: Install) -> None:
    client = install.with_message(timing=at_the(0.5))
    install.server.answer = lambda body: Answer(500)
    client.flush()
    client.close()
    install.server.answer = stored
    install.now = next_hour(install.now) + HOUR / 2 - 1
    with install.client() as later:
        later.flush()
    assert len(install.server.bodies) == 1
    install.now += 1
    with install.client() as later:
        later.flush()
        assert later.status().failures == 0
    assert len(install.server.bodies) == 2


def test_a_failure_stops_the_other_messages_too(install: Install) -> None:
    client = install.agreed()
    install.days(5)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    assert client.status().batches_waiting == 5
    assert install.server.connections == 1


def obeyed(install: Install, answer: Answer) -> float:
    """The least pause after an answer, in whole hours."""
    client = install.with_message(timing=at_the(0))
    (pause,) = pauses(install, client, answer, 1)
    return pause / HOUR


def test_retry_after_in_seconds_is_obeyed(install: Install) -> None:
    assert obeyed(install, Answer(429, b"", {"Retry-After": str(5 * HOUR)})) == 6  # from noon: the hour after 17:00


def test_retry_after_as_a_date_is_read_on_the_servers_clock(install: Install) -> None:
    theirs = 1_000_000_000
    answer = problem("queue-full", Retry_After=formatdate(theirs + 3 * HOUR, usegmt=True), Date=formatdate(theirs))
    assert obeyed(install, answer) == 4


@pytest.mark.parametrize("text", ["99999999", "9" * 400, formatdate(9e9, usegmt=True)])
def test_no_retry_after_is_longer_than_a_day(install: Install, text: str) -> None:
    assert obeyed(install, Answer(503, b"", {"Retry-After": text})) == 25


@pytest.mark.parametrize("text", ["-5", "soon", "", "1e3", "0", formatdate(1e9, usegmt=True)])
def test_a_retry_after_without_sense_leaves_the_usual_pause(install: Install, text: str) -> None:
    assert obeyed(install, Answer(503, b"", {"Retry-After": text})) == 1


def test_the_longer_of_pause_and_retry_after_counts(install: Install) -> None:
    client = install.with_message(timing=at_the(0))
    hours = [pause / HOUR for pause in pauses(install, client, Answer(503, b"", {"Retry-After": "7300"}), 12)]
    assert hours == [3] * 9 + [5, 7, 7]


def test_success_ends_the_backing_off(install: Install, client: Client) -> None:
    list(pauses(install, client, Answer(500), 3))
    install.server.answer = stored
    client.flush()
    assert client.status().failures == 0
    assert client.status().next_send is None


# --- the outbox -----------------------------------------------------------------------------------------------------


def test_a_message_is_given_up_after_28_days(install: Install) -> None:
    client = install.agreed(registry(metric("dark_theme", every="month")))
    install.days(20)
    client.close()
    install.server.answer = lambda body: Answer(500)
    install.days(26)  # 28 days end at midnight of January 29th
    for day in range(30):
        client = install.client()
        client.flush()
        assert client.status().batches_waiting == (1 if day < 27 else 0), day
        client.close()
        install.days(1)
    assert client.status().counts["dropped_too_old"] == 1


def test_the_outbox_is_capped_by_number_and_the_oldest_go_first(install: Install, environment) -> None:
    environment.setattr("hubbub.client.outbox.MAX_BATCHES", 3)
    client = install.agreed()
    install.days(8)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    kept = [message.epoch for message in client.preview() if message.body]
    assert kept == ["2026-11-22", "2026-11-23", "2026-11-24"]
    assert client.status().counts["dropped_outbox_full"] == 5


def test_the_outbox_is_capped_by_bytes(install: Install, environment) -> None:
    environment.setattr("hubbub.client.outbox.MAX_BYTES", 10_000)
    client = install.agreed(registry(metric("page", "string", num_bits=16_384)))
    install.days(12)
    install.server.answer = lambda body: Answer(500)
    client.flush()
    kept = [len(message.body) for message in client.preview() if message.body]
    assert len(kept) == 4
    assert 8_000 < sum(kept) <= 10_000
    assert client.status().counts["dropped_outbox_full"] == 8


@pytest.mark.parametrize(("answer", "leaves"), [("yes", True), ("no", False), (None, False)])
def test_no_message_is_taken_up_without_a_yes_whatever_put_it_there(tmp_path: Path, answer, leaves: bool) -> None:
    state = State(tmp_path)
    message = outbox.Message(bytes(16), "day", 20_000, 1, b"body")
    with state.transaction() as db:
        put(db, "answer", answer)
        outbox.add(db, message, not_before=0.0)
        assert [claimed.message for claimed in outbox.claim(db, now=20_001.5 * DAY)] == ([message] if leaves else [])
    state.close()


# --- several senders ------------------------------------------------------------------------------------------------


def test_two_processes_do_not_send_one_message_at_the_same_time(install: Install, client: Client) -> None:
    other = install.client()

    def answer(body: bytes) -> Answer:
        if len(install.server.bodies) == 1:
            other.flush()
        return stored(body)

    install.server.answer = answer
    client.flush()
    assert len(install.server.bodies) == 1
    assert client.status().counts["sent"] == 1


def test_a_message_whose_sender_died_is_sent_by_another_within_the_hour_and_five_minutes(install: Install) -> None:
    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        upload.post(endpoint, body, timeout)
        raise KeyboardInterrupt  # the process ends before it can keep what it was told

    client = install.with_message(post=post)
    install.now += 7
    with pytest.raises(KeyboardInterrupt):
        client.flush()
    install.server.answer = stored
    other = install.client()
    with other._state.transaction() as db:
        (until,) = db.execute("SELECT claimed_until FROM outbox").fetchone()
    assert until == next_hour(install.now)  # a full hour: not the moment at which it was claimed
    install.now = until - 1
    other.flush()
    assert len(install.server.bodies) == 1
    install.now += 1
    other.flush()
    first, second = install.server.bodies
    assert first == second


def test_the_next_try_after_an_unknown_metric_has_a_new_id(install: Install) -> None:
    """A collector that answers so every day would else see one id on 28 days, from every address of the install."""
    client = install.with_message()
    install.server.answer = lambda body: problem("metric-unknown")
    for _ in range(28):
        client.flush()
        install.asleep(days=1.1)
    first = install.server.bodies[0]
    tries = [body for body in install.server.bodies if body[32:] == first[32:]]
    assert all(map(is_whole, tries)), "a new id needs a new checksum"
    ids = [batch_id(body) for body in tries]
    assert len(set(ids)) == len(ids) == 26  # until it is 28 days old
    install.server.answer = stored


def test_a_machine_that_slept_claims_again_before_it_sends(install: Install) -> None:
    """Another process may have sent it meanwhile."""
    client = install.with_message()
    client._timer.begin()
    install.asleep(days=0.1)
    with install.client() as other:
        assert other.flush()
    client._timer.step()
    assert len(install.server.bodies) == 1


def test_what_a_no_has_deleted_does_not_leave_though_a_yes_came_after(install: Install, client: Client) -> None:
    """Claimed by one process a minute ahead; in another the person says no, and then yes to whatever comes next."""
    client._timer.claim(60)
    other = install.client()
    other.consent(False)
    other.consent(True)
    assert client._timer.send() is False
    assert install.server.bodies == []


@pytest.mark.parametrize("outcome", ["fails", "is refused", "is delivered"])
def test_of_a_message_on_its_way_nothing_is_kept_after_forget(install: Install, outcome: str) -> None:
    """Neither that an attempt failed nor when the next would be: everything is deleted, and stays so."""

    def forgets(endpoint: str, body: bytes, timeout: float) -> upload.Answer:
        with closing(State(install.directory)) as elsewhere:
            control.forget(elsewhere)
        if outcome == "fails":
            raise OSError
        answer = stored(body) if outcome == "is delivered" else problem("malformed")
        return upload.Answer(answer.status, answer.body)

    client = install.with_message(post=forgets)
    client._timer.claim()
    client._timer.send()
    with closing(sqlite3.connect(install.directory / FILE)) as db:
        assert {name for (name,) in db.execute("SELECT name FROM meta")} == {"home", "carried", "answer", "lifetime"}
        assert db.execute("SELECT * FROM counts").fetchall() == []
