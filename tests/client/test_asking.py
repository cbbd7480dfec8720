"""When an app should ask, how it may ask on a terminal, and the words that programs may rely on."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from hubbub.client import Client
from hubbub.client.consent import ASK, MODES
from hubbub.client.vocabulary import Mode, Reason
from hubbub.command.main import main
from hubbub.protocol.label import short
from tests.client.install import Install
from tests.client.processes import hubbub
from tests.client.registries import metric, registry

MORE = registry(metric("dark_theme"), metric("size", "mean"))


def test_nobody_was_asked_and_then_somebody_was(install: Install) -> None:
    client = install.client()
    assert (client.should_ask, client.reason) == (True, "not_asked")
    client.consent(False)
    assert (client.should_ask, client.reason) == (False, "declined")
    client.consent(True)
    assert (client.should_ask, client.reason) == (False, "agreed")
    client.forget()
    assert (client.should_ask, client.reason) == (False, "declined")


def test_a_registry_that_asks_more_makes_it_true_again(install: Install) -> None:
    install.agreed().close()
    client = install.client(MORE)
    assert (client.should_ask, client.reason) == (True, "asks_more")
    client.consent(True)
    assert (client.should_ask, client.reason) == (False, "agreed")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"environ": {"HUBBUB_MODE": "on", "DO_NOT_TRACK": "1"}}, "do_not_track"),
        ({"environ": {"HUBBUB_MODE": "off"}}, "environment"),
        ({"environ": {"HUBBUB_MODE": "sometimes"}}, "environment"),
        ({"environ": {"HUBBUB_MODE": "local"}}, "not_asked"),
        ({"environ": {}}, "not_asked"),  # this is a test run
        ({"endpoint": None}, "not_asked"),
        ({"endpoint": "https://elsewhere.example"}, "not_asked"),
    ],
)
def test_nobody_is_asked_where_a_yes_would_not_count(install: Install, options: dict, reason: str) -> None:
    client = install.client(**options)
    assert (client.should_ask, client.reason) == (False, reason)
    assert client.ask(prompt=pytest.fail) is None


def test_after_a_yes_the_endpoint_and_the_test_run_are_the_reason(install: Install) -> None:
    install.agreed().close()
    assert install.client(endpoint=None).reason == "no_endpoint"
    assert install.client(endpoint="https://elsewhere.example").reason == "wrong_endpoint"
    assert install.client(environ={}).reason == "test_run"


def test_every_reason_is_one_of_those_declared() -> None:
    assert get_args(Mode) == MODES
    assert set(ASK) <= set(get_args(Reason))
    assert set(get_args(Reason)) >= {"agreed", "declined", "not_asked", "asks_more", "no_place", "busy", "unusable"}


@pytest.mark.parametrize(
    ("typed", "answer", "mode"), [("y", True, "on"), (" YES ", True, "on"), ("", False, "off"), ("no", False, "off")]
)
def test_an_answer_on_a_terminal_is_kept(install: Install, typed: str, answer: bool, mode: str) -> None:
    shown = []

    def prompt(text: str) -> str:
        shown.append(text)
        return typed

    client = install.client()
    assert client.ask(prompt=prompt) is answer
    assert client.mode == mode
    assert shown == [f"{short(install.registry)}\n\nMay it? [y/N] "]
    assert client.ask(prompt=pytest.fail) is None, "nobody is asked twice"


def test_without_a_terminal_nobody_is_asked(install: Install) -> None:
    client = install.client()
    assert client.ask() is None
    assert client.should_ask


def test_who_does_not_answer_is_asked_again_next_time(install: Install) -> None:
    def closed(text: str) -> str:
        raise EOFError

    client = install.client()
    assert client.ask(prompt=closed) is None
    assert client.should_ask


def test_the_short_text_says_what_to_whom_how_sure_and_how_to_take_it_back() -> None:
    asked = registry(metric("dark_theme"), metric("page", "string"), segments='platform = ["linux"]')
    text = " ".join(short(asked).split())
    for words in (
        "org.example.editor would like to send statistics to",
        "dark theme, page.",
        "It also says, as it is: platform.",
        "up to 95.3 % sure of it",
        "hubbub preview, off or forget --app org.example.editor",
        "/privacy",
    ):
        assert words in text


# --- every app of a machine -------------------------------------------------------------------------------------------


def kept(tmp_path, *apps: str) -> dict[str, str]:
    """An environment in which these apps were agreed to."""
    environ = {"HUBBUB_STATE": str(tmp_path), "HUBBUB_MODE": "on"}
    for app in apps:
        with Client(registry(metric("dark_theme"), app=app), endpoint="http://127.0.0.1:9", environ=environ) as client:
            client.consent(True)
    return environ


def test_status_without_an_app_shows_all_and_off_can_mean_all(tmp_path) -> None:
    environ = kept(tmp_path, "org.example.one", "org.example.two")
    (tmp_path / "not-an-app").mkdir()
    (tmp_path / "stray.txt").write_text("x")
    told = hubbub("status", **environ).stdout
    assert [line.split(":")[0] for line in told.splitlines()[::2]] == ["org.example.one", "org.example.two"]
    assert [status["mode"] for status in json.loads(hubbub("status", "--json", **environ).stdout)] == ["on", "on"]
    done = hubbub("off", "--all", **environ).stdout
    assert "org.example.two: off." in done
    assert {status["mode"] for status in json.loads(hubbub("status", "--all", "--json", **environ).stdout)} == {"off"}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_look_at_all_apps_ends_with_0(tmp_path, monkeypatch, form) -> None:
    monkeypatch.setenv("HUBBUB_STATE", kept(tmp_path, "org.example.one")["HUBBUB_STATE"])
    assert main(["status", "--all", *form]) == 0


def test_where_no_app_keeps_anything_it_is_said(tmp_path) -> None:
    environ = {"HUBBUB_STATE": str(tmp_path / "nowhere")}
    assert "No app keeps a state" in hubbub("status", **environ).stdout
    assert "No app keeps a state" in hubbub("off", "--all", **environ).stdout
