"""Tests of the collector that wait are coroutines, marked `anyio`: its plugin runs each on a loop of its own."""

import pytest

from tests.collector import kit


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["embedded", "postgres"])
def each_store(request, monkeypatch):
    """Collectors of this test have the embedded store, and once more one in PostgreSQL. Gives the name."""
    if request.param == "postgres":
        monkeypatch.setattr(kit, "new_store", request.getfixturevalue("postgres").new_store)
    return request.param
