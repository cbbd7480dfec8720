"""A real collector and a real dashboard, each a process started by the real command, for as long as they are needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hubbub.dashboard.health import Health, parse_health
from hubbub.protocol.invalid import Invalid

_PATIENCE = 15.0
Process = subprocess.Popen[str]


class Collector(NamedTuple):
    """Where it listens and the token that lets one read."""

    url: str
    token: str

    def health(self) -> Health:
        """Its own counts, from /metrics."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  on loopback, by ourselves
            return parse_health(answer.read().decode())


@contextmanager
def running_collector(metrics: Path, data: Path) -> Iterator[Collector]:
    """A collector on a free port of this machine; stopped, politely, at the end."""
    command = [sys.executable, "-m", "hubbub.command", "collect"]
    command += ["--metrics", str(metrics), "--data", str(data), "--host", "127.0.0.1", "--port", "0"]
    command += ["--rehearsal"]  # nobody's reports are in it, and the whole crowd lives at one address
    with _running(command, data.parent / "collector.log") as process:
        yield _read_greeting(process, data.parent / "collector.log")


@contextmanager
def running_dashboard(source: Sequence[str], folder: Path, *options: str, token: str | None = None) -> Iterator[str]:
    """A dashboard on a free port of this machine; its address. It gets the token by its environment, which no other
    user can read, and so does not ask for it."""
    command = [sys.executable, "-m", "hubbub.command", "dashboard", "--from", *source, "--port", "0", "--no-browser"]
    environ = {name: value for name, value in os.environ.items() if name != "HUBBUB_TOKEN"}
    if token is not None:
        environ["HUBBUB_TOKEN"] = token
    log = folder / "dashboard.log"
    with _running([*command, *options], log, environ) as process:
        assert process.stdout is not None
        found = re.search(r"Dashboard on (\S+)", process.stdout.readline())
        if not found:
            raise Invalid([f"the dashboard did not start: {log.read_text(errors='replace').strip()[-500:]}"])
        yield found[1].rstrip("/")


@contextmanager
def _running(command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> Iterator[Process]:
    """A process apart from the terminal's Ctrl-C; stopped, politely, at the end."""
    with log.open("w+b") as errors:
        process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True, env=environ
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


def _read_greeting(process: Process, log: Path) -> Collector:
    assert process.stdout is not None
    url = token = ""
    for line in process.stdout:
        if found := re.search(r"token, in a file that only this user can read:\s+(.+)", line):
            token = Path(found[1]).read_text().strip()
        if found := re.search(r"Collecting on (\S+)", line):
            url = found[1]
            break
    if not url:
        raise Invalid([f"the collector did not start: {log.read_text(errors='replace').strip()[-500:]}"])
    return Collector(url, token)
