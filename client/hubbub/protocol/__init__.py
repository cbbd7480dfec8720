"""What both ends must agree on: the registry, a metric's definition, its noise, its bytes, its counts.

    from hubbub.protocol import Registry, read_tallies

    registry = Registry.load("metrics.toml")  # what an app may ask
    tallies = read_tallies("tallies")  # what was counted: a file, a folder, or a collector's address

Nothing here reads a clock, and only `tally_files` touches files and the network. A name is loaded when it is first
asked for, because apps import this package when they start.
"""

from __future__ import annotations

from hubbub.protocol.door import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.protocol.invalid import Invalid
    from hubbub.protocol.metric import Definition, Metric
    from hubbub.protocol.pair import Pair, PairTally
    from hubbub.protocol.registry import Registry
    from hubbub.protocol.report import Batch, Report
    from hubbub.protocol.tally import Tally
    from hubbub.protocol.tally_files import fetch_tallies, read_pair_tallies, read_tallies, write_tallies

__all__ = [
    "Batch",
    "Definition",
    "Invalid",
    "Metric",
    "Pair",
    "PairTally",
    "Registry",
    "Report",
    "Tally",
    "fetch_tallies",
    "read_pair_tallies",
    "read_tallies",
    "write_tallies",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "Batch": "hubbub.protocol.report",
        "Definition": "hubbub.protocol.metric",
        "Invalid": "hubbub.protocol.invalid",
        "Metric": "hubbub.protocol.metric",
        "Pair": "hubbub.protocol.pair",
        "PairTally": "hubbub.protocol.pair",
        "Registry": "hubbub.protocol.registry",
        "Report": "hubbub.protocol.report",
        "Tally": "hubbub.protocol.tally",
        "fetch_tallies": "hubbub.protocol.tally_files",
        "read_pair_tallies": "hubbub.protocol.tally_files",
        "read_tallies": "hubbub.protocol.tally_files",
        "write_tallies": "hubbub.protocol.tally_files",
    },
)
