"""Every number of the label against an enumeration that knows nothing of its formulas.

Random registries of small questions, of every kind (with `hold`: test_history.py). From a definition's JSON only the
probabilities of its two channels are taken; masks are those that real values are encoded to, in every cohort; then
every memo and every report there can be is listed, with its probability, and the largest odds are looked for. The
label may lie above them, because it rounds up, by at most a millionth for each slot it counts, and never below.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import log
from random import Random
from typing import Any

import pytest

from hubbub.client.identity import cohort_of
from hubbub.protocol.encoding import ABSENT
from hubbub.protocol.label import facts
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from tests.registry_head import head

MILLIONTH = 1e-6
ROUNDING = 1e-9
"""Of the floats in which logarithms are taken here."""

Law = dict[int, float]


def random_registry(random: Random) -> Registry:
    tables = []
    for number in range(random.randint(1, 3)):
        kind = random.choice(["flag", "choice", "string", "mean", "histogram", "range", "set", "set"])
        permanent = random.randint(10, 60) / 10
        keys: dict[str, object] = {
            "kind": f'"{kind}"',
            "why": '"w"',
            "owner": '"o"',
            "expires": "2028-01-01",
            "every": random.choice(['"day"', '"week"']),
            "epsilon_one_report": random.randint(2, 10 * int(permanent)) / 10,
            "epsilon_permanent": permanent,
            "max_values": random.randint(1, 2),
            **shape_of(kind, random),
        }
        tables.append(f"[metrics.m{number}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()))
    return Registry.parse(head("listed", 1000) + "".join(tables))


def shape_of(kind: str, random: Random) -> dict[str, object]:
    match kind:
        case "choice":
            return {"choices": '["a", "b", "c", "d"]'[: random.choice([10, 15, 20]) - 1] + "]"}
        case "string":
            bits = random.randint(1, 4)
            return {"num_bits": bits, "num_hashes": random.randint(1, bits), "num_cohorts": random.choice([1, 2, 4])}
        case "mean":
            return {"low": 0, "high": 30, "absent": 0}
        case "histogram":
            return {"edges": "[0, 1, 2, 3]", "buckets_per_report": random.randint(1, 3)}
        case "range":
            return {"low": 0, "high": 4, "num_leaves": 4, "branching": random.choice([2, 4])}
        case "set":
            return {"items": '["a", "b", "c"]', "items_per_report": random.randint(1, 3)}
    return {}


def masks_of(metric: Metric, cohort: int) -> set[int]:
    values: dict[str, list[Any]] = {
        "flag": [True, False],
        "choice": list(getattr(metric.shape, "choices", ())),
        "string": [f"text {i}" for i in range(300)],
        "set": [some for number in range(4) for some in combinations("abc", number)],
    }
    numbers = [i / 4 for i in range(16)] + [29.0]
    return {
        metric.shape.encode(value, cohort, dither).mask
        for value in [ABSENT, *values.get(metric.kind, numbers)]
        for dither in (0, 2**63, 2**64 - 1)
    }


def channel(metric: Metric, stage: str, sent: int, width: int) -> Law:
    """P(what arrives | what was sent), from the probabilities that the definition's JSON declares."""
    law = metric.to_json()[stage]
    if "categories" in law:
        truth, other = float(Fraction(law["truth"])), float(Fraction(law["other"]))
        return {1 << i: truth if sent == 1 << i else other for i in range(width)}
    high, low = float(Fraction(law["when_one"])), float(Fraction(law["when_zero"]))
    result = {}
    for bits in range(1 << width):
        chance = 1.0
        for i in range(width):
            p = high if sent >> i & 1 else low
            chance *= p if bits >> i & 1 else 1 - p
        result[bits] = chance
    return result


def worst(laws: list[dict[Any, float]]) -> float:
    return max(
        (log(one[seen] / other[seen]) for one in laws for other in laws for seen in one if one[seen] > 0),
        default=0.0,
    )


def listed(metric: Metric) -> dict[str, float]:
    """The exact epsilons of a metric, over all cohorts."""
    found = dict.fromkeys(("epsilon_permanent", "epsilon_one_report", "epsilon_one_more"), 0.0)
    for cohort in range(metric.shape.num_cohorts):
        width = metric.shape.width(cohort)
        memos = [channel(metric, "permanent", mask, width) for mask in sorted(masks_of(metric, cohort))]
        shown = {memo: channel(metric, "instantaneous", memo, width) for memo in memos[0]}
        reports = [
            {bits: sum(chance * shown[memo][bits] for memo, chance in law.items()) for bits in memos[0]}
            for law in memos
        ]
        found["epsilon_permanent"] = max(found["epsilon_permanent"], worst(memos))
        found["epsilon_one_report"] = max(found["epsilon_one_report"], worst(reports))
        # After a year both memos are known: the next report is drawn from the one or from the other.
        found["epsilon_one_more"] = max(found["epsilon_one_more"], worst(list(shown.values())))
    # A life in which every slot is answered apart: one memo after the other, each drawn by itself.
    lives = [metric.max_values * found["epsilon_permanent"]]
    found["epsilon_lifetime"] = lives[0]
    found["epsilon_same_answer"] = found["epsilon_permanent"]
    return found


def compare(asks: Registry) -> int:
    told, numbers = facts(asks), 0
    for metric in asks:
        exact = listed(metric)
        for key, value in exact.items():
            said = told["metrics"][metric.name][key]
            if said is None:  # everything: a report shows the memo itself
                assert key == "epsilon_one_more"
                continue
            slots = metric.max_values if key == "epsilon_lifetime" else 1
            assert -ROUNDING <= float(said) - value <= slots * MILLIONTH + ROUNDING, (metric, key, said, value)
            numbers += 1
    for every in asks.cadences:
        exact_sum = sum(listed(metric)["epsilon_one_report"] for metric in asks.with_cadence(every))
        above = float(told["epsilon_one_epoch"][every]) - exact_sum
        assert -ROUNDING <= above <= len(asks) * MILLIONTH + ROUNDING
    walk = [(2 * place + 1) * 2**62 // 2**11 for place in range(2**10)]
    seen = {tuple(cohort_of(number, m.shape.num_cohorts) for m in asks) for number in walk}
    assert told["groups"] == len(seen)
    return numbers


@pytest.mark.parametrize("seed", range(6))
def test_the_labels_numbers_are_the_largest_odds_of_a_full_list(seed: int) -> None:
    assert compare(random_registry(Random(seed))) >= 4


@pytest.mark.proof
def test_the_labels_numbers_of_30_registries_are_the_largest_odds_of_a_full_list(figure) -> None:
    registries = [random_registry(Random(1000 + seed)) for seed in range(30)]
    numbers = sum(compare(asks) for asks in registries)
    assert {metric.kind for asks in registries for metric in asks} == {
        "flag", "choice", "string", "mean", "histogram", "range", "set",
    }  # fmt: skip
    figure("numbers of 30 labels, each at most a millionth a slot above a full enumeration", numbers)


def test_every_set_of_masks_that_is_compared_has_more_than_one() -> None:
    for seed in range(6):
        for metric in random_registry(Random(seed)):
            assert any(len(masks_of(metric, cohort)) > 1 for cohort in range(metric.shape.num_cohorts))
