"""Watching what an app records: for its tests (`testing`) and for rehearsals. No app that people use loads this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hubbub.client import client as of_client

Observer = Callable[[of_client.Client, str, Any], None]


@contextmanager
def observing(observe: Observer) -> Iterator[None]:
    """Meanwhile `observe(client, name, value)` is called for each record of every client, whatever becomes of it."""
    of_client.observers.append(observe)
    try:
        yield
    finally:
        of_client.observers.remove(observe)
