"""What the person whose data it is can see and do with the real `hubbub` command, on states that real clients made."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hubbub.client.identity import cohort_of
from tests.client.answering_server import Answer, problem
from tests.client.install import Install
from tests.client.processes import hubbub
from tests.client.registries import metric, registry, source

ASKS = registry(metric("dark_theme"), metric("page", "string", every="week"))


@pytest.fixture
def lived(install: Install) -> Install:
    """An install with two messages that wait and a report being collected."""
    install.server.answer = lambda body: Answer(500)
    with install.agreed(ASKS) as client:
        for _ in range(2):
            client.record("dark_theme", True)
            client.record("dark_theme", False)
            install.days(1)
        client.flush()
        install.days(5)
        client.record("page", "example.org")
    return install


def said(install: Install, *words: object, **environment: str) -> str:
    done = hubbub(*words, "--state", install.directory, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def as_json(install: Install, *words: object, **environment: str):
    return json.loads(said(install, *words, "--json", **environment))


# --- status ---------------------------------------------------------------------------------------------------------


def test_status_tells_mode_reason_place_and_what_was_spent(lived: Install) -> None:
    lines = said(lived, "status").splitlines()
    assert lines[0] == "org.example.editor: on, because you agreed"
    assert f"  state           {lived.directory}" in lines
    assert "  epsilon spent   9 of at most 60" in [line.replace("8.99999", "9") for line in lines]
    assert any(line.startswith("  waiting         ") and "messages, to be sent from 2026-11-" in line for line in lines)
    assert "  ignored later   2" in lines


def test_status_says_why_a_message_was_not_taken(install: Install) -> None:
    with install.agreed(ASKS) as client:
        for answer in (Answer(500), problem("rate-limited"), problem("epoch-closed")):
            install.server.answer = lambda body, answer=answer: answer
            client.record("dark_theme", True)
            install.days(1)
            client.flush()
            install.days(1)
    lines = said(install, "status").splitlines()
    assert "  not taken       1 attempt, to be made again: status 500" in lines
    limited = "rate-limited (too many messages came from this network address at once)"
    assert f"  not taken       1 attempt, to be made again: {limited}" in lines
    closed = "epoch-closed (its day, week or month is no longer counted)"
    assert any(line.endswith(f" reports, for good: {closed}") for line in lines if line.startswith("  refused")), lines


def test_status_in_json_tells_the_same_as_the_client(lived: Install) -> None:
    told = as_json(lived, "status", HUBBUB_MODE="on")
    status = lived.client().status()
    assert status.test  # its clock is the test's
    assert told == json.loads(json.dumps(status.replace(test="").to_json()))  # which only a client knows
    assert told["mode"] == "on"
    assert told["failures"] == 1


@pytest.mark.parametrize(
    ("given", "first", "marked"),
    [
        ({}, "on, because you agreed", "  * on     you agreed"),
        (
            {"DO_NOT_TRACK": "1"},
            "off, because the environment variable DO_NOT_TRACK is set",
            "  * off    the environment variable DO_NOT_TRACK is set",
        ),
        (
            {"HUBBUB_MODE": "local", "DO_NOT_TRACK": "0"},
            "local, because the environment variable HUBBUB_MODE is 'local'",
            "  * local  the environment variable HUBBUB_MODE is 'local'",
        ),
        (
            {"CI": "true"},
            "local, because this looks like a test run or CI, and HUBBUB_MODE is not 'on'",
            "  * local  this looks like a test run or CI, and HUBBUB_MODE is not 'on'",
        ),
    ],
    ids=["nobody objects", "DO_NOT_TRACK", "HUBBUB_MODE", "CI"],
)
def test_status_explains_which_rule_decided(lived: Install, given, first: str, marked: str) -> None:
    lines = said(lived, "status", "--explain", **given).splitlines()
    assert lines[0] == f"org.example.editor: {first}"
    assert marked in lines
    assert [line for line in lines if line.startswith("  * ")] == [marked]
    if given:
        assert "    on     you agreed" in lines


def test_status_of_an_app_that_never_ran_makes_nothing(tmp_path: Path) -> None:
    done = hubbub("status", "--app", "org.example.other", HUBBUB_STATE=str(tmp_path / "states"))
    assert done.returncode == 0
    first, second, *_ = done.stdout.splitlines()
    assert first == "org.example.other: local, because nobody has been asked yet"
    assert second == "  nothing is kept here by an app called org.example.other"
    assert not (tmp_path / "states").exists()


def test_a_mistyped_app_is_told_from_one_that_is_now_off(lived: Install, tmp_path: Path) -> None:
    place = {"HUBBUB_STATE": str(tmp_path / "states")}
    (tmp_path / "states").mkdir()
    shutil.copytree(lived.directory, tmp_path / "states" / "org.example.editor")
    done = hubbub("off", "--app", "org.example.editr", **place)
    assert done.stdout == (
        "Off before it ever ran: nothing is kept here by an app called org.example.editr; apps that do: "
        "org.example.editor.\n"
    )
    assert "editor" not in hubbub("off", "--app", "org.example.editor", **place).stdout
    explained = hubbub("status", "--explain", **place).stdout.splitlines()
    assert "  * off    you declined" in explained  # of every app, also without --app


def test_status_in_a_container_without_a_directory_says_so(tmp_path: Path) -> None:
    done = hubbub("status", "--app", "org.example.other", container="podman", HOME=str(tmp_path))
    assert done.stdout.splitlines()[0] == (
        "org.example.other: off, because this is a container, and no state directory was given that would outlive it "
        "(HUBBUB_STATE=DIR names one)"
    )


def test_status_names_files_that_were_set_aside(lived: Install) -> None:
    (lived.directory / "state.db").write_bytes(b"no database at all" * 500)
    lines = said(lived, "status").splitlines()
    assert lines[0].startswith(f"{lived.directory.name}: off, because the state was corrupt")
    assert f"  set aside       {lived.directory / 'state.corrupt-1.db'}" in lines


def test_an_app_is_found_by_its_name(lived: Install) -> None:
    named = lived.directory.rename(lived.directory.with_name(lived.registry.app))
    done = hubbub("status", "--app", lived.registry.app, "--json", HUBBUB_STATE=str(named.parent))
    assert json.loads(done.stdout)["mode"] == "on"


# --- preview --------------------------------------------------------------------------------------------------------


def test_preview_shows_every_message_bit_by_bit(lived: Install) -> None:
    lines = said(lived, "preview").splitlines()
    assert lines[0].startswith("2026-11-17 (day): one message of 50 bytes, leaves from 2026-11-18 00:00 UTC")
    assert any(line.endswith("collecting; leaves after the week is over") for line in lines)
    page = [line for line in lines if line.startswith("  page ")]
    assert len(page[0].split("bits ")[1]) == 16


def test_preview_in_json_holds_the_very_bytes_that_leave(lived: Install) -> None:
    told = [message for message in as_json(lived, "preview") if message["body"]]
    lived.server.answer = lambda body: Answer(500)
    lived.days(1)
    lived.client().flush()
    assert lived.server.bodies[-1].hex() in {message["body"] for message in told}


def test_preview_of_nothing_says_so(tmp_path: Path) -> None:
    done = hubbub("preview", "--state", tmp_path / "nothing")
    assert done.returncode == 0
    assert done.stdout == "Nothing waits to be sent. Telemetry is local, because nobody has been asked yet.\n"


# --- on, off, forget ------------------------------------------------------------------------------------------------


def test_on_shows_what_is_asked_and_agrees_to_it(install: Install, tmp_path: Path) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(source(metric("dark_theme", why='"Decide about themes"')))
    text = said(install, "on", "--metrics", toml)
    assert "Decide about themes" in text
    assert text.splitlines()[-1].startswith("On. Reporting starts with the next day, week or month.")
    install.registry = type(install.registry).load(toml)
    assert install.client().mode == "on"


def test_on_without_a_known_registry_asks_for_it(tmp_path: Path) -> None:
    done = hubbub("on", "--state", tmp_path / "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("hubbub on: --metrics must be given")
    assert not (tmp_path / "nothing").exists()


def test_on_refuses_the_registry_of_another_app(tmp_path: Path) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(source(metric("dark_theme"), app="other"))
    done = hubbub("on", "--app", "editor", "--metrics", toml, HUBBUB_STATE=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "hubbub on: --metrics must be of the app 'editor', got 'other'\n")


def test_on_tells_all_mistakes_of_a_registry(tmp_path: Path) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text('app = "Editor"\nlifetime_epsilon = 0\n[metrics.x]\nkind = "flog"\n')
    done = hubbub("on", "--state", tmp_path / "state", "--metrics", toml)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) >= 3
    assert all(line.startswith(f"hubbub on: {toml}: ") for line in done.stderr.splitlines())
    assert not (tmp_path / "state").exists()


def test_on_says_when_something_else_keeps_it_off(lived: Install) -> None:
    text = said(lived, "on", DO_NOT_TRACK="1")
    last = "You agreed, but here it stays off, because the environment variable DO_NOT_TRACK is set."
    assert text.splitlines()[-1] == last


def test_off_deletes_what_waits_and_on_comes_back_without_a_file(lived: Install) -> None:
    assert said(lived, "off") == "Off. What waited to be sent is deleted.\n"
    told = as_json(lived, "status")
    assert (told["mode"], told["rule"], told["batches_waiting"]) == ("off", "you declined", 0)
    assert as_json(lived, "on")["mode"] == "on"


def test_off_before_the_app_ever_ran_is_kept(install: Install) -> None:
    assert as_json(install, "off")["mode"] == "off"
    assert (install.client().mode, install.client().status().rule) == ("off", "you declined")


def test_forget_tells_the_one_number_that_is_kept(lived: Install) -> None:
    assert as_json(lived, "status")["epsilon_spent"] == pytest.approx(9, abs=1e-4)
    text = said(lived, "forget")
    assert text == (
        "Forgotten: identity, answers and everything unsent. Off. One number is kept: epsilon 12 counts as spent.\n"
    )
    told = as_json(lived, "forget")
    assert (told["mode"], told["counts"]) == ("off", {})
    assert told["epsilon_spent"] == pytest.approx(12, abs=1e-4)  # all that was set aside for what was asked


def test_forget_of_nothing_makes_nothing(tmp_path: Path) -> None:
    done = hubbub("forget", "--state", tmp_path / "nothing")
    assert (done.returncode, done.stdout) == (0, f"There is nothing to forget in {tmp_path / 'nothing'}.\n")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("command", ["status", "preview", "on", "off", "forget"])
def test_every_command_wants_an_app_or_a_directory_and_shows_an_example(command: str) -> None:
    if command != "status":  # which shows all of them
        done = hubbub(command)
        assert done.returncode == 2
        assert re.search("one of the arguments --app --state( --all)? is required", done.stderr)
    shown = hubbub(command, "--help")
    assert shown.returncode == 0
    assert f"example:\n  hubbub {command} --app org.example.editor" in shown.stdout


@pytest.mark.parametrize("command", ["status", "preview", "on", "off", "forget"])
def test_an_app_name_cannot_lead_out_of_its_place(command: str, tmp_path: Path) -> None:
    done = hubbub(command, "--app", "../../etc", HUBBUB_STATE=str(tmp_path / "states"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"hubbub {command}: --app must match")
    assert done.stderr.endswith("got '../../etc'\n")
    assert not (tmp_path / "states").exists()


@pytest.mark.parametrize("command", ["preview", "on", "off", "forget"])
def test_a_state_of_another_version_is_told_in_words(lived: Install, command: str) -> None:
    with sqlite3.connect(lived.directory / "state.db") as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    done = hubbub(command, "--state", lived.directory)
    assert done.returncode == 2
    assert done.stderr == (
        f"hubbub {command}: {lived.directory / 'state.db'} must have schema 4, got 7: another release of hubbub wrote "
        "it. It is left as it is, and nothing is sent. Use the release of the app that wrote it, or delete the file to "
        "start anew\n"
    )


def test_status_of_a_state_of_another_version_says_what_can_be_done(lived: Install) -> None:
    with sqlite3.connect(lived.directory / "state.db") as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    first = said(lived, "status").splitlines()[0]
    assert first.startswith(f"{lived.directory.name}: off, because {lived.directory / 'state.db'} must have schema 4")
    assert first.endswith("Use the release of the app that wrote it, or delete the file to start anew")


def test_no_command_connects_to_anything(lived: Install) -> None:
    before = lived.server.connections
    for words in (["status"], ["preview"], ["off"], ["on"], ["forget"]):
        said(lived, *words)
    assert lived.server.connections == before


# --- peek -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.toml"
    kinds = ("flag", "choice", "string", "mean", "histogram", "range")
    path.write_text(source(*(metric(f"a_{kind}", kind) for kind in kinds)))
    return path


@pytest.mark.parametrize(
    ("name", "value", "width"),
    [
        ("a_flag", "true", 1),
        ("a_choice", "green", 4),
        ("a_string", "https://example.org", 64),
        ("a_mean", "12.5", 1),
        ("a_histogram", "55", 2),
        ("a_range", "77", 4),
    ],
)
def test_peek_shows_mask_memo_and_three_reports(toml: Path, name: str, value: str, width: int) -> None:
    done = hubbub("peek", name, value, "--metrics", toml, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["cohort"], told["memo_kept"]) == (0, False)
    rows = [told[row] for row in ("mask", "memo", "report 1", "report 2", "report 3")]
    assert {len(row) for row in rows} == {width}
    words = hubbub("peek", name, value, "--metrics", toml).stdout
    assert value in words
    assert "this is all that leaves" in words


def test_peek_shows_one_report_of_what_is_asked_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(source(metric("a_choice", "choice", every="once")))
    told = json.loads(hubbub("peek", "a_choice", "green", "--metrics", path, "--json").stdout)
    assert set(told) == {"metric", "cohort", "memo_kept", "mask", "memo", "report"}
    words = hubbub("peek", "a_choice", "green", "--metrics", path).stdout
    assert words.endswith(
        "One report in the life of an install: this is all that leaves. It tells at most epsilon 1.\n"
    )


def test_peek_at_an_install_shows_its_own_cohort_and_memo(lived: Install) -> None:
    """The same memo each time, for the answer it has given; for another answer, none is kept."""
    before = (lived.directory / "state.db").read_bytes()
    with closing(sqlite3.connect(lived.directory / "state.db")) as db:
        (number,) = db.execute("SELECT value FROM meta WHERE name = 'number'").fetchone()
    first, second = (as_json(lived, "peek", "page", "example.org") for _ in range(2))
    assert first["memo_kept"]
    assert first["memo"] == second["memo"]
    assert first["cohort"] == cohort_of(number, ASKS["page"].shape.num_cohorts)
    assert not as_json(lived, "peek", "page", "elsewhere.org")["memo_kept"]
    assert (lived.directory / "state.db").read_bytes() == before


def test_peek_without_a_registry_says_what_is_missing(tmp_path: Path) -> None:
    done = hubbub("peek", "page", "x", "--state", tmp_path / "nobody")
    message = "hubbub peek: --metrics must be given: nothing is known yet of what this app asks\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_peek_leaves_nothing_behind(toml: Path, tmp_path: Path) -> None:
    hubbub(
        "peek",
        "a_string",
        "example.org",
        "--metrics",
        toml,
        HOME=str(tmp_path / "home"),
        HUBBUB_STATE=str(tmp_path / "states"),
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.toml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["a_flog", "true"],
            "METRIC must be one of a_flag, a_choice, a_string, a_mean, a_histogram, a_range, got 'a_flog'",
        ),
        (["a_flag", "maybe"], "VALUE must be true or false, got 'maybe'"),
        (["a_mean", "long"], "VALUE must be a number, got 'long'"),
        (
            ["a_mean", "nan"],
            "VALUE must be a finite number, got NaN or an infinity; it asks for a number from 0 to 30, for its average",
        ),
        (
            ["a_choice", "pink"],
            "VALUE must be one of the 3 declared choices, got an undeclared str; "
            "it asks for one of 3 choices (red, green, blue)",
        ),
        (["a_string", "x", "--cohort", "4"], "--cohort must be in [0, 3], got 4"),
    ],
)
def test_peek_says_what_is_wrong(toml: Path, words: list[str], message: str) -> None:
    done = hubbub("peek", *words, "--metrics", toml)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hubbub peek: {message}\n")


def test_a_registry_that_is_missing_is_named() -> None:
    done = hubbub("peek", "x", "y", "--metrics", "/no/such/metrics.toml")
    assert (done.returncode, done.stderr) == (2, "hubbub peek: /no/such/metrics.toml: No such file or directory\n")
