"""Pairs in a running collector, whichever store: counted once, over stops and kills, handed out as tallies are."""

import json
import signal
import time
from random import Random

import pytest

from hubbub.protocol.pair import PairTally, count_pairs
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import merge
from hubbub.protocol.tally_files import fetch_pair_tallies, read_pair_tallies, read_tallies
from hubbub.protocol.wire import pack
from tests.collector.kit import PAIRED_TOML, PAIRS, REGISTRY, REGISTRY_TOML, Collector, random_batch, run_command
from tests.collector.test_stopped import command, take_up

METRICS = [REGISTRY[name] for name in ("dark_theme", "language", "homepage", "minutes")]


def make(number: int, seed: int = 1) -> list[Batch]:
    random = Random(seed)
    return [random_batch(random, METRICS, time.time()) for _ in range(number)]


def expected(batches: list[Batch]) -> dict[str, PairTally]:
    found = [count_pairs(pair, batches) for pair in PAIRS]
    return {tally.pair.name: tally for tally in found if tally.epochs}


def collector_with_pairs(folder, *flags, toml: str = PAIRED_TOML) -> Collector:
    folder.mkdir(exist_ok=True)
    (folder / "metrics.toml").write_text(toml)
    return Collector(folder, *flags)


def send(collector: Collector, batches: list[Batch]) -> None:
    for batch in batches:
        assert collector.send(batch)[0] == 200


@pytest.mark.usefixtures("each_store")
def test_pairs_are_counted_once_over_duplicates_stops_and_kills_and_exported(tmp_path):
    batches = make(30)
    with collector_with_pairs(tmp_path) as collector:
        send(collector, batches[:10])
        assert collector.pairs() == expected(batches[:10])
        send(collector, batches[5:20])
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    assert read_exported(tmp_path / "killed", *collector.place) == expected(batches[:20])
    with collector_with_pairs(tmp_path) as collector:
        assert collector.pairs() == expected(batches[:20])
        send(collector, batches)
        url = f"http://127.0.0.1:{collector.port}"
        online = read_exported(tmp_path / "online", "--url", url, "--token", collector.token)
        assert online == expected(batches) == collector.pairs()
        assert {t.pair.name: t for t in fetch_pair_tallies(url + "/v1/tallies", collector.token)} == online
        assert collector.tallies()["language"].num_reports == 30
        assert list(collector.pairs("?metric=theme_language")) == ["theme_language"]
        assert collector.pairs("?metric=language") == {}
        assert collector.pairs("?from=2020-01-01&to=2020-01-31") == {}
        assert json.loads(collector.get("/v1/tallies?metric=theme_language"))["tallies"] == []
    offline = tmp_path / "offline"
    assert read_exported(offline, *collector.place) == expected(batches)
    assert {path.name for path in offline.iterdir()} >= {"language.json", "language_homepage.json"}
    assert len(read_tallies(offline)) == len(METRICS)


def read_exported(out, *flags):
    done = run_command("export", "--out", out, *flags)
    assert done.returncode == 0, done.stderr
    return {tally.pair.name: tally for tally in read_pair_tallies(out)}


def test_a_relay_is_not_counted_in_pairs_and_the_operator_can_see_it(tmp_path):
    with collector_with_pairs(tmp_path) as collector:
        token = collector.relay_token()
        send(collector, make(3))
        headers = {"Authorization": f"Bearer {token}"}
        several = random_batch(Random(5), METRICS, time.time(), reports=2)
        for batch in (several, several, *make(1, seed=6)):  # the last is one install's, passed on as it was
            assert collector.post(pack(batch), path="/v1/relay", **headers)[0] == 200
        assert collector.tallies()["language"].num_reports == 6
        assert collector.pairs() == expected([*make(3), *make(1, seed=6)])
        assert b"\nhubbub_unpaired_batches_total 1\n" in collector.get("/metrics")


