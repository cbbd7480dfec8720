"""Presence says nothing: one report for each metric and epoch in which the app ran, and none before its end."""

from __future__ import annotations

from collections import Counter

import pytest

from hubbub.client.respond import draw_bits
from hubbub.protocol.cadence import epoch_of, epoch_start
from hubbub.protocol.encoding import ABSENT
from tests.client.install import DAY, START, Install
from tests.client.registries import clear, clear_metric, metric, registry

TODAY = epoch_of("day", START)


def test_a_recorder_says_what_became_of_a_record_and_counts_it_by_that_name(install: Install) -> None:
    asks = registry(metric("theme"), metric("old", expires="2026-11-17"), metric("monthly", every="month"))
    client = install.agreed(asks)
    recorder = client._recorder
    assert recorder.record(asks["theme"], True, install.now) == "made"
    assert recorder.record(asks["theme"], True, install.now) == "repeated"
    assert recorder.record(asks["theme"], False, install.now) == "ignored_later"
    assert recorder.record(asks["old"], True, install.now) == "expired"
    assert recorder.record(asks["monthly"], True, install.now) == "not_asked"  # the month of the yes
    assert client.status().counts == {"made": 1, "repeated": 1, "ignored_later": 1, "expired": 1, "not_asked": 1}
    other = install.client()._recorder
    assert other.record(asks["theme"], False, install.now) == "repeated"  # known from the state alone
    assert recorder.record(asks["theme"], True, install.now + DAY) == "waiting"  # nobody has looked since midnight
    install.days(1)
    assert client.status().counts == {"made": 2, "repeated": 2, "ignored_later": 1, "expired": 1, "not_asked": 1}


def test_a_wrong_value_is_one_even_where_the_epoch_does_not_ask(install: Install) -> None:
    client = install.client()
    client.consent(True)
    client.record("dark_theme", "yes")
    assert client.status().counts == {"wrong_value": 1}


def test_a_sum_beyond_the_limits_is_said_once_and_without_the_sum(install: Install, caplog) -> None:
    exports = registry(metric("exports", "histogram", accumulate='"sum"', max_values=3, edges="[0, 10, 1000]"))
    client = install.agreed(exports)
    for _ in range(3):
        client.add("exports", 123_456)
        install.days(7)
        client.flush()
    assert client.status().counts["clamped"] == 3
    assert [record.getMessage() for record in caplog.records] == [
        "add('exports'): what was added in one epoch is beyond the registry's limits and counts as their end; wider "
        "limits would hold it"
    ]
    other = install.client(exports)  # of the same process, and of the same state
    other.add("exports", 123_456)
    install.days(7)
    other.flush()
    assert len(caplog.records) == 1


def test_the_first_record_of_an_epoch_counts(install: Install) -> None:
    client = install.agreed(clear(clear_metric("dark_theme")))
    for value in (True, False, False):
        client.record("dark_theme", value)
    install.days(1)
    for value in (False, True):
        client.record("dark_theme", value)
    install.days(1)
    client.flush()
    assert [report.bits for report in install.arrived()] == [1, 0]
    assert client.status().counts == {"made": 2, "ignored_later": 3, "sent": 2}


def test_the_first_record_of_an_epoch_counts_across_runs_and_clients(install: Install) -> None:
    asks = clear(clear_metric("dark_theme"))
    with install.agreed(asks) as first:
        first.record("dark_theme", True)
    with install.client() as second, install.client() as third:
        second.record("dark_theme", False)
        third.record("dark_theme", False)
        assert third.status().counts["repeated"] == 2
    install.days(1)
    install.client().flush()
    assert [report.bits for report in install.arrived()] == [1]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("flag", {}),
        ("flag", {"absent": "true"}),
        ("choice", {"choices": '["red", "green", "blue"]'}),
        ("choice", {"choices": '["red", "green", "blue"]', "absent": '"green"'}),
        ("string", {}),
        ("mean", {"absent": 30}),
        ("histogram", {}),
        ("range", {}),
    ],
)
def test_what_was_not_recorded_answers_absent_when_the_epoch_ends(install: Install, kind: str, keys: dict) -> None:
    client = install.agreed(clear(clear_metric("asked", kind, **keys)))
    install.days(1)
    client.flush()
    (report,) = install.arrived()
    found = install.registry["asked"]
    assert report.bits == found.shape.encode(ABSENT, report.cohort).mask
    assert client.status().counts["absent"] == 1


