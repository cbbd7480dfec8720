"""Tests of the collector that wait are coroutines, marked `anyio`: its plugin runs each on a loop of its own."""

import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"
