"""The environments of the peers: one each under `.bench/`, pinned, made once and kept.

Peers are dependencies of the bench alone. Each environment has no pip of its own, so that its size is that of the
library and what it needs; a stamp, written last, names all that it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".bench"
PEERS = Path(__file__).resolve().with_name("peers")
NAMES = ("pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib")
BARE = "hubbub"
"""The bare client by itself, as an app gets it."""

# One thread each, whatever the libraries would like: what is compared is work, not cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

Say = Callable[[str], None]


def prepare(name: str, say: Say) -> Path:
    """The Python of a peer's environment, which is made if it is not there."""
    place = PLACE / name
    python = place / "bin" / "python"
    stamp, wanted = place / "made-by-bench", _wanted(name)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    say(f"installing {name} into {place.relative_to(ROOT)} (once)")
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    what = [_wheel(place)] if name == BARE else ["-r", str(PEERS / f"{name}.txt")]
    install = ["-m", "pip", "--python", str(python), "install", "-qq", "--disable-pip-version-check", *what]
    subprocess.run([sys.executable, *install], check=True)
    stamp.write_text(wanted)
    return python


def _wheel(place: Path) -> str:
    """This project, built with what its own environment has."""
    make = ["-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", str(place), str(ROOT)]
    subprocess.run([sys.executable, *make], check=True)
    [wheel] = place.glob("*.whl")
    return str(wheel)


def peer(name: str, say: Say, script: str = "") -> Peer:
    """The peer's process, which is started when first asked for and serves every part of a run."""
    script = script or f"peer_{name.replace('-', '_')}.py"
    if script not in _running:
        _running[script] = Peer(prepare(name, say), script)
    return _running[script]


def close_peers() -> None:
    while _running:
        _running.popitem()[1].close()


_running: dict[str, Peer] = {}


def _wanted(name: str) -> str:
    if name == BARE:
        folders = [ROOT / part / "hubbub" for part in ("client", "collector", "analysis", "simulations")]
        files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    else:
        files = [PEERS / f"{name}.txt"]
    made_from = b"".join(hashlib.blake2b(path.read_bytes()).digest() for path in files)
    return hashlib.blake2b(made_from + sys.version.encode() + str(ROOT).encode()).hexdigest()


def installed_bytes(name: str) -> int:
    """What the library and all that it needs take on the disk, without compiled copies of the sources."""
    [packages] = (PLACE / name / "lib").glob("python*/site-packages")
    return sum(p.stat().st_size for p in packages.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


class Peer:
    """A script of `peers/` running in a peer's environment, asked line by line: so that repeats can be interleaved."""

    def __init__(self, python: Path, script: str) -> None:
        self.script = script
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        self.process = subprocess.Popen(
            [str(python), str(PEERS / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )

    def ask(self, call: str, **arguments: object) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
            self.said.seek(0)
            raise RuntimeError(f"{self.script} ended at {call}: {self.said.read()[-2000:]}")
        return json.loads(answer)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()
