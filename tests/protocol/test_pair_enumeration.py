"""What a pair tally has of one batch tells no more than the batch: enumerated, by the law of the client's own code."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from hubbub.protocol.channel import UNITS
from hubbub.protocol.epsilon import log_above
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import PairCounts, count_pairs
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from tests.protocol.law import BitLaw, Law, measured
from tests.protocol.pairs import REGISTRY, pair

PAIRS = [("theme", "os"), ("os", "start"), ("theme", "start"), ("bitwise", "theme")]


def law_of_report(metric: Definition) -> dict[int, dict[int, Fraction]]:
    """For each mask of an answer, the probability of each report."""
    law, width = measured(metric.noise), metric.shape.width(0)
    masks = [0, 1] if width == 1 else [1 << place for place in range(width)]
    return {mask: {bits: _chance(law, width, mask, bits) for bits in _reports(metric)} for mask in masks}


def _reports(metric: Definition) -> list[int]:
    width = metric.shape.width(0)
    return [1 << place for place in range(width)] if metric.one_hot else list(range(1 << width))


def _chance(law: Law, width: int, mask: int, bits: int) -> Fraction:
    if not isinstance(law.permanent, BitLaw) and not isinstance(law.instantaneous, BitLaw):
        sent, arrived = mask.bit_length() - 1, bits.bit_length() - 1
        ways = sum(law.permanent[sent][memo] * law.instantaneous[memo][arrived] for memo in range(width))
        return Fraction(ways, UNITS**2)
    assert isinstance(law.permanent, BitLaw)
    assert isinstance(law.instantaneous, BitLaw)
    chance = Fraction(1)
    for place in range(width):
        memo = Fraction(law.permanent.when_one if mask >> place & 1 else law.permanent.when_zero, UNITS)
        one = memo * law.instantaneous.when_one + (1 - memo) * law.instantaneous.when_zero
        chance *= one / UNITS if bits >> place & 1 else 1 - one / UNITS
    return chance


@pytest.mark.parametrize("names", PAIRS)
def test_the_statement_about_one_message_covers_what_is_counted_of_it(names: tuple[str, str]) -> None:
    found = pair(*names)
    first, second = map(law_of_report, found.metrics)
    law: dict[tuple[int, int], dict[PairCounts, Fraction]] = {}
    for answers in product(first, second):
        counted = law[answers] = {}
        for a, b in product(first[answers[0]], second[answers[1]]):
            reports = [Report(metric, 1, 0, bits) for metric, bits in zip(found.metrics, (a, b), strict=True)]
            (counts,) = count_pairs(found, [Batch.of(bytes(16), reports)]).epochs.values()
            chance = first[answers[0]][a] * second[answers[1]][b]
            counted[counts] = counted.get(counts, Fraction(0)) + chance
        assert sum(counted.values()) == 1
    worst = max(law[one][counts] / law[other][counts] for one, other in product(law, repeat=2) for counts in law[one])
    # Two answers to either question can differ as far as its own worst case, and no further than both together.
    own = [metric.noise.odds_after(1, metric.shape.flips) for metric in found.metrics]
    assert worst == own[0] * own[1]
    both = Registry(
        **{**REGISTRY.to_dict(), "metrics": {name: REGISTRY[name] for name in names}, "together": {"both": found}}
    )
    assert log_above(worst) <= both.epsilon_one_epoch("week")
