"""What does not kill a shared store's parts but makes them stand still, lie about the time, or fill up.

A stopped collector, a stopped backend, a network that swallows everything, clocks days apart, a rolling deploy with
another grace, a full disk of the database: nothing that was acknowledged is lost, nothing counts twice.
"""

import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hubbub.collector.postgres.administration import create_store
from tests.collector import kit
from tests.collector.kit import LAUNCH, PAIRED_TOML, Collector
from tests.collector.postgres.test_taking import make
from tests.torture.oracle import ENOUGH
from tests.torture.shared import Torment, torment
from tests.torture.test_clock import LIBRARY
from tests.torture.test_disk import LIMITLESS, counted, send_until

PLANTED = Path(__file__).with_name("planted_shared.py")
IMPATIENT = [{"PLANTED_BUG": "impatient"}] * 2


def freeze_both(torn: Torment) -> None:
    torn.oracle.wait_for_another()
    torn.freeze_collector()
    torn.freeze_backend()


def test_a_stopped_collector_or_backend_loses_nothing_and_the_other_collector_goes_on(tmp_path, postgres_template):
    # Soon all senders wait for the stopped one, and until they give it up nobody asks the other. In the proof they wait
    # for 40 seconds.
    problems, torn = torment(
        tmp_path, postgres_template, events=2, seed=6, what=freeze_both, batches=ENOUGH, patience=4.0
    )
    assert problems == []
    assert torn.oracle.answers["stored"] > 20


def test_a_network_that_swallows_everything_is_given_up_and_then_all_goes_on(tmp_path, postgres_template):
    problems, torn = torment(
        tmp_path, postgres_template, events=1, seed=7, launch=PLANTED, envs=IMPATIENT, what=Torment.black_hole
    )
    assert problems == []
    assert torn.oracle.answers["stored"] > 0


def kill_and_cut(torn: Torment) -> None:
    torn.oracle.wait_for_another()
    torn.cut()
    torn.kill_collector()


@pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime (Debian's package faketime)")
def test_collectors_whose_clocks_are_days_apart_agree_on_what_is_open(tmp_path, postgres_template):
    """The database's clock is the one that counts: with their own, one would refuse what the other takes."""
    clock = {"LD_PRELOAD": str(LIBRARY), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    envs = [{**clock, "FAKETIME": "+40d"}, {**clock, "FAKETIME": "-40d"}]
    problems, torn = torment(tmp_path, postgres_template, events=2, seed=8, launch=LAUNCH, envs=envs, what=kill_and_cut)
    assert problems == []
    assert torn.oracle.answers["stored"] > 0


def test_a_rolling_deploy_with_another_grace_counts_every_batch_once(tmp_path, postgres_template):
    """Each start says its own terms for all, while the other one is at work."""
    registries = [PAIRED_TOML, PAIRED_TOML.replace("grace = 6", "grace = 1")]
    problems, torn = torment(
        tmp_path, postgres_template, events=3, seed=9, what=kill_and_cut, registries=registries, batches=ENOUGH
    )
    assert problems == []
    assert torn.oracle.answers["duplicate"] > 0


@pytest.fixture
def small_tablespace(postgres):
    """A folder on a small disk, of the user that the server runs as."""
    place = postgres.folder / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    (place / "space").mkdir()
    shutil.chown(place / "space", "nobody", "nogroup")
    yield place / "space"
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_of_the_database_is_a_507_and_freeing_space_is_all_it_takes(
    postgres, small_tablespace, tmp_path, monkeypatch
):
    postgres.sql(f"create tablespace small location '{small_tablespace}'")
    postgres.sql("create database filling tablespace small")
    address = postgres.url("filling")
    token = create_store(address, None)
    monkeypatch.setattr(kit, "new_store", lambda: (address, token))
    filler = small_tablespace.parent / "filler"
    try:
        with Collector(tmp_path, *LIMITLESS, "--checkpoint-seconds", "0.2") as collector:
            assert collector.post(make(99))[0] == 200
            with suppress(OSError), filler.open("wb", buffering=0) as file:  # the database may take the last byte
                while file.write(bytes(1 << 16)):
                    pass
            stored, refused, problem = send_until(collector, 507, seed=1)
            assert problem["type"] == "urn:hubbub:problem:storage-full"
            assert problem["detail"] == "the disk of the database is full"
            filler.unlink()
            assert collector.send(refused)[1]["status"] == "stored", "and it had not been"
            assert counted(collector) == 1 + stored + 1
    finally:
        postgres.sql("drop database filling with (force)")
        postgres.sql("drop tablespace small")


def anything(torn: Torment) -> None:
    """Also what takes as long as a collector's patience."""
    chosen = torn.random.choice([torn.freeze_collector, torn.freeze_backend, torn.black_hole, Torment.event])
    torn.oracle.wait_for_another()
    if chosen == torn.freeze_backend:
        chosen(torn.random.choice([0.5, 4.0]))
    elif chosen is Torment.event:
        torn.event()
    else:
        chosen()


@pytest.mark.proof
def test_60_times_anything_stands_still_or_dies_and_nothing_is_lost_or_doubled(tmp_path, postgres_template, figure):
    begun = time.monotonic()
    problems, torn = torment(
        tmp_path, postgres_template, events=60, seed=10, launch=PLANTED, envs=IMPATIENT, what=anything, batches=5_000
    )
    assert problems == []
    done = f"60 events, {len(torn.oracle.batches)} batches, 0 lost, 0 double, {time.monotonic() - begun:.0f} s"
    figure("stopped, swallowed, killed", done)


@pytest.mark.proof
def test_a_backend_that_stands_still_for_25_seconds_is_given_up(tmp_path, postgres_template, figure):
    """Longer than the 20 seconds that a collector waits, with its own patience."""
    problems, torn = torment(
        tmp_path, postgres_template, events=3, seed=11, what=lambda torn: torn.freeze_backend(25.0), batches=500
    )
    assert problems == []
    figure("a backend stopped for 25 s, three times", f"{len(torn.oracle.batches)} batches, 0 lost, 0 double")
