"""Segments at the collector: counted each by itself, handed out each by itself, and no dearer than one."""

from __future__ import annotations

import json
import statistics
import time
from itertools import cycle, islice
from pathlib import Path
from random import Random

import pytest

from hubbub.analysis import by_segment, undivided
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch
from hubbub.protocol.segments import Segment, all_segments
from hubbub.protocol.tally_files import fetch_answer, fetch_tallies
from hubbub.protocol.wire import pack
from tests.bench.collector_load import as_request, run, with_fresh_ids
from tests.bench.collector_throughput import LIMITLESS
from tests.collector.kit import REGISTRY_TOML, Collector, random_batch, run_command

SEGMENTS = '[segments]\na = ["0", "1", "2", "3", "4", "5", "6"]\nb = ["0", "1", "2", "3", "4", "5", "6"]\n'
"""64 of them, with `other`."""


def divided(segments: str = SEGMENTS) -> str:
    """The registry of the collector's tests, by segments."""
    before, bracket, after = REGISTRY_TOML.partition("[metrics.")
    return f"max_identifying_bits = 40\n{before}{segments}{bracket}{after}"


SOURCE = divided()
ASKED = Registry.parse(SOURCE)


def collector(folder: Path, *flags: str, source: str = SOURCE) -> Collector:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.toml").write_text(source, encoding="utf-8")
    return Collector(folder, *LIMITLESS, *flags)


def message(segment: Segment, random: Random, registry: Registry = ASKED) -> bytes:
    """One install of this segment: one report of each metric."""
    return pack(random_batch(random, [metric.in_segment(segment) for metric in registry], time.time()))


def test_each_segment_is_counted_by_itself_and_they_add_up(tmp_path) -> None:
    random = Random(1)
    sent: dict[Segment, int] = {}
    with collector(tmp_path) as running:
        for number, segment in enumerate(islice(all_segments(ASKED.segments), 0, 64, 9)):
            for _ in range(number + 1):
                assert running.post(message(segment, random))[0] == 200
            sent[segment] = number + 1
        tallies = fetch_tallies(f"http://127.0.0.1:{running.port}", running.token)
    assert {(tally.metric.segment, tally.num_reports) for tally in tallies} == set(sent.items())
    assert len(tallies) == len(sent) * len(ASKED)
    assert {tally.num_reports for tally in undivided(tallies)} == {sum(sent.values())}
    assert set(by_segment(tallies, "a")) == {value for (_, value), _ in sent}


def test_a_segment_that_the_registry_does_not_have_is_unknown(tmp_path) -> None:
    """Nothing is counted as another segment; an older registry is counted as it is."""
    other = Registry.parse(divided('[segments]\na = ["9"]\n'))
    with collector(tmp_path) as running:
        status, answer = running.post(message((("a", "9"),), Random(2), other))
        assert (status, answer["type"].rpartition(":")[2].rpartition("/")[2]) == (404, "metric-unknown")
    older = tmp_path / "older"
    older.mkdir()
    (older / "old.toml").write_text(other.source, encoding="utf-8")
    with collector(tmp_path, "--older-metrics", str(older)) as running:
        assert running.post(message((("a", "9"),), Random(2), other))[0] == 200


def test_a_stopped_metric_is_stopped_in_every_segment(tmp_path) -> None:
    first, *_ = all_segments(ASKED.segments)
    name = next(iter(ASKED)).name
    with collector(tmp_path) as running:
        running.post(message(first, Random(3)))
    assert run_command("stop", name, "--data", str(running.data)).returncode == 0
    with collector(tmp_path) as running:
        random = Random(4)
        for segment in islice(all_segments(ASKED.segments), 3):
            assert running.post(message(segment, random))[0] == 200
        tallies = fetch_tallies(f"http://127.0.0.1:{running.port}", running.token)
    counted = {tally.metric.name: tally.num_reports for tally in undivided(tallies)}
    assert counted.pop(name) == 1
    assert set(counted.values()) == {4}


def test_a_segment_with_few_reports_is_withheld(tmp_path) -> None:
    """And those of the others do not show it: totals are sums of what is shown."""
    many, few, *_ = all_segments(ASKED.segments)
    random = Random(5)
    with collector(tmp_path, "--min-reports", "20") as running:
        for segment, number in ((many, 23), (few, 7)):
            for _ in range(number):
                running.post(message(segment, random))
        answer = fetch_answer(f"http://127.0.0.1:{running.port}", running.token)
    assert {tally.metric.segment for tally in answer.tallies} == {many}
    assert {(item.metric_hash, item.num_reports) for item in answer.withheld} == {
        (metric.in_segment(few).metric_hash, 7) for metric in ASKED
    }


def test_the_public_registry_says_what_is_told_apart(tmp_path) -> None:
    with collector(tmp_path) as running:
        _, _, body = running.request("GET", "/v1/metrics")
    label = json.loads(body)["label"]
    assert label["segments"]["a"] == ["0", "1", "2", "3", "4", "5", "6", "other"]


@pytest.mark.proof
def test_64_segments_cost_hardly_more_than_one(tmp_path, figure) -> None:
    """Batches of eight metrics, all of one segment or of 64 in turn, to the same collector, by turns."""
    random = Random(6)
    every = list(all_segments(ASKED.segments))
    with collector(tmp_path) as running:
        pid = running.process.pid

        def load(segments: list[Segment]) -> float:
            each = cycle([with_fresh_ids(message(segment, random), random) for segment in segments])
            requests = (as_request(next(messages), "/v1/reports") for messages in islice(each, 6_400))
            return run(running.port, pid, requests).per_cpu_second

        load(every), load(every[:1])  # every epoch and segment is known from here on
        ratios = []
        for _ in range(9):
            one, many = load(every[:1]), load(every)
            ratios.append(many / one)
    figure("batches per CPU-second with 64 segments x 8 metrics, over one segment", f"{statistics.median(ratios):.3f}")
    assert len(list(ASKED)) == 8
    assert statistics.median(ratios) >= 0.9


def test_a_batch_is_of_one_segment_in_real_life_and_of_any_by_the_wire(tmp_path) -> None:
    """What the wire allows is counted right: each block by its own definition."""
    one, other, *_ = all_segments(ASKED.segments)
    random, metric = Random(7), next(iter(ASKED))
    blocks = [
        block
        for segment in (one, other)
        for block in random_batch(random, [metric.in_segment(segment)], time.time()).blocks
    ]
    with collector(tmp_path) as running:
        assert running.post(pack(Batch(random.randbytes(16), tuple(blocks))))[0] == 200
        tallies = fetch_tallies(f"http://127.0.0.1:{running.port}", running.token)
    assert {tally.metric.segment: tally.num_reports for tally in tallies} == {one: 1, other: 1}
