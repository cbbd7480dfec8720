"""Nobody reports without having said so, and whoever said so can take it back."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from hubbub.client import Client, Registry
from hubbub.client.consent import Decision, decisions, is_test_run, most_restrictive, sent_for_a_test
from tests.client.install import Install
from tests.client.processes import hubbub, run_python, start_python
from tests.client.registries import metric, registry, source
from tests.systems import needs_posix_errors

TRACK = {None: False, "": False, "0": False, "false": False, "FALSE": False, "1": True, "yes": True, "no": True}
MODES = {None: None, "": None, "on": "on", "local": "local", "off": "off", "ON": "off", "maybe": "off"}
ANSWERS = {"none": "local", "yes": "on", "no": "off"}
RUNS = {None: False, "0": False, "true": True}

EVERY_COMBINATION = """
import json, os, sys
from hubbub.client import Client
combinations, directory, registry = json.load(sys.stdin), sys.argv[1], sys.argv[2]
for answer in ("yes", "no"):
    with Client(registry, endpoint="http://127.0.0.1:9", state_dir=f"{directory}/{answer}") as client:
        client.consent(answer == "yes")
found = []
for track, mode, answer, ci in combinations:
    for name, value in (("DO_NOT_TRACK", track), ("HUBBUB_MODE", mode), ("CI", ci)):
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    with Client(registry, endpoint="http://127.0.0.1:9", state_dir=f"{directory}/{answer}") as client:
        found.append([client.mode, client.status().rule])
