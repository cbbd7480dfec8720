"""For the tests of apps that embed the client: assert what was recorded, with no network and nothing left behind.

    pytest_plugins = ["hubbub.client.testing"]  # in conftest.py


    def test_the_theme_is_recorded(hubbub_records):
        import app

        app.start()
        assert hubbub_records == [("dark_theme", True)]

The fixture sees every `record` of every client, whatever its mode; values are checked against their metric, and a wrong
one fails the test at the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hubbub.client import client as _client
from hubbub.client.client import Client
from hubbub.protocol.encoding import WrongValue


@contextmanager
def recording() -> Iterator[list[tuple[str, Any]]]:
    """Every (metric, value) recorded meanwhile, in order. A record that the registry refuses raises AssertionError."""
    records: list[tuple[str, Any]] = []

    def observe(client: Client, name: str, value: Any) -> None:
        assert name in client.registry.metrics, f"record({name!r}): no such metric in {client.registry.app}"
        try:
            client.registry[name].check(value)
        except WrongValue as error:
            raise AssertionError(f"record({name!r}, {value!r}): the value {error}") from None
        records.append((name, value))

    _client._observers.append(observe)
    try:
        yield records
    finally:
        _client._observers.remove(observe)


@pytest.fixture
def hubbub_records(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """What the app under test records. Clients made meanwhile are `local`: they store, charge and send nothing."""
    monkeypatch.setenv("HUBBUB_MODE", "local")
    with recording() as records:
        yield records
