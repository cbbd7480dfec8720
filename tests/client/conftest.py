"""An install of an app, with a real server to talk to, in an environment that lets it report from within pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.answering_server import AnsweringServer
from tests.client.install import Install


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing in it has an opinion on telemetry or on the network, but for the one word that lets a test report."""
    for name in ("DO_NOT_TRACK", "CI", "HUBBUB_STATE", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HUBBUB_MODE", "on")
    return monkeypatch


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with AnsweringServer() as server:
        yield server


@pytest.fixture
def install(tmp_path: Path, environment: pytest.MonkeyPatch, server: AnsweringServer) -> Iterator[Install]:
    install = Install(tmp_path / "state", server)
    yield install
    install.close()
