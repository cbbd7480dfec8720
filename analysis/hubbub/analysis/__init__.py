"""From tallies to estimates: `decode` one metric, `compare` two. The statistics are in docs/estimation.md.

    from hubbub.analysis import Options, decode, read_candidates, read_tallies

    (tally,) = read_tallies("examples/tallies/homepage.json")
    found = decode(tally, read_candidates("examples/homepages.txt"), Options(confidence=0.9))
    found.to_pandas()

What is named here is the whole interface; each name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.protocol.door import door

if TYPE_CHECKING:
    from hubbub.analysis.candidates_file import read_candidates
    from hubbub.analysis.comparison import Comparison, compare
    from hubbub.analysis.crosstab_result import Crosstab
    from hubbub.analysis.decoding import crosstab, decode, decode_lists
    from hubbub.analysis.distribution import Distribution
    from hubbub.analysis.engines.engine import Engine, engine_from
    from hubbub.analysis.installs import ActiveInstalls, active_installs
    from hubbub.analysis.options import Options
    from hubbub.analysis.result import Decoding, Diagnostics
    from hubbub.analysis.trends import Annotation, Point, read_annotations, releases, trend
    from hubbub.protocol.invalid import Invalid
    from hubbub.protocol.pair import Pair, PairTally
    from hubbub.protocol.tally import Tally, by_segment, undivided, within
    from hubbub.protocol.tally_files import fetch_tallies, read_pair_tallies, read_tallies

__all__ = [
    "ActiveInstalls",
    "Annotation",
    "Comparison",
    "Crosstab",
    "Decoding",
    "Diagnostics",
    "Distribution",
    "Engine",
    "Invalid",
    "Options",
    "Pair",
    "PairTally",
    "Point",
    "Tally",
    "active_installs",
    "by_segment",
    "compare",
    "crosstab",
    "decode",
    "decode_lists",
    "engine_from",
    "fetch_tallies",
    "read_annotations",
    "read_candidates",
    "read_pair_tallies",
    "read_tallies",
    "releases",
    "trend",
    "undivided",
    "within",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "ActiveInstalls": "hubbub.analysis.installs",
        "Annotation": "hubbub.analysis.trends",
        "Comparison": "hubbub.analysis.comparison",
        "Crosstab": "hubbub.analysis.crosstab_result",
        "Decoding": "hubbub.analysis.result",
        "Diagnostics": "hubbub.analysis.result",
        "Distribution": "hubbub.analysis.distribution",
        "Engine": "hubbub.analysis.engines.engine",
        "Invalid": "hubbub.protocol.invalid",
        "Options": "hubbub.analysis.options",
        "Pair": "hubbub.protocol.pair",
        "PairTally": "hubbub.protocol.pair",
        "Point": "hubbub.analysis.trends",
        "Tally": "hubbub.protocol.tally",
        "active_installs": "hubbub.analysis.installs",
        "by_segment": "hubbub.protocol.tally",
        "compare": "hubbub.analysis.comparison",
        "crosstab": "hubbub.analysis.decoding",
        "decode": "hubbub.analysis.decoding",
        "decode_lists": "hubbub.analysis.decoding",
        "engine_from": "hubbub.analysis.engines.engine",
        "fetch_tallies": "hubbub.protocol.tally_files",
        "read_annotations": "hubbub.analysis.trends",
        "read_candidates": "hubbub.analysis.candidates_file",
        "read_pair_tallies": "hubbub.protocol.tally_files",
        "read_tallies": "hubbub.protocol.tally_files",
        "releases": "hubbub.analysis.trends",
        "trend": "hubbub.analysis.trends",
        "undivided": "hubbub.protocol.tally",
        "within": "hubbub.protocol.tally",
    },
)
