"""Whatever the clock does, no metric is reported twice for one epoch, and what it did in error is mended later."""

from __future__ import annotations

from collections import Counter
from email.utils import formatdate
from random import Random

from hubbub.protocol.cadence import epoch_of
from tests.client.answering_server import Answer, problem, stored
from tests.client.install import DAY, START, Install, reports_in
from tests.client.registries import metric, registry

TODAY = epoch_of("day", START)
GRACE = 3


class Collector:
    """Accepts what a collector accepts: epochs up to the one of its own clock, and not too old."""

    def __init__(self, install: Install) -> None:
        self.install = install
        self.now = START
        self.refused = 0
        install.server.answer = self.answer

    def answer(self, body: bytes) -> Answer:
        date = formatdate(self.now, usegmt=True)
        for report in reports_in([body], self.install.registry):
            current = epoch_of(report.metric.every, self.now)
            if report.epoch > current:
                self.refused += 1
                return problem("epoch-in-future", Date=date)
            if report.epoch < current - GRACE:
                return problem("epoch-closed", Date=date)
        return stored(body)

    def days(self, number: float) -> None:
        """Time passes, for the collector and for the install."""
        self.now += number * DAY
        self.install.now += number * DAY


def test_a_clock_set_back_by_days_makes_no_second_report(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    install.days(-1)
    client.record("dark_theme", True)
    client.close()
    client = install.client()
    client.record("dark_theme", False)
    install.days(2)
    client.flush()
    assert Counter(report.epoch - TODAY for report in install.arrived()) == {1: 1, 2: 1}
    assert client.status().counts["not_asked"] + client.status().counts["repeated"] == 2


def test_a_clock_far_ahead_and_set_back_again_makes_no_second_report(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    for years in (3, 10, 70):
        install.asleep(366 * years)
        client.flush()
        install.asleep(-366 * years - 1)
        client.record("dark_theme", False)
        install.days(1)
        client.flush()
    assert Counter(report.epoch - TODAY for report in install.arrived())[1] == 1


def test_no_walk_of_the_clock_makes_two_reports_for_one_metric_and_epoch(install: Install) -> None:
    chance = Random(3)
    asks = registry(metric("theme"), metric("page", "string"), metric("weekly", every="week"), lifetime=90)
    client = install.agreed(asks)
    for _ in range(400):
        install.asleep(chance.choice([0, 0.3, 1, 1, 1, 2, -1, -3, 40, -40, 1500, -1500, 9000, -9000]))
        install.now = max(install.now, START - 20 * DAY)
        install.look()
        client.record(*chance.choice([("theme", True), ("page", "example.org"), ("weekly", False)]))
        if chance.random() < 0.3:
            client.flush()
        if chance.random() < 0.1:
            client.close()
            client = install.client()
    counted = Counter((report.metric.name, report.epoch) for report in install.arrived())
    assert len(counted) > 50
    assert set(counted.values()) == {1}


def test_a_clock_a_hundred_centuries_ahead_does_not_hurt_the_app(install: Install) -> None:
    client = install.agreed(registry(metric("theme"), metric("monthly", every="month"), metric("weekly", every="week")))
    for moment in (1e12, 1e18, 0.0, -1e9, START):
        install.now = moment
        client.record("theme", True)
        client.record("monthly", True)
        client.record("weekly", True)
        client.flush()
    assert client.mode == "on"


def test_an_epoch_beyond_the_servers_date_is_held_and_delivered_when_the_clock_was_set_right(install: Install) -> None:
    collector = Collector(install)
    install.agreed().close()
    collector.now = install.now
    install.days(5)
    client = install.client()
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    assert collector.refused == 1
    assert client.status().batches_waiting == 1
    install.days(-6)
    for _ in range(12):
        client.flush()
        collector.days(1)
    client.flush()
    ahead = [body for body in install.server.bodies if reports_in([body], install.registry)[0].epoch == TODAY + 6]
    assert len(set(ahead)) == 1
    assert client.status().counts["sent"] == len({report.epoch for report in install.arrived()}) == 12
    assert client.status().batches_waiting == 0


def test_an_epoch_beyond_the_servers_date_is_delivered_once_the_server_gets_there(install: Install) -> None:
    collector = Collector(install)
    install.agreed().close()
    collector.now = install.now
    install.days(5)
    client = install.client()
    client.record("dark_theme", True)
    install.days(1)
    client.close()
    client = install.client(send_delay=lambda span: 60 * DAY)  # whatever is made from now on waits
    while client.status().counts.get("sent", 0) < 2:
        client.flush()
        collector.days(0.25)
        assert collector.now < START + 9 * DAY
    assert {report.epoch - TODAY for report in install.arrived()} == {1, 6}


def test_a_pause_does_not_grow_when_the_clock_is_set_back(install: Install) -> None:
    client = install.agreed()
    install.server.answer = lambda body: Answer(500)
    install.asleep(401)
    client.flush()
    install.days(-400)
    install.server.answer = stored
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    assert client.status().failures == 0
    assert TODAY + 2 in {report.epoch for report in install.arrived()}
