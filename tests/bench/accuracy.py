"""How far estimates are from the truth at equal epsilon: one report each of 100,000 people, answers by Zipf's law.

Peers' clients are per-person Python, so 100,000 people times many repeats would take hours. Instead each mechanism's
client is run for real on some thousands of people, its law (how often a report supports the person's value, and another
value) is compared with the one its own server assumes, and the server is then fed with counts drawn from that law:
multinomial where a report names one value or (of up to 16) a subset of them, binomial for each value otherwise. Where
an estimator takes a list of reports, the bench checks that its own feeding of counts gives what the list gives. Errors
are sums of squares over all values, times n, over the bound that no mechanism beats.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from itertools import combinations

import numpy as np

from hubbub.analysis import decode
from hubbub.client.respond import respond
from hubbub.protocol.channel import SubsetChannel
from hubbub.protocol.kinds import Choice
from hubbub.protocol.metric import Definition
from hubbub.simulations.exact_tallies import sample_tally
from tests.bench.environments import Peer, Say, peer
from tests.bench.rows import US, Row, averages

PEOPLE = 100_000
REPEATS = {2: 150, 4: 150, 8: 120, 16: 80, 32: 60, 100: 40, 1000: 30}
"""How often, for each number of answers: an error summed over few answers varies more."""
EPSILONS = ("0.5", "1", "2", "4")
RAW, POST = "Squared error, unbiased estimates", "Squared error, post-processed"
NAMES = ("pure-ldp", "multi-freq-ldpy", "opendp")
WITHOUT = f"{US} without subsets"
SUBSET = "subset selection, which hubbub does not use for so many values"
ONE_VALUE = {"DE", "GRR", "RR"}
CHECKED_AT = (16, 1.0)
TOO_FAR = 5.0  # standard deviations, among some dozen comparisons: one false alarm in 100,000 runs


def limit(d: int, epsilon: float) -> float:
    """n times the least total squared error of any mechanism, for the people who reported.

    The bound for people drawn from a population is the minimum over w of (d - 1)^2 (w E + d - w)^2 / (d w (d - w)
    (E - 1)^2) (Ye and Barg 2018), at the uniform distribution; of that, 1 - 1/d is the drawing.
    """
    e = math.exp(epsilon)
    with_drawing = min((d - 1) ** 2 * (w * e + d - w) ** 2 / (d * w * (d - w) * (e - 1) ** 2) for w in range(1, d))
    return with_drawing - (1 - 1 / d)


def held(d: int) -> np.ndarray:
    """How many people hold each answer: Zipf's law with exponent 1.1, rounded so that all are counted."""
    shares = 1 / np.arange(1, d + 1) ** 1.1
    counts = np.floor(shares / shares.sum() * PEOPLE).astype(np.int64)
    counts[0] += PEOPLE - counts.sum()
    return counts


def definition(d: int, epsilon: str, once: bool = True) -> Definition:
    """A choice that is asked once; or without the noise that only such choices have."""
    names = tuple(f"c{i}" for i in range(d))
    shape = Choice(choices=names, absent=names[0])
    noise = shape.best_noise(Fraction(epsilon), Fraction(epsilon), once)  # one report: a second stage gains nothing
    return Definition(name="asked", every="once", shape=shape, noise=noise)


def supports(mechanism: str, law: tuple[float, float], counts: np.ndarray, epsilon: float, rng: np.random.Generator):
    """How many of all reports support each value."""
    p, q = law
    d = len(counts)
    if mechanism in ONE_VALUE or (mechanism == "SS" and _subset(d, epsilon) == 1):
        table = np.full((d, d), (1 - p) / (d - 1))
        np.fill_diagonal(table, p)
        return rng.multinomial(counts, table).sum(axis=0)
    if mechanism == "SS" and d <= 16:  # which subsets, not only which values: their size is fixed
        return _subsets(p, counts, _subset(d, epsilon), rng)
    if mechanism == "SHE":  # adds Laplace noise to every value: a sum of n of them is a difference of two gammas
        scale = 2 / epsilon
        return counts + rng.gamma(PEOPLE, scale, d) - rng.gamma(PEOPLE, scale, d)
    return rng.binomial(counts, p) + rng.binomial(PEOPLE - counts, q)


