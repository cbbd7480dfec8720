"""One thread for linear algebra: with several, sums are split differently on every machine and last digits differ."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any

_threadpoolctl: Any = import_module("threadpoolctl")  # by name, because it has no types


def one_thread() -> AbstractContextManager[Any]:
    limits: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limits


@cache
def _controller() -> Any:
    # Finding the loaded libraries takes longer than a small decode, so it is done once; to be found, the one that scipy
    # brings must have been loaded.
    import_module("scipy.linalg")
    return _threadpoolctl.ThreadpoolController()
