"""Runs what a page shows, in a directory of its own, with a real collector where one is asked for.

A page is a session: commands share a working directory and variables, Python blocks share their names. What a reader
would have and a test has not (port 8787, a host name, /var/lib) is put in its place by `STAND_INS`; in output it is
put back, so that pages show what a reader sees.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tty
import urllib.request
from pathlib import Path
from random import Random
from typing import IO, Self

from hubbub.client.respond import respond
from hubbub.collector.tokens import new_token
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import ABSENT, DITHER_BITS
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.docs.blocks import ROOT
from tests.docs.warm import PATIENCE, Hubbub

EXAMPLES = ROOT / "examples"
LOCAL = "http://127.0.0.1:8787"
FOLDERS = ("/var/lib/hubbub", "/etc/hubbub", "/backup")
ANSWERS_NO = ("diff", "plan", "audit", "simulate", "decode")
"""Commands whose status 1 means: done, and the answer is no."""
FILES = {
    # google/rappor's three files: two strings, 60 % and 40 %, in two cohorts of 5000.
    "params.csv": "k,h,m,p,q,f\n8,1,2,0.25,0.75,0.5\n",
    "counts.csv": "5000,1875,2625,1875,2375,1875,1875,1875,1875\n5000,1875,1875,2625,1875,1875,2375,1875,1875\n",
    "map.csv": "a,2,11\nb,4,14\n",
    "releases.toml": '[[annotations]]\ndate = 2026-11-03\ntext = "the spring sale"\n',
    "domains.csv": "https://news.example/,500\nhttps://mail.example/,300\n",
    # An app to be tested.
    "app.py": "from hubbub.client import Client\n\n\ndef start():\n"
    '    Client("metrics.toml").record("dark_theme", True)\n',
    # Somebody else's randomiser.
    "mylibrary/rappor.py": "import random\n\n\ndef encode(value):\n"
    '    return (value == "a") ^ (random.SystemRandom().random() < 0.27)\n',
}
_PLAIN = re.compile(r"hubbub (\$TOKEN|[^|<>;&$`*])*")
"""A command that needs no shell."""


class Session:
    """One reader of one page. `folder` becomes their working directory."""

    def __init__(self, folder: Path, hubbub: Hubbub) -> None:
        self.folder = folder
        self._hubbub = hubbub
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.cwd = folder / "here"
        self.root = folder / "root"
        self._servers: dict[str, tuple[int, IO[str]]] = {}  # by subcommand, one of each at a time
        self._python: tuple[int, IO[str], IO[str]] | None = None
        self._set_the_stage()
        self.variables = self._first_variables()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind in list(self._servers):
            self.stop_server(kind)
        if self._python:
            interpreter, asked, answered = self._python
            asked.close()
            self._hubbub.wait(interpreter)
            answered.close()

    # -- what a reader has before the page begins

    def _set_the_stage(self) -> None:
        """The checkout's examples, and beside them the files that the examples of `--help` name."""
        shutil.copytree(EXAMPLES, self.cwd / "examples")
        for name in ("metrics.toml", "old.toml", "new.toml", "released/metrics.toml"):
            _copy(EXAMPLES / "metrics.toml", self.cwd / name)
        _copy(EXAMPLES / "metrics.toml", self.root / "etc/hubbub/metrics.toml")
        (self.root / "backup").mkdir()
        (self.root / "var/lib").mkdir(parents=True)
        for tally in (EXAMPLES / "tallies").glob("*.json"):
            for folder in (".", "tallies", "released", "eu", "us"):
                _copy(tally, self.cwd / folder / tally.name)
        shutil.copytree(EXAMPLES / "by_segment", self.cwd / "by_segment")
        _copy(EXAMPLES / "homepages.txt", self.cwd / "domains.txt")
        _copy(EXAMPLES / "homepages.txt", self.cwd / "domains" / "1.txt")
        for folder in ("docs", "tools", "tests/vectors"):
            shutil.copytree(ROOT / folder, self.cwd / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in FILES.items():
            self.save(name, text)

    def _first_variables(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "OPENBLAS_NUM_THREADS")
        mine = {name: value for name, value in os.environ.items() if name in kept}
        mine["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{mine.get('PATH', '')}"
        home = self.folder / "home"
        home.mkdir()
        return mine | {
            "HOME": str(home),
            "HUBBUB_PORT": str(self.port),  # for `hubbub collect --check`; 8787 may be somebody else's here
            "HUBBUB_STATE": str(self.folder / "state"),  # in a container the client would else stay off
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(self.cwd),
            "PYTHONWARNINGS": "error",
            "TZ": "UTC",
        }

    # -- one step

    def run(self, command: str) -> tuple[int, str]:
        """A command and all it printed, as on a terminal. A server is left running behind it."""
        first, _, then = command.partition(" && ")
        if then and _PLAIN.fullmatch(first):
            status, printed = self.run(first)
            if status:
                return status, printed
            status, more = self.run(then)
            return status, printed + more
        if is_server(command):
            return 0, self._start_server(self._prepared(command))
        if LOCAL in command or "telemetry.example.org" in command:
            self._have_server()
        if re.search(r"hubbub (export|restore) .*--data", command):
            self.stop_server("collect")
        if lost := re.search(r"hubbub restore .*--data (\S+)", command):  # the day on which one needs it
            shutil.rmtree(self.cwd / self._prepared(lost[1]), ignore_errors=True)
        if _PLAIN.fullmatch(command.partition(" #")[0]):
            words = shlex.split(
                self._prepared(command).replace("$TOKEN", self.variables.get("TOKEN", "")), comments=True
            )
            status, printed = self._hubbub.run(words[1:], self.cwd, self.variables)
            return status, self._as_shown(printed)
        script = f"{self._prepared(command)}\nstatus=$?\npwd >&3; env -0 >&3\nexit $status"
        with tempfile.TemporaryFile() as after:
            done = subprocess.run(
                ["bash", "-c", f"exec 3>&{after.fileno()}\n{script}"],
                cwd=self.cwd,
                env=self.variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                pass_fds=[after.fileno()],
                text=True,
                check=False,
            )
            after.seek(0)
            where, _, variables = after.read().decode().partition("\n")
        self.cwd = Path(where)
        pairs = (item.partition("=") for item in variables.split("\0") if item)
        self.variables = {name: value for name, _, value in pairs if name != "_"}
        return done.returncode, self._as_shown(done.stdout)

    def python(self, place: str, source: str) -> str:
        """Run source after what was run before, and return what it printed. Raises AssertionError where it raises."""
        if LOCAL in source or "telemetry.example.org" in source:
            self._have_server()
        _, asked, answered = self._python = self._python or self._interpreter()
        asked.write(json.dumps([place, self._prepared(source)]) + "\n")
        asked.flush()
        printed, wrong = json.loads(answered.readline())
        assert not wrong, f"{place}\n{wrong}"
        return self._as_shown(printed)

    def _interpreter(self) -> tuple[int, IO[str], IO[str]]:
        asked, answered = self.folder / "asked", self.folder / "answered"
        os.mkfifo(asked)
        os.mkfifo(answered)
        interpreter = self._hubbub.python(self.cwd, self.variables, asked, answered)
        return interpreter, asked.open("w", encoding="utf-8"), answered.open(encoding="utf-8")

    def pytest(self, place: str, source: str) -> None:
        """Run a block of tests as pytest does."""
        self.save("test_of_the_page.py", source)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_of_the_page.py"],
            cwd=self.cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{place}\n{done.stdout}{done.stderr}"

    def save(self, name: str, text: str) -> None:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A registry names its recipient as it is; the app's endpoint is what this machine stands in for.
        path.write_text(text if path.suffix == ".toml" else self._prepared(text), encoding="utf-8")

    def _prepared(self, text: str) -> str:
        """What a reader has, replaced by what the test has."""
        for there in ("https://telemetry.example.org", LOCAL):
            text = text.replace(there, self.url)
        for folder in FOLDERS:
            text = re.sub(rf"(?<![\w.]){folder}\b", str(self.root) + folder, text)
        text = re.sub(r"--token (TOKEN|T)\b", "--token $TOKEN", text)
        return text.replace("--host 0.0.0.0", "--host 127.0.0.1")

    def _as_shown(self, text: str) -> str:
        text = text.replace(self.url, LOCAL)
        for folder in FOLDERS:
            text = text.replace(str(self.root) + folder, folder)
        return text

    # -- servers: a collector, a dashboard

    def _have_server(self) -> None:
        """A collector with some reports in it, if the page has started none."""
        if "collect" not in self._servers:
            source = (EXAMPLES / "metrics.toml").read_text(encoding="utf-8")
            lasting = self.folder / "metrics.toml"  # the example, but for the day on which its questions end
            lasting.write_text(re.sub(r"expires = \d{4}", "expires = 2099", source), encoding="utf-8")
            self._start_server(f"hubbub collect --metrics {lasting} --data {self.folder}/hubbub-data")
            self._send_some_reports()

    def _start_server(self, command: str) -> str:
        kind = command.split()[1]
        if kind != "collect" and self.url in command:
            self._have_server()
        self.stop_server(kind)
        port = self.port if kind == "collect" else _free_port()
        command = command.partition(" #")[0] + ("" if "--port" in command else f" --port {port}")
        reading, terminal = os.openpty()  # readers start servers in a terminal, and only there a token is shown
        tty.setraw(terminal)
        log = self.folder / f"{kind}.log"
        server = self._hubbub.start(self._words(command)[1:], self.cwd, self.variables, os.ttyname(terminal), log)
        self._servers[kind] = server, os.fdopen(reading)
        os.close(terminal)
        said = self._greeting(kind, "  data " if kind == "collect" else f":{port}")
        return self._as_shown(said) if kind == "collect" else said.replace(f":{port}", ":8788")

    def _words(self, command: str) -> list[str]:
        """What a shell makes of a command."""
        script = f"printf '%s\\0' {command}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.cwd, env=self.variables, stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode().split("\0")[:-1]

    def _greeting(self, kind: str, last: str) -> str:
        """What it prints until it answers. Its token goes where the page's commands look for it."""
        _, stdout = self._servers[kind]
        lines: list[str] = []
        while line := _line(stdout):
            lines.append(line)
            if found := re.search(r"token, shown this once:\s+(\S+)", line):
                self.variables["TOKEN"] = found[1]
                self.save("token", found[1])
            if last in line:
                return "".join(lines)
        said = (self.folder / f"{kind}.log").read_text(errors="replace")
        raise AssertionError(f"the server did not start: {''.join(lines)}{said}")

    def stop_server(self, kind: str) -> None:
        if kind in self._servers:
            server, terminal = self._servers.pop(kind)
            self._hubbub.stop(server)
            terminal.close()

    def _send_some_reports(self) -> None:
        """Two hundred reports of each metric, noised by the client's own code, as a relay would bring them."""
        token = new_token(self.folder / "hubbub-data" / "tokens", "relay", "test")
        time.sleep(1.1)  # the collector looks for new tokens once a second
        body = pack(Batch.of(os.urandom(16), _reports(Registry.load(EXAMPLES / "metrics.toml"), Random(2026))))
        headers = {"Content-Type": MEDIA_TYPE, "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self.url}/v1/relay", body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert json.load(answer)["status"] == "stored"


def is_server(command: str) -> bool:
    """Whether a command goes on until it is stopped."""
    words = command.split()
    return (
        words[:1] == ["hubbub"]
        and words[1:2] in (["collect"], ["dashboard"])
        and not {"--check", "--help", "--once"} & set(words)
    )


def failed(command: str, status: int) -> bool:
    words = command.split()
    answered_no = status == 1 and words[0] == "hubbub" and words[1] in ANSWERS_NO
    return status != 0 and not answered_no


def matches(shown: str, printed: str) -> bool:
    """Whether output is what a page shows, `...` standing for what varies: within a line, or alone for whole lines."""
    expected = [line.rstrip() for line in shown.strip("\n").splitlines()]
    given = [line.rstrip() for line in printed.strip("\n").splitlines()]
    reached = {0}  # how many lines of the output the lines shown so far can stand for
    for line in expected:
        if line.strip() == "...":
            reached = set(range(min(reached, default=len(given) + 1), len(given) + 1))
        else:
            reached = {number + 1 for number in reached if number < len(given) and _line_matches(line, given[number])}
    return len(given) in reached


def _line_matches(shown: str, printed: str) -> bool:
    """Each part that is shown is looked for behind the one before, so that this never takes long."""
    first, *parts = shown.split("...")
    if not parts:
        return shown == printed
    *parts, last = parts
    if not printed.startswith(first):
        return False
    at = len(first)
    for part in parts:
        found = printed.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return printed.endswith(last) and len(printed) - len(last) >= at


def _reports(registry: Registry, chance: Random) -> list[Report]:
    values = {"dark_theme": True, "language": "python", "startup_time": 2.5, "file_size": 42, "latency": 12}
    values |= {"exports": 3, "features": "macros"}
    found = []
    build = (("platform", "linux"), ("release", "2.1"))
    for metric in (asked.in_segment(build) for asked in registry):
        epoch = epoch_of(metric.every, time.time())
        for number in range(200):
            cohort, dither = chance.getrandbits(16) % metric.shape.num_cohorts, chance.getrandbits(DITHER_BITS)
            value = values.get(metric.name, "https://news.example/") if number % 2 else ABSENT
            mask = metric.shape.encode(value, cohort, dither).mask
            found.append(Report(metric, epoch, cohort, respond(metric, mask, cohort, chance.randbytes).bits))
    return found


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _line(terminal: IO[str]) -> str:
    try:
        return terminal.readline()
    except OSError:  # how a terminal says that its program has ended
        return ""


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