def _subsets(p: float, counts: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    d = len(counts)
    member = np.array([[v in chosen for v in range(d)] for chosen in combinations(range(d), size)])
    chances = np.where(member.T, p / math.comb(d - 1, size - 1), (1 - p) / math.comb(d - 1, size))
    return rng.multinomial(counts, chances / chances.sum(axis=1, keepdims=True)).sum(axis=0) @ member


def _subset(d: int, epsilon: float) -> int:
    """How many values subset selection names."""
    return int(max(1, np.rint(d / (math.exp(epsilon) + 1))))


def check_law(asked: Peer, name: str, mechanism: str, count: int) -> float:
    """Run the peer's client for real; the worst deviation from the assumed law, in standard deviations."""
    d, epsilon = CHECKED_AT
    value = 3
    counts = np.array(asked.ask("respond_many", mechanism=mechanism, d=d, epsilon=epsilon, value=value, count=count))
    if mechanism == "SHE":
        spread = math.sqrt(count * 8) / epsilon
        return float(np.abs((counts - count * (np.arange(d) == value)) / spread).max())
    p, q = asked.ask("law", mechanism=mechanism, d=d, epsilon=epsilon)
    chance = np.where(np.arange(d) == value, p, q)
    worst = float(np.abs((counts - count * chance) / np.sqrt(count * chance * (1 - chance))).max())
    assert worst < TOO_FAR, f"{name} {mechanism}: its reports are {worst:.1f} standard deviations from its own law"
    return worst


def check_own_law(count: int) -> float:
    """The same of hubbub's client."""
    d, epsilon = CHECKED_AT
    metric = definition(d, f"{epsilon:g}")
    counts = np.zeros(d)
    for _ in range(count):
        bits = respond(metric, 1 << 3, 0, os.urandom).bits
        counts += [bits >> i & 1 for i in range(d)]
    chance = np.where(np.arange(d) == 3, float(metric.noise.q_star), float(metric.noise.p_star))
    return float(np.abs((counts - count * chance) / np.sqrt(count * chance * (1 - chance))).max())


def errors(peers: dict[str, Peer], d: int, epsilon: str, repeats: int) -> dict[tuple[str, str], list[float]]:
    """Squared errors of everyone over the limit, by table and name.

    In a repeat all parties draw from the same seed: the same mechanism in two libraries then meets the same luck, and
    is not found ahead or behind by chance.
    """
    counts, e = held(d), float(epsilon)
    truth, unit = counts / PEOPLE, PEOPLE / limit(d, e)
    own = {US: definition(d, epsilon)}
    if isinstance(own[US].noise.permanent, SubsetChannel):
        own[WITHOUT] = definition(d, epsilon, once=False)
    found: dict[tuple[str, str], list[float]] = {}
    laws = {
        (name, mechanism): one.ask("law", mechanism=mechanism, d=d, epsilon=e)
        for name, one in peers.items()
        for mechanism in one.ask("mechanisms")
    }

    def keep(table: str, who: str, estimate: object) -> None:
        found.setdefault((table, who), []).append(float(((np.asarray(estimate) - truth) ** 2).sum() * unit))

    for repeat in range(repeats):
        seed = [d, int(1000 * e), repeat]
        for who, metric in own.items():
            decoded = decode(sample_tally(metric, [PEOPLE], [counts], np.random.default_rng(seed)))
            keep(RAW, who, decoded.estimate)
            keep(POST, who, decoded.best_guess)
        for (name, mechanism), law in laws.items():
            drawn = supports(mechanism, law, counts, e, np.random.default_rng(seed))
            answer = peers[name].ask(
                "estimate", mechanism=mechanism, d=d, epsilon=e, counts=drawn.tolist(), num_reports=PEOPLE
            )
            for how, estimate in answer.items():
                who = f"{name} {mechanism}" + ("" if how in ("raw", "simplex") else f", {how}")
                keep(RAW if how == "raw" else POST, who, estimate)
    return found


def measure(quick: bool, say: Say) -> list[Row]:
    peers = {name: peer(name, say) for name in NAMES}
    say("accuracy: do the peers' clients follow the law their servers assume?")
    people = 1_000 if quick else 3_000
    checked = {
        f"{name} {mechanism}": check_law(one, name, mechanism, people)
        for name, one in peers.items()
        for mechanism in one.ask("mechanisms")
    } | {US: check_own_law(people)}
    for name in ("multi-freq-ldpy", "opendp"):
        apart = peers[name].ask("check_estimator", d=16, epsilon=1.0, count=400)
        assert apart < 1e-6, f"{name}: counts fed to its estimator give another answer than reports do, by {apart}"
    rows = []
    sizes, epsilons = ((4, 100), ("1", "4")) if quick else (REPEATS, EPSILONS)
    for d in sizes:
        for epsilon in epsilons:
            say(f"accuracy: d = {d}, epsilon {epsilon}")
            for (table, who), found in errors(peers, d, epsilon, 30 if quick else REPEATS[d]).items():
                rows.append(
                    Row(
                        part="accuracy",
                        table=f"{table}, ε = {epsilon}",
                        case=f"d = {d}",
                        who=who,
                        unit="n times the sum of squared errors, over the bound",
                        excused=SUBSET if " SS" in who and definition(d, epsilon).weight is None else "",
                        unranked=who == WITHOUT,
                        note="the noise of the same choice if it is asked again and again" * (who == WITHOUT),
                        **averages(found),
                    )
                )
    worst = max(checked, key=lambda who: checked[who])
    say(f"accuracy: laws checked on {people} real reports each; farthest: {worst}, {checked[worst]:.1f} sd")
    return rows
