"""Decoding: from a tally to estimates with error bars that are true. Design, weigh, estimate, judge.

`decode` is the whole interface. What it returns can be acted on without the theory; what it assumes is in
docs/estimation.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hubbub.analysis.estimation.cells import Pool, pool
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds.categorical import decode_answers
from hubbub.analysis.kinds.mean import decode_mean
from hubbub.analysis.kinds.range import decode_distribution
from hubbub.analysis.kinds.string import decode_candidates
from hubbub.analysis.options import QUANTILES, Options
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import require
from hubbub.protocol.kinds import Mean, Range, String
from hubbub.protocol.tally import Tally


def decode(
    tally: Tally | Sequence[Tally],
    candidates: Iterable[str] | None = None,
    *,
    confidence: float = 0.95,
    estimand: str = "reporting",
    correction: str = "bonferroni",
    exclude_absent: bool = False,
    fake_share: float = 0.01,
    ranges: Sequence[tuple[float, float]] = (),
    quantiles: Sequence[float] = QUANTILES,
) -> Decoding:
    """Estimate every value of a metric.

    Several epochs of a tally are pooled. Several tallies must be of one metric, each definition once: their cells are
    stacked, each with its own noise. `candidates` are the strings to look for, for `string` metrics.

    `estimand` says of whom the intervals speak: of the installs that reported ("reporting"), or of the population they
    are a random sample of ("population"). `exclude_absent` gives shares among those who answered. Of a `range` metric,
    `ranges` are the [low, high) to give shares of, in place of evenly wide cells, and `quantiles` the numbers to give
    beside them. Raises `Invalid` for tallies that do not belong together and options that do not exist.
    """
    options = Options(
        confidence=confidence,
        estimand=estimand,
        correction=correction,
        exclude_absent=exclude_absent,
        fake_share=fake_share,
        ranges=tuple(ranges),
        quantiles=tuple(quantiles),
    )
    tallies = [tally] if isinstance(tally, Tally) else list(tally)
    require(_disagreements(tallies, candidates, options))
    pools = [pool(one) for one in tallies]
    with one_thread(), np.errstate(under="ignore"):
        return _decode(pools, candidates, options)


def _decode(pools: list[Pool], candidates: Iterable[str] | None, options: Options) -> Decoding:
    match pools[0].metric.shape:
        case String():
            return decode_candidates(pools, list(candidates or ()), options)
        case Mean():
            return decode_mean(pools, options)
        case Range():
            return decode_distribution(pools, options)
        case _:
            return decode_answers(pools, options)


def _disagreements(tallies: Sequence[Tally], candidates: Iterable[str] | None, options: Options) -> Iterable[str]:
    if not tallies:
        yield "decode needs at least one tally, got none"
        return
    first = tallies[0].metric
    for other in tallies[1:]:
        if (other.metric.name, other.metric.kind) != (first.name, first.kind):
            yield (
                "tallies decoded together must be of one metric, "
                f"got {first.name} ({first.kind}) and {other.metric.name} ({other.metric.kind})"
            )
        elif other.metric.every != first.every:
            yield f"tallies decoded together must have one cadence, got {first.every} and {other.metric.every}"
    hashes = [one.metric.metric_hash for one in tallies]
    for repeated in sorted({found for found in hashes if hashes.count(found) > 1}):
        yield f"each definition must come once; merge the tallies of {first.name} {repeated} first"
    if candidates is not None and first.kind != "string":
        yield f"candidates are for string metrics, {first.name} is a {first.kind}"
    if (options.ranges or options.quantiles != QUANTILES) and first.kind != "range":
        yield f"ranges and quantiles are for range metrics, {first.name} is a {first.kind}"
