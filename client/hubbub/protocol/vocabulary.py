"""The words of a registry, as types. No module loads this when an app starts: type checkers read it, and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Cadence = Literal["once", "day", "week", "month"]
"""How often a metric is asked."""

Accumulation = Literal["first", "last", "sum", "max", "any"]
"""What counts of several records of one epoch."""

Apart = Literal["apart"]
"""In place of the number that silence stands for: silence is one more category, and the average is of those who
answered."""

Reader = Callable[[Any], Any]
"""How a key is read: from what TOML or JSON has to what it means. Raises ValueError."""
