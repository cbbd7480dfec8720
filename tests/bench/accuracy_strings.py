"""Strings through 128-bit RAPPOR: hubbub's decoder, pure-ldp's, and plain regression on hubbub's own counts.

One stage only, because pure-ldp knows no other: f = 0.5, two hashes, 16 cohorts, a million reports, epsilon 4.39 for
one report and for ever. 200 candidates that all exist, or 1,000 of which 200 exist (Zipf's law, exponent 1). pure-ldp's
decoder is fed with counts of its own hashes and of its client's law as it is meant (its client never turns a 1 into a
0); regression gets the same counts and positions as hubbub. What a method without standard errors keeps above 0 is
what it detects; coverage is of nominal 95 % intervals, over all candidates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy import stats

from hubbub.analysis import decode
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from tests.bench.environments import Peer, Say, peer
from tests.bench.rows import US, Row, averages, times

REPORTS = 1_000_000
PRESENT = 200
SHAPE = String(num_bits=128, num_hashes=2, num_cohorts=16)
METRIC = Definition(
    name="asked", every="once", shape=SHAPE, noise=rappor_noise(Fraction(1, 2), Fraction(0), Fraction(1))
)
Found = dict[str, float]


def shares(candidates: int) -> np.ndarray:
    law = 1 / np.arange(1, PRESENT + 1)
    return np.concatenate([np.floor(law / law.sum() * REPORTS) / REPORTS, np.zeros(candidates - PRESENT)])


def error(truth: np.ndarray, estimate: np.ndarray) -> float:
    return float(REPORTS * ((estimate - truth) ** 2).sum())


def judge(truth: np.ndarray, seconds: float, detected: np.ndarray) -> Found:
    return {
        "seconds": seconds,
        "found": float((detected & (truth > 0)).sum()),
        "false": float((detected & (truth == 0)).sum()),
    }


def one_round(candidates: int, seed: int, pure: Peer | None, regression: Peer) -> Iterator[tuple[str, Found]]:
    """What each method makes of one population."""
    truth = shares(candidates)
    rng = np.random.default_rng(seed)
    texts = [f"https://example.org/{i}" for i in range(candidates)]
    where = positions(SHAPE, digests(texts))
    by_cohort = assign_cohorts((truth * REPORTS).astype(int), SHAPE.num_cohorts, rng)
    tally = sample_tally(METRIC, by_cohort.sum(axis=1), ones_of(SHAPE, by_cohort, where), rng)
    start = time.process_time()
    own = decode(tally, texts)
    spent = time.process_time() - start
    rows = slice(0, candidates)
    yield (
        US,
        {
            "error": error(truth, own.estimate[rows]),
            "constrained error": error(truth, own.best_guess[rows]),
            "coverage": float(((own.low[rows] <= truth) & (truth <= own.high[rows])).mean()),
            **judge(truth, spent, own.detected[rows]),
        },
    )
    p, q = float(METRIC.noise.p_star), float(METRIC.noise.q_star)
    counts = tally.epochs[0]
    y = [
        ((np.array(row) / n - p) / (q - p)).tolist()
        for row, n in zip(counts.bit_counts, counts.num_reports, strict=True)
    ]
    own_bits = where.reshape(SHAPE.num_cohorts, SHAPE.num_hashes, -1).transpose(0, 2, 1).astype(int).tolist()
    for how in ("OLS", "NNLS", "LASSO"):
        answer = regression.ask("fit", how=how, y=y, positions=own_bits, bits=SHAPE.num_bits)
        found = np.array(answer["estimate"])
        if how == "OLS":
            std_error = np.array(answer["std_error"])
            surely = found / std_error > stats.norm.isf(0.05 / candidates)  # Bonferroni, as a textbook would
            covered = np.abs(found - truth) <= stats.norm.isf(0.025) * std_error
            own_kind = {"error": error(truth, found), "coverage": float(covered.mean())}
            yield how, {**own_kind, **judge(truth, answer["seconds"], surely)}
        else:
            yield how, {"constrained error": error(truth, found), **judge(truth, answer["seconds"], found > 0)}
    if pure:
        asked = {"f": 0.5, "hashes": 2, "cohorts": SHAPE.num_cohorts, "num_reports": REPORTS, "seed": seed}
        for who, ridge in (("pure-ldp", True), ("pure-ldp, no ridge", False)):
            answer = pure.ask("strings", shares=truth.tolist(), ridge=ridge, **asked)
            found = np.array(answer["estimate"])
            yield who, {"constrained error": error(truth, found), **judge(truth, answer["seconds"], found > 0)}


TABLES = {
    "error": ("Strings: squared error, unbiased", "n times the sum of squared errors"),
    "constrained error": ("Strings: squared error, constrained", "n times the sum of squared errors"),
    "seconds": ("Strings: time to decode", "CPU-seconds"),
    "coverage": ("Strings: coverage of 95 % intervals", "share of candidates"),
    "found": ("Strings: true strings detected, of 200", "strings"),
    "false": ("Strings: false detections", "strings a population"),
}
TO_READ = {"coverage", "found", "false"}
"""Not ranked: a method may find everything and invent as much again."""


def measure(quick: bool, say: Say) -> list[Row]:
    pure, regression = peer("pure-ldp", say), peer("pure-ldp", say, "peer_regression.py")
    gathered: dict[tuple[str, str, str], list[float]] = {}
    for candidates in (200, 1000):
        rounds = 3 if quick else 20
        slow = rounds if candidates == 200 else 0 if quick else 3  # pure-ldp takes ten seconds for a thousand
        for seed in range(rounds):
            say(f"accuracy: {candidates} strings, population {seed + 1} of {rounds}")
            for who, found in one_round(candidates, seed, pure if seed < slow else None, regression):
                for key, value in found.items():
                    gathered.setdefault((key, f"{candidates} candidates", who), []).append(value)
    return [
        Row(
            part="accuracy",
            table=title,
            case=case,
            who=who,
            unit=unit,
            unranked=key in TO_READ,
            **(times(found) if key == "seconds" else averages(found)),
        )
        for key, (title, unit) in TABLES.items()
        for (kept, case, who), found in gathered.items()
        if kept == key
    ]
