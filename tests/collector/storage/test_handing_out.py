"""What is handed out grows in steps: no two reads differ by fewer installs than `min_reports`, whatever happens."""

from itertools import pairwise
from random import Random

import pytest

from hubbub.collector.export import from_data
from hubbub.collector.storage.backup import count_reports
from hubbub.collector.storage.purge import restore_purged
from hubbub.protocol.tally_files import Wanted
from hubbub.protocol.wire import pack
from tests.collector.kit import random_batch
from tests.collector.storage.kit import DAY, Place, daily

STEP = 20


def everything(metric, epoch):
    return True


def read(store, seen):
    """What a reader sees, as the committer lets it; each new sight of a metric and epoch is noted."""
    if store.has_more_to_show():
        Place.save(store, for_readers=True)
    note({key: cells.counts() for key, cells in store.readable(everything).cells.items()}, seen)


def note(shown, seen):
    for key, counts in shown.items():
        history = seen.setdefault(key, [])
        if not history or history[-1] != counts:
            history.append(counts)


def steps(seen):
    """By how many reports each sight differs from the one before."""
    return [
        sum(later.num_reports) - sum(earlier.num_reports)
        for history in seen.values()
        for earlier, later in pairwise(history)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_no_two_reads_differ_by_fewer_installs_whatever_happens_in_between(tmp_path, seed):
    """The attack: read as often as one likes, make it stop, crash and start again, and take the difference."""
    random, place, seen, sent, life = Random(seed), Place(tmp_path / "data", min_reports=STEP), {}, 0, 0
    while sent < 400:
        life += 1
        crashes = random.random() < 0.5
        with place.open(save=not crashes) as (store, take, registry):
            for _ in range(random.randint(1, 60)):
                for _ in range(random.randint(0, 3)):
                    take(pack(random_batch(random, [registry["dark_theme"], registry["homepage"]], place.now)))
                    sent += 1
                if random.random() < 0.3:
                    place.save(store)  # a checkpoint that has nothing to do with readers
                if random.random() < 0.7:
                    read(store, seen)
        if random.random() < 0.3:
            answer = from_data(place.path, Wanted(), lambda: place.now)
            shown = {
                (t.metric.metric_hash, epoch): counts for t in answer.tallies for epoch, counts in t.epochs.items()
            }
            note(shown, seen)
    assert life > 3
    assert len(steps(seen)) > 10  # there was something to compare
    assert min(steps(seen)) >= STEP
    assert all(sum(history[0].num_reports) >= STEP for history in seen.values())
    with place.open() as (store, _, _):
        read(store, seen)
        readable = store.readable(everything)
        for key, cells in readable.cells.items():
            assert cells.total + readable.withheld.get(key, 0) == store.cells[key].total == sent
            assert readable.withheld.get(key, 0) < STEP


def test_what_is_withheld_is_told_and_backup_sees_everything(tmp_path):
    place = Place(tmp_path / "data", min_reports=STEP)
    with place.open() as (store, take, registry):
        for seed in range(3):
            take(daily(registry, place.now, seed))
        read(store, {})
        readable = store.readable(everything)
        assert (readable.cells, [*readable.withheld.values()], readable.min_reports) == ({}, [3], STEP)
    answer = from_data(place.path, Wanted(), lambda: place.now)
    assert answer.tallies == []
    assert [(item.metric, item.num_reports, item.min_reports) for item in answer.withheld] == [("dark_theme", 3, STEP)]
    assert count_reports(place.path) == 3


def test_with_0_everything_is_seen_at_once_and_from_then_on_the_rule_can_begin(tmp_path):
    place = Place(tmp_path / "data")
    with place.open() as (store, take, registry):
        take(daily(registry, place.now))
        assert [cells.total for cells in store.readable(everything).cells.values()] == [1]
        assert store.readable(everything).withheld == {}
    place.min_reports = STEP
    with place.open() as (store, _, _):
        assert store.readable(everything).cells == {}


def test_a_step_that_could_not_be_saved_is_not_shown_and_is_tried_again(tmp_path):
    place = Place(tmp_path / "data", min_reports=STEP)
    with place.open() as (store, take, registry):
        for seed in range(STEP):
            take(daily(registry, place.now, seed))
        snapshot = store.snapshot(for_readers=True)
        store.not_saved(snapshot)
        assert store.readable(everything).cells == {}
        assert store.has_more_to_show()
        seen = {}
        read(store, seen)
        assert [sum(counts.num_reports) for (counts,) in seen.values()] == [STEP]


def test_counts_that_were_purged_and_restored_are_shown_as_they_were(tmp_path):
    """Else a purge would be a way to a smaller step."""
    toml = Place(tmp_path).toml.replace("grace = 6", 'grace = 6\nretention = "30d"')
    place = Place(tmp_path / "data", toml, min_reports=STEP)
    seen = {}
    with place.open() as (store, take, registry):
        for seed in range(STEP + 5):
            take(daily(registry, place.now, seed))
        read(store, seen)
        take(daily(registry, place.now, 99))
    place.now += 40 * DAY
    with place.open() as (store, _, _):
        assert store.cells == {}
    place.now -= 40 * DAY
    restore_purged(place.path, None)
    with place.open() as (store, _, _):
        read(store, seen)
        assert [*store.readable(everything).withheld.values()] == [1]
    assert steps(seen) == []


def test_without_steps_everything_is_shown_at_once(tmp_path):
    place = Place(tmp_path / "data")
    with place.open() as (store, take, registry):
        take(pack(random_batch(Random(1), [registry["dark_theme"]], place.now)))
        readable = store.readable(everything)
    assert [cells.total for cells in readable.cells.values()] == [1]
    assert (readable.withheld, readable.min_reports) == ({}, 0)
