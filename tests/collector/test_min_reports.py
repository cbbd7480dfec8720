"""`--min-reports` as a reader meets it: over HTTP and in `hubbub export`, across stops and kills."""

import json
import signal
import time
from random import Random

import pytest

from tests.collector.kit import REGISTRY, Collector, random_batch, run_command

METRIC = [REGISTRY["dark_theme"]]
RULE = ("--min-reports", "20")

pytestmark = pytest.mark.usefixtures("each_store")


def send(collector, random, count):
    for _ in range(count):
        assert collector.send(random_batch(random, METRIC, time.time()))[0] == 200


def shown(collector):
    """How many reports an answer shows and withholds."""
    answer = json.loads(collector.get("/v1/tallies"))
    reports = sum(sum(epoch["num_reports"]) for tally in answer["tallies"] for epoch in tally["epochs"])
    return reports, sum(item["num_reports"] for item in answer["withheld"])


def export(*flags):
    done = run_command("export", *flags)
    assert done.returncode == 0, done.stderr
    return done


def test_a_reader_sees_steps_of_20_also_after_a_stop_and_a_kill(tmp_path):
    random = Random(1)
    with Collector(tmp_path, *RULE) as collector:
        send(collector, random, 3)
        assert shown(collector) == (0, 3)
        url = ("--url", f"http://127.0.0.1:{collector.port}", "--token", collector.token)
        said = export(*url, "--out", str(tmp_path / "a"))
        assert said.stdout == ""
        words = "dark_theme: withheld: 3 of 20; counts are shown in steps of at least 20 reports\n"
        assert said.stderr == words
        send(collector, random, 22)
        assert shown(collector) == (25, 0)
        send(collector, random, 19)
        assert shown(collector) == (25, 19)
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    with Collector(tmp_path, *RULE) as collector:
        assert shown(collector) == (25, 19)
    said = export(*collector.place, "--out", str(tmp_path / "b"))
    assert said.stderr == words.replace("3 of 20", "19 of 20")
    assert "dark_theme, 1 epoch, 25 reports" in said.stdout
    with Collector(tmp_path, *RULE) as collector:
        send(collector, random, 1)
        assert shown(collector) == (45, 0)


def test_without_the_rule_everything_is_seen_at_once(tmp_path):
    with Collector(tmp_path, "--min-reports", "0") as collector:
        assert json.loads(collector.get("/v1/tallies")) == {"tallies": [], "withheld": []}
        send(collector, Random(2), 1)
        assert shown(collector) == (1, 0)
