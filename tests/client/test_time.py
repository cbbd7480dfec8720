"""What leaves, and when, depends on when processes lived and on nothing that was recorded.

Fix when processes lived, slept and were killed, the clock, what the network said, the person's answers, the calls of
`flush`, and the chance of moments and ids. Then the list of departures (moment, length, id, epochs, metrics, cohorts)
is equal for all histories of records, exactly. The bits in them are the subject of test_transcripts.py. Every defect
that the client once had is planted again, and caught.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import product
from random import Random
from unittest.mock import patch

import pytest

from hubbub.client import Client, Registry
from hubbub.client.budget import slots_used
from hubbub.client.recorder import ReportMaker, is_expired
from hubbub.protocol.cadence import epoch_of
from tests.client.install import Install
from tests.client.registries import held, metric, registry
from tests.client.virtual import (
    DAY,
    HOUR,
    START,
    Act,
    Departure,
    Life,
    Process,
    Record,
    departures,
    record_opens_epochs,
    record_sends,
)

MIDNIGHT = 12 * HOUR  # of the day of the yes: lives begin at noon
TWO = registry(metric("theme"), metric("beta", max_values=1))

# --- every schedule of records --------------------------------------------------------------------------------------


def mornings(days: int) -> Life:
    """One run a day, closed after forty minutes."""
    times = [MIDNIGHT + day * DAY + 8 * HOUR for day in range(days)]
    return Life([Process(time, time + 2400) for time in times], days=days + 2)


def killed(days: int) -> Life:
    """Two runs a day that overlap: the first is killed, another day both are."""
    times = [MIDNIGHT + day * DAY + 8 * HOUR for day in range(days)]
    first = [Process(time, time + 1200, killed=True) for time in times]
    second = [Process(time + 600, time + 2400, killed=day % 2 == 0) for day, time in enumerate(times)]
    return Life([*first, *second], network=("stored", "error", "stored"), days=days + 2)


def nights(days: int) -> Life:
    """A run over every other midnight. The machine sleeps through it, and the app ends before its timer has looked
    again; the last is killed."""
    times = [MIDNIGHT + day * DAY - 1200 for day in range(0, days + 1, 2)]
    processes = [Process(time, time + 2400, asleep=(time + 600, time + 2200)) for time in times]
    return Life([*processes[:-1], processes[-1]._replace(killed=True)], days=days + 2)


def flushed(days: int) -> Life:
    """One run a day, with a flush in the middle, and a no and a yes on the second day."""
    life = mornings(days)
    flushes = [Act(process.begin + 1300, "flush") for process in life.processes]
    change = life.processes[1].begin
    return life._replace(acts=[*flushes, Act(change + 900, "no"), Act(change + 1000, "yes")])


LIVES = [mornings, killed, nights, flushed]
WHEN = ("never", "early", "late")


def schedule(life: Life, days: int, choices: dict[str, tuple[str, ...]]) -> list[Record]:
    """Records of each metric on each day: none, just after the day's first process began, or just before its last
    ended."""
    records = []
    for name, chosen in choices.items():
        for day, when in zip(range(days), chosen, strict=True):
            begin, end = MIDNIGHT + day * DAY, MIDNIGHT + (day + 1) * DAY
            awake = [(p.asleep[1] if p.asleep[0] < begin < p.asleep[1] else p.begin, p.end) for p in life.processes]
            alive = [(max(first, begin), min(last, end)) for first, last in awake if first < end and last > begin]
            if when == "early":
                records.append(Record(min(alive)[0] + 1, name, day % 2 == 0))
            elif when == "late":
                records.append(Record(max(last for _, last in alive) - 1, name, True))
    return records


def seen(life: Life, days: int, schedules: list[dict[str, tuple[str, ...]]]) -> Iterator[list[Departure]]:
    for number, choices in enumerate(schedules):
        yield departures(TWO, life, schedule(life, days, choices), seed=number)


def all_equal(life: Life, days: int, schedules: list[dict[str, tuple[str, ...]]]) -> int:
    """How many messages left, the same ones under every schedule."""
    first, *others = seen(life, days, schedules)
    for choices, other in zip(schedules[1:], others, strict=True):
        assert other == first, choices
    return len(first)


def every_schedule(days: int) -> list[dict[str, tuple[str, ...]]]:
    return [
        {"theme": theme, "beta": beta}
        for theme, beta in product(product(WHEN, repeat=days), product(WHEN, repeat=days))
    ]


@pytest.mark.parametrize("life", LIVES)
def test_the_same_messages_leave_at_the_same_moments_whatever_was_recorded(life) -> None:
    assert all_equal(life(2), 2, every_schedule(2)) >= (1 if life is not nights else 0)


@pytest.mark.proof
@pytest.mark.parametrize("life", LIVES)
def test_the_same_messages_leave_under_every_schedule_of_five_epochs(life, figure) -> None:
    """All 243 schedules of one metric, with each of three of the other, and all pairs for three epochs."""
    single = list(product(WHEN, repeat=5))
    schedules = [{"theme": theme, "beta": beta} for theme in single for beta in (single[0], theme, single[-1])]
    messages = all_equal(life(5), 5, schedules)
    all_equal(life(3), 3, every_schedule(3))
    figure(f"departures, {life.__name__}", f"{len(schedules) + 729} schedules of records, {messages} equal messages")


@pytest.mark.parametrize(
    ("defect", "life"), [(record_opens_epochs, nights), (record_sends, mornings), (record_sends, killed)]
)
def test_a_record_that_opens_epochs_or_sends_is_caught(defect, life) -> None:
    with defect(), pytest.raises(AssertionError):
        all_equal(life(2), 2, every_schedule(2))


# --- random lives ---------------------------------------------------------------------------------------------------

MANY = registry(
    metric("theme"),
    metric("page", "string", max_values=3),
    held("held", hold=2, max_values=3),
    metric("weekly", "choice", every="week"),
    metric("born", every="once"),
    lifetime=90,
)
VALUES = {"theme": [True, False], "page": ["a", "b", "c", "d"], "held": [True, False], "born": [True]}
VALUES["weekly"] = ["red", "blue"]


def random_life(chance: Random) -> Life:
    days = 9
    processes = []
    for _ in range(chance.randint(2, 5)):
        before_midnight = MIDNIGHT + chance.randrange(days - 1) * DAY - chance.uniform(0, HOUR)
        begin = chance.choice([chance.uniform(0, (days - 1) * DAY), before_midnight])
        end = min(days * DAY - 1.0, begin + chance.choice([0.2, 300, 2000, 2 * HOUR, 4 * HOUR]))
        asleep = (begin + 0.1, max(begin + 0.2, end - 700)) if chance.random() < 0.5 else (0.0, 0.0)
        processes.append(Process(begin, end, killed=chance.random() < 0.4, asleep=asleep))
    acts = [
        Act(chance.uniform(process.begin, process.end), chance.choice(["flush", "flush", "no", "yes"]))
        for process in processes
        if chance.random() < 0.4
    ]
    network = [chance.choice(["stored", "stored", "unknown", "error", "refused"]) for _ in range(6)] + ["stored"]
    return Life(processes, acts, network, days)


def random_records(life: Life, chance: Random, number: int) -> list[Record]:
    records = []
    for _ in range(number):
        process = chance.choice(life.processes)
        name = chance.choice(list(VALUES))
        last_minutes = max(process.begin, process.end - 600)
        moment = chance.uniform(chance.choice([process.begin, last_minutes]), process.end)
        records.append(Record(moment, name, chance.choice(VALUES[name])))
    return records


def differing_lives(lives: int, histories: int = 2, **planted) -> tuple[int, int]:
    """(lives in which some history of records made another list of departures, messages in all)."""
    differing = messages = 0
    for seed in range(lives):
        chance = Random(seed)
        life = random_life(chance)
        silent = departures(MANY, life, [], seed=0, **planted)
        messages += len(silent)
        differing += any(
            departures(MANY, life, random_records(life, chance, 60), seed=i, **planted) != silent
            for i in range(1, histories)
        )
    return differing, messages


def test_random_lives_send_the_same_whatever_was_recorded() -> None:
    differing, messages = differing_lives(25)
    assert differing == 0
    assert messages > 25


@pytest.mark.proof
def test_a_thousand_random_lives_send_the_same_whatever_was_recorded(figure) -> None:
    differing, messages = differing_lives(1060, histories=3)
    assert differing == 0
    figure("departures of random lives", f"1060 lives, three histories each, {messages} messages, all equal")


@contextmanager
def once_is_used_up_by_its_record() -> Iterator[None]:
    """The old rule: asked until a memo exists."""

    def is_asked(maker: ReportMaker, asked, epoch: int) -> bool:
        return (
            epoch > epoch_of(asked.every, maker.answered_at)
            and not is_expired(asked, epoch)
            and (asked.every != "once" or slots_used(maker.db, asked) == 0 or maker.has_report(asked, epoch))
        )

    with patch.object(ReportMaker, "is_asked", is_asked):
        yield


def planted(name: str) -> AbstractContextManager[None]:
    return {"record opens": record_opens_epochs, "record sends": record_sends}.get(name, nullcontext)()


@pytest.mark.parametrize("defect", ["record opens", "record sends", "shared chance"])
def test_random_lives_catch_every_planted_defect(defect: str) -> None:
    with planted(defect):
        differing, _ = differing_lives(24, shared_chance=defect == "shared chance")
    assert differing > 0


def asked_once_and_withdrawn(recorded: bool) -> list[Departure]:
    """The first month that asks was opened, and the person said no before it was over; later yes again."""
    asks = registry(metric("born", every="once"))
    month = 31 * DAY
    life = Life(
        [Process(i * month, i * month + HOUR) for i in range(6)],
        [Act(1 * month + 900, "no"), Act(1 * month + 1000, "yes")],
        days=200,
    )
    return departures(asks, life, [Record(month + 60, "born", True)] if recorded else [], seed=0)


def test_a_metric_asked_once_is_used_up_when_an_epoch_that_asks_was_opened() -> None:
    assert asked_once_and_withdrawn(recorded=True) == asked_once_and_withdrawn(recorded=False)


def test_the_old_rule_for_once_is_caught() -> None:
    with once_is_used_up_by_its_record():
        assert asked_once_and_withdrawn(recorded=True) != asked_once_and_withdrawn(recorded=False)


# --- what a record may write ----------------------------------------------------------------------------------------

WRITES = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}


@pytest.fixture
def denying(environment: pytest.MonkeyPatch) -> list[str]:
    """Inside `record` every write but to reports, memos and counts is denied; returns what was denied. (Statements that
    SQLite has compiled before would slip by: none is kept.)"""
    denied: list[str] = []
    inside = False
    connect, record = sqlite3.connect, Client.record

    def allow(action: int, table: str | None, column: str | None, *_: object) -> int:
        if inside and action in WRITES and table not in ("reports", "memos", "counts"):
            denied.append(str(table))
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def connected(*arguments, **options):
        db = connect(*arguments, **{**options, "cached_statements": 0})
        db.set_authorizer(allow)
        return db

    def recorded(client: Client, name: str, value: object) -> None:
        nonlocal inside
        inside = True
        try:
            record(client, name, value)
        finally:
            inside = False

    environment.setattr(sqlite3, "connect", connected)
    environment.setattr(Client, "record", recorded)
    return denied


def use(install: Install) -> Client:
    client = install.agreed(MANY)
    for day in range(9):
        for name, values in VALUES.items():
            client.record(name, values[day % len(values)])
        install.asleep(days=1)  # so that records come before looks, too
        client.record("theme", True)
        install.days(0.2)
        if day % 3 == 0:
            client.close()
            client = install.client()
    client.consent(False)
    client.record("theme", True)
    return client


def test_a_record_writes_reports_memos_and_counts_and_nothing_else(install: Install, denying: list[str]) -> None:
    client = use(install)
    assert denying == []
    assert client.status().counts["made"] > 20


def test_a_record_that_opened_an_epoch_would_be_denied(install: Install, denying: list[str]) -> None:
    recorded = Client.record

    def opens(client: Client, name: str, value: object) -> None:
        with patch.object(client._recorder, "record", lambda *_: client._timer.look()):
            recorded(client, name, value)

    with patch.object(Client, "record", opens):
        use(install)
    assert set(denying) & {"epochs", "outbox"}


# --- a short app, often ---------------------------------------------------------------------------------------------


def a_week_of_short_runs(seconds_between: float) -> list[Departure]:
    asks: Registry = registry(metric("theme"), metric("weekly", every="week"))
    runs = [Process(t * seconds_between, t * seconds_between + 0.2) for t in range(int(9 * DAY / seconds_between))]
    return departures(asks, Life(runs, days=9), [], seed=0)


def check_a_week(found: list[Departure]) -> None:
    today = START // DAY
    days = [departure.blocks[0][0] - today for departure in found if departure.blocks[0][0] > today]
    assert days[:7] == [1, 2, 3, 4, 5, 6, 7]


def test_an_app_of_a_fifth_of_a_second_started_every_ten_minutes_sends_every_epoch() -> None:
    check_a_week(a_week_of_short_runs(600))


@pytest.mark.proof
def test_an_app_of_a_fifth_of_a_second_started_every_minute_for_a_week_sends_every_epoch(figure) -> None:
    found = a_week_of_short_runs(60)
    check_a_week(found)
    figure("an app of 0.2 s, started every minute for nine days", f"{len(found)} messages, every day's among them")