def test_every_epoch_has_one_report_per_metric_of_its_cadence_recorded_or_not(install: Install) -> None:
    asks = registry(metric("theme"), metric("beta"), metric("page", "string"), metric("weekly", every="week"))
    client = install.agreed(asks)
    for day in range(20):
        if day % 3 == 0:
            client.record("theme", True)
        if day % 5 == 0:
            client.record("page", f"page {day % 2}")
        install.days(1)
        client.flush()
    days = Counter((report.metric.name, report.epoch) for report in install.arrived())
    week = epoch_of("week", START)
    wanted = {(name, TODAY + 1 + day) for name in ("theme", "beta", "page") for day in range(20)}
    assert days == Counter(wanted | {("weekly", week + 1), ("weekly", week + 2)})


def test_a_message_tells_its_reports_and_nothing_of_what_was_recorded(install: Install) -> None:
    client = install.agreed(registry(metric("theme"), metric("page", "string")))
    client.record("page", "example.org")
    install.days(1)
    client.flush()
    install.days(1)
    client.flush()
    recorded, silent = install.server.bodies
    assert len(recorded) == len(silent)


def test_there_is_one_message_per_cadence_and_epoch(install: Install) -> None:
    cadences = ("day", "week", "month", "once")
    client = install.agreed(registry(*(metric(f"{every}_{i}", every=every) for every in cadences for i in range(2))))
    for _ in range(60):
        install.days(1)
        client.flush()
    messages = {(report.metric.every, report.epoch) for report in install.arrived()}
    assert len(install.server.bodies) == len(messages)
    assert Counter(every for every, _ in messages) == {"day": 60, "week": 7, "month": 1, "once": 1}


def test_an_app_that_did_not_run_in_an_epoch_sends_nothing_for_it(install: Install) -> None:
    install.agreed().close()
    install.days(3)
    client = install.client()
    install.days(1)
    client.flush()
    assert [report.epoch - TODAY for report in install.arrived()] == [1, 4]


def test_an_app_that_runs_on_in_silence_reports_every_epoch_in_which_it_looked(install: Install) -> None:
    client = install.agreed()
    install.days(40)
    client.flush()
    assert [report.epoch - TODAY for report in install.arrived()][-28:] == list(range(13, 41))


