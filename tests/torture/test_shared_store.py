"""Two collectors on one PostgreSQL lose nothing they acknowledged and count nothing twice, whatever dies and when.

Collectors and servers are killed, connections are cut between a commit and its answer, every retry goes to any of the
two. And an oracle is only worth something if it can say no: bugs are planted.
"""

import time
from pathlib import Path

import pytest

from tests.torture.oracle import ENOUGH
from tests.torture.shared import Torment, torment

PLANTED = Path(__file__).with_name("planted_shared.py")


def test_12_deaths_and_cuts_lose_nothing_and_count_nothing_twice(tmp_path, postgres_template):
    problems, torn = torment(tmp_path, postgres_template, events=12, seed=1, batches=ENOUGH)
    assert problems == []
    assert torn.proxy.cuts > 0 < torn.counts["kill_collector"]
    assert torn.oracle.answers["duplicate"] > 0


def cut_under_load(torn: Torment) -> None:
    torn.oracle.wait_for_another()
    torn.cut()


def kill_under_load(torn: Torment) -> None:
    """While the next group is on its way, which takes a third of a second with this bug."""
    torn.oracle.wait_for_another()
    time.sleep(0.1)
    torn.kill_collector()


def each_database_in_turn(torn: Torment) -> None:
    """One is killed and stays away for a while, a collector is killed, the other one's answer is cut."""
    torn.oracle.wait_for_another()
    torn.lose_server()
    torn.kill_collector()
    torn.cut()
    torn.choose_database(torn.servers.index(torn.server) - 1)


def test_a_store_in_two_databases_loses_nothing_and_counts_nothing_twice_while_one_is_away(tmp_path, postgres_template):
    what, least = each_database_in_turn, ENOUGH
    problems, torn = torment(tmp_path, postgres_template, events=2, seed=4, databases=2, what=what, batches=least)
    assert problems == []
    assert torn.oracle.answers["duplicate"] > 0
    assert min(torn.ids) > len(torn.oracle.batches) / 4, "both have their share"


@pytest.mark.parametrize(
    ("bug", "what", "skews"),
    [
        ("no-dedup", cut_under_load, (0, 0)),
        ("two-transactions", kill_under_load, (0, 0)),
        ("lot-from-the-clock", cut_under_load, (0, 1)),
        ("spread-by-setting", cut_under_load, (0, 1)),
        ("answered-too-early", Torment.black_hole, (0, 0)),
    ],
)
def test_the_oracle_notices(bug, what, skews, tmp_path, postgres_template):
    envs = [{"PLANTED_BUG": bug, "PLANTED_SKEW": str(skew)} for skew in skews]
    # One in twenty is sent twice, and may come to the other collector or database: none of 600 would, once in a million
    # runs.
    more = {"batches": 600} if what is cut_under_load and skews == (0, 1) else {}
    if bug == "spread-by-setting":
        more["databases"] = 2
    # A kill may fall between two groups, when nothing is under way; four do not.
    events = 4 if what is kill_under_load else 2
    problems, _ = torment(
        tmp_path, postgres_template, events=events, seed=2, launch=PLANTED, envs=envs, what=what, **more
    )
    assert any("counted" in problem for problem in problems), problems


@pytest.mark.proof
def test_200_deaths_and_cuts_lose_nothing_and_count_nothing_twice(tmp_path, postgres_template, figure):
    problems, torn = torment(tmp_path, postgres_template, events=200, seed=3, batches=20_000)
    assert problems == []
    done = ", ".join(f"{name} {number}" for name, number in sorted(torn.counts.items()))
    batches = len(torn.oracle.batches)
    figure("two collectors, one PostgreSQL", f"200 events ({done}), {batches} batches, none lost, none counted twice")


@pytest.mark.proof
def test_100_deaths_and_cuts_of_a_store_in_three_databases_lose_and_double_nothing(tmp_path, postgres_template, figure):
    problems, torn = torment(tmp_path, postgres_template, events=100, seed=5, batches=10_000, databases=3)
    assert problems == []
    done = ", ".join(f"{name} {number}" for name, number in sorted(torn.counts.items()))
    batches = len(torn.oracle.batches)
    figure("two collectors, three databases", f"100 events ({done}), {batches} batches, none lost, none counted twice")
