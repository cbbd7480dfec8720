"""The first hour, as transcripts: from a clone to a first estimate, to the first estimate of one's own app, and from
the consent page to `forget`. The quick form walks the last two ways in this environment (the first is in
test_five_minutes.py); the full form walks all three on a fresh clone in a new environment, and says how long each took.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.simulations.server import running_collector
from tests.client.processes import PATIENCE
from tests.interrupts import interruptible
from tests.test_five_minutes import APP, Newcomer

ROOT = Path(__file__).resolve().parents[1]


class Stranger(Newcomer):
    """A newcomer whose commands are those of another environment."""

    def __init__(self, home: Path, scripts: Path) -> None:
        super().__init__(home)
        self.scripts = scripts

    def types(self, *words: object, status: int = 0) -> str:
        program, *arguments = (str(word) for word in words)
        command = [str(self.scripts / program) if program in ("hubbub", "python") else program, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self.environ, capture_output=True, text=True)
        assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout if status == 0 else done.stderr


@contextmanager
def until_interrupted(newcomer: Newcomer, scripts: Path, *words: object) -> Iterator[tuple[str, str]]:
    """What a command says until it waits for Ctrl-C, and the address of its dashboard; then Ctrl-C."""
    app = newcomer.folder / "app.py"
    with interruptible(
        [scripts / "hubbub", words[0], app, *words[1:]], {**newcomer.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout
        said = ""
        while "until you press Ctrl-C" not in said:
            line = process.stdout.readline()
            assert line, process.communicate()
            said += line
        address = re.search(r"The dashboard is on (\S+)", said)
        assert address
        yield said, address[1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0


def to_the_own_apps_first_estimate(newcomer: Newcomer, scripts: Path, installs: int, days: int) -> None:
    """init, edit, rehearse, dashboard."""
    says = newcomer.types("hubbub", "init", "my-app", "--app", APP)
    assert "hubbub rehearse app.py" in says  # the next step is named
    newcomer.folder /= "my-app"
    app, metrics = newcomer.folder / "app.py", newcomer.folder / "metrics.toml"
    app.write_text(app.read_text().replace("chance < 0.6", "chance < 0.9").replace('"macros"', '"terminal"'))
    metrics.write_text(metrics.read_text().replace("Decide whether the light theme is still", "Decide if light is"))
    assert "Decide if light is worth its upkeep" in newcomer.types("hubbub", "label", "metrics.toml")
    small = ("--installs", installs, "--days", days, "--no-browser")
    with until_interrupted(newcomer, scripts, "rehearse", *small) as (says, url):
        assert f"{installs} installs of {APP} live through {days} days." in says
        counted = re.search(r"([\d,]+) reports were made, ([\d,]+) counted", says)
        assert counted
        assert counted[1] == counted[2]
        assert "language      Never recorded." in says
        page = urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
        assert "dark_theme" in page
        sheet = urllib.request.urlopen(f"{url}/metric/dark_theme/dark_theme.csv", timeout=PATIENCE).read().decode()
        assert sheet.startswith("metric,segment,epochs,value,estimate,")


def from_the_consent_page_to_forget(newcomer: Newcomer, metrics: Path) -> None:
    """Somebody who was asked: reads the page, agrees, looks, says no, and is forgotten."""
    with running_collector(metrics, newcomer.folder / "data") as collector:
        page = urllib.request.urlopen(f"{collector.url}/privacy", timeout=PATIENCE).read().decode()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Example Foundation" in text
    assert "<script" not in page
    assert "Random noise is added" in newcomer.types("hubbub", "label", metrics)
    says = newcomer.types("hubbub", "on", "--app", APP, "--metrics", metrics)
    assert says.endswith("`hubbub off` ends it, `hubbub forget` wipes it.\n")
    assert newcomer.types("hubbub", "status").startswith(f"{APP}: on, because you agreed")
    assert "Nothing waits to be sent" in newcomer.types("hubbub", "preview", "--app", APP)
    assert newcomer.types("hubbub", "off", "--app", APP) == "Off. What waited to be sent is deleted.\n"
    assert newcomer.types("hubbub", "status").startswith(f"{APP}: off, because you declined")
    says = newcomer.types("hubbub", "forget", "--app", APP)
    assert says.startswith("Forgotten: identity, answers and everything unsent. Off. One number is kept: epsilon 0")


def its_metrics(folder: Path) -> Path:
    """The example's registry under the newcomer's app."""
    path = folder / "metrics.toml"
    path.write_text((ROOT / "examples" / "metrics.toml").read_text().replace("org.example.editor", APP, 1))
    return path


def test_to_the_first_estimate_of_ones_own_app(tmp_path: Path) -> None:
    to_the_own_apps_first_estimate(Newcomer(tmp_path), Path(sys.executable).parent, installs=4, days=2)


def test_from_the_consent_page_to_forget(tmp_path: Path) -> None:
    from_the_consent_page_to_forget(Newcomer(tmp_path), its_metrics(tmp_path))


@pytest.mark.proof
def test_the_three_ways_on_a_fresh_clone_in_a_new_environment(tmp_path: Path, figure) -> None:
    """Word for word what the README says, with `make demo` making the environment."""
    clone = tmp_path / "clone"
    began = time.monotonic()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    newcomer = Stranger(tmp_path, clone / ".venv" / "bin")
    newcomer.folder = clone
    says = newcomer.types("make", "demo")
    assert " First estimate: " in says
    assert "intervals of 95 % hold the truth" in says
    minutes = {"clone to the first estimate": time.monotonic() - began}

    began, newcomer.folder = time.monotonic(), tmp_path
    to_the_own_apps_first_estimate(newcomer, newcomer.scripts, installs=100, days=14)
    minutes["clone to the own app's first estimate, after that"] = time.monotonic() - began

    began, newcomer.folder = time.monotonic(), tmp_path
    from_the_consent_page_to_forget(newcomer, its_metrics(tmp_path))
    minutes["consent page to forget"] = time.monotonic() - began
    for way, seconds in minutes.items():
        figure(f"first hour, {way}", f"{seconds / 60:.1f} minutes")
