"""Everything at once, as a team would run it: one registry with all that can be asked, real clients on two platforms,
two collectors that share one PostgreSQL, tables by platform, and figures for the public.

All epsilons are large, so that a hundred and some installs are a crowd. Intervals are asked for at a confidence of
0.999999: with any other seed one of them would miss the truth about once in a hundred thousand runs.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random

import pytest

from hubbub.analysis import Options, crosstab, decode, read_pair_tallies, read_tallies, undivided, within
from hubbub.client import Client
from hubbub.command.main import main
from hubbub.protocol.tally import Tally
from tests.chance import binomial_bounds
from tests.collector import kit
from tests.registry_head import head

DAY = 86_400
INSTALLS = 160
SURE = Options(confidence=0.999999)
REGISTRY = (
    head("org.example.everything", 400)
    + """
[segments]
platform = ["linux", "macos"]
release = ["2.1"]
"""
    + "".join(
        f"""
[metrics.{name}]
why = "To see it arrive"
owner = "everything@example.org"
expires = 2099-01-01
every = "day"
epsilon_one_report = 10
epsilon_permanent = 12
max_values = 2
{asked}
"""
        for name, asked in {
            "dark_theme": 'kind = "flag"',
            "crashed": 'kind = "flag"\naccumulate = "any"',
            "shell": 'kind = "choice"\nchoices = ["bash", "zsh"]\nabsent = "bash"',
            "exports": 'kind = "histogram"\naccumulate = "sum"\nedges = [0, 1, 5, 50]\nbuckets_per_report = 3',
            "features": 'kind = "set"\nitems = ["macros", "vim_keys", "export"]\nitems_per_report = 3',
            "shell_crash": 'kind = "cross"\nof = ["shell", "crashed"]',
            "plugin": 'kind = "string"\ndiscover = true\nalphabet = "host"\nmax_length = 4\nnum_groups = 4',
            "rare": 'kind = "flag"\nsample = "1/2"',
        }.items()
    )
    + """
[together.theme_shell]
metrics = ["dark_theme", "shell"]
"""
)


def use(telemetry: Client, number: int) -> None:
    """A day of one install. On Linux, the even numbers, people like the dark; whoever has zsh crashes."""
    linux, zsh = number % 2 == 0, number % 4 < 2
    telemetry.record("dark_theme", linux)
    telemetry.record("shell", "zsh" if zsh else "bash")
    for _ in range(3 if linux else 0):
        telemetry.add("exports")
    telemetry.record("features", "vim_keys")
    if zsh:
        telemetry.record("features", "macros")
        telemetry.record("crashed", True)
    telemetry.record("plugin", "rust" if linux else "perl")
    telemetry.record("rare", True)


@pytest.fixture
def collectors(postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two collectors, two processes, one database."""
    store = postgres.new_store()
    monkeypatch.setattr(kit, "new_store", lambda: store)
    running = []
    try:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "metrics.toml").write_text(REGISTRY)
            running.append(kit.Collector(tmp_path / name))
        yield running
    finally:
        for collector in running:
            collector.stop()


def test_everything_at_once(collectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_MODE", "on")

    # On the devices.
    for number in range(INSTALLS):
        live(number, collectors[number % 2], tmp_path)

    # At the analyst's: all counts from either collector, of which each saw half of the messages.
    url, token = f"http://127.0.0.1:{collectors[1].port}", collectors[1].token
    apart = read_tallies(url, token=token)
    tallies = {tally.metric.name: tally for tally in undivided(apart)}
    for name, tally in tallies.items():
        low, high = binomial_bounds(INSTALLS, 0.5) if name == "rare" else (INSTALLS, INSTALLS)
        assert low <= tally.num_reports <= high, name

    # By platform: a flag, a count, a set.
    for platform, share in (("linux", 1.0), ("macos", 0.0)):
        here = {tally.metric.name: tally for tally in within(apart, {"platform": platform})}
        holds(here["dark_theme"], "yes", share)
        holds(here["exports"], "[1, 5)", share)
        holds(here["features"], "macros", 0.5)
        holds(here["features"], "export", 0.0)

    # Two answers at once: asked as one question, and counted in pairs.
    assert crosstab(tallies["shell_crash"], None, SURE).related, "zsh crashes"
    (pair,) = undivided(read_pair_tallies(url, token=token))
    assert pair.num_batches == INSTALLS
    assert not crosstab(pair, None, SURE).related, "the theme has nothing to do with the shell"

    # A text that nobody listed.
    found = decode(tallies["plugin"])
    assert {"rust", "perl"} <= {found.values[i] for i in found.detected.nonzero()[0]}

    publish(url, token, tmp_path)


def live(number: int, collector: kit.Collector, folder: Path) -> None:
    """A yes, a day of use, and the message of that day to this collector."""
    now = [time.time() - 2 * DAY]
    with Client(
        folder / "first" / "metrics.toml",
        endpoint=f"http://127.0.0.1:{collector.port}",
        segments={"platform": "linux" if number % 2 == 0 else "macos", "release": "2.1"},
        state_dir=folder / "installs" / str(number),
        background=False,
        clock=lambda: now[0],
        send_delay=lambda span: 0.0,
        random=Random(number).randbytes,
    ) as telemetry:
        telemetry.consent(True)
        now[0] += DAY
        telemetry.flush()
        use(telemetry, number)
        now[0] += DAY
        assert telemetry.flush()


def holds(tally: Tally, value: str, truth: float) -> None:
    """The interval of this value's share holds the truth."""
    decoding = decode(tally, None, SURE)
    row = decoding.values.index(value)
    assert decoding.low[row] <= truth <= decoding.high[row], (tally.metric.name, value)


def publish(url: str, token: str, folder: Path) -> None:
    """Figures for the public: noise on every count, a ledger beside it, and a file that proves its own statement."""
    assert main(["export", "--url", url, "--token", token, "--out", str(folder / "tallies")]) == 0
    files = sorted(map(str, (folder / "tallies").glob("dark_theme*.json")))
    out, ledger = str(folder / "figures.json"), ["--ledger", str(folder / "ledger"), "--budget", "20,1e-6"]
    how = ["--by", "platform", "--metrics", str(folder / "first" / "metrics.toml"), "--count-noise", "gaussian:2"]
    assert main(["release", *files, *how, "--out", out, *ledger]) == 0
    assert main(["release", "--verify", out]) == 0
    assert json.loads((folder / "figures.json").read_text())["metrics"]
