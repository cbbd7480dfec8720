"""Tests of the dashboard that are coroutines run on asyncio, each on a loop of its own."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
