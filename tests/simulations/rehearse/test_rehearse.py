"""`hubbub rehearse`: an app's own code, run by many pretend users, each on an install of their own, and counted by a
real collector. The registry here adds next to no noise: a handful of installs shows in the estimates what they did."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import hubbub.client
from hubbub.analysis import decode, fetch_tallies
from hubbub.client import Client, Registry
from hubbub.protocol.cadence import DAY, epoch_of, epoch_start
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import MOST_GRACE
from hubbub.protocol.tally import Counts, Tally
from hubbub.simulations.rehearse.app_file import AppFailed, find_app, make_user
from hubbub.simulations.rehearse.command import MOST_DAYS
from hubbub.simulations.rehearse.installs import (
    AskedBy,
    Plan,
    RehearsalTotals,
    RehearsedClient,
    rehearse_installs,
    try_out,
)
from hubbub.simulations.rehearse.run import _check, _estimates, _learn, _patient, first_day
from hubbub.simulations.server import Collector, running_collector
from tests import forked
from tests.client.processes import HUBBUB, PATIENCE, clean_environment
from tests.interrupts import interruptible
from tests.registry_head import head

ROOT = Path(__file__).parents[3]
TERMS = """
why = "To rehearse"
owner = "test@example.org"
expires = 2099-01-01
every = "{every}"
prob_f = "1/1000000"
prob_p = "1/1000000"
prob_q = "999999/1000000"
max_values = 2
"""
METRICS = head("org.example.rehearsed", 400) + "".join(
    f"\n[metrics.{name}]{kind}{TERMS.format(every=every)}"
    for name, kind, every in (
        ("dark", '\nkind = "flag"', "day"),
        ("unit", '\nkind = "choice"\nchoices = ["lines", "words"]', "week"),
        ("page", '\nkind = "string"\nnum_bits = 32\nnum_hashes = 1\nnum_cohorts = 2', "day"),
    )
)
START = """
from pathlib import Path
from hubbub.client import Client
telemetry = Client(Path(__file__).with_name("metrics.toml"), endpoint="https://telemetry.example.org")
"""
USE = """
def rehearse(user):
    telemetry.record("dark", user.number % 4 == 0)
    telemetry.record("unit", "lines")
    telemetry.record("page", f"https://{user.number % 2}.example/")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of an app. Clients of apps that raised live on in their tracebacks; a process that rehearses would have ended."""
    RehearsedClient.living.clear()
    (tmp_path / "metrics.toml").write_text(METRICS)
    return tmp_path


def plan_of(folder: Path, source: str, days: int = 2, function: str | None = None) -> Plan:
    (folder / "app.py").write_text(source)
    return Plan(app=find_app(folder / "app.py", function, ()), days=days, seed=1, repeatable=True)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    place = tmp_path_factory.mktemp("collector")
    (place / "metrics.toml").write_text(METRICS)
    with running_collector(place / "metrics.toml", place / "data") as running:
        yield running


def share(collector: Collector, metric: str, value: str, texts: list[str] | None = None) -> float:
    (tally,) = [tally for tally in fetch_tallies(collector.url, collector.token) if tally.metric.name == metric]
    found = decode(tally, texts)
    return round(float(found.estimate[found.values.index(value)]), 1)


# --- installs -------------------------------------------------------------------------------------------------------


def test_what_pretend_users_do_is_counted_each_on_an_install_of_their_own(folder: Path, collector: Collector) -> None:
    """A memo that one user left for the next would show: three of four would then say what the first one said."""
    plan = plan_of(folder, START + USE)
    first = first_day(Registry.parse(METRICS), plan.days, time.time())
    totals = rehearse_installs(plan, range(8), collector.url, AskedBy(METRICS, {}), first)
    weeks = {epoch_of("week", first + day * DAY) for day in range(plan.days)}
    reports = 8 * (2 * plan.days + len(weeks))
    assert totals.runs == 8 * plan.days
    assert totals.records == {"dark": 16, "unit": 16, "page": 16}
    assert totals.texts == {"page": {"https://0.example/", "https://1.example/"}}
    assert totals.counts["made"] == totals.counts["sent"] == reports
    assert collector.health().reports == reports
    assert share(collector, "dark", "yes") == 0.2  # 2 of 8, rounded
    assert share(collector, "unit", "lines") == 1.0
    assert share(collector, "page", "https://1.example/", ["https://0.example/", "https://1.example/"]) == 0.5
    assert not list(RehearsedClient.living)


def test_a_cross_is_read_where_its_metrics_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody records it; it is never recorded only if neither of them was."""
    daily = TERMS.format(every="day")
    more = f"\n[metrics.late]\nkind = 'flag'{daily}\n[metrics.both]\nkind = 'cross'\nof = ['dark', 'late']{daily}"
    registry = Registry.parse(METRICS + more)
    counted = Tally(registry["both"], {20_000: Counts((10,), ((8, 0, 2, 0),))})
    monkeypatch.setattr("hubbub.simulations.rehearse.run.fetch_tallies", lambda url, token: [counted])
    nowhere = Collector(url="", token="")
    said = {
        records: [
            line for line in _estimates(registry, nowhere, RehearsalTotals(records=Counter(records))) if "both" in line
        ]
        for records in (("late",), ())
    }
    assert said[()] == ["  both  Never recorded."]
    (line,) = said["late",]
    assert line.startswith("  both  no · no leads with 80\xa0% of installs")