print(json.dumps(found))
"""


def expected(track: str | None, mode: str | None, answer: str, ci: str | None) -> list[str]:
    """The rules, as the label words them, from the most restrictive to the least; of equals the first."""
    rules = [(ANSWERS[answer], {"none": "asked", "yes": "agreed", "no": "declined"}[answer])]
    if TRACK[track]:
        rules.append(("off", "DO_NOT_TRACK"))
    if MODES[mode]:
        rules.append((MODES[mode], "HUBBUB_MODE"))
    if RUNS[ci] and mode != "on":
        rules.append(("local", "test run or CI"))
    for wanted in ("off", "local", "on"):
        for found, word in rules:
            if found == wanted:
                return [found, word]
    raise AssertionError


def test_the_most_restrictive_of_all_rules_decides_in_every_combination(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(source(metric("dark_theme")))
    combinations = list(product(TRACK, MODES, ANSWERS, RUNS))
    process = start_python(EVERY_COMBINATION, tmp_path, tmp_path / "metrics.toml")
    output, _ = process.communicate(json.dumps(combinations), timeout=60)
    for combination, (mode, rule) in zip(combinations, json.loads(output), strict=True):
        wanted, word = expected(*combination)
        assert mode == wanted, (combination, rule)
        assert word in rule, (combination, rule)


def test_a_wrong_mode_is_off_and_the_rule_names_the_value() -> None:
    decided = most_restrictive(decisions({"HUBBUB_MODE": "On"}, "yes"))
    must = "the environment variable HUBBUB_MODE must be off, local or on, got 'On'"
    assert decided == Decision("off", must, "environment")


@pytest.mark.parametrize(
    ("environ", "modules", "looks_so"),
    [
        ({}, (), False),
        ({}, ("pytest",), True),
        ({"PYTEST_CURRENT_TEST": "test_x"}, (), True),
        ({"CI": "true"}, (), True),
        ({"CI": "false"}, (), False),
        ({"CI": "true", "HUBBUB_MODE": "local"}, ("pytest",), True),
        ({"CI": "true", "HUBBUB_MODE": "on"}, ("pytest",), False),
    ],
)
def test_pytest_and_ci_are_test_runs_unless_the_mode_says_that_it_is_meant(environ, modules, looks_so) -> None:
    assert is_test_run(environ, modules) is looks_so


def test_a_client_under_pytest_is_local_and_says_why(install: Install, environment: pytest.MonkeyPatch) -> None:
    environment.delenv("HUBBUB_MODE")
    client = install.client()
    client.consent(True)
    assert client.mode == "local"
    why = Decision("local", "this looks like a test run or CI, and HUBBUB_MODE is not 'on'", "test_run")
    assert why in client.status().rules
    assert not install.directory.exists()


def test_a_test_run_leaves_the_outbox_of_a_person_who_agreed_as_it_is(install, environment) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.flush(timeout=0)
    environment.delenv("HUBBUB_MODE")
    assert install.client().mode == "local"
    environment.setenv("HUBBUB_MODE", "on")
    assert install.client().status().batches_waiting == 1


@pytest.mark.parametrize(
    ("around", "given", "mode"),
    [
        ({"DO_NOT_TRACK": "1"}, {"HUBBUB_MODE": "on"}, "on"),
        ({"HUBBUB_MODE": "on"}, {"HUBBUB_MODE": "on", "DO_NOT_TRACK": "1"}, "off"),
        ({"HUBBUB_MODE": "on"}, {}, "local"),  # under pytest
    ],
)
def test_an_environment_that_is_given_takes_the_place_of_the_processs_own(
    install: Install, environment: pytest.MonkeyPatch, around: dict, given: dict, mode: str
) -> None:
    install.agreed().close()
    environment.delenv("HUBBUB_MODE")
    for name, value in around.items():
        environment.setenv(name, value)
    assert install.client(environ=given).mode == mode


def test_undecided_stores_nothing_whatever_an_app_does(install: Install) -> None:
    with install.client() as client:
        client.record("dark_theme", True)
        install.days(40)
        client.record("dark_theme", False)
        assert client.flush()
        assert (client.mode, client.status().rule) == ("local", "nobody has been asked yet")
        client.preview()
    assert not install.directory.exists()
    assert install.server.connections == 0


def test_undecided_shows_what_a_message_would_look_like(install: Install) -> None:
    client = install.client(registry(metric("dark_theme"), metric("page", "string", every="week")))
    client.record("page", "example.org")
    day, week = client.preview()
    assert (day.every, day.epoch, [row["metric"] for row in day.reports]) == ("day", "2026-11-16", ["dark_theme"])
    assert (week.every, week.epoch, [row["metric"] for row in week.reports]) == ("week", "2026-W47", ["page"])
    assert len(bytes.fromhex(week.reports[0]["bits"])) == 8
    assert not install.directory.exists()


@pytest.mark.parametrize(("every", "first"), [("day", 1), ("week", 7), ("month", 15)])
def test_after_a_yes_reporting_starts_with_the_next_epoch(install: Install, every: str, first: int) -> None:
    client = install.client(registry(metric("dark_theme", every=every)))
    client.consent(True)
    for day in range(60):
        client.record("dark_theme", True)
        made = client.status().counts.get("made", 0)
        assert (made > 0) == (day >= first), day
        install.days(1)
        client.flush()
    next_epoch = {"day": 20_774, "week": 2969, "month": 683}[every]  # 2026-11-17, 2026-W48, 2026-12
    assert min(report.epoch for report in install.arrived()) == next_epoch


def test_a_yes_lasts_for_later_runs(install: Install) -> None:
    install.agreed().close()
    client = install.client()
    assert (client.mode, client.status().rule) == ("on", "you agreed")


def test_saying_yes_again_changes_nothing(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    client.consent(True)
    install.days(1)
    client.flush()
    assert len(install.arrived()) == 1


def test_a_no_empties_the_outbox_and_what_is_in_the_making(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.record("dark_theme", True)
    assert client.status().batches_waiting == client.status().reports_in_the_making == 1
    client.consent(False)
    status = client.status()
    assert (status.batches_waiting, status.reports_in_the_making, status.mode) == (0, 0, "off")
    client.record("dark_theme", True)
    assert client.flush()
    assert install.server.connections == 0


def test_after_no_and_yes_no_epoch_of_before_is_reported(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    client.consent(False)
    client.consent(True)
    client.record("dark_theme", True)
    install.days(1)
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    assert [report.epoch for report in install.arrived()] == [20_775]


@pytest.mark.parametrize("variable", [{"DO_NOT_TRACK": "1"}, {"HUBBUB_MODE": "off"}, {"HUBBUB_MODE": "local"}], ids=str)
def test_an_environment_that_leaves_on_empties_the_outbox(install: Install, variable: dict[str, str]) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.flush(timeout=0)  # sealed, and no time left to send
    assert client.status().batches_waiting == 1
    client.close()
    script = "import sys; from hubbub.client import Client; Client(sys.argv[1], state_dir=sys.argv[2]).close()"
    path = install.directory.parent / "metrics.toml"
    path.write_text(install.registry.source)
    run_python(script, path, install.directory, **variable)
    assert install.client().status().batches_waiting == 0


def test_an_epoch_that_the_environment_emptied_is_not_reported_again(install: Install) -> None:
    with install.agreed() as client:
        client.record("dark_theme", True)
    install.client(environ={"HUBBUB_MODE": "on", "DO_NOT_TRACK": "1"}).close()
    client = install.client()
    client.record("dark_theme", True)
    assert client.status().counts["not_asked"] == 1
    install.days(1)
    client.record("dark_theme", True)
    install.days(1)
    client.flush()
    assert [report.epoch for report in install.arrived()] == [20_775]  # the day after


def test_a_registry_that_asks_more_lapses_the_yes(install: Install) -> None:
    install.agreed().close()
    client = install.client(registry(metric("dark_theme"), metric("beta", why='"See who tries it"')))
    assert client.mode == "local"
    rule = client.status().rule
    assert rule.startswith("the app asks more than you agreed to, so you must be asked again: beta")
    assert rule.endswith("See who tries it")
    client.consent(True)
    assert client.mode == "on"


def test_a_registry_that_asks_no_more_keeps_the_yes(install: Install) -> None:
    install.agreed(registry(metric("dark_theme"), metric("beta"))).close()
    client = install.client(registry(metric("dark_theme", max_values=1, expires="2080-01-01"), lifetime=50))
    assert client.mode == "on"


def test_a_running_client_obeys_the_off_of_another_process_before_its_next_report(install: Install) -> None:
    client = install.agreed(registry(metric("dark_theme"), metric("beta")))
    client.record("dark_theme", True)
    assert hubbub("off", "--state", install.directory).returncode == 0
    client.record("beta", True)
    status = client.status()
    assert (status.mode, status.rule) == ("off", "you declined")
    assert (status.reports_in_the_making, status.counts["made"]) == (0, 1)


def test_a_running_client_obeys_the_off_of_another_process_before_its_next_send(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    install.days(1)
    client.record("dark_theme", True)
    assert client.status().batches_waiting == 1
    assert hubbub("off", "--state", install.directory).returncode == 0
    client.flush()
    client.close()
    assert install.server.connections == 0


def test_a_client_without_an_endpoint_makes_nothing(install: Install) -> None:
    client = install.agreed(endpoint=None)
    client.record("dark_theme", True)
    assert (client.mode, client.status().rule) == ("local", "the app gave no endpoint to send to")
    assert client.status().reports_in_the_making == 0


RECIPIENT = "https://telemetry.example.org"


@pytest.mark.parametrize(
    ("endpoint", "mode"),
    [
        (RECIPIENT, "on"),
        (f"{RECIPIENT}/", "on"),
        (f"{RECIPIENT}/person-4711", "local"),  # an address for each person would be a name
        (f"{RECIPIENT}:8443", "local"),
        ("https://evil.example.org", "local"),
        ("https://localhost:1@evil.example.org", "local"),
        ("https://localhost.evil.example.org", "local"),
        ("http://localhost:9", "on"),
        ("http://127.0.0.1:9/a", "on"),
        ("http://127.9.9.9:9", "on"),
        ("http://[::1]:9", "on"),
    ],
)
def test_a_yes_is_to_one_recipient_and_its_very_address(install: Install, endpoint: str, mode: str) -> None:
    client = install.agreed(endpoint=endpoint)
    client.record("dark_theme", True)
    status = client.status()
    assert (client.mode, status.reports_in_the_making) == (mode, int(mode == "on"))
    if mode == "local":
        assert status.rule == (f"the app would send to {endpoint}, and messages go to Example ({RECIPIENT}) only")
    is_test = mode == "on" and not endpoint.startswith(RECIPIENT)
    expected = f"messages go to this machine, {endpoint}, and not to Example ({RECIPIENT})"
    assert sent_for_a_test(endpoint, client.registry) == (expected if is_test else "")
    assert status.test == "the app gave the client a clock or chance of its own"


def test_a_status_says_that_messages_go_to_this_machine(tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HUBBUB_MODE", "on")
    with Client(registry(metric("dark_theme")), endpoint="http://127.0.0.1:9", state_dir=tmp_path) as client:
        assert (
            client.status().test == f"messages go to this machine, http://127.0.0.1:9, and not to Example ({RECIPIENT})"
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Decide something", "Sell it"),
        ("somebody@example.org", "anybody@example.net"),
        ('name = "Example"', 'name = "Somebody Else"'),
        (RECIPIENT, "https://collector.example.net"),
    ],
)
def test_another_purpose_asker_or_recipient_asks_again(install: Install, old: str, new: str) -> None:
    install.agreed().close()
    changed = Registry.parse(install.registry.source.replace(old, new))
    client = install.client(changed)
    client.record("dark_theme", True)
    assert client.mode == "local"
    assert client.status().rule.startswith("the app asks more than you agreed to, so you must be asked again: ")
    assert new.removeprefix('name = "').removesuffix('"') in client.status().rule
    assert client.status().reports_in_the_making == 0
    client.consent(True)
    assert client.mode == "on"


@needs_posix_errors
def test_an_answer_that_cannot_be_kept_means_off(install: Install) -> None:
    install.directory.write_text("a file where the directory should be")
    client = install.client()
    client.consent(True)
    assert client.mode == "off"
    assert client.status().rule == f"the answer could not be kept: {install.directory}: File exists"


HOLD_THE_STATE = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held")
time.sleep(float(sys.argv[2]))
"""


def test_a_no_waits_for_a_busy_state(install: Install, environment) -> None:
    environment.setattr("hubbub.client.control.INSISTENCE", 60)  # the other process may be slow to end
    client = install.agreed()
    client.record("dark_theme", True)
    process = start_python(HOLD_THE_STATE, install.directory / "state.db", 0.5)
    assert process.stdout.readline() == "held\n"
    client.consent(False)
    process.communicate()
    assert install.client().status().rule == "you declined"


def test_a_no_that_cannot_be_kept_still_stops_this_client(install: Install, environment) -> None:
    environment.setattr("hubbub.client.control.INSISTENCE", 0.1)
    client = install.agreed()
    process = start_python(HOLD_THE_STATE, install.directory / "state.db", 60)
    assert process.stdout.readline() == "held\n"
    try:
        client.consent(False)
        assert (client.mode, client.status().rule) == ("off", "the answer could not be kept: the state is busy")
    finally:
        process.kill()
        process.communicate()