def test_stopping_either_metric_stops_the_pair(tmp_path):
    with collector_with_pairs(tmp_path) as collector:
        send(collector, make(2))
        assert command(collector, "homepage")[0] == 0
        take_up(collector)
        send(collector, make(3, seed=2))
        counted = {name: tally.num_batches for name, tally in collector.pairs().items()}
        before = expected(make(2))
        assert counted["language_homepage"] == before["language_homepage"].num_batches == 2
        assert counted["theme_language"] == 5


@pytest.mark.usefixtures("each_store")
def test_a_pair_is_counted_while_it_is_declared_and_kept_afterwards(tmp_path):
    batches = make(9)
    with collector_with_pairs(tmp_path) as collector:
        send(collector, batches[:3])
    with collector_with_pairs(tmp_path, toml=REGISTRY_TOML) as collector:
        send(collector, batches[3:6])
        assert collector.pairs() == expected(batches[:3])
        assert collector.stop(signal.SIGKILL) == -signal.SIGKILL
    assert read_exported(tmp_path / "out", *collector.place) == expected(batches[:3])
    with collector_with_pairs(tmp_path, toml=REGISTRY_TOML) as collector:
        assert collector.pairs() == expected(batches[:3])
    with collector_with_pairs(tmp_path) as collector:
        send(collector, batches[6:])
        assert collector.pairs() == expected(batches[:3] + batches[6:])


@pytest.mark.usefixtures("each_store")
def test_pairs_are_handed_out_in_steps_of_min_reports(tmp_path):
    with collector_with_pairs(tmp_path, "--min-reports", "20") as collector:
        send(collector, make(19))
        assert collector.pairs() == {}
        withheld = json.loads(collector.get("/v1/pairs?metric=theme_language"))["withheld"]
        assert [(item["metric"], item["num_reports"], item["min_reports"]) for item in withheld] == [
            ("theme_language", 19, 20)
        ]
        assert {item["metric"] for item in json.loads(collector.get("/v1/tallies"))["withheld"]} == {
            metric.name for metric in METRICS
        }
        send(collector, make(1, seed=2))
        assert collector.pairs()["theme_language"].num_batches == 20
        send(collector, make(5, seed=3))
        assert collector.pairs()["theme_language"].num_batches == 20


def test_the_pairs_of_two_collectors_merge_into_those_of_one(tmp_path):
    batches = make(16)
    found = []
    for name, share in (("one", batches[::2]), ("two", batches[1::2]), ("both", batches)):
        with collector_with_pairs(tmp_path / name) as collector:
            send(collector, share)
            found.append(collector.pairs())
    assert merge([*found[0].values(), *found[1].values()]) == merge(found[2].values())
    assert found[2] == expected(batches)


def test_a_reload_begins_and_ends_pairs_with_what_comes_next(tmp_path):
    batches = make(6)
    with collector_with_pairs(tmp_path, toml=REGISTRY_TOML) as collector:
        for part, toml in ((0, PAIRED_TOML), (1, REGISTRY_TOML)):
            send(collector, batches[3 * part : 3 * part + 2])
            (tmp_path / "metrics.toml").write_text(toml)
            before = collector.log_path.read_text().count('"reloaded"')
            collector.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 60
            while collector.log_path.read_text().count('"reloaded"') == before:
                assert time.monotonic() < deadline, collector.log_path.read_text()
                time.sleep(0.02)
            send(collector, batches[3 * part + 2 : 3 * part + 3])
        assert collector.pairs() == expected(batches[2:5])


def test_the_public_page_and_the_registry_document_say_so(tmp_path):
    with collector_with_pairs(tmp_path) as collector:
        document = json.loads(collector.get("/v1/metrics"))
        assert document["together"]["theme_language"] == ["dark_theme", "language"]
        page = collector.request("GET", "/privacy?lang=de")[2].decode()
        assert "Gezählt wird auch paarweise" in page
        assert collector.request("GET", "/v1/pairs")[0] == 401