@pytest.mark.parametrize("lasting", [False, True], ids=["beside the app", "in a library"])
def test_a_client_in_a_module_is_new_for_each_run(folder: Path, monkeypatch, lasting: bool) -> None:
    """Modules of the app are loaded anew; those of libraries once, and their clients are started again."""
    place = folder / "site-packages" if lasting else folder
    place.mkdir(exist_ok=True)
    (place / "its_telemetry.py").write_text(START.replace("Path(__file__).with_name(", f"Path({str(folder)!r}, "))
    monkeypatch.syspath_prepend(str(place))
    use = (
        "def rehearse(user):\n    telemetry.record('dark', True)\n    seen.append(telemetry.status().state_directory)\n"
    )
    plan = plan_of(
        folder, "import sys\nfrom its_telemetry import telemetry\nseen = sys.modules.setdefault('seen', [])\n" + use
    )
    try:
        for _ in range(3):
            try_out(plan)
        assert len(set(sys.modules["seen"])) == 3  # type: ignore[arg-type]
        assert ("its_telemetry" in sys.modules) == lasting
    finally:
        sys.modules.pop("its_telemetry", None)
        sys.modules.pop("seen", None)


def test_a_rehearsal_leaves_the_client_as_it_was(folder: Path) -> None:
    try_out(plan_of(folder, START + USE))
    assert hubbub.client.Client is Client
    assert Client.__module__ == "hubbub.client.client"


def test_a_run_that_the_app_keeps_to_itself_sends_nothing(folder: Path) -> None:
    off = START.replace("endpoint=", 'environ={"HUBBUB_MODE": "off"}, endpoint=')
    modes = 'def rehearse(user):\n    assert telemetry.mode == "off", telemetry.mode\n'
    assert try_out(plan_of(folder, off + modes)).runs == 1


def test_a_user_has_the_same_habits_every_day_and_another_chance_today() -> None:
    first, second, other = make_user(1, 5, 0), make_user(1, 5, 1), make_user(1, 6, 0)
    assert first.habits.random() == second.habits.random() != other.habits.random()
    assert first.today.random() != second.today.random()


def test_what_an_app_does_at_its_end_belongs_to_the_run(folder: Path) -> None:
    leaving = "import atexit\natexit.register(telemetry.record, 'dark', True)\ndef rehearse():\n    pass\n"
    assert try_out(plan_of(folder, START + leaving)).records == {"dark": 1}


def test_an_async_function_is_run_to_its_end(folder: Path) -> None:
    slow = "import asyncio\nasync def rehearse(user):\n    await asyncio.sleep(0)\n    telemetry.record('dark', True)\n"
    assert try_out(plan_of(folder, START + slow)).records == {"dark": 1}


