"""A stopped metric: its reports are accepted and thrown away; for clients and other metrics nothing changes."""

import json
import signal
import time
from random import Random

import pytest

from hubbub.collector.intake import Intake
from hubbub.collector.stopped import doubts_about, metric_names
from hubbub.protocol.report import Batch
from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON, pack, to_json
from tests.collector.kit import REGISTRY, Collector, random_batch, run_command
from tests.collector.test_intake import CATALOG, NOW

METRICS = list(REGISTRY)
NAMES = sorted(REGISTRY.metrics)


def command(collector, *arguments):
    done = run_command("stop", *arguments, *collector.place)
    return done.returncode, done.stdout + done.stderr


def make(seed, metrics=METRICS):
    return random_batch(Random(seed), metrics, time.time())


def stopped_total(collector):
    (line,) = [line for line in collector.get("/metrics").decode().splitlines() if line.startswith("hubbub_stopped")]
    return int(line.split()[1])


def take_up(collector):
    """A list is looked at when a batch comes, at most once a second."""
    deadline, before = time.monotonic() + 60, collector.log_path.read_text().count("thrown away")
    while collector.log_path.read_text().count("thrown away") == before:
        assert time.monotonic() < deadline, "it never took the list up"
        collector.post(pack(make(0, METRICS[:1])))
        time.sleep(0.05)


@pytest.mark.usefixtures("each_store")
def test_a_stopped_metric_is_answered_200_and_not_counted_until_that_is_undone(tmp_path):
    homepage = [metric for metric in METRICS if metric.name == "homepage"]
    with Collector(tmp_path) as collector:
        first = make(1)
        assert collector.send(first)[1]["status"] == "stored"
        assert command(collector, "homepage") == (0, "homepage is stopped: its reports are accepted and thrown away\n")
        assert command(collector, "--list") == (0, "homepage\n")
        but = "but no metric of this collector has the name"
        for name, near in (("hompage", "did you mean homepage?"), ("nope", f"its metrics are: {', '.join(NAMES)}")):
            done = f"{name} is stopped: its reports are accepted and thrown away\n{but} {name} now; {near}\n"
            assert command(collector, name) == (0, done)
            assert command(collector, name, "--undo")[0] == 0
        take_up(collector)
        mixed, alone = make(2), make(3, homepage)
        for batch in (mixed, alone):
            assert collector.send(batch) == (200, {"status": "stored", "batch_id": batch.batch_id.hex()})
        for batch in (first, mixed):
            assert collector.send(batch)[1]["status"] == "duplicate", "a batch is known again, whatever is left of it"
        counted = {name: tally.num_reports for name, tally in collector.tallies().items()}
        assert counted["homepage"] == 1
        assert counted["language"] == 2
        assert stopped_total(collector) == 2
        assert command(collector, "homepage", "--undo")[0] == 0
        assert command(collector, "--list") == (0, "no metric is stopped\n")
        take_up(collector)
        assert collector.send(make(4))[1]["status"] == "stored"
        collector.stop(signal.SIGKILL)
    with Collector(tmp_path) as again:
        counted = {name: tally.num_reports for name, tally in again.tallies().items()}
        assert (counted["homepage"], counted["language"]) == (2, 3)


def test_what_is_thrown_away_is_on_no_disk(tmp_path):
    with Collector(tmp_path) as collector:
        command(collector, "homepage")
        take_up(collector)
        batch = make(5)
        collector.send(batch)
        (block,) = [block for block in batch.blocks if block.metric.name == "homepage"]
        (other,) = [block for block in batch.blocks if block.metric.name == "country"]
        collector.stop(signal.SIGKILL)
    log = b"".join(path.read_bytes() for path in (collector.data / "log").iterdir())
    assert bytes(other.vectors) in log
    assert bytes(block.vectors) not in log


def test_a_list_that_cannot_be_read_changes_nothing_and_is_named(tmp_path):
    with Collector(tmp_path) as collector:
        (collector.data / "stopped").write_bytes(b"\xff\n")
        collector.send(make(6))
        collector.wait_for_notice("the list of stopped metrics cannot be read and stays as it was")
        assert collector.tallies()["homepage"].num_reports == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("homepage", "--undo"), "NAME must be a stopped metric's, got 'homepage'; stopped are: none"),
        (("Not a name",), "NAME must be a metric's, got 'Not a name'"),
        ((), "either NAME or --list must be given"),
        (("homepage", "--list"), "either NAME or --list must be given"),
    ],
)
def test_the_command_refuses_in_words(tmp_path, arguments, words):
    (tmp_path / "data").mkdir()
    done = run_command("stop", *arguments, "--data", tmp_path / "data")
    assert (done.returncode, words in done.stderr) == (2, True)


def test_where_no_collector_was_at_work_yet_nothing_is_said_of_names(tmp_path):
    (tmp_path / "data").mkdir()
    done = run_command("stop", "homepage", "--data", tmp_path / "data")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["stopped"]


def test_a_pair_is_no_metric_and_an_old_metric_is_one():
    definitions = [{"name": "both", "metrics": [{}, {}]}, {"name": "b"}, {"name": "a"}, {"name": "a", "segment": {}}]
    assert metric_names(definitions) == ["a", "b"]
    assert doubts_about("both", ["a", "b"]) == (
        "but no metric of this collector has the name both now; its metrics are: a, b"
    )
    assert doubts_about("a", ["a", "b"]) == doubts_about("both", []) == ""


@pytest.mark.parametrize("relayed", [False, True])
def test_whatever_the_form_the_rest_is_what_the_batch_would_be_without_it(relayed):
    stopped = {"homepage", "minutes"}
    for seed in range(30):
        batch = random_batch(Random(seed), METRICS, NOW, reports=3 if relayed else 1)
        rest = Batch(batch.batch_id, tuple(block for block in batch.blocks if block.metric.name not in stopped))
        whole = Intake(CATALOG, lambda: NOW, {}).read(pack(batch), MEDIA_TYPE, relayed)
        intake = Intake(CATALOG, lambda: NOW, {}, stopped=lambda: stopped)
        for body, media_type in ((pack(batch), MEDIA_TYPE), (json.dumps(to_json(batch)).encode(), MEDIA_TYPE_JSON)) * 2:
            arrival = intake.read(body, media_type, relayed)
            assert arrival.message == pack(rest)
            assert arrival.id_record == whole.id_record
            assert arrival.num_stopped == whole.layout.num_reports - sum(block.count for block in rest.blocks)
