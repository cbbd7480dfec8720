"""From tallies to estimates: `decode` one metric, `compare` two. The statistics are in docs/estimation.md."""

from hubbub.analysis.compare import Comparison, compare
from hubbub.analysis.decode import decode
from hubbub.analysis.result import Decoding

__all__ = ["Comparison", "Decoding", "compare", "decode"]
