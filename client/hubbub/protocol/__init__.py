"""What both ends must agree on: the registry, a metric's definition, its noise, its bytes, its counts.

    from hubbub.protocol import Registry, read_tallies

    registry = Registry.load("metrics.toml")  # what an app may ask
    tallies = read_tallies("tallies")  # what was counted: a file, a folder, or a collector's address

Nothing here reads a clock, and only `tally_files` touches files and the network. A name is loaded when it is first
asked for, because apps import this package when they start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.protocol.invalid import Invalid
    from hubbub.protocol.metric import Definition, Metric
    from hubbub.protocol.registry import Registry
    from hubbub.protocol.report import Batch, Report
    from hubbub.protocol.tally import Tally
    from hubbub.protocol.tally_files import fetch_tallies, read_tallies, write_tallies

__all__ = [
    "Batch",
    "Definition",
    "Invalid",
    "Metric",
    "Registry",
    "Report",
    "Tally",
    "fetch_tallies",
    "read_tallies",
    "write_tallies",
]

_MODULES = {
    "Batch": "report",
    "Definition": "metric",
    "Invalid": "invalid",
    "Metric": "metric",
    "Registry": "registry",
    "Report": "report",
    "Tally": "tally",
    "fetch_tallies": "tally_files",
    "read_tallies": "tally_files",
    "write_tallies": "tally_files",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
