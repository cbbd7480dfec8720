"""The whole loop on one page: a crowd answers three questions, each install with noise of its own, and is understood.

Everything between the values and the estimates is the real thing: the client's encoding and noise (its chance from
the operating system), the bytes of the wire, the protocol's counting. Only the crowd is made up, from a seed, so that
the truth can stand beside the estimate. The estimates are the plainest there are: moments.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import NamedTuple

import numpy as np

from hubbub.client.respond import respond
from hubbub.protocol.encoding import encode
from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report, by_short_hash, pack, unpack
from hubbub.protocol.tally import Counts, count

INSTALLS = 20_000
SEED = 2026
EPOCH = 2967

REGISTRY = """
app = "org.example.editor"
lifetime_epsilon = 24

[metrics.dark_theme]
kind = "flag"
why = "Decide whether the light theme stays"
owner = "ui@example.org"
expires = 2028-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 3
max_values = 2

[metrics.language]
kind = "choice"
choices = ["python", "rust", "prose", "other"]
why = "Decide which grammar is looked after first"
owner = "editor@example.org"
expires = 2028-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 3
max_values = 3

[metrics.homepage]
kind = "string"
num_bits = 64
num_hashes = 1
num_cohorts = 128
why = "Offer the start pages people really use"
owner = "web@example.org"
expires = 2028-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 3
max_values = 3
"""

CROWD: dict[str, dict[object, float]] = {
    "dark_theme": {True: 0.62, False: 0.38},
    "language": {"python": 0.45, "rust": 0.25, "prose": 0.2, "other": 0.1},
    "homepage": {
        "news.example": 0.4,
        "mail.example": 0.25,
        "shop.example": 0.2,
        "blog.example": 0.1,
        "wiki.example": 0.05,
    },
}
"""How likely each value is held, by metric."""


class Estimate(NamedTuple):
    value: object
    truth: float
    share: float
    error: float


def main() -> None:
    registry = Registry.parse(REGISTRY)
    crowd = list(people(Random(SEED)))
    messages = [message(registry, person) for person in crowd]
    arrived = [report for body in messages for report in unpack(body, by_short_hash(registry)).reports]

    size = sum(map(len, messages)) / INSTALLS
    print(f"{INSTALLS:,} simulated installs sent {len(arrived):,} noisy reports, {size:.0f} bytes from each install.")
    found = []
    for metric in registry:
        counts = count(metric, (report for report in arrived if report.metric is metric)).epochs[EPOCH]
        rows = estimates(metric, counts, Counter(person.values[metric.name] for person in crowd))
        print(f"\n{table(metric, rows)}")
        found += rows
    near = sum(abs(row.share - row.truth) < 2 * row.error for row in found)
    print(f"\n{near} of {len(found)} estimates lie within two standard errors of the truth; 19 of 20 should.")


def table(metric: Metric, rows: Iterable[Estimate]) -> str:
    one, permanent = show(metric.epsilon_one_report), show(metric.epsilon_permanent)
    return "\n".join(
        [
            f"{metric.name}: epsilon {one} for one report, {permanent} for all reports of one value",
            f"  {'value':<18}{'truth':>7}{'estimate':>10}   standard error",
            *(f"  {row.value!s:<18}{row.truth:>7.1%}{row.share:>10.1%}   {row.error:.1%}" for row in rows),
        ]
    )


# --- the crowd ----------------------------------------------------------------------------------------------------


class Person(NamedTuple):
    cohort: int
    values: Mapping[str, object]


def people(chance: Random) -> Iterator[Person]:
    for _ in range(INSTALLS):
        values = {name: chance.choices(list(held), list(held.values()))[0] for name, held in CROWD.items()}
        yield Person(chance.getrandbits(16), values)


def message(registry: Registry, person: Person) -> bytes:
    """What leaves one device at the end of an epoch: a noisy answer to every question, in one batch."""
    return pack(Batch.of(os.urandom(16), (answer(metric, person) for metric in registry)))


def answer(metric: Metric, person: Person) -> Report:
    cohort = person.cohort % metric.shape.num_cohorts
    mask = encode(metric.shape, person.values[metric.name], cohort).mask
    return Report(metric, EPOCH, cohort, respond(metric, mask, cohort, os.urandom).bits)


# --- the estimates ------------------------------------------------------------------------------------------------


def estimates(metric: Metric, counts: Counts, truths: Mapping[object, int]) -> list[Estimate]:
    """Each value's share of the installs with its standard error, beside the share that really holds it.

    A value owns one cell in each cohort: the position that its mask sets. Of the N reports its cells show
    p* N + (q* - p*) N held ones (RAPPOR section 4), where `held` is its own share and that of every value hashed to
    the same cells. How many installs share which cells is known, so the shares follow from a few linear equations.
    """
    values = [value for value in CROWD[metric.name] if value is not False]
    cohorts = np.arange(metric.shape.num_cohorts)
    cells = np.array([[encode(metric.shape, value, int(c)).mask.bit_length() - 1 for c in cohorts] for value in values])
    num_reports = np.array(counts.num_reports)
    total = num_reports.sum()
    overlap = (cells[:, None, :] == cells[None, :, :]) @ num_reports / total  # 1 on the diagonal

    q_star, p_star = float(metric.noise.q_star), float(metric.noise.p_star)
    gap = q_star - p_star
    bit_counts = np.array(counts.bit_counts)[cohorts, cells].sum(axis=1)
    held = (bit_counts - p_star * total) / (gap * total)
    shares = np.linalg.solve(overlap, held)
    # n Var = p*(1 - p*)/(q* - p*)**2 + share (1 - p* - q*)/(q* - p*); cells in common make the first part larger.
    base = p_star * (1 - p_star) / gap**2 * np.linalg.inv(overlap).diagonal()
    errors = np.sqrt((base + shares * (1 - p_star - q_star) / gap) / total)
    return [
        Estimate(value, truths[value] / INSTALLS, float(share), float(error))
        for value, share, error in zip(values, shares, errors, strict=True)
    ]


if __name__ == "__main__":
    main()
