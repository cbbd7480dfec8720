"""Who is asked where some are: drawn by key, once, for all metrics; it shows in whether a metric is answered alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hubbub.client.identity import NUMBER_BITS, Identity
from tests.chance import assert_binomial, power
from tests.client.install import Install
from tests.client.registries import metric, registry

SHARES = ('"1/20"', '"1/10"', '"1/2"')
MANY = 20_000


def identities(number: int) -> list[Identity]:
    draw = Random(5)
    return [Identity(draw.randbytes(32), draw.getrandbits(NUMBER_BITS)) for _ in range(number)]


def test_samples_have_their_size_lie_within_one_another_and_know_nothing_of_cohorts() -> None:
    """20,000 installs: 12 % instead of 10 would be noticed, and so would a cohort with a share of its own."""
    asks = registry(*(metric(f"m{i}", sample=share) for i, share in enumerate(SHARES)), metric("page", "string"))
    metrics = [asks[f"m{i}"] for i in range(3)]
    drawn, cohorts, sampled_in = Counter(), Counter(), Counter()
    for who in identities(MANY):
        inside = [who.is_sampled(each) for each in metrics]
        assert inside == sorted(inside), "whoever is in a sample is in every larger one"
        assert who.is_sampled(asks["page"])
        drawn.update(i for i, each in enumerate(inside) if each)
        cohorts[who.cohort(asks["page"])] += 1
        sampled_in[who.cohort(asks["page"])] += inside[1]
    for i, share in enumerate((1 / 20, 1 / 10, 1 / 2)):
        assert_binomial(drawn[i], MANY, share)
    assert power(MANY, 1 / 10, 0.12) > 0.99
    for cohort, installs in cohorts.items():
        assert_binomial(sampled_in[cohort], installs, 1 / 10)
    assert power(MANY // 4, 1 / 10, 0.15) > 0.99


@pytest.mark.parametrize("seed", range(6))
def test_presence_depends_on_the_key_and_on_nothing_recorded(install: Install, seed: int) -> None:
    """Whether an install answers is the same in every epoch, whether it records or not; a copy of the key says so."""
    install.chance = Random(seed).randbytes
    asks = registry(metric("dark_theme", sample='"1/2"'), metric("size", "mean"))
    client = install.agreed(asks)
    for day in range(4):
        if day % 2:
            client.record("dark_theme", True)
        install.days(1)
    client.flush()
    answered = Counter(report.metric.name for report in install.arrived())
    assert answered["size"] == 4
    assert answered["dark_theme"] in (0, 4)
    first = Random(seed).randbytes(32)  # the key is what is drawn first
    assert (answered["dark_theme"] == 4) == Identity(first, 0).is_sampled(asks["dark_theme"])


def test_some_seeds_above_are_asked_and_some_are_not() -> None:
    asked = registry(metric("dark_theme", sample='"1/2"'))["dark_theme"]
    found = {Identity(Random(seed).randbytes(32), 0).is_sampled(asked) for seed in range(6)}
    assert found == {True, False}


def test_samples_of_all_releases_count_among_the_identifying_bits(install: Install) -> None:
    """Two releases, the later one with another sample: the smallest of three groups is a tenth, and each counts so."""
    first = registry(metric("one", sample='"1/2"'))
    both = registry(metric("one", sample='"1/2"'), metric("two", sample='"9/10"'))
    client = install.agreed(first)
    assert client.status().groups == 2
    client.close()
    client = install.client(both)
    client.consent(True)
    install.days(1)
    assert client.status().groups == 10
    client.close()
    install.client(first)
    assert install.client(first).status().groups == 10, "what was shown stays so"
