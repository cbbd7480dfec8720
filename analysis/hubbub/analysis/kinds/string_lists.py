"""Strings in lists too long for one process: their files are screened by an engine, and the result is of those that
stand out.

A list that is short enough is decoded as ever, with a row for each candidate. Of a long one only the detected strings
and a few more get rows; of all others the sums are known, which is what `other` and the tests need.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.candidate_lists import pieces
from hubbub.analysis.candidates_file import MOST_CANDIDATES
from hubbub.analysis.engines.engine import Engine
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.hashing import Words, digests
from hubbub.analysis.estimation.repeats import Lists, Spreading, counted
from hubbub.analysis.estimation.shards import MOST_OTHERS, PIECE, Hashing
from hubbub.analysis.estimation.spread_screen import screen_lists
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.kinds.string import decode_string, string_design
from hubbub.analysis.kinds.string_rows import table_of
from hubbub.analysis.options import Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String

FEW_A_CELL = 4
"""Up to so many candidates for each cell are decoded in one piece: best guesses are then made in each other's light."""


def decode_lists(
    pools: Pools, paths: Sequence[str], options: Options, engine: Engine, progress: NamedProgress
) -> Decoding:
    """As `decode_string`, for the candidates of all these files, in their order."""
    spreading = Spreading(engine, progress)
    lists = counted(paths, spreading)
    nobody = string_design(pools, digests([]))
    few = lists.num_candidates <= FEW_A_CELL * int(nobody.observed.sum())
    if (few or not nobody.tells_texts_apart) and lists.num_candidates + lists.repeats <= MOST_CANDIDATES:
        parts = [pieces(shard.stretch, PIECE) for shard in lists.shards]
        everybody = [line.decode() for part in parts for some in part for line in some]
        return decode_string(pools, everybody, options)
    _require_long_list(lists, nobody, options)

    def design_of(seeds: Words) -> Design:
        return string_design(pools, seeds)

    shapes = [pools[block.definitions[0]].metric.shape for block in nobody.blocks]
    hashing = Hashing(tuple(shape for shape in shapes if isinstance(shape, String)), nobody.offset, len(nobody.share))
    spread = screen_lists(lists, design_of, hashing, options.alpha, spreading)
    notes = [f"{lists.repeats} repeated candidates were left out."] if lists.repeats else []
    notes.append(
        f"Of {lists.num_candidates:,} candidates only those detected and the {MOST_OTHERS} largest others have rows."
    )
    rows = np.arange(len(spread.texts))
    return table_of(pools, spread.design, spread.texts, rows, (), spread.found, options, notes)


def _require_long_list(lists: Lists, design: Design, options: Options) -> None:
    problems = []
    if not design.observed.any():
        problems.append(f"candidates: a list of {lists.num_candidates:,} needs reports to be judged by, got none")
    elif not design.tells_texts_apart:
        problems.append(
            f"candidates: at most {MOST_CANDIDATES:,} where cohorts are so few that strings share all their bits, "
            f"got {lists.num_candidates:,}"
        )
    if options.correction != "bonferroni":
        problems.append(
            f"correction must be bonferroni for a list of {lists.num_candidates:,} candidates, whose p-values are not "
            f"all kept, got {options.correction!r}"
        )
    if problems:
        raise Invalid(problems)
