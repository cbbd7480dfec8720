"""The kinds of array that analysis works with, by the names used everywhere in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
"""Numbers, such as estimates."""
Index = npt.NDArray[np.int64]
"""Which ones, by number."""
Mask = npt.NDArray[np.bool_]
"""Yes or no for each row."""
