"""Lists that grow, on the device: a name is new to a person or not; answers, budget and noise go on all the same."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from hubbub.client import Registry
from hubbub.client.state import FILE
from tests.client.install import Install
from tests.client.registries import metric, registry


def asking(*named: str, reserve: int = 2, choices: str = '["red", "green", "blue"]') -> Registry:
    names = {"named": json.dumps(list(named))} if named else {}
    return registry(metric("colour", "choice", choices=choices, reserve=reserve, max_values=3, **names))


def kept(install: Install) -> tuple[list[tuple], list[tuple]]:
    with closing(sqlite3.connect(next(install.directory.rglob(FILE)))) as db:
        memos = db.execute("SELECT * FROM memos ORDER BY metric_hash, slot").fetchall()
        return memos, db.execute("SELECT metric_hash, slots, micro_epsilon FROM ledger").fetchall()


def test_a_new_name_asks_again_and_takes_nothing_anew(install: Install) -> None:
    client = install.agreed(asking())
    client.record("colour", "green")
    install.days(1)
    client.close()
    before = kept(install)
    named = install.client(asking("teal"))
    assert (named.mode, named.should_ask) == ("local", True)
    named.consent(True)
    assert named.mode == "on"
    install.days(1)
    named.record("colour", "green")
    install.days(1)
    assert kept(install) == before, "the same memo, and nothing charged"
    named.record("colour", "teal")
    install.days(1)
    memos, ledger = kept(install)
    assert len(memos) == len(before[0]) + 1, "a slot of those set aside from the start"
    assert ledger == before[1]
    named.close()
    again = install.client(asking("teal"))
    assert (again.mode, again.should_ask) == ("on", False), "the name is no longer new to this person"
    again.close()
    less = install.client(asking())
    assert less.mode == "on", "what is asked no more needs no yes"


def test_a_name_given_later_counts_where_old_answers_did_not_reach(install: Install) -> None:
    """Before it has a name it is an undeclared choice; afterwards it is told at its own place, under the same hash."""
    client = install.agreed(asking("teal"))
    assert client.record("colour", "cyan") is None
    client.close()
    assert asking()["colour"].metric_hash == asking("teal", "cyan")["colour"].metric_hash


@pytest.mark.parametrize("max_values", [3])
def test_beyond_the_reserve_a_list_is_asked_anew_and_answered_from_its_own_memos(install: Install, max_values) -> None:
    client = install.agreed(asking())
    for colour in ("green", "red", "blue"):
        client.record("colour", colour)
        install.days(1)
    client.close()
    old_hash = asking()["colour"].metric_hash
    grown = asking(choices='["red", "green", "blue", "teal", "cyan", "pink"]', reserve=0)
    client = install.client(grown)
    assert client.should_ask
    client.consent(True)
    install.days(1)
    for colour in ("pink", "teal", "cyan", "red"):  # the last one overflows
        client.record("colour", colour)
        install.days(1)
    memos, ledger = kept(install)
    assert {row[0] for row in ledger} == {old_hash, grown["colour"].metric_hash}, "charged on top"
    by_hash = [row[1] for row in memos]
    assert (by_hash.count(old_hash), by_hash.count(grown["colour"].metric_hash)) == (3, 3)
    assert client.status().counts["overflowed"] == 1


@pytest.mark.parametrize(
    "question",
    [
        metric("used", "set", items='["a", "b"]', items_per_report=2, reserve=1),
        metric("used", "choice", choices='["a", "b"]', accumulate='"last"', reserve=1),
    ],
    ids=["set", "choice"],
)
def test_what_was_gathered_under_a_name_that_is_gone_harms_nobody(install: Install, question: str) -> None:
    """An older release runs again, or one that takes the name back, which asks nothing more: same hash, other names.
    The app starts, the epoch is answered by what is left, and the plain value goes."""
    named, before = (registry(question + names, metric("other")) for names in ('named = ["teal"]\n', ""))
    client = install.agreed(named)
    client.record("used", "teal")
    assert client.status().gathered == {"used": "teal"}
    client.close()
    less = install.client(before)
    assert less.mode == "on"
    less.record("used", "b")  # in the same epoch, on top of what this release does not know
    assert less.status().gathered == {"used": "b"}
    less.close()
    client = install.client(named)
    client.record("used", "teal")
    client.close()
    install.asleep(1)
    less = install.client(before)
    assert less.mode == "on"
    assert less.status().gathered == {}
    less.flush()
    assert [report.metric.name for report in install.arrived()] == ["used", "other"]
