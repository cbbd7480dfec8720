"""Subsets, simulated and audited: the ways to run a crowd have one law, and an audit knows what a subset tells."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from hubbub.client.respond import respond
from hubbub.protocol.channel import Noise, SubsetChannel
from hubbub.protocol.kinds import Choice
from hubbub.protocol.metric import Definition
from hubbub.simulations.audit.draws import DrawAudit
from hubbub.simulations.audit.enumeration import worst_odds
from hubbub.simulations.audit.scores import MEMO, score_law
from hubbub.simulations.exact_tallies import carry
from hubbub.simulations.simulate.reports import _carry_subsets
from tests.simulations.simulate.laws import FALSE_ALARM, assert_same_law, power_against_spread, same_law

F = Fraction
HELD = np.array([40, 25, 15, 10, 5, 3, 1, 1])
SHAPE = Choice(choices=tuple("abcdefgh"), absent="a")
METRIC = Definition(name="asked", every="once", shape=SHAPE, noise=SHAPE.best_noise(F(1, 2), F(1, 2), once=True))
CHANNEL = METRIC.noise.permanent
assert isinstance(CHANNEL, SubsetChannel)
TALLIES = 600


def exact(rng: np.random.Generator) -> np.ndarray:
    return carry(CHANNEL, np.int64(HELD.sum()), HELD, rng)


def single(rng: np.random.Generator) -> np.ndarray:
    return _carry_subsets(np.repeat(np.arange(8), HELD), CHANNEL, rng).sum(axis=0)


def clients(rng: np.random.Generator) -> np.ndarray:
    chance = Random(int(rng.integers(2**63)))
    counts = np.zeros(8, dtype=np.int64)
    for sent in np.repeat(np.arange(8), HELD):
        bits = respond(METRIC, 1 << int(sent), 0, chance.randbytes).bits
        counts += [bits >> i & 1 for i in range(8)]
    return counts


def sample(way, seed: int, size: int = TALLIES) -> np.ndarray:
    """Counts, and sums of the first 2 to 7 of them: these show how counts covary."""
    rng = np.random.default_rng(seed)
    counts = np.array([way(rng) for _ in range(size)])
    return np.concatenate([counts, counts.cumsum(axis=1)[:, 1:7]], axis=1)


def test_exact_tallies_single_reports_and_clients_have_one_law() -> None:
    """Each is compared with the exact way. Counts of bits drawn each by itself are not of that law: the sum of seven
    counts is all that the eighth leaves of size x installs, and would be spread sqrt(7) times as far."""
    law = sample(exact, 1)
    assert (law[:, :8].sum(axis=1) == CHANNEL.size * HELD.sum()).all()
    assert_same_law(law, sample(single, 2))
    assert_same_law(law, sample(clients, 3, 150))
    assert power_against_spread(TALLIES, np.sqrt(7), law.shape[1]) > 0.999
    q, p = (float(x) for x in CHANNEL.probabilities)
    slip = sample(lambda rng: rng.binomial(HELD, q) + rng.binomial(HELD.sum() - HELD, p), 4)
    assert same_law(law, slip) < FALSE_ALARM


@pytest.mark.parametrize("reports", [MEMO, 1, 7])
def test_an_audit_enumerates_what_a_subset_tells(reports: int) -> None:
    assert worst_odds(METRIC.noise, 1, 1, reports) == F(CHANNEL.held, CHANNEL.other)
    law = score_law(METRIC.noise, 1, 1, reports)
    assert law.one.sum() == pytest.approx(1)
    assert law.other.sum() == pytest.approx(1)
    ratio = np.log(law.one / law.other)
    assert ratio.max() == pytest.approx(float(METRIC.epsilon_permanent), abs=1e-6)
    assert law.scores / 1024 == pytest.approx(ratio, abs=1e-3)


def test_an_audit_of_the_client_finds_the_claim_true_and_a_bolder_channel_not() -> None:
    """A subset without the category sent made half as likely: odds of 3.3 where 1.65 are claimed."""
    bold = Noise(SubsetChannel(8, CHANNEL.size, CHANNEL.held, CHANNEL.other // 2), METRIC.noise.instantaneous)
    planted = METRIC.replace(noise=bold)
    assert not failures(METRIC, 5)
    assert failures(planted, 6)


def failures(drawn: Definition, seed: int) -> list[str]:
    """What an audit of METRIC says when answers come through this definition's noise."""
    audit = DrawAudit(METRIC, 20_000, 1e-4)
    for _ in audit.run(
        lambda metric, mask, cohort, random, memo: respond(drawn, mask, cohort, random, memo), Random(seed).randbytes
    ):
        pass
    return [finding.failure for finding in audit.findings() if finding.failure is not None]
