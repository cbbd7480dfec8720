"""Many populations whose mean is known, drawn at once: counts of each, and the cohort that `decode` makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.estimation.cells import Cohort, pool
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
) -> Iterator[tuple[Cohort, Tally | None]]:
    """One for each population: of the numbers themselves, or of as many drawn from them. Now and then with its tally,
    of which the cohort must be what `pool` makes."""
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
        for number, ones in enumerate(counts.sum(axis=1).astype(float)):
            cohort = Cohort(
                noise=first.noise,
                reports=float(installs * epochs),
                ones=ones,
                sampling=1 / installs,
                single_epoch=epochs == 1,
                one_hot=True,
            )
            if number == 0:
                assert cohort.sampling == pytest.approx(first.sampling)
                assert (cohort.reports, cohort.ones.tolist()) == (first.reports, first.ones.tolist())
            yield cohort, None if number else tally


def same_as_decoded(low: float, high: float, tally: Tally | None, estimand: str) -> None:
    """What `decode` says of such a population is this, cut at the ends of the range."""
    if tally is not None:
        said = decode(tally, options=Options(estimand=estimand))
        assert (said.low[0], said.high[0]) == pytest.approx((max(low, 0), min(high, 1)))
