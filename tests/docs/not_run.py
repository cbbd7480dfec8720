"""What pages show and no test runs as it stands, each with the reason. Short, and to be read in review.

`NOT_RUN` is left out altogether. `SMALLER` is run with these options more, because as it stands it takes minutes; and
only once, however many pages show it.
A command that matches none of them is run. An entry that nothing needs any more fails the test, unless it is about a
command that is not there yet.
"""

from __future__ import annotations

import re
import shutil
from typing import NamedTuple


class Entry(NamedTuple):
    command: re.Pattern[str]
    reason: str


def _because(reason: str, *commands: str) -> list[Entry]:
    return [Entry(re.compile(command), reason) for command in commands]


NOT_RUN = [
    *_because("it is what runs this test", r"make (test|newest)\b"),
    *_because("hours; each proof has a quick form in the tests", r"make (proof|stated)\b"),
    *_because("tests/quality runs each of its tools", r"make check\b"),
    *_because(
        "tests/docs/test_made_pages.py and tests/command/test_documented.py run them", r"python tools/\w+_page\.py\b"
    ),
    *_because("tests/docs/test_site.py runs the same builder", r"make docs\b"),
    *_because(
        "it sets up an environment; tests/packaging and tests/simulations/demo/test_demo.py do both", r"make demo\b"
    ),
    *_because("no package index is asked in a test; tests/packaging/test_bare_install.py installs", r"pip install\b"),
    *_because("it would be empty; what follows runs in the environment of the tests", r"python3 -m venv\b"),
    *_because("tests/simulations/demo/test_demo.py runs it with a smaller crowd", r"hubbub demo\b"),
    *_because("needs a system manager and root", r"(sudo )?systemctl\b", r"sudo \w+"),
    *_because("needs a Docker daemon", r"docker\b"),
    *_because("needs a cluster", r"kubectl\b"),
    *_because(
        "needs a cluster of its own; tests/analysis/test_long_lists.py and its proof run both",
        r"hubbub .*--engine (tcp|spark):",
    ),
    *_because("needs reports of an epoch that is over; tests/analysis/test_recounting.py runs it", r"hubbub recount\b"),
    *_because("docs/discovery.md makes such a tally, and decodes it", r"hubbub decode plugin\.json"),
    *_because("docs/crosstabs.md makes such a tally, and decodes it", r"hubbub decode theme_os\.json"),
    *_because(
        "needs a PostgreSQL server; tests/collector/postgres runs each",
        r"hubbub .*--store (postgresql:|service=|URL)",
    ),
    *_because("the dashboard's port is another here; tests/dashboard/test_curl.py runs it", r"curl .*:8788/"),
    *_because(
        "the help's own examples: docs/tutorial.md rehearses an app, tests/simulations/rehearse runs every form",
        r"hubbub rehearse (app|count_words)\.py\b",
    ),
    *_because("it would open an editor in a browser", r"jupyter\b"),
    *_because("minutes; it has tests of its own", r"make (bench|mutants|pictures)\b", r"hubbub experiments (?!--list)"),
]

SMALLER = [
    *_because("--trials 10000 --installs 0", r"hubbub audit (?!--module)"),
    *_because("--trials 10000", r"hubbub audit --module"),
    *_because("--installs 4 --days 2 --processes 1", r"hubbub rehearse my-app/app\.py\b"),
    *_because("--repeats 1 --installs 1e4 --processes 1", r"hubbub sweep\b"),
    *_because("--installs 2000", r"hubbub simulate (?!.*(--metric language|--out year)).*--epochs"),
]


def why_not(command: str) -> str | None:
    """The reason why a command is not run, if there is one."""
    if command.startswith("curl ") and shutil.which("curl") is None:
        return "curl is not installed here"
    for entry in NOT_RUN:
        if entry.command.match(command):
            return entry.reason
    return None


def made_smaller(command: str) -> str:
    for entry in SMALLER:
        if entry.command.match(command):
            registry = re.sub(r"\S*metrics\.toml", "examples/metrics.toml", command.partition(" #")[0])
            return f"{registry.rstrip()} {entry.reason}"
    return command
