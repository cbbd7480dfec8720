"""Decoding: from a tally to estimates with error bars that are true. Design, weigh, estimate, judge.

`decode` is the whole interface, and `decode_lists` for lists of candidates that no memory holds. What they return can
be acted on without the theory; what they assume is in docs/estimation.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hubbub.analysis.candidate_lists import list_files
from hubbub.analysis.engines.engine import Engine, engine_from
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds import kind_of
from hubbub.analysis.kinds.string_lists import decode_lists as decode_string_lists
from hubbub.analysis.options import DEFAULTS, QUANTILES, Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.tally import Tally, common_segment, undivided


def decode(
    tally: Tally | Sequence[Tally],
    candidates: Iterable[str] | None = None,
    options: Options = DEFAULTS,
    progress: NamedProgress = lambda share, what: None,
) -> Decoding:
    """Estimate every value of a metric.

    Several epochs of a tally are pooled. Several tallies must be of one metric, each definition once: segments are
    added up, and cells of different definitions stacked, each with its own noise. `candidates` are the strings to look
    for, for `string` metrics; one with `discover` needs none. `progress` is told the share of a search that is done,
    and what is under way. Raises `Invalid` for tallies that do not belong together.
    """
    tallies = [tally] if isinstance(tally, Tally) else list(tally)
    require(_disagreements(tallies, candidates, options))
    kind = kind_of(tallies[0].metric.shape.form)
    with one_thread(), np.errstate(under="ignore"):
        pools, listed = [pool(one) for one in undivided(tallies)], list(candidates or ())
        found = kind.search(pools, listed, options, progress) if kind.search else kind.decode(pools, listed, options)
    return replace(found, segment=common_segment(tallies))


def decode_lists(
    tally: Tally | Sequence[Tally],
    lists: str | Path,
    options: Options = DEFAULTS,
    engine: Engine | None = None,
    progress: NamedProgress = lambda share, what: None,
) -> Decoding:
    """Estimate a string metric with a list of candidates of any length: a file, or a folder of text or Parquet files.

    The files are screened by the engine's workers (`engine_from`; in this process if there is none), piece by piece. Of
    a long list only the strings detected and a few others get rows; what is said of them has the same digits
    whichever engine was at work, and as from a list that is in memory. `progress` is told the share of each pass that
    is done, and its name.
    """
    tallies = [tally] if isinstance(tally, Tally) else list(tally)
    require(_disagreements(tallies, (), options))
    if tallies[0].metric.shape.discovers:
        raise Invalid([f"lists in a folder are for strings without discover; give {tallies[0].metric.name} a file"])
    paths = list_files(lists)
    with one_thread(), np.errstate(under="ignore"):
        found = decode_string_lists(
            [pool(one) for one in undivided(tallies)], paths, options, engine or engine_from("local:1"), progress
        )
    return replace(found, segment=common_segment(tallies))


def _disagreements(tallies: Sequence[Tally], candidates: Iterable[str] | None, options: Options) -> Iterator[str]:
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
        elif other.metric.shape.form != first.shape.form:
            yield f"tallies of {first.name} decoded together must all be with discover, or all without it"
        elif other.metric.every != first.every:
            yield f"tallies decoded together must have one cadence, got {first.every} and {other.metric.every}"
    hashes = [one.metric.metric_hash for one in tallies]
    for repeated in sorted({found for found in hashes if hashes.count(found) > 1}):
        yield f"each definition must come once; merge the tallies of {first.name} {repeated} first"
    if candidates is not None and not first.shape.open_list:
        yield f"candidates are for string metrics, {first.name} is a {first.kind}"
    if (options.ranges or options.quantiles != QUANTILES) and not kind_of(first.shape.form).has_ranges:
        yield f"ranges and quantiles are for range metrics, {first.name} is a {first.kind}"
    if options.exclude_absent and not kind_of(first.shape.form).has_shares:
        yield (
            f"exclude_absent is for shares: {first.name} is a {first.kind}, in which installs that recorded nothing "
            "count as the number declared for them, and no message says which did"
        )
