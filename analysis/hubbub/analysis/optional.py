"""Packages that only some results need: imported when asked for, missed in words."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hubbub.protocol.invalid import Invalid


def need(module: str, install: str) -> Any:
    """The module, or `Invalid` with what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise Invalid([f"needs {error.name}, which is not installed: pip install {install}"]) from None
