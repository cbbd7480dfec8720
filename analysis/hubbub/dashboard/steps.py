"""Each release beside the one before it, with the right test: does one of its values differ?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hubbub.analysis.comparison import Comparison, compare
from hubbub.analysis.result import Decoding, Role
from hubbub.dashboard.sentences import LEVEL
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import NOT_SAID, OTHER


@dataclass(frozen=True, slots=True)
class Step:
    """A release beside the one before, among the same installs: `way` is `higher`, `lower` or empty."""

    newer: str
    older: str
    way: str


def steps(known: Mapping[str, Decoding], row: tuple[str, Role], tests: int) -> dict[str, Step]:
    """Each release that was compared with the one before it, corrected for the number of tests."""
    found = {}
    names = [name for name in known if name not in (OTHER, NOT_SAID)]
    for older, newer in pairwise(names):
        try:
            compared = compare(known[older], known[newer])
        except Invalid:
            continue
        i = row_of(compared, row)
        if i is not None:
            way = "higher" if compared.difference[i] > 0 else "lower"
            found[newer] = Step(newer, older, way if compared.p_value[i] * max(tests, 1) <= LEVEL else "")
    return found


def row_of(found: Comparison, row: tuple[str, Role] | None) -> int | None:
    """Where a comparison has this value, if it could be tested."""
    keys = list(zip(found.values, found.roles, strict=True))
    return keys.index(row) if row in keys and np.isfinite(found.p_value[keys.index(row)]) else None
