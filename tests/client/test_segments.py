"""Segments on the device: which one a message belongs to, and that nothing else depends on it."""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
from contextlib import closing

import pytest

from hubbub.client import Registry
from hubbub.client.build_facts import this_build, this_platform
from hubbub.client.state import FILE
from tests.client.install import Install, reports_in
from tests.client.processes import hubbub
from tests.client.registries import metric, registry

TWO = 'platform = ["linux", "macos", "windows"]\nrelease = ["2.0", "2.1"]'
MORE = 'platform = ["linux", "macos", "windows"]\nrelease = ["2.1", "2.2"]'
ASKS = (metric("dark_theme"), metric("size", "mean", max_values=2), metric("page", "string", max_values=3))


def asking(segments: str = TWO) -> Registry:
    return registry(*ASKS, segments=segments)


def sent_in(install: Install, *known: Registry) -> list[dict[str, str]]:
    """The segment of each message, in order; all its reports have the same."""
    found: dict[int, set[tuple[tuple[str, str], ...]]] = {}
    for report in install.arrived(*known):
        found.setdefault(report.epoch, set()).add(report.metric.segment)
    assert all(len(segments) == 1 for segments in found.values())
    return [dict(*segments) for _, segments in sorted(found.items())]


def a_day(install: Install, asks: Registry, **segments: str) -> None:
    """The app runs once, as this build, and sends what is due; then a day passes."""
    client = install.client(asks, segments=segments)
    client.record("dark_theme", True)
    client.record("page", "example.org")
    client.flush()
    client.close()
    install.asleep(1)


