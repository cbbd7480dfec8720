"""Metrics with `hold`: when an install is asked, what all it ever says can tell, and that nothing happens twice."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter

import pytest

from hubbub.client import Registry, state
from hubbub.client.histories import answered, is_turn
from hubbub.client.identity import Identity
from hubbub.client.respond import RandomDraws, draw_memo
from hubbub.command.main import main
from hubbub.protocol.history import History, history_of_bits, history_of_categories
from hubbub.protocol.metric import Metric
from tests.chance import assert_uniform, binomial_bounds, uniform_power
from tests.client.install import Install
from tests.client.registries import held, metric, registry, source
from tests.client.transcripts import START, Law, law_of, worst_odds

FIRST = START // 86_400 + 1
"""The first epoch that the enumerated installs may be asked in: they agree the day before."""


def history_of(found: Metric) -> History:
    assert found.noise.history is not None
    return found.noise.history


def turns(who: Identity, found: Metric, began: int, epochs: range) -> list[int]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(state._TABLES)
        db.execute("INSERT INTO ledger VALUES (?, 1, 0, ?)", (found.metric_hash, began))
        return [epoch for epoch in epochs if is_turn(db, who, found, history_of(found), epoch)]


def key_with_turns(found: Metric, number: int, epochs: range) -> bytes:
    """The key of an install that is asked so often in these epochs."""
    keys = (seed.to_bytes(32, "little") for seed in range(10_000))
    return next(key for key in keys if len(turns(Identity(key, 0), found, FIRST, epochs)) == number)


# --- every transcript, with its time ------------------------------------------------------------------------------

ASKED = {
    "flag": (held("it", hold=2, max_values=2), [True, None]),
    "choice": (held("it", "choice", hold=1, max_values=2, choices='["a", "b"]'), ["a", "b", None]),
    "string": (held("it", "string", hold=1, max_values=2, num_bits=2, num_cohorts=1), ["a", "b", None]),
    "set": (held("it", "set", hold=1, max_values=2), [("export",), ("export", "macros"), None]),
}


def laws(asks: Registry, values: list[object], epochs: int) -> dict[tuple[object, ...], Law]:
    key = key_with_turns(asks["it"], 2, range(FIRST, FIRST + epochs))
    days = list(product(values, repeat=epochs))
    return {day: law_of([asks], [{} if value is None else {"it": value} for value in day], keys=[key]) for day in days}


@pytest.mark.parametrize("kind", ASKED)
def test_no_two_histories_differ_by_more_than_the_label_says_and_some_do(kind: str) -> None:
    """Three days, in which the install has both of its turns, and every way to answer or not: the worst is what all
    answers together may tell, exactly."""
    text, values = ASKED[kind]
    asks = registry(text)
    assert len({asks["it"].shape.encode(value, 0).mask for value in values if value is not None}) == len(values) - 1
    found = laws(asks, values, 3 if kind == "flag" else 2)
    assert worst_odds(found, lambda one, other: True) == history_of(asks["it"]).worst_odds
    assert asks["it"].epsilon_lifetime <= 4


def test_after_its_last_turn_an_install_is_silent_whatever_it_records() -> None:
    asks = registry(held("it", hold=1, max_values=1))
    history = [{"it": True}, {"it": False}, {}, {"it": True}]
    assert {len(transcript) for transcript in law_of([asks], history)} == {1}


def test_flags_that_are_drawn_anew_for_each_answer_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check fails if each answer is drawn by itself, with the whole epsilon."""

    def alone(db, who, found, history, mask, epoch, draws) -> int:
        return mask if draws.flags(history_of_categories(Fraction(4), 1, 1, 2)) else 1 - mask

    asks = registry(ASKED["flag"][0])
    monkeypatch.setattr("hubbub.client.histories.answered", alone)
    found = laws(asks, [True, None], 3)
    assert worst_odds(found, lambda one, other: True) > history_of(asks["it"]).worst_odds


def test_together_with_a_metric_that_is_kept_both_bounds_multiply() -> None:
    kept = metric("theme", epsilon_one_report=2, epsilon_permanent=2, max_values=1)
    asks = registry(held("it", hold=1, max_values=1), kept)
    found = {(a, b): law_of([asks], [{"it": a, "theme": b}]) for a, b in product([True, False], repeat=2)}
    theme = asks["theme"]
    limit = history_of(asks["it"]).worst_odds * theme.noise.odds_permanent(theme.shape.flips)
    assert worst_odds(found, lambda one, other: True) == limit