@pytest.mark.parametrize("cadences", [("day",), ("week",), ("month",), ("once", "day"), ("day", "week", "month")])
def test_all_days_weeks_and_months_of_a_rehearsal_are_over_and_still_open(cadences: tuple[str, ...]) -> None:
    """For each of 800 days on which it may be run, and the most days it may take."""
    source = head("org.example.x", 400) + "".join(
        f"\n[metrics.m{number}]\nkind = 'flag'{TERMS.format(every=every)}".replace(
            "max_values = 2", f"max_values = {1 if every == 'once' else 2}"
        )
        for number, every in enumerate(cadences)
    )
    registry = Registry.parse(source)
    for today in range(20_000, 20_800):
        now = today * DAY + 60.0
        for days in (1, 14, MOST_DAYS):
            first = first_day(registry, days, now)
            assert first % DAY == 0
            for metric in registry:
                last = epoch_of(metric.every, first + (days - 1) * DAY)
                assert epoch_start(metric.every, last + 1) <= now
                assert epoch_of(metric.every, now) - epoch_of(metric.every, first) <= MOST_GRACE


# --- mistakes -------------------------------------------------------------------------------------------------------


WRONG = {
    "raises": ("1 / 0", r"app.py, line 6: ZeroDivisionError: division by zero \(user 0, day 1\)"),
    "an unknown metric": ("telemetry.record('dork', 1)", "app.py, line 6: ValueError: .*'dork'.*did you mean dark"),
    "a wrong value": (
        "telemetry.record('unit', 'miles')",
        "line 6: ValueError: .* must be one of the 2 declared",
    ),
    "exits": ("raise SystemExit('no config')", r"app.py ended with 'no config' \(user 0, day 1\)$"),
    "complains and exits": (
        "import sys; print('no file x\\n', file=sys.stderr); sys.exit(2)",
        r"app.py ended with 2 \(user 0, day 1\): no file x$",
    ),
    "no registry": ("Client('nope.toml')", "app.py, line 6: FileNotFoundError: .*looked for /.*/nope.toml"),
}


@pytest.mark.parametrize(("line", "words"), WRONG.values(), ids=WRONG)
def test_what_an_app_raises_is_told_with_its_line(folder: Path, line: str, words: str) -> None:
    with pytest.raises(AppFailed, match=words):
        try_out(plan_of(folder, f"{START}def rehearse():\n    {line}\n"))


def test_a_file_that_cannot_be_run_is_refused(folder: Path) -> None:
    with pytest.raises(Invalid, match=r"APP.py must be a Python file, got nope.py, which is not there \(looked in /"):
        find_app(Path("nope.py"), None, ())
    (folder / "app.py").write_text("def main(:\n")
    with pytest.raises(Invalid, match=r"app.py, line 1: "):
        find_app(folder / "app.py", None, ())
    (folder / "metrics.toml").write_text("expires = 2028-01-01\n")
    with pytest.raises(Invalid, match=r"APP.py must be a Python file, got metrics.toml: .*metrics.toml, line 1: "):
        find_app(folder / "metrics.toml", None, ())
    (folder / "app.py").write_text("def main(): pass\ndef rehearse(): pass\n")
    with pytest.raises(Invalid, match=r"--call must be a function of app.py, got 'man'; it has main, rehearse"):
        find_app(folder / "app.py", "man", ())
    with pytest.raises(Invalid, match=r"--arguments are for an app that is run as a script, but main\(\) is called"):
        find_app(folder / "app.py", "main", ("x",))
    assert find_app(folder / "app.py", None, ()).function == "rehearse"


