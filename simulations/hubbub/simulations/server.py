"""A real collector as a process of its own, started by the real command, for as long as somebody needs it."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hubbub.protocol.rules import Invalid

_PATIENCE = 15.0


class Collector(NamedTuple):
    """Where it listens and the token that lets one read."""

    url: str
    token: str

    def measures(self) -> dict[str, float]:
        """Its own counts, as /metrics shows them: name and labels to number."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {self.token}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  on loopback, by ourselves
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(number) for name, _, number in pairs}


@contextmanager
def running_collector(metrics: Path, data: Path) -> Iterator[Collector]:
    """A collector on a free port of this machine; stopped, politely, at the end."""
    command = [sys.executable, "-m", "hubbub.command", "collect"]
    command += ["--metrics", str(metrics), "--data", str(data), "--host", "127.0.0.1", "--port", "0"]
    command += ["--sender-rate", "100000", "--sender-burst", "100000"]  # the whole crowd lives at one address here
    with (data.parent / "collector.log").open("w+b") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)  # noqa: S603
        try:
            yield _read_greeting(process, log.name)
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()


def _read_greeting(process: subprocess.Popen[str], log: str) -> Collector:
    assert process.stdout is not None
    url = token = ""
    for line in process.stdout:
        if found := re.search(r"token, shown this once:\s+(\S+)", line):
            token = found[1]
        if found := re.search(r"Collecting on (\S+)", line):
            url = found[1]
            break
    if not url:
        raise Invalid([f"the collector did not start: {Path(log).read_text(errors='replace').strip()[-500:]}"])
    return Collector(url, token)