def test_epochs_in_which_nobody_looked_are_not_answered_whatever_is_recorded_afterwards(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.asleep(days=5)
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    assert [report.epoch - TODAY for report in install.arrived()] == [1]
    install.days(1)
    client.flush()
    assert [report.epoch - TODAY for report in install.arrived()] == [1, 7]


def test_a_client_remembers_what_it_answered_for_the_current_epochs_alone(install: Install) -> None:
    client = install.agreed()
    for _ in range(10):
        client.record("dark_theme", True)
        install.days(1)
    assert len(client._recorder._answered) == 1


def test_nothing_leaves_before_the_epoch_is_over(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.now = epoch_start("day", TODAY + 2) - 0.001
    assert client.flush()
    assert install.server.connections == 0
    install.now += 0.001
    assert client.flush()
    assert len(install.arrived()) == 1


@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_a_message_leaves_at_a_time_within_a_day_after_the_end_that_is_kept_on_disk(install: Install, every) -> None:
    install.registry = registry(metric("theme", every=every))
    with install.client() as client:
        client.consent(True)
    install.now = epoch_start(every, epoch_of(every, START) + 1)
    spans = []

    def choose(span: float) -> float:
        spans.append(span)
        return 0.75 * span

    with install.client(send_delay=choose):
        pass
    end = epoch_start(every, epoch_of(every, START) + 2)
    install.now = end
    with install.client(send_delay=choose) as client:
        assert client.status().next_send == end + 0.75 * DAY
    assert spans == [DAY]
    install.now = end + 0.75 * DAY - 1
    with install.client(send_delay=choose) as client:
        assert client.flush()
    assert install.server.connections == 0
    install.now += 1
    with install.client(send_delay=choose) as client:
        assert client.flush()
    assert len(install.arrived()) == 1
    assert spans == [DAY]


def test_the_sending_time_is_drawn_from_the_whole_window(install: Install) -> None:
    client = install.agreed(send_delay=None)
    offsets = []
    for day in range(64):
        install.now = epoch_start("day", TODAY + 2 + day)
        install.look()
        offsets.append(max(message.not_before or 0 for message in client.preview()) - install.now)
    assert all(0 <= offset < DAY for offset in offsets)
    # Evenly drawn, none of 64 falls into a given quarter of the day with probability (3/4)**64 = 1e-8.
    assert {int(4 * offset / DAY) for offset in offsets} == {0, 1, 2, 3}


def test_a_metric_asked_once_is_reported_once_per_install(install: Install) -> None:
    client = install.agreed(registry(metric("born", every="once"), metric("theme")))
    for month in range(6):
        client.record("born", True)
        client.flush()
        if month == 3:
            client.close()
            client = install.client()
        install.days(31)
    client.flush()
    assert [report.metric.name for report in install.arrived()].count("born") == 1


def test_a_metric_asked_once_is_not_asked_again_after_no_and_yes(install: Install) -> None:
    client = install.agreed(registry(metric("born", every="once")))
    install.days(31)
    client.record("born", True)
    client.consent(False)
    client.consent(True)
    for _ in range(3):
        install.days(31)
        client.record("born", True)
        client.flush()
    assert install.server.connections == 0
    assert client.status().epsilon_spent == pytest.approx(3)


def test_an_expired_metric_makes_nothing_and_is_counted(install: Install) -> None:
    client = install.agreed(registry(metric("theme"), metric("old", expires="2026-11-18")))
    for _ in range(3):
        client.record("old", True)
        install.days(1)
        client.flush()
    ends = [report.epoch - TODAY for report in install.arrived() if report.metric.name == "old"]
    assert ends == [1]
    assert client.status().counts["expired"] == 2


def test_a_metric_that_a_new_release_redefines_is_not_reported_for_the_epoch_under_way(install: Install) -> None:
    before = registry(metric("theme"), metric("beta"))
    after = registry(metric("theme", epsilon_permanent=4), metric("beta"))
    with install.agreed(before) as client:
        client.record("theme", True)
        client.record("beta", True)
    client = install.client(after)
    assert client.mode == "local"
    client.consent(True)
    client.record("theme", True)
    install.days(1)
    client.record("theme", True)
    install.days(1)
    client.flush()
    found = [(report.metric.metric_hash, report.epoch - TODAY) for report in install.arrived(before, after)]
    assert found == [(after["theme"].metric_hash, 2), (after["beta"].metric_hash, 2)]


def test_a_metric_that_a_new_release_drops_is_not_reported_even_if_it_was_recorded(install: Install) -> None:
    before = registry(metric("theme"), metric("beta"))
    with install.agreed(before) as client:
        client.record("beta", True)
    after = registry(metric("theme"))
    client = install.client(after)
    install.days(1)
    client.flush()
    assert [report.metric.name for report in install.arrived(before)] == ["theme"]


def test_a_metric_keeps_its_memo_and_draws_its_report_afresh(install: Install) -> None:
    asks = registry(metric("page", "string", num_bits=256, epsilon_one_report=0.5))
    client = install.agreed(asks)
    for _ in range(6):
        client.record("page", "example.org")
        install.days(1)
        client.flush()
    bits = [report.bits for report in install.arrived()]
    assert len(set(bits)) == 6
    assert client.status().epsilon_spent == pytest.approx(3)


def test_reports_of_one_epoch_share_the_installs_cohort(install: Install) -> None:
    client = install.agreed(registry(*(metric(f"page_{i}", "string", num_cohorts=64) for i in range(4))))
    for _ in range(3):
        install.days(1)
        client.flush()
    assert len({report.cohort for report in install.arrived()}) == 1


def test_the_batch_id_is_fresh_for_every_message(install: Install) -> None:
    client = install.agreed()
    for _ in range(10):
        install.days(1)
        client.flush()
    assert len({body[8:24] for body in install.server.bodies}) == 10


def test_clear_metrics_are_as_clear_as_these_tests_believe() -> None:
    asks = clear(clear_metric("asked", "string"))
    found = asks["asked"]
    assert float(found.noise.permanent.when_one) > 0.99999
    assert draw_bits(found, 0b1010, 0, lambda size: bytes(size)) == 0b1010
