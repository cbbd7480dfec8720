"""A backup made under load holds everything acknowledged before it; a restore gives it back, or says what is wrong."""

import subprocess
import sys
import threading
import time
from random import Random

import pytest

from hubbub.collector.storage.backup import backup, restore
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import LAUNCH, REGISTRY, Collector, random_batch

METRICS = list(REGISTRY)
FAST = ("--sender-rate", "1e6", "--sender-burst", "1000000", "--checkpoint-seconds", "0.2", "--segment-bytes", "65536")


def run(*arguments):
    return subprocess.run([sys.executable, str(LAUNCH), *map(str, arguments)], capture_output=True, text=True)


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
