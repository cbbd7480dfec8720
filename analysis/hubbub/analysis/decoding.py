"""Decoding: from a tally to estimates with error bars that are true. Design, weigh, estimate, judge.

`decode` is the whole interface, and `decode_lists` for lists of candidates that no memory holds. What they return can
be acted on without the theory; what they assume is in docs/estimation.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np

from hubbub.analysis.candidate_lists import list_files
from hubbub.analysis.crosstab_result import Crosstab
from hubbub.analysis.engines.engine import Engine, engine_from
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.joint_decoding import decode_cross, decode_pair
from hubbub.analysis.kinds import kind_of, silence_counts_as
from hubbub.analysis.kinds.string_lists import decode_lists as decode_string_lists
from hubbub.analysis.options import DEFAULTS, QUANTILES, Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.pair import PairTally
from hubbub.protocol.tally import Tally, common_segment, undivided


@overload
def decode(
    tally: Tally | Sequence[Tally],
    candidates: Iterable[str] | None = None,
    options: Options = DEFAULTS,
    progress: NamedProgress = lambda share, what: None,
) -> Decoding: ...


@overload
def decode(
    tally: PairTally | Sequence[PairTally],
    candidates: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    options: Options = DEFAULTS,
    progress: NamedProgress = lambda share, what: None,
) -> Crosstab: ...


def decode(
    tally: Tally | PairTally | Sequence[Tally] | Sequence[PairTally],
    candidates: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    options: Options = DEFAULTS,
    progress: NamedProgress = lambda share, what: None,
) -> Decoding | Crosstab:
    """Estimate every value of a metric; of a pair, the table of its two answers (see `crosstab`).

    Several epochs of a tally are pooled. Several tallies must be of one metric, each definition once: segments are
    added up, and cells of different definitions stacked, each with its own noise. `candidates` are the strings to look
    for, for `string` metrics; one with `discover` needs none. `progress` is told the share of a search that is done,
    and what is under way. Raises `Invalid` for tallies that do not belong together.
    """
    given = [tally] if isinstance(tally, Tally | PairTally) else list(tally)
    if any(isinstance(one, PairTally) for one in given):
        return crosstab([one for one in given if isinstance(one, PairTally)], candidates, options)
    tallies = [one for one in given if isinstance(one, Tally)]
    if isinstance(candidates, Mapping):
        candidates = candidates.get(tallies[0].metric.name) if tallies else None
    require(_disagreements(tallies, candidates, options))
    kind = kind_of(tallies[0].metric.shape.form)
    with one_thread(), np.errstate(under="ignore"):
        pools, listed = [pool(one) for one in undivided(tallies)], list(candidates or ())
        found = kind.search(pools, listed, options, progress) if kind.search else kind.decode(pools, listed, options)
    return replace(found, segment=common_segment(tallies))


def crosstab(
    tally: Tally | PairTally | Sequence[Tally] | Sequence[PairTally],
    candidates: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    options: Options = DEFAULTS,
) -> Crosstab:
    """The table of two answers: of a pair, or of a metric of kind cross. Several epochs are pooled, segments added up.

    `candidates` are the strings to look for where a side of a pair is a string, and the one item that is meant where it
    is a set; for both sides, or by the name of the metric. Raises `Invalid` for tallies that do not belong together.
    """
    given = [tally] if isinstance(tally, Tally | PairTally) else list(tally)
    if not given:
        raise Invalid(["a crosstab needs at least one tally, got none"])
    pairs = [one for one in given if isinstance(one, PairTally)]
    crosses = [one for one in given if isinstance(one, Tally)]
    if pairs and crosses:
        raise Invalid([f"a crosstab is of a pair or of a cross, got {pairs[0].pair.name} and {crosses[0].metric.name}"])
    with one_thread(), np.errstate(under="ignore"):
        if crosses:
            if candidates is not None:
                raise Invalid([f"candidates are for pairs with a string, {crosses[0].metric.name} is a cross"])
            return decode_cross(crosses, options)
        return decode_pair(pairs, _by_metric(pairs[0], candidates), options)


def _by_metric(
    tally: PairTally, candidates: Iterable[str] | Mapping[str, Iterable[str]] | None
) -> dict[str, list[str]]:
    """The candidates of each side that can have some."""
    names = {m.name for m in tally.pair.metrics if m.shape.open_list or m.shape.kept_by_bit}
    if isinstance(candidates, Mapping):
        for name in candidates:
            if name not in names:
                raise Invalid(
                    [f"candidates are for string and set metrics of {tally.pair.name}, got some for {name!r}"]
                )
        return {name: list(some) for name, some in candidates.items()}
    if candidates is not None and not names:
        raise Invalid([f"candidates are for string and set metrics, {tally.pair.name} has none"])
    listed = list(candidates or ())
    return dict.fromkeys(names, listed)


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
            key = "discover" if first.shape.open_list else 'absent = "apart"'
            yield f"tallies of {first.name} decoded together must all be with {key}, or all without it"
        elif other.metric.every != first.every:
            yield f"tallies decoded together must have one cadence, got {first.every} and {other.metric.every}"
    hashes = [one.metric.metric_hash for one in tallies]
    for repeated in sorted({found for found in hashes if hashes.count(found) > 1}):
        yield f"each definition must come once; merge the tallies of {first.name} {repeated} first"
    if candidates is not None and not first.shape.open_list:
        yield f"candidates are for string metrics, {first.name} is a {first.kind}"
    if (options.ranges or options.quantiles != QUANTILES) and not kind_of(first.shape.form).has_ranges:
        yield f"ranges and quantiles are for range metrics, {first.name} is a {first.kind}"
    if options.exclude_absent and all(silence_counts_as(one.metric) for one in tallies):
        yield (
            f"exclude_absent (--exclude-absent) needs installs that did not answer: {first.name} is a {first.kind}, in "
            f"which those that recorded nothing count as {silence_counts_as(first)}, and no message says which did"
        )