def rehearsed(folder: Path, *words: object, status: int = 0) -> str:
    """The real command, from beginning to end."""
    done = forked.run(
        ["rehearse", *map(str, words)],
        ("hubbub.simulations.rehearse.command", "hubbub.collector.serve"),
        cwd=folder,
        env=clean_environment(HOME=str(folder)),
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout


def tried(plan: Plan) -> Future[RehearsalTotals]:
    future: Future[RehearsalTotals] = Future()
    future.set_result(try_out(plan))
    return future


def test_an_app_that_asks_or_records_nothing_is_told_so(folder: Path) -> None:
    plan = plan_of(folder, "print('hello')\n")
    with pytest.raises(Invalid, match=r"app.py, run as a script, made no hubbub.client.Client, so there is"):
        _learn(plan, tried(plan))
    plan = plan_of(folder, START + START.replace("metrics.toml", "other.toml") + "def rehearse():\n    pass\n")
    (folder / "other.toml").write_text(METRICS.replace("org.example.rehearsed", "org.example.other"))
    with pytest.raises(Invalid, match=r"must ask by one registry in a rehearsal, got org.example.other, org.ex"):
        _learn(plan, tried(plan))
    plan = plan_of(folder, START)
    words = "app.py recorded nothing in 1 run, and org.example.rehearsed asks dark, unit, page: does it call"
    with pytest.raises(Invalid, match=words):
        _check(plan, Registry.parse(_learn(plan, tried(plan)).source), try_out(plan))


def test_limits_are_told_with_their_values(folder: Path) -> None:
    (folder / "app.py").write_text(START + USE)
    said = rehearsed(folder, "app.py", "--installs", 0, "--days", 29, status=2)
    assert said.splitlines() == [
        "hubbub rehearse: --installs must be in [1, 100000], got 0",
        "hubbub rehearse: --days must be in [1, 28], got 29",
    ]


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_example_app_is_rehearsed_as_it_is(tmp_path: Path) -> None:
    """A command-line tool of click, with segments, a count and a set: nothing of it was written for this."""
    shutil.copytree(ROOT / "examples" / "apps" / "count_words", tmp_path / "app")
    (tmp_path / "text.txt").write_text("some words\n")
    said = rehearsed(
        tmp_path, "app/count_words.py", "--arguments", "text.txt --unit lines --total", "--installs", 6, "--days", 3,
        "--seed", 1, "--processes", 1, "--once",
    )  # fmt: skip
    assert "6 installs of org.example.count-words live through 3 days." in said
    assert "count_words.py ran 18 times and recorded 54 values; 54 reports were made, 54 counted." in said
    assert [line.split()[0] for line in said.splitlines() if line.startswith("  ")] == ["unit", "files", "features"]


def test_the_dashboard_is_shown_until_ctrl_c_and_nothing_is_left(folder: Path) -> None:
    (folder / "app.py").write_text(START + USE)
    words = ["rehearse", "app.py", "--installs", "4", "--days", "2", "--processes", "1", "--no-browser"]
    environ = clean_environment(HOME=str(folder), TMPDIR=str(folder / "tmp"), PYTHONUNBUFFERED="1")
    (folder / "tmp").mkdir()
    with interruptible([HUBBUB, *words[:1], folder / "app.py", *words[2:]], environ) as process:
        assert process.stdout
        lines = []
        while not lines or "until you press Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1] or process.poll() is None, process.communicate()
        said = "".join(lines)
        url = re.search(r"The dashboard is on (\S+)", said)
        assert url, said
        page = urllib.request.urlopen(url[1], timeout=PATIENCE).read().decode()
        assert "org.example.rehearsed" in page or "dark" in page
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert list((folder / "tmp").iterdir()) == []


def test_an_app_that_never_ends_is_told_of_and_ends_with_ctrl_c(folder: Path, capsys) -> None:
    """Only the command itself is interrupted, not the processes it started: those would go on for ever."""
    source = START + "from time import sleep\nPath(__file__).with_name('runs').touch()\nwhile True:\n    sleep(1)\n"
    plan = plan_of(folder, source)
    _patient(plan, Future(), 0.0)
    assert (
        "app.py has been running for 0 s. If it goes on until it is stopped, as a server does"
        in capsys.readouterr().err
    )
    (folder / "tmp").mkdir()
    environ = clean_environment(HOME=str(folder), TMPDIR=str(folder / "tmp"))
    with interruptible([HUBBUB, "rehearse", folder / "app.py", "--processes", "1", "--no-browser"], environ) as process:
        while not (folder / "runs").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert list((folder / "tmp").iterdir()) == []
