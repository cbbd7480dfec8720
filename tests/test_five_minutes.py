"""The first five minutes: what a newcomer types, in order, and what the screen says. Every command is the real one.

Each step leaves behind what the next one needs, so the steps are one transcript and run as one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.simulations.server import running_collector
from tests import forked

ROOT = Path(__file__).resolve().parents[1]
APP = "org.example.newcomer"
MODULES = ("hubbub.simulations.demo.command", "hubbub.analysis.commands.plan", "hubbub.collector.serve")
"""What the commands here import."""


class Newcomer:
    """Somebody at a shell: a home of their own, a folder they are in, nothing decided yet."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        undecided = ("CI", "DO_NOT_TRACK", "HUBBUB_MODE", "PYTEST_CURRENT_TEST", "NO_COLOR")
        self.environ = {name: value for name, value in os.environ.items() if name not in undecided}
        # Named, because the tests may run in a container, where a state without a given place sends nothing.
        self.environ |= {"HOME": str(home), "HUBBUB_STATE": str(home / "state")}

    def types(self, *words: object, status: int = 0) -> str:
        """Run a command; `hubbub` and `python` are this environment's. What it says must come with this exit status."""
        program, *arguments = (str(word) for word in words)
        if program == "hubbub":
            done = forked.run(arguments, MODULES, cwd=self.folder, env=self.environ)
        else:
            command = [sys.executable, *arguments]
            done = subprocess.run(command, cwd=self.folder, env=self.environ, capture_output=True, text=True)
        assert done.returncode == status, f"{program} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path)


def test_the_first_five_minutes(newcomer: Newcomer) -> None:
    says = newcomer.types("hubbub", "demo", "--once", "--no-browser", "--installs", "40")
    assert "40 of 40 installs have reported" in says
    assert "hubbub peek homepage" in says  # the next step

    example = ROOT / "examples" / "metrics.toml"
    says = newcomer.types("hubbub", "peek", "homepage", "https://news.example/", "--metrics", example)
    assert "this is all that leaves" in says
    assert says.count("leaves\n") == 3

    says = newcomer.types("hubbub", "label", example)
    assert "WHAT IS NOT PROTECTED" in says

    says = newcomer.types("hubbub", "plan", example, "--installs", "1e6", "--consent", "0.3")
    assert "300,000 reports of one epoch" in says

    says = newcomer.types("hubbub", "init", "my-app", "--app", APP)
    assert "  cd my-app\n" in says
    newcomer.folder /= "my-app"

    with running_collector(newcomer.folder / "metrics.toml", newcomer.folder / "hubbub-data") as collector:
        app = newcomer.folder / "app.py"
        app.write_text(app.read_text().replace("http://127.0.0.1:8787", collector.url))
        assert newcomer.types("python", "app.py") == "Telemetry is local, because nobody has been asked yet.\n"
        says = newcomer.types("hubbub", "status", "--app", APP)
        assert says.startswith(f"{APP}: local, because nobody has been asked yet")
        says = newcomer.types("hubbub", "preview", "--app", APP)
        assert says == "Nothing waits to be sent. Telemetry is local, because nobody has been asked yet.\n"
        says = newcomer.types("hubbub", "on", "--app", APP, "--metrics", "metrics.toml")
        assert says.endswith("`hubbub off` ends it, `hubbub forget` wipes it.\n")
        assert newcomer.types("python", "app.py") == "Telemetry is on, because you agreed.\n"
        says = newcomer.types("hubbub", "preview", "--app", APP)
        assert "After a yes, reporting starts with the next day, week or month" in says
        assert collector.health().reports == 0


def test_a_slip_in_the_registry_is_answered_with_field_rule_and_value(newcomer: Newcomer) -> None:
    newcomer.types("hubbub", "init", "my-app", "--app", APP)
    newcomer.folder /= "my-app"
    metrics = newcomer.folder / "metrics.toml"
    metrics.write_text(metrics.read_text().replace('kind = "flag"', 'kind = "flagg"'))
    for command in (("label",), ("collect", "--check", "--metrics"), ("audit",), ("on", "--app", APP, "--metrics")):
        says = newcomer.types("hubbub", *command, "metrics.toml", status=2)
        assert re.search(r"\[metrics.dark_theme\] kind must be one of flag, .*, got 'flagg'; did you mean flag\?", says)


def test_every_step_that_init_names_is_a_command_that_works(newcomer: Newcomer) -> None:
    """All but the collector itself and the rehearsal, which run until they are told to stop."""
    says = newcomer.types("hubbub", "init", "my-app", "--app", APP)
    newcomer.folder /= "my-app"
    steps = [re.split("  +", line.strip())[0] for line in says.splitlines() if line.startswith("  ")]
    assert [step.split()[:2] for step in steps][1:] == [
        ["hubbub", "label"],
        ["hubbub", "rehearse"],
        ["hubbub", "collect"],
        ["python", "app.py"],
        ["hubbub", "on"],
        ["python", "app.py"],
        ["hubbub", "peek"],
    ]
    for step in steps[1:]:
        if "collect" not in step and "rehearse" not in step:
            newcomer.types(*step.split())
