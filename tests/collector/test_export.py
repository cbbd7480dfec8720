"""Tallies leave over HTTP or from the directory alike; two collectors' tallies merge into that of one."""

import json
import time
from random import Random

import pytest

from hubbub.protocol.tally import Tally, merge
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY, Collector, random_batch, run_command

METRICS = list(REGISTRY)


def export(out, *flags):
    done = run_command("export", "--out", out, *flags)
    assert done.returncode == 0, done.stderr
    return {path.stem: path.read_text() for path in out.glob("*.json")}, done


@pytest.mark.usefixtures("each_store")
def test_a_url_and_a_directory_give_the_same_files(tmp_path):
    with Collector(tmp_path) as collector:
        for seed in range(5):
            collector.send(random_batch(Random(seed), METRICS, time.time(), epochs=2))
        online, done = export(tmp_path / "a", "--url", f"http://127.0.0.1:{collector.port}", "--token", collector.token)
        assert done.stdout.count("2 epochs, 10 reports") == len(METRICS)
        shown = f"http://127.0.0.1:{collector.port}/v1/tallies"  # as the greeting has it
        assert export(tmp_path / "e", "--url", shown, "--token", collector.token)[0] == online
        if collector.store is None:
            busy = run_command("export", "--data", collector.data, "--out", tmp_path / "x")
            assert (busy.returncode, "must not be in use" in busy.stderr) == (2, True)
    offline, _ = export(tmp_path / "b", *collector.place)
    assert online == offline
    assert set(online) == {metric.name for metric in METRICS}
    one, _ = export(tmp_path / "c", *collector.place, "--metric", "homepage")
    assert set(one) == {"homepage"}
    _, done = export(tmp_path / "d", *collector.place, "--metric", "homepage", "--json")
    file = str(tmp_path / "d" / "homepage.json")
    (row,) = json.loads(done.stdout)
    assert row == {"file": file, "metric": "homepage", "segment": {}, "epochs": 2, "num_reports": 10}


def test_an_export_after_a_kill_has_everything_acknowledged_and_changes_nothing(tmp_path):
    collector = Collector(tmp_path)
    for seed in range(5):
        collector.send(random_batch(Random(seed), METRICS, time.time()))
    collector.stop(9)
    before = {path: path.read_bytes() for path in (collector.data / "log").iterdir()}
    found, _ = export(tmp_path / "a", "--data", str(collector.data))
    assert Tally.from_json(found["homepage"]).num_reports == 5
    assert {path: path.read_bytes() for path in (collector.data / "log").iterdir()} == before


def test_the_tallies_of_two_collectors_merge_into_that_of_one(tmp_path):
    batches = [random_batch(Random(seed), METRICS, time.time(), epochs=2) for seed in range(12)]
    found = []
    for name, share in (("one", batches[::2]), ("two", batches[1::2]), ("both", batches)):
        place = tmp_path / name
        place.mkdir()
        with Collector(place) as collector:
            for batch in share:
                assert collector.post(pack(batch))[0] == 200
            found.append(collector.tallies())
    merged = merge([*found[0].values(), *found[1].values()])
    assert merged == {tally.metric.metric_hash: tally for tally in found[2].values()}
