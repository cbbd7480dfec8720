"""Answers that have a history are audited whole: the client's own law passes, and flags that are not joint do not."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from hubbub.client.respond import RandomDraws
from hubbub.protocol.history import History, history_of_bits, history_of_categories
from hubbub.simulations.audit.run import audit_registry
from hubbub.simulations.audit.whole_histories import HistoryAudit, chances
from tests.client.registries import held, metric, registry

KINDS = {
    "flag": held("it", hold=4, max_values=3),
    "choice": held("it", "choice", hold=2, max_values=2),
    "string": held("it", "string", hold=2, max_values=2, num_bits=16, num_cohorts=4),
    "set": held("it", "set", hold=2, max_values=2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_clients_own_answers_pass(kind: str) -> None:
    asks = registry(KINDS[kind])
    audit = audit_registry(asks, trials=60_000, installs=0, random=Random(kind).randbytes)
    assert audit.failures == []
    assert {finding.what for finding in audit.findings} == {"everything ever said"}
    assert {finding.trials for finding in audit.findings} == {600}


def test_a_registry_of_both_sorts_is_audited_whole() -> None:
    asks = registry(held("it", hold=2, max_values=2), metric("theme"))
    audit = audit_registry(asks, trials=10_000, installs=160, random=Random(1).randbytes)
    assert audit.failures == []
    assert {finding.metric for finding in audit.findings} == {"it", "theme"}


def test_flags_that_each_spend_the_whole_epsilon_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 lives of three answers: the chance that all are true is .94 instead of .88, and that none is 6e-6."""
    alone = history_of_categories(Fraction(4), 1, 1, 2)

    def each_by_itself(self: RandomDraws, history: History) -> int:
        return sum(flags(self, alone) << i for i in range(history.flags))

    flags = RandomDraws.flags
    monkeypatch.setattr(RandomDraws, "flags", each_by_itself)
    audit = audit_registry(registry(KINDS["flag"]), trials=200_000, installs=0, random=Random(2).randbytes)
    assert audit.failures


@pytest.mark.parametrize(
    "history",
    [history_of_categories(Fraction(3), 1, 3, 3), history_of_bits(Fraction(3), 1, 3, Fraction(1, 8))],
    ids=["categories", "bits"],
)
def test_the_chances_are_those_of_all_flags_and_all_noise(history: History) -> None:
    """By the sum over flags of what each answer then says."""
    one = other = Fraction(0)
    for flags in product((0, 1), repeat=history.flags):
        set_ = sum(flags)
        likely = history.count_law[set_] / _ways(history.flags, set_)
        one += likely * all(flags)
        if history.categories is None:
            other += likely * history.chance**history.answers
        elif not set_:
            other += likely * Fraction(1, history.categories - 1) ** history.answers
    found = chances(history)
    assert (found.one, found.other) == pytest.approx((float(one), float(other)))
    if history.categories is not None:
        assert found.one / found.other == pytest.approx(
            float(history.worst_odds) * (history.categories - 1) ** history.answers * _evenly(history)
        )


def _ways(flags: int, set_: int) -> int:
    return sum(sum(each) == set_ for each in product((0, 1), repeat=flags))


def _evenly(history: History) -> float:
    """What all flags set and none set have in proportion, were they independent."""
    return float(history.chance**history.flags / (1 - history.chance) ** history.flags)


def test_tests_are_counted_before_anything_is_drawn() -> None:
    audit = HistoryAudit(registry(KINDS["flag"])["it"], 100_000, 1e-6)
    assert (audit.work, audit.installs, HistoryAudit.tests) == (1000, 500, 2)
