"""The search for strings that nobody listed, as a command makes it: how thorough, and what it took."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from time import process_time

from hubbub.analysis import progress
from hubbub.analysis.decoding import decode
from hubbub.analysis.engines.engine import FORMS
from hubbub.analysis.options import DEFAULTS, Options
from hubbub.analysis.result import Decoding
from hubbub.protocol.arguments import whole
from hubbub.protocol.tally import Tally


def add_search(parser: ArgumentParser) -> None:
    _add_engine(parser)
    parser.add_argument(
        "--beam",
        metavar="N",
        type=whole,
        default=DEFAULTS.beam,
        help=f"string metrics with discover, which need no candidates: how many beginnings the search keeps at each "
        f"level (default: {DEFAULTS.beam}). Time and memory grow with it",
    )


def decode_and_say(name: str, tallies: Sequence[Tally], listed: Sequence[str] | None, options: Options) -> Decoding:
    """A search says how long it took, and how much memory there was in use at most."""
    started = process_time()
    found = decode(tallies, listed, options, progress.show)
    if tallies[0].metric.shape.discovers:
        progress.clear()
        print(f"{name}: searched in {process_time() - started:.1f} s of CPU time{_memory()}", file=sys.stderr)
    return found


def _memory() -> str:
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # not on Windows
        return ""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return f", with at most {getrusage(RUSAGE_SELF).ru_maxrss // unit} MB"


def _add_engine(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        help="who screens the candidates: " + FORMS + ". With it, or with a folder of lists (text or Parquet files), a "
        "Parquet file or a text of more than a million lines, a long list gives rows only of what was detected and of "
        "the largest others",
    )
