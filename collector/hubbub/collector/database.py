"""The door to `hubbub.collector.postgres`, which needs packages of its own: words for when they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.missing import needed


def administration() -> ModuleType:
    """What an operator does with a shared store."""
    return _module("administration")


def shared_store() -> ModuleType:
    """The store of one collector among several."""
    return _module("store")


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"hubbub.collector.postgres.{name}")
    except ModuleNotFoundError as error:
        raise Invalid([f"a store in PostgreSQL {needed(error, 'postgres')}"]) from None
