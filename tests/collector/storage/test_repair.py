"""What is not damaged is saved into a new directory; what is lost is named; the old directory stays as it is."""

import json
import shutil
from random import Random

import pytest

from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import segments
from hubbub.collector.storage.repair import repair
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import run_command
from tests.collector.storage.damage import fill, flip, start
from tests.collector.storage.kit import NOW, Place
from tests.collector.storage.test_checkpoint import sql


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def by_metric_and_epoch(text):
    """Each metric's counts of each epoch, out of tallies as text."""
    return {
        (tally["metric"]["name"], counts["epoch"]): counts
        for tally in json.loads(text)["tallies"]
        for counts in tally["epochs"]
    }


@pytest.fixture(scope="module", params=[True, False], ids=["stopped", "crashed"])
def source(tmp_path_factory, request):
    """A directory, and its tallies as text."""
    folder = tmp_path_factory.mktemp("source")
    place = Place(folder / "data")
    fill(place, batches=40, clean=request.param)
    shutil.copytree(place.path, folder / "work")
    return place, start(folder / "work", place.toml)[0]


def test_of_an_undamaged_directory_everything_is_saved(source, tmp_path):
    place, truth = source
    before = contents(place.path)
    assert repair(place.path, tmp_path / "out") == []
    assert contents(place.path) == before
    assert start(tmp_path / "out", place.toml)[0] == truth
    assert start(tmp_path / "out", place.toml)[0] == truth


def test_a_lost_counter_is_named_and_all_others_are_saved(source, tmp_path):
    place, truth = source
    shutil.copytree(place.path, tmp_path / "data")
    epoch = epoch_of("day", NOW)
    hash_of = "(select metric_hash from metrics where definition like '%dark_theme%')"
    statement = f"update counts set bit_counts = x'00' where epoch = {epoch} and metric_hash = {hash_of}"
    sql(tmp_path / "data" / "store.sqlite", statement)
    assert repair(tmp_path / "data", tmp_path / "out") == [f"counts of dark_theme, {epoch_text('day', epoch)}: damaged"]
    found, expected = (by_metric_and_epoch(text) for text in (start(tmp_path / "out", place.toml)[0], truth))
    different = {key for key in expected if found.get(key) != expected[key]}
    assert {name for name, _ in different} == {"dark_theme"}
    assert len(different) == 1


def test_a_damaged_group_costs_its_damaged_batch_and_no_other(tmp_path):
    place = Place(tmp_path / "data")
    fill(place, batches=40, clean=False)
    *_, (_, path), _ = segments(place.path / "log")
    data = bytearray(path.read_bytes())
    data[36 + 12 + 100] ^= 1
    path.write_bytes(data)
    (line,) = repair(place.path, tmp_path / "out")
    assert line.startswith(f"log: {path.name}: offset 36: a damaged group or several,")
    found = json.loads(start(tmp_path / "out", place.toml)[0])
    (tally,) = [tally for tally in found["tallies"] if tally["metric"]["name"] == "dark_theme"]
    assert sum(sum(counts["num_reports"]) for counts in tally["epochs"]) == 39


def test_without_a_checkpoint_the_log_is_saved(tmp_path):
    place = Place(tmp_path / "data")
    fill(place, batches=40, clean=False)
    (place.path / "store.sqlite").unlink()
    lost = repair(place.path, tmp_path / "out")
    assert lost[0] == "store.sqlite is missing: all counts and ids that were in it"
    assert any(line.startswith("log: batches of metrics whose definition is lost") for line in lost)


@pytest.mark.parametrize("name", ["store.sqlite", "log"])
def test_no_flipped_byte_changes_a_count_without_a_word(source, tmp_path, name):
    """30 seeded flips each: the repaired directory starts, and where it differs from the truth something is named."""
    place, truth = source
    random = Random(name)
    work, silent, different = tmp_path / "work", [], 0
    for _ in range(30):
        victims = [path for path in place.path.rglob("*") if name in (path.name, path.parent.name)]
        victim = random.choice(sorted(path for path in victims if path.is_file()))
        at = random.randrange(victim.stat().st_size)
        flip(place.path, work, victim, at, random.randrange(1, 256))
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        lost = repair(work, tmp_path / "out")
        found, _ = start(tmp_path / "out", place.toml)
        different += found != truth
        if found != truth and not lost:
            silent.append(f"{victim.name}: byte {at}")
    assert silent == []
    assert different > 0 or name == "log"


def test_the_command_lists_what_is_lost_and_refuses_to_work_in_place(tmp_path):
    place = Place(tmp_path / "data")
    fill(place, batches=8)

    def run(out):
        return run_command("repair", "--data", place.path, "--out", out)

    done = run(tmp_path / "whole")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'whole'}: 64 reports\nNothing is lost.\n"), done.stderr
    assert "out must not exist yet" in run(place.path).stderr
    sql(place.path / "store.sqlite", "update ids set closes = closes + 1")
    done = run(tmp_path / "out")
    assert done.returncode == 1
    assert done.stdout.startswith("lost: batch ids, one save of them; batches among them that are sent again would")
    at_work = DataDir(place.path)
    with pytest.raises(Invalid, match="must not be in use by another process"):
        repair(place.path, tmp_path / "other")
    at_work.close()
