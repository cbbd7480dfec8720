"""For the tests of apps that embed the client: assert what was recorded, with no network and nothing left behind.

    def test_the_theme_is_recorded(hubbub_records):
        import app

        app.start()
        assert hubbub_records == [("dark_theme", True)]

The fixture sees every `record` of every client, whatever its mode; values are checked against their metric, and a wrong
one fails the test at the call, shown in the app's own lines. pytest finds the fixture by itself (an entry point);
with `PYTEST_DISABLE_PLUGIN_AUTOLOAD`, name it: `pytest_plugins = ["hubbub.client.testing"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # whoever has hubbub installed loads this module with every run of pytest
    from hubbub.client.client import Client


@contextmanager
def recording() -> Iterator[list[tuple[str, Any]]]:
    """Every (metric, value) recorded meanwhile, in order. A record that the registry refuses raises AssertionError."""
    from hubbub.client import client as of_client
    from hubbub.client.observing import observing
    from hubbub.protocol.encoding import WrongValue

    records: list[tuple[str, Any]] = []

    def observe(client: Client, name: str, value: Any) -> None:
        __tracebackhide__ = True
        assert name in client.registry.metrics, f"record({name!r}): no such metric in {client.registry.app}"
        try:
            client.registry[name].check(value)
        except WrongValue as error:
            raise AssertionError(f"record({name!r}, {value!r}): the value {error}") from None
        records.append((name, value))

    with observing(observe), pytest.MonkeyPatch.context() as patch:
        # What pytest asks each frame for: ours say nothing to an app's author.
        patch.setitem(vars(of_client), "__tracebackhide__", True)
        yield records


@pytest.fixture
def hubbub_records(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """What the app under test records. Clients made meanwhile are `local`: they store, charge and send nothing."""
    monkeypatch.setenv("HUBBUB_MODE", "local")
    with recording() as records:
        yield records
