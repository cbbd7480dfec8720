"""A backup made under load holds everything acknowledged before it; a restore gives it back, or says what is wrong."""

import re
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from random import Random

import pytest

from hubbub.collector.storage.backup import backup, restore
from hubbub.collector.storage.checkpoint import Checkpoint
from hubbub.collector.storage.log import segments
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import REGISTRY, Collector, random_batch
from tests.collector.kit import run_command as run
from tests.collector.storage.damage import fill
from tests.collector.storage.kit import NOW, Place, daily

METRICS = list(REGISTRY)
FAST = ("--sender-rate", "1e6", "--sender-burst", "1000000", "--checkpoint-seconds", "0.2", "--segment-bytes", "65536")


def test_the_folders_above_a_backup_are_made(tmp_path):
    place = Place(tmp_path / "data")
    with place.open() as (_, take, registry):
        take(daily(registry, NOW))
    assert backup(place.path, tmp_path / "of" / "today" / "copy") == 1
    assert (tmp_path / "of" / "today" / "copy" / "store.sqlite").exists()


def test_a_backup_under_load_has_all_that_was_acknowledged_before_it(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    acknowledged, stop = [], threading.Event()
    with Collector(source, *FAST) as collector:

        def send(seed):
            random = Random(seed)
            while not stop.is_set():
                batch = random_batch(random, METRICS, time.time())
                assert collector.send(batch)[0] == 200
                acknowledged.append(batch)

        senders = [threading.Thread(target=send, args=[seed]) for seed in range(4)]
        for sender in senders:
            sender.start()
        while len(acknowledged) < 100:
            assert all(sender.is_alive() for sender in senders)
            time.sleep(0.02)
        before = list(acknowledged)
        done = run("backup", "--data", collector.data, "--out", tmp_path / "copy")
        stop.set()
        for sender in senders:
            sender.join()
    assert done.returncode == 0, done.stderr
    done = run("restore", tmp_path / "copy", "--data", target / "data")
    assert done.returncode == 0, done.stderr
    (target / "token").write_text(collector.token)
    with Collector(target) as again:
        counted = again.tallies()["dark_theme"].num_reports
        assert len(before) <= counted <= len(acknowledged)
        assert all(again.send(batch)[1]["status"] == "duplicate" for batch in before[::20])


def test_mistakes_get_words(tmp_path):
    with pytest.raises(Invalid, match=r"has no store\.sqlite"):
        backup(tmp_path, tmp_path / "out")
    with pytest.raises(Invalid, match="must be a directory made by `hubbub backup`"):
        restore(tmp_path, tmp_path / "data")
    with Collector(tmp_path) as collector:
        for seed in range(3):
            collector.send(random_batch(Random(seed), METRICS, time.time()))
        backup(collector.data, tmp_path / "copy")
        with pytest.raises(Invalid, match="out must not exist yet"):
            backup(collector.data, tmp_path / "copy")
        with pytest.raises(Invalid, match="data must not exist yet or be empty"):
            restore(tmp_path / "copy", collector.data)
    segment = sorted((tmp_path / "copy" / "log").glob("*.log"))[0]
    segment.write_bytes(b"?" * 100)
    with pytest.raises(Invalid, match=r"the backup is damaged: .*offset 0"):
        restore(tmp_path / "copy", tmp_path / "elsewhere")


def crashed(path):
    """A directory with two finished segments and a third, none of which is in the checkpoint."""
    place = Place(path)
    fill(place, batches=60, clean=False)
    assert len(segments(path / "log")) >= 3
    return place


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 16
    path.write_bytes(data)


def test_a_backup_of_a_damaged_log_fails_with_file_and_offset_and_leaves_nothing(tmp_path):
    place = crashed(tmp_path / "data")
    *_, (_, finished), _ = segments(place.path / "log")
    flip(finished, 300)
    done = run("backup", "--data", place.path, "--out", tmp_path / "copy")
    assert done.returncode == 2
    assert re.search(rf"{finished}: offset \d+: damaged, though it had been acknowledged", done.stderr), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_backup_of_a_damaged_checkpoint_fails_and_names_the_row(tmp_path):
    place = crashed(tmp_path / "data")
    database = place.path / "store.sqlite"
    with closing(sqlite3.connect(database)) as db:
        db.execute("update counts set epoch = epoch + 1 where epoch = (select max(epoch) from counts)")
        db.commit()
    with pytest.raises(Invalid, match=rf"{database}: table counts, row \w+, \d+: damaged, its checksum does not fit"):
        backup(place.path, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_backup_without_a_segment_that_is_needed_fails(tmp_path):
    place = crashed(tmp_path / "data")
    *_, (_, finished), _ = segments(place.path / "log")
    finished.unlink()
    with pytest.raises(Invalid, match=rf"{place.path}.* must be there"):
        backup(place.path, tmp_path / "copy")


def test_a_damaged_backup_is_not_restored_and_leaves_nothing(tmp_path):
    place = crashed(tmp_path / "data")
    backup(place.path, tmp_path / "copy")
    flip(segments(tmp_path / "copy" / "log")[-2][1], 300)
    (tmp_path / "there").mkdir()
    for target in ("there", "new"):
        with pytest.raises(Invalid, match=rf"the backup is damaged: {tmp_path / 'copy'}.*: offset \d+"):
            restore(tmp_path / "copy", tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data", "there"]
    assert list((tmp_path / "there").iterdir()) == []


def test_what_cannot_be_opened_leaves_no_database_open(tmp_path, monkeypatch):
    place = crashed(tmp_path / "data")
    connect, opened = sqlite3.connect, []

    def connect_and_remember(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_remember)
    *_, (_, finished), _ = segments(place.path / "log")
    flip(finished, 300)
    with pytest.raises(Invalid, match="damaged, though it had been acknowledged"):
        backup(place.path, tmp_path / "copy")
    monkeypatch.setattr(Checkpoint, "_verify", lambda checkpoint: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Checkpoint(place.path / "store.sqlite")
    assert len(opened) > 4
    for database in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            database.execute("select 1")


@pytest.fixture
def mount(tmp_path):
    place = tmp_path / "mount"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def check_restored(source, target):
    """Restored, all in place, closed to others, and a collector counts on."""
    (target / "lost+found").mkdir(exist_ok=True)
    reports = backup(source, source.with_name("copy"))
    for path in source.with_name("copy").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # as an archive may give it back
    assert restore(source.with_name("copy"), target) == reports
    assert {path.name for path in target.iterdir()} == {"store.sqlite", "log", "lost+found"}
    assert oct(target.stat().st_mode & 0o777) == oct(0o700)
    assert oct((target / "log").stat().st_mode & 0o777) == oct(0o700)
    assert oct((target / "store.sqlite").stat().st_mode & 0o777) == oct(0o600)
    with Place(target).open() as (_, take, registry):
        assert take(daily(registry, NOW, 77)) == "stored"


def test_a_restore_fills_a_mount_point(tmp_path, mount):
    check_restored(crashed(tmp_path / "data").path, mount)


def test_a_restore_fills_the_target_of_a_symbolic_link(tmp_path):
    place = crashed(tmp_path / "data")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    check_restored(place.path, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data", "elsewhere", "link"]
