"""Populations of strings for which decoding must keep its promises, and the count of how often it does.

A scenario has candidates of which a hundred are present, Zipf-distributed, and perhaps a fifth of the mass on strings
outside the list: on five hundred of them, or all on one. Every population draws its texts anew from a large stock,
its cohorts and all noise; frequencies are the same, so that the ten heaviest strings are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.design import cohort_design
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds.string_rows import judge
from hubbub.analysis.options import Options
from hubbub.analysis.result import Decoding
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import many_bit_noise
from tests.analysis.worlds import RAPPOR, Strings, define, tally_of, zipf

PRESENT = 100
STOCK = 40_000
UNKNOWN = {"nothing unknown": 0, "a fifth on many unknown": 500, "a fifth on one unknown": 1}


@dataclass(frozen=True)
class Scenario:
    num_candidates: int
    num_installs: int
    unknown: str
    num_hashes: int

    def __str__(self) -> str:
        return f"M={self.num_candidates}, N={self.num_installs:.0e}, h={self.num_hashes}, {self.unknown}"

    @property
    def seed(self) -> list[int]:
        return [self.num_candidates, self.num_installs, list(UNKNOWN).index(self.unknown), self.num_hashes]


def scenarios() -> list[Scenario]:
    return [
        Scenario(candidates, installs, unknown, hashes)
        for candidates in (1_000, 10_000)
        for installs in (10**6, 10**7, 10**8)
        for unknown in UNKNOWN
        for hashes in (1, 2)
    ]


@cache
def stock(num_hashes: int) -> Strings:
    """Two settings of one privacy: RAPPOR as published, and one hash with the best noise; 8192 cells each."""
    metric: Definition
    if num_hashes == 2:
        metric = define(String(num_bits=128, num_hashes=2, num_cohorts=64), noise=RAPPOR)
    else:
        noise = many_bit_noise(Fraction("1.0743"), Fraction("4.394"), 1)
        metric = define(String(num_bits=64, num_hashes=1, num_cohorts=128), noise=noise)
    return Strings.of(metric, STOCK)


@dataclass
class Score:
    """What was counted over populations. Every count comes with how many there could have been."""

    populations: int = 0
    covered: int = 0
    candidates: int = 0
    heavy_covered: int = 0
    heavy: int = 0
    selected_covered: int = 0
    selected: int = 0
    false_detections: int = 0
    other_covered: int = 0

    def add(self, found: Decoding, truth: np.ndarray, other: float, every: int) -> None:
        count = len(truth)
        covered = (found.low[:count] <= truth) & (truth <= found.high[:count])
        chosen = np.flatnonzero(found.detected[:count])
        kept = (found.low_selected[chosen] <= truth[chosen]) & (truth[chosen] <= found.high_selected[chosen])
        self.populations += 1
        self.covered += int(covered[::every].sum())
        self.candidates += len(covered[::every])
        self.heavy_covered += int(covered[:10].sum())
        self.heavy += 10
        self.selected_covered += int(kept.sum())
        self.selected += len(chosen)
        self.false_detections += bool((truth[chosen] == 0).any())
        assert found.roles[-1] == "other"
        self.other_covered += bool(found.low[-1] <= other <= found.high[-1])


def score(scenario: Scenario, populations: int, every: int = 1) -> Score:
    """Decode so many populations of a scenario; of the candidates' intervals only each `every`-th is counted."""
    rng = np.random.default_rng(scenario.seed)
    result = Score()
    for _ in range(populations):
        found, truth, other = decode_one(scenario, rng)
        result.add(found, truth, other, every)
    return result


def decode_one(scenario: Scenario, rng: np.random.Generator) -> tuple[Decoding, np.ndarray, float]:
    strings, count = stock(scenario.num_hashes), scenario.num_candidates
    unknown = UNKNOWN[scenario.unknown]
    drawn = rng.choice(STOCK, count + unknown, replace=False)
    held = np.concatenate([drawn[:PRESENT], drawn[count:]])
    shares = np.concatenate([(0.8 if unknown else 1.0) * zipf(PRESENT), 0.2 * zipf(unknown, 0.5)])
    counts = np.floor(shares * scenario.num_installs).astype(np.int64)
    counted = pool(tally_of(strings.metric, counts, rng, strings.where[:, held]))
    shape = strings.metric.shape
    assert isinstance(shape, String)
    # As `decode` does, but for the hashing of the candidates, which is done once for the whole stock.
    with one_thread():
        design = cohort_design(
            counted.cohorts,
            np.ascontiguousarray(strings.where[:, drawn[:count]]),
            draws=shape.num_hashes,
            background=shape.num_hashes / shape.num_bits,
            idle=0,
            constant_weight=True,
        )
        found = judge([counted], design, strings.texts[drawn[:count]].tolist(), design.duplicate_of(), Options(), [])
    truth = np.zeros(count)
    truth[:PRESENT] = counts[:PRESENT] / counts.sum()
    return found, truth, float(counts[PRESENT:].sum() / counts.sum())
