"""An answer is drawn once and kept for life; beyond the last slot old ones are repeated; the budget is never passed."""

from __future__ import annotations

import pytest

from hubbub.client import Registry
from tests.client.install import Install
from tests.client.registries import metric, registry


def shown(name: str = "page", **keys: object) -> str:
    """A metric whose reports show the memo itself: one report may tell as much as all of them."""
    return metric(name, "string", num_bits=256, epsilon_one_report=3, epsilon_permanent=3, **keys)


def answers(install: Install, values: list[str | None], asks: Registry | None = None, runs: bool = False) -> list[int]:
    """What leaves if these values are recorded, one each day; None is a day without."""
    client = install.agreed(asks)
    for value in values:
        if value is not None:
            client.record("page", value)
        install.days(1)
        client.flush()
        if runs:
            client.close()
            client = install.client()
    return [report.bits for report in install.arrived()][: len(values)]


@pytest.mark.parametrize("runs", [False, True], ids=["in one run", "in a run each"])
def test_a_value_recorded_again_is_answered_as_before(install: Install, runs: bool) -> None:
    a, b, again, c, once_more = answers(install, ["a", "b", "a", None, "a"], registry(shown(max_values=4)), runs)
    assert a == again == once_more
    assert len({a, b, c}) == 3


@pytest.mark.parametrize("runs", [False, True], ids=["in one run", "in a run each"])
def test_values_beyond_the_last_slot_repeat_old_answers_and_always_the_same(install: Install, runs: bool) -> None:
    values = ["a", "b", "c", "d", "e", "f", "g", "h"]
    found = answers(install, values * 2, registry(shown(max_values=3)), runs)
    assert len(set(found[:3])) == 3
    assert set(found) == set(found[:3])
    assert found[8:] == found[:8]
    assert len(set(found[3:8])) > 1  # spread over the slots: with one slot for all five, chance 3**-4
    status = install.client().status()
    assert status.counts["overflowed"] == 10
    assert status.epsilon_spent == pytest.approx(3 * 3)


def test_a_redefined_metric_is_a_new_charge_and_without_room_it_is_not_asked(install: Install) -> None:
    before = registry(shown(max_values=2), metric("theme", max_values=1, epsilon_permanent=1), lifetime=7)
    after = registry(shown(max_values=2, num_cohorts=8), metric("theme", max_values=1, epsilon_permanent=1), lifetime=7)
    answers(install, ["a", "b"], before)
    client = install.client(after)
    client.consent(True)
    install.days(1)
    client.record("page", "a")
    install.days(1)
    client.flush()
    last = install.arrived(before, after)[-1]
    assert last.metric.name == "theme"
    assert client.status().counts["not_asked"] == 1
    assert client.status().epsilon_spent <= client.status().lifetime_epsilon == 7


def test_the_smallest_lifetime_budget_ever_seen_counts(install: Install) -> None:
    small = registry(metric("theme", max_values=1), lifetime=4)
    large = registry(metric("theme", max_values=1), metric("beta", max_values=2), lifetime=400)
    install.agreed(small).close()
    client = install.client(large)
    client.consent(True)
    install.days(1)
    client.record("beta", True)
    install.days(1)
    client.flush()
    assert client.status().lifetime_epsilon == 4
    assert {report.metric.name for report in install.arrived(large)} == {"theme"}


def test_each_install_has_answers_of_its_own(install: Install, tmp_path) -> None:
    one = answers(install, ["a"], registry(shown()))
    install.directory = tmp_path / "another"
    install.server.received.clear()
    assert answers(install, ["a"], registry(shown())) != one