# --- which segment a build is in --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "name"), [("linux", "linux"), ("darwin", "macos"), ("win32", "windows"), ("freebsd14", "freebsd14")]
)
def test_the_platform_is_found_out(system: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert this_platform() == name
    known = name if name != "freebsd14" else "other"
    assert dict(this_build(asking().segments, {"release": "2.1"}).segment) == {"platform": known, "release": "2.1"}


def test_the_app_may_say_its_platform_itself() -> None:
    build = this_build(asking().segments, {"platform": "windows", "release": "other"})
    assert (dict(build.segment), build.undeclared) == ({"platform": "windows", "release": "other"}, ())


def test_a_value_that_is_not_declared_counts_as_other_and_is_said_once(install: Install, caplog) -> None:
    with caplog.at_level(logging.WARNING, "hubbub"):
        client = install.agreed(asking(), segments={"release": "3.0"})
        install.days(1)
        client.flush()
    said = [record.message for record in caplog.records]
    assert said == ["segments: release must be one of 2.0, 2.1 to be told apart, got '3.0'; it counts as \"other\""]
    assert sent_in(install) == [{"platform": this_platform(), "release": "other"}]


def test_a_strict_client_refuses_what_is_not_declared(install: Install) -> None:
    with pytest.raises(ValueError, match=r"release must be one of 2\.0, 2\.1 to be told apart, got nothing"):
        install.client(asking(), strict=True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"relase": "2.1"}, "segments: relase is not a key that is known here; did you mean release?"),
        ({"release": 2.1}, "segments: release must be a text, got 2.1"),
    ],
)
def test_a_wrong_key_or_type_is_refused(install: Install, given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        install.client(asking(), segments=given)
    assert not install.directory.exists()


def test_segments_that_no_registry_asks_for_are_refused(install: Install) -> None:
    with pytest.raises(ValueError, match=r"segments must be left out where metrics.toml has no \[segments\], got 'rel"):
        install.client(registry(metric("theme")), segments={"release": "2.1"})


# --- epochs, upgrades, new registries ---------------------------------------------------------------------------------


def test_a_message_says_the_build_that_opened_its_epoch(install: Install) -> None:
    """Upgraded at noon: that day is still the old release's, with all that was recorded; the next is the new one's."""
    asks = asking()
    install.agreed(asks, segments={"release": "2.0"}).close()
    old = install.client(asks, segments={"release": "2.0"})
    old.record("dark_theme", True)
    old.close()
    install.now += 3600
    new = install.client(asks, segments={"release": "2.1"})
    new.record("page", "example.org")
    install.days(2)
    new.flush()
    platform = this_platform()
    assert sent_in(install) == [{"platform": platform, "release": "2.0"}, {"platform": platform, "release": "2.1"}]
    assert (new.status().counts["made"], new.status().counts["absent"]) == (6, 4)


def test_an_upgrade_draws_nothing_anew_and_spends_nothing(install: Install) -> None:
    asks = asking()
    install.agreed(asks, segments={"release": "2.0"}).close()
    a_day(install, asks, release="2.0")
    a_day(install, asks, release="2.0")
    before = rows_of(install, "memos"), rows_of(install, "ledger")
    a_day(install, asks, release="2.1")
    a_day(install, asks, release="2.1")
    assert (rows_of(install, "memos"), rows_of(install, "ledger")) == before
    assert [segment["release"] for segment in sent_in(install)] == ["2.0", "2.0", "2.1"]


def test_a_registry_that_adds_a_release_asks_nobody_anew_and_loses_nothing(install: Install) -> None:
    """In mid-epoch: the day was opened as 2.0, which the new registry no longer lists, so that it counts as other."""
    install.agreed(asking(TWO), segments={"release": "2.0"}).close()
    client = install.client(asking(TWO), segments={"release": "2.0"})
    client.record("dark_theme", True)
    client.close()
    upgraded = install.client(asking(MORE), segments={"release": "2.2"})
    assert upgraded.mode == "on"
    install.days(2)
    upgraded.flush()
    assert [segment["release"] for segment in sent_in(install)] == ["other", "2.2"]
    assert upgraded.status().counts["absent"] == 5


def test_a_new_key_asks_anew_and_what_was_not_sent_is_dropped(install: Install) -> None:
    without = registry(*ASKS)
    install.agreed(without).close()
    client = install.client(without)
    client.record("dark_theme", True)
    client.close()
    upgraded = install.client(asking(), segments={"release": "2.1"})
    assert upgraded.mode == "local"
    assert "messages say which platform this is" in upgraded.status().rule
    upgraded.consent(True)
    install.days(3)
    upgraded.flush()
    assert {segment["release"] for segment in sent_in(install)} == {"2.1"}
    assert [report.metric.name for report in install.arrived()].count("dark_theme") == 2


def test_a_key_that_is_gone_is_no_longer_sent(install: Install) -> None:
    install.agreed(asking(), segments={"release": "2.0"}).close()
    client = install.client(asking('platform = ["linux", "macos", "windows"]'))
    install.days(1)
    client.flush()
    assert sent_in(install) == [{"platform": this_platform()}]


def test_too_many_groups_are_not_asked(install: Install) -> None:
    """128 cohorts and 36 segments are more than 2**12 groups: the metric finds no room, as with cohorts alone."""
    wide = metric("page", "string", num_cohorts=128)
    first = registry(wide)
    client = install.agreed(first)
    client.close()
    segments = 'a = ["1", "2", "3", "4", "5"]\nb = ["1", "2", "3", "4", "5"]'
    narrow = registry(metric("dark_theme"), segments=segments)
    client = install.client(narrow, segments={"a": "1", "b": "1"})
    client.consent(True)
    install.days(2)
    client.flush()
    assert client.status().groups == 128 * 36
    assert [row[0] for row in rows_of(install, "ledger")] == [first["page"].metric_hash]


def test_what_is_sent_differs_by_segment_in_nothing_but_the_hashes(tmp_path, environment, server) -> None:
    """Two installs with the same chance and the same answers, each in a segment of its own, one of them upgraded: the
    same bits, groups, moments and lengths. So the laws are equal, too."""
    messages = []
    for name, releases in (("one", ("2.0", "2.0", "2.0")), ("two", ("2.1", "2.1", "other"))):
        before = len(server.bodies)
        install = Install(tmp_path / name, server)
        install.agreed(asking(), segments={"release": releases[0]}).close()
        for value, release in zip((True, False, True), releases, strict=True):
            client = install.client(asking(), segments={"release": release})
            client.record("dark_theme", value)
            client.record("size", 20 if value else 3)
            client.record("page", f"https://{value}.example")
            client.flush()
            client.close()
            install.asleep(1)
        install.client(asking(), segments={"release": releases[-1]}).flush()
        install.close()
        bodies = server.bodies[before:]
        reports = reports_in(bodies, asking())
        messages.append(
            (
                [(report.metric.name, report.epoch, report.cohort, report.bits) for report in reports],
                [len(body) for body in bodies],
                {dict(report.metric.segment)["release"] for report in reports},
            )
        )
    (ours, our_sizes, our_releases), (theirs, their_sizes, their_releases) = messages
    assert ours == theirs
    assert our_sizes == their_sizes
    assert len(ours) == 9
    assert (our_releases, their_releases) == ({"2.0"}, {"2.1", "other"})


# --- what the person sees ---------------------------------------------------------------------------------------------


def test_status_and_preview_show_the_segment(install: Install) -> None:
    client = install.agreed(asking(), segments={"release": "2.1"})
    client.record("dark_theme", True)
    install.days(1)
    client.record("dark_theme", True)
    segment = {"platform": this_platform(), "release": "2.1"}
    assert client.status().segment == segment
    assert client.status().to_json()["segment"] == segment
    waiting, making = client.preview()
    assert (waiting.segment, making.segment) == (segment, segment)
    assert len(waiting.reports) == 3
    client.close()
    printed = hubbub("status", "--state", str(install.directory)).stdout
    assert "said as it is   release: 2.1" in printed
    assert "said as it is: platform " in hubbub("preview", "--state", str(install.directory)).stdout
    shown = json.loads(hubbub("preview", "--state", str(install.directory), "--json").stdout)
    assert [message["segment"] for message in shown] == [segment, segment]


def test_before_a_yes_the_preview_shows_what_would_be_said(install: Install) -> None:
    client = install.client(asking(), segments={"release": "2.1"})
    assert {message.segment["release"] for message in client.preview()} == {"2.1"}


def rows_of(install: Install, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(install.directory / FILE)) as db:
        return db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # a name of ours
