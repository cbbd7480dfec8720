"""Which memo answers when: the rule on arrays beside the client's own, install by install."""

from __future__ import annotations

import sqlite3
from collections import Counter
from random import Random

import numpy as np
import pytest

from hubbub.client import memos, state
from hubbub.client.facts import Facts
from hubbub.client.identity import ensure_identity
from hubbub.client.respond import RandomDraws
from hubbub.protocol.registry import Registry
from hubbub.simulations.kinds.kind import NOWHERE
from hubbub.simulations.simulate.slots import MOST_ROWS, TooManyHistories, answer_from_slots
from tests.chance import assert_uniform, uniform_power

EPOCHS = range(101, 109)
INSTALLS = 120
SOURCE = """
app = "t"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 99
[metrics.m]
kind = "string"
why = "w"
owner = "o"
expires = 2099-01-01
every = "day"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 2
num_bits = 128
num_hashes = 1
num_cohorts = 1
"""
METRIC = Registry.parse(SOURCE)["m"]


def histories(seed: int, rows: int = INSTALLS) -> np.ndarray:
    """Keys of masks; some epochs are spent away."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 5, (rows, len(EPOCHS)))
    keys[rng.random(keys.shape) < 0.2] = NOWHERE
    return keys


def client(metric, keys: np.ndarray, seed: int) -> tuple[list[int], list[bool]]:
    """The slot that the client's `find_or_draw` uses in each epoch, and whether it was an old one for want of room.

    A memo of 128 bits is as good as a name: two are never the same by chance.
    """
    random = Random(seed).randbytes
    db = sqlite3.connect(":memory:")
    db.executescript(state._TABLES)
    db.execute("INSERT INTO ledger VALUES (?, ?, 0, NULL)", (metric.metric_hash, metric.max_values))
    who = ensure_identity(db, Facts({}), random)
    slots, overflowed, names = [], [], {}
    for key in keys.tolist():
        if key == NOWHERE:
            slots.append(NOWHERE)
            overflowed.append(False)
            continue
        memo = memos.find_or_draw(db, who, metric, 1 << key, RandomDraws(random))
        slots.append(names.setdefault(memo.bits, len(names)))
        overflowed.append(memo.overflowed)
    db.close()
    return slots, overflowed


@pytest.mark.parametrize(
    "metric",
    [METRIC, METRIC.replace(max_values=1), METRIC.replace(max_values=5)],
    ids=["two slots", "one slot", "five slots"],
)
def test_slots_are_taken_and_found_again_as_in_the_client(metric):
    """All that is not left to the install's key is the same, epoch by epoch; what is, is the same every time."""
    keys = histories(1)
    found = answer_from_slots(metric, keys, np.ones(len(keys), int), np.random.default_rng(2))
    for row, mine in zip(keys, found.slot, strict=True):
        theirs, overflowed = client(metric, row, seed=3)
        chosen_by_key: dict = {}
        for key, slot, real, late in zip(row.tolist(), mine.tolist(), theirs, overflowed, strict=True):
            if late:
                assert 0 <= slot < metric.max_values
                assert slot == chosen_by_key.setdefault(key, slot)
            else:
                assert slot == real


def test_an_old_slot_is_chosen_evenly_by_client_and_simulation():
    """3000 installs that need a fourth slot of three. A slot that is never taken, or always, would be noticed."""
    metric, row = METRIC.replace(max_values=3), np.array([0, 1, 2, 3, NOWHERE, NOWHERE, NOWHERE, NOWHERE])
    real = Counter(client(metric, row, seed)[0][3] for seed in range(600))
    assert_uniform([real[slot] for slot in range(3)])
    keys = np.repeat(row[np.newaxis], 3000, axis=0)
    single = answer_from_slots(metric, keys, np.ones(3000, int), np.random.default_rng(4))
    assert_uniform(np.bincount(single.slot[:, 3], minlength=3).tolist())
    group = answer_from_slots(metric, row[np.newaxis], np.array([3000]), np.random.default_rng(5))
    assert group.installs.sum() == 3000
    assert_uniform([int(group.installs[group.slot[:, 3] == slot].sum()) for slot in range(3)])
    assert uniform_power(600, [0.5, 0.25, 0.25]) > 0.999


def test_stale_reports_are_those_about_another_mask():
    keys = np.array([[0, 1, 2, 0, 2, 1, NOWHERE, 0]])
    one_slot = answer_from_slots(METRIC.replace(max_values=1), keys, np.array([10]), np.random.default_rng(6))
    assert one_slot.stale == 10 * 4  # everything but the three zeros


def test_installs_of_one_history_part_only_where_they_must():
    keys = histories(8, rows=1)
    whole = answer_from_slots(METRIC.replace(max_values=8), keys, np.array([10**9]), np.random.default_rng(9))
    assert len(whole.installs) == 1
    parted = answer_from_slots(METRIC, keys, np.array([10**9]), np.random.default_rng(9))
    assert parted.installs.sum() == 10**9
    assert len(parted.installs) == 2 ** (len(set(keys[0].tolist()) - {NOWHERE}) - 2)


def test_more_histories_than_can_be_followed_are_refused_in_words():
    keys = np.arange(24)[np.newaxis]
    with pytest.raises(TooManyHistories, match=f"max_values = 2 is used up .* {MOST_ROWS:,} different"):
        answer_from_slots(METRIC, keys, np.array([10**9]), np.random.default_rng(10))