# --- turns --------------------------------------------------------------------------------------------------------


def test_an_install_has_one_turn_in_each_period_as_often_as_was_said_and_then_none() -> None:
    found = registry(held("it", hold=4, max_values=3))["it"]
    for seed in range(200):
        asked = turns(Identity(seed.to_bytes(32, "little"), 0), found, 4 * 100, range(4 * 90, 4 * 120))
        assert [epoch // 4 for epoch in asked] == [100, 101, 102]


def test_who_agrees_within_a_period_is_asked_in_what_is_left_of_it() -> None:
    """As often as the others in every epoch, and never before the yes."""
    found = registry(held("it", hold=4, max_values=2))["it"]
    seeds = [Identity(seed.to_bytes(32, "little"), 0) for seed in range(2000)]
    first = Counter(epoch for who in seeds for epoch in turns(who, found, 402, range(402, 420)))
    assert set(first) == set(range(402, 408))
    assert_uniform([first[epoch] for epoch in range(404, 408)])


def test_the_epoch_of_a_turn_is_any_of_its_period_and_knows_neither_cohort_nor_other_periods() -> None:
    """4000 installs, four cohorts, three epochs: every cell as often as the others, and every pair of two periods. One
    taken from the cohort's line, or the same in every period, would leave most cells empty."""
    found = registry(held("it", "string", hold=3, max_values=2))["it"]
    chance = Random(5)
    by_cohort: Counter[tuple[int, int]] = Counter()
    pairs: Counter[tuple[int, ...]] = Counter()
    for _ in range(4000):
        who = Identity(chance.randbytes(32), chance.getrandbits(62))
        asked = tuple(epoch % 3 for epoch in turns(who, found, 300, range(300, 306)))
        by_cohort[who.cohort(found), asked[0]] += 1
        pairs[asked] += 1
    assert_uniform([by_cohort[cell] for cell in product(range(4), range(3))])
    assert_uniform([pairs[cell] for cell in product(range(3), repeat=2)])
    assert uniform_power(4000, [2 / 16, 1 / 16, 1 / 16] + [1 / 12] * 9) > 0.999


def test_no_walk_of_the_clock_asks_more_often_than_was_said(install: Install) -> None:
    chance = Random(4)
    asks = registry(held("it", hold=3, max_values=3))
    client = install.agreed(asks)
    for _ in range(300):
        install.asleep(chance.choice([0, 1, 1, 1, 2, -1, -3, 9, -9, 400, -400]))
        install.look()
        client.record("it", chance.random() < 0.5)
        if chance.random() < 0.3:
            client.flush()
        if chance.random() < 0.1:
            client.close()
            client = install.client()
    epochs = [report.epoch for report in install.arrived()]
    assert len(epochs) == len({epoch // 3 for epoch in epochs}) <= 3
    assert max(epoch // 3 for epoch in epochs) - min(epoch // 3 for epoch in epochs) < 3


# --- the budget, copies -------------------------------------------------------------------------------------------


def test_the_whole_epsilon_is_set_aside_at_once_and_never_more(install: Install) -> None:
    asks = registry(held("it", hold=2, max_values=5), lifetime=7)
    client = install.agreed(asks)
    reserved = client.status().epsilon_set_aside
    assert reserved == pytest.approx(4, abs=1e-5)
    for _ in range(14):
        client.record("it", True)
        install.days(1)
        client.flush()
    status = client.status()
    assert status.epsilon_spent == status.epsilon_set_aside == reserved
    assert len(install.arrived()) in (4, 5)


def test_what_finds_no_room_is_not_asked(install: Install) -> None:
    asks = registry(metric("theme"), metric("other"), held("it", hold=1), lifetime=16)
    client = install.agreed(asks)
    install.days(3)
    client.flush()
    assert {report.metric.name for report in install.arrived()} == {"theme", "other", "it"}
    small = registry(metric("theme"), metric("other"), held("it", hold=1, epsilon_history=3), lifetime=16)
    client = install.client(small)
    client.consent(True)
    install.days(3)
    client.flush()
    assert small["it"].metric_hash not in {report.metric.metric_hash for report in install.arrived(asks, small)}


def test_flags_are_drawn_before_there_is_an_answer(install: Install) -> None:
    client = install.agreed(registry(held("it", hold=1)))
    with closing(sqlite3.connect(install.directory / "state.db")) as db:
        before = db.execute("SELECT * FROM memos").fetchall()
    assert len(before) == 1
    client.record("it", True)
    with closing(sqlite3.connect(install.directory / "state.db")) as db:
        assert db.execute("SELECT * FROM memos").fetchall() == before


@pytest.mark.parametrize("kind", ["flag", "choice", "string", "set"])
def test_a_state_that_is_restored_or_copied_says_the_same_again(install: Install, tmp_path: Path, kind: str) -> None:
    """Three lives from one backup, each at the same days: the same turns, flags and noise, to the bit."""
    values = {"flag": True, "choice": "red", "string": "example.org", "set": ["macros"]}
    asks = registry(held("it", kind, hold=2, max_values=4))
    install.agreed(asks).close()
    begin, lives = install.now, []
    for life in range(3):
        shutil.copytree(install.directory, tmp_path / f"life {life}")
        install.now = begin
        sent = len(install.arrived())
        client = install.client(state_dir=tmp_path / f"life {life}")
        client.consent(True)
        for _ in range(9):
            client.record("it", values[kind])
            install.days(1)
        client.flush()
        client.close()
        lives.append([(report.epoch, report.bits) for report in install.arrived()[sent:]])
    assert len(lives[0]) in (3, 4)
    assert lives[0] == lives[1] == lives[2]


def test_a_copy_that_answers_otherwise_shares_flags_and_no_noise() -> None:
    """An answer's own bit is its flag, whatever the answer; of 62 other bits, set once in 64 times, some differ in 20
    installs, or chance would be 1e-16. Shared noise would show of two answers of one period where they differ."""
    found = registry(held("it", "string", hold=1, max_values=1, num_cohorts=1, epsilon_history=4))["it"]
    differ = 0
    for seed in range(20):
        who = Identity(seed.to_bytes(32, "little"), 0)
        with closing(sqlite3.connect(":memory:")) as db:
            db.executescript(state._TABLES)
            db.execute("INSERT INTO ledger VALUES (?, 1, 0, 100)", (found.metric_hash,))
            one, other = (
                answered(db, who, found, history_of(found), mask, 100, RandomDraws(Random(1).randbytes))
                for mask in (8, 16)
            )
        assert one >> 3 & 1 == other >> 4 & 1
        differ += (one ^ other) & ~24 != 0
    assert differ


# --- what it costs ------------------------------------------------------------------------------------------------


def test_one_answer_by_itself_has_the_channel_of_an_epoch() -> None:
    """`draw_memo`, which `hubbub peek` and simulations use: of 4000 yes about a1 stay yes."""
    found = registry(held("it", hold=13))["it"]
    chance = Random(9)
    yes = sum(draw_memo(found, 1, 0, chance.randbytes) for _ in range(4000))
    low, high = binomial_bounds(4000, float(found.noise.q_star), 1e-6)
    assert low <= yes <= high
    low, _ = binomial_bounds(4000, float(found.noise.q_star) - 0.05, 1e-6)
    assert low < yes


def test_peek_shows_one_report_and_nothing_that_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.toml").write_text(source(held("it", hold=13)), encoding="utf-8")
    assert main(["peek", "it", "yes", "--metrics", str(tmp_path / "metrics.toml")]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ")] == ["value", "mask", "report"]
    assert shown.endswith(
        "One report in 13 epochs, 4 in all: this is all that leaves. One tells at most epsilon 2.05, all of them "
        "together 4, whatever changes.\n"
    )


@pytest.mark.proof
def test_drawing_takes_five_milliseconds_at_most(figure) -> None:
    slowest = 0.0
    for history in (
        history_of_bits(Fraction(4), 13, 64, Fraction(1, 128)),
        history_of_categories(Fraction(16), 1, 64, 2, 4),
    ):
        draws = RandomDraws(Identity(bytes(32), 0).chance(b"flags"))
        draws.flags(history)
        took = []
        for _ in range(200):
            begin = perf_counter()
            draws.flags(history)
            took.append(perf_counter() - begin)
        slowest = max(slowest, sorted(took)[100])
    figure("drawing all flags of 64 answers, ms", f"{1000 * slowest:.3f}")
    assert slowest < 0.005
