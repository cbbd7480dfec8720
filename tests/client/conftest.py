"""An install of an app, with a real server to talk to, in an environment that lets it report from within pytest."""

from __future__ import annotations

import shutil
import subprocess
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


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody but its maker trusts, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=hubbub "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {path} -out {path}.crt".split(),
        check=True,
        capture_output=True,
    )
    with path.open("ab") as pem:
        pem.write(Path(f"{path}.crt").read_bytes())
    return path
