"""A part of the data directory that is missing is refused in words, unless nothing depended on it."""

import json
import shutil
import time
from random import Random

import pytest

from hubbub.collector.storage.log import Damaged
from tests.collector.kit import REGISTRY, REGISTRY_TOML, Collector, random_batch
from tests.collector.storage.kit import NOW, Place, daily, reports


def fill(place, runs=(True, True), batches=5):
    for save in runs:
        with place.open(save, segment_bytes=1024) as (_, take, registry):
            for _ in range(batches):
                place.seed = getattr(place, "seed", 0) + 1
                take(daily(registry, NOW, place.seed))


def test_a_missing_checkpoint_beside_later_segments_is_refused(tmp_path):
    place = Place(tmp_path)
    fill(place)
    (tmp_path / "store.sqlite").unlink()
    for _ in range(2):  # the empty file that the first attempt left changes nothing
        with pytest.raises(
            Damaged, match=r"begins with segment \d+, so there was a checkpoint: store\.sqlite is missing"
        ):
            place.open().__enter__()


def test_before_the_first_checkpoint_the_log_alone_is_enough(tmp_path):
    place = Place(tmp_path)
    fill(place, runs=[False])
    (tmp_path / "store.sqlite").unlink()
    with place.open() as (store, _, _):
        assert reports(store) == 5


def test_a_log_whose_metrics_nobody_knows_is_refused(tmp_path):
    place = Place(tmp_path)
    fill(place, runs=[False])
    (tmp_path / "store.sqlite").unlink()
    place.toml = REGISTRY_TOML.replace("[metrics.dark_theme]", "[metrics.light_theme]")
    with pytest.raises(Damaged, match=r"a batch cannot be read with .*store\.sqlite: metric-unknown"):
        place.open().__enter__()


def test_a_log_that_is_lost_after_a_clean_stop_was_not_needed(tmp_path):
    place = Place(tmp_path)
    fill(place)
    shutil.rmtree(tmp_path / "log")
    with place.open(save=False) as (store, take, registry):
        assert reports(store) == 10
        take(daily(registry, NOW, 99))
    with place.open() as (store, _, _):
        assert reports(store) == 11


def test_a_log_that_is_lost_after_a_crash_is_refused(tmp_path):
    place = Place(tmp_path)
    fill(place, runs=[True, False])
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(Damaged, match=r"segment \d+\.log must be there, the checkpoint ends in it"):
        place.open().__enter__()


def test_a_segment_missing_where_the_checkpoint_ends_is_refused_unless_all_of_it_was_counted(tmp_path):
    place = Place(tmp_path)
    fill(place, runs=[True])
    fill(place, runs=[False], batches=1)
    first, *_ = sorted((tmp_path / "log").iterdir())
    first.unlink()
    with place.open(save=False) as (store, _, _):  # the next segment says that it ended where the checkpoint does
        assert reports(store) == 6
    sorted((tmp_path / "log").iterdir())[0].unlink()
    with pytest.raises(Damaged, match=r"segment \d+\.log must be there, the checkpoint ends in it"):
        place.open().__enter__()


def test_groups_that_vanish_from_the_end_of_a_finished_segment_are_missed(tmp_path):
    """Zeros, as a disk leaves that never wrote a page, are not taken for room that was never used."""
    place = Place(tmp_path)
    fill(place, runs=[False, False])
    first, *_ = sorted((tmp_path / "log").iterdir())
    data = first.read_bytes()
    at = data.rindex(b"HUBG")
    first.write_bytes(data[:at] + bytes(len(data) - at))
    with pytest.raises(
        Damaged, match=rf"{first.name}: offset {at}: groups up to offset \d+ are missing, though they had"
    ):
        place.open().__enter__()


def test_an_incomplete_last_group_is_dropped_with_a_notice_that_counts_its_bytes(tmp_path):
    collector = Collector(tmp_path, "--checkpoint-seconds", "1000")
    assert collector.send(random_batch(Random(1), list(REGISTRY), time.time()))[0] == 200
    collector.stop(9)
    (segment,) = (collector.data / "log").iterdir()
    data = segment.read_bytes()
    end = len(data.rstrip(b"\0"))
    segment.write_bytes(data[:end] + b"HUBG" + b"?" * 33)
    with Collector(tmp_path) as collector:
        collector.wait_for_notice("an incomplete last group was dropped from the log")
        assert collector.tallies()["dark_theme"].num_reports == 1
    notices = [json.loads(line) for line in collector.log_path.read_text().splitlines()]
    (cut,) = [notice for notice in notices if notice["message"].startswith("an incomplete last group")]
    assert (cut["file"], cut["bytes"]) == (str(segment), 37)
    assert end - 8 <= cut["offset"] <= end  # a message may end in zeros
