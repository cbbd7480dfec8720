"""Many populations whose mean is known, drawn at once: counts of each, and the cohort that `decode` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.cells import Cohort, pool
from hubbub.analysis.estimation.grid import GridMeans
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.exact_tallies import carry

AT_ONCE = 500


def drawn(metric: Definition, numbers: np.ndarray, rng: np.random.Generator, epochs: int = 1) -> np.ndarray:
    """Counts of each population (a row of numbers from 0 to 1, NaN being silence), epoch and category."""
    shape = metric.shape
    rounded = np.floor(np.nan_to_num(numbers) * (shape.points - 1) + rng.random(numbers.shape)).astype(np.int64)
    rounded[np.isnan(numbers)] = shape.points
    row = np.arange(len(numbers))[:, np.newaxis] * shape.num_masks
    sent = np.bincount((rounded + row).ravel(), minlength=len(numbers) * shape.num_masks)
    sent = sent.reshape(len(numbers), shape.num_masks)
    total = np.int64(numbers.shape[1])
    if epochs == 1:
        return carry(metric.noise.composed, total, sent, rng)[:, np.newaxis]
    memo = carry(metric.noise.permanent, total, sent, rng)
    return np.stack([carry(metric.noise.instantaneous, total, memo, rng) for _ in range(epochs)], axis=1)


def cohorts(
    metric: Definition, numbers: np.ndarray, estimand: str, populations: int, rng: np.random.Generator, epochs: int
) -> Iterator[tuple[Cohort, Tally]]:
    """Some hundred populations in each, as rows of counts: of the numbers themselves, or of as many drawn from them.
    With the tally of the first, of which the cohort must be what `pool` makes."""
    installs = len(numbers)
    for start in range(0, populations, AT_ONCE):
        size = min(AT_ONCE, populations - start)
        people = np.broadcast_to(numbers, (size, installs))
        if estimand == "population":
            people = numbers[rng.integers(0, installs, (size, installs))]
        counts = drawn(metric, people, rng, epochs)
        tally = Tally(
            metric, {epoch: Counts((installs,), (tuple(row.tolist()),)) for epoch, row in enumerate(counts[0])}
        )
        (first,) = pool(tally).cohorts
        every = replace(first, ones=counts.sum(axis=1).astype(float))
        assert every.ones[0].tolist() == first.ones.tolist()
        yield every, tally


def held(found: GridMeans, truth: float, tally: Tally, estimand: str) -> int:
    """How many of these intervals hold the truth. Of the first one `decode` says the same, cut at the ends of the
    range."""
    said = decode(tally, options=Options(estimand=estimand))
    assert (said.low[0], said.high[0]) == pytest.approx((max(found.low[0], 0), min(found.high[0], 1)))
    return int(((found.low <= truth) & (truth <= found.high)).sum())
