"""The operator's commands on a store that collectors share, and a collector process on one."""

import json
import re
import signal
import time
from random import Random

import pytest

from hubbub.protocol.cadence import DAY
from hubbub.protocol.wire import pack
from tests.collector import kit
from tests.collector.kit import REGISTRY, REGISTRY_TOML, Collector, random_batch, run_command
from tests.collector.postgres.test_taking import METRICS, make
from tests.postgres_server import ask


def run(*words, status=0):
    done = run_command(*words)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def shared(postgres, monkeypatch):
    """Collectors of this test share a store for each folder."""
    monkeypatch.setattr(kit, "new_store", postgres.new_store)
    return postgres


def test_a_store_is_made_looked_at_and_checked(postgres, tmp_path):
    address = postgres.new_database()
    store = ("--store", address)
    said = run("store", "create", *store)
    token = re.search(r"Read token, shown this once:  (\S+)", said)[1]
    assert "first" in run("token", "list", *store)
    assert token not in run("token", "list", *store)
    assert run("store", "migrate", *store).endswith("schema version 3, as it was\n")
    assert run("store", "check", *store).endswith("no damage found\n")
    assert "metrics: 0 definitions" in run("store", "status", *store)
    assert "must not be there yet" in run("store", "create", *store, status=2)
    assert "--data must be given to `hubbub store import`" in run("store", "status", *store, "--data", "x", status=2)
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    started = run("collect", "--check", "--metrics", tmp_path / "metrics.toml", *store, "--port", "0")
    assert "schema version 3" in started


def test_tokens_are_made_and_revoked_beside_running_collectors(shared, tmp_path):
    with Collector(tmp_path) as collector:
        token = run("token", "new", *collector.place, "--name", "board").strip()
        collector.wait_for_token(token)
        assert run("token", "revoke", "board", *collector.place) == "1 token named board revoked\n"
        collector.wait_for_token(token, accepted=False)
        assert "NAME must be a token's" in run("token", "revoke", "board", *collector.place, status=2)


def test_an_embedded_store_moves_over_with_all_it_knows(postgres, tmp_path, monkeypatch):
    batches = [random_batch(Random(seed), METRICS, time.time()) for seed in range(3)]
    folder = tmp_path / "embedded"
    folder.mkdir()
    with Collector(folder, "--min-reports", "2") as before:
        for batch in batches[:2]:
            before.send(batch)
        before.tallies()
        before.send(batches[2])
        run("stop", "language", "--data", before.data)
    address, _ = postgres.new_store()
    said = run("store", "import", "--store", address, "--data", before.data)
    assert f"{3 * len(METRICS)} reports imported" in said
    assert "must be new" in run("store", "import", "--store", address, "--data", before.data, status=2)
    assert run("stop", "--list", "--store", address) == "language\n"
    run("stop", "language", "--undo", "--store", address)
    monkeypatch.setattr(kit, "new_store", lambda: (address, before.token))
    with Collector(tmp_path, "--min-reports", "2") as after:
        shown = {tally.num_reports for tally in after.tallies().values()}
        assert shown == {2}, "steps go on where they were"
        assert [after.send(batch)[1]["status"] for batch in batches] == ["duplicate"] * 3
        other = pack(random_batch(Random(9), METRICS, time.time()))
        clash = other[:8] + batches[0].batch_id + other[24:]
        assert after.post(clash)[0] == 400, "the crc of a message covers its id"
        assert after.send(random_batch(Random(9), METRICS, time.time()))[1]["status"] == "stored"
        assert {tally.num_reports for tally in after.tallies().values()} == {4}
    postgres_ids = ask(address, "select count(*), (select imported from state) from imported_ids")
    assert postgres_ids == [(3, True)]


def test_a_store_that_was_not_stopped_in_peace_is_not_imported(postgres, tmp_path):
    with Collector(tmp_path) as collector:
        collector.send(random_batch(Random(1), METRICS, time.time()))
        collector.stop(signal.SIGKILL)
    address, _ = postgres.new_store()
    said = run("store", "import", "--store", address, "--data", collector.data, status=2)
    assert "must have stopped in peace" in said
    assert ask(address, "select count(*) from counts") == [(0,)]


def test_a_collector_lives_through_an_absence_of_its_database(shared, tmp_path):
    with Collector(tmp_path) as collector:
        assert collector.post(make(1))[0] == 200
        shared.stop(signal.SIGQUIT)
        try:
            status, headers, body = collector.request(
                "POST", "/v1/reports", make(2), Content_Type="application/vnd.hubbub.reports"
            )
            assert (status, json.loads(body)["type"]) == (503, "urn:hubbub:problem:store-unreachable")
            assert 5 <= int(headers["Retry-After"]) <= 30
            collector.wait_for_notice("the database cannot be reached; batches are refused until it can")
            assert collector.request("GET", "/readyz")[0] == 503
            assert collector.request("GET", "/healthz")[0] == 200
            status, _, body = collector.request("GET", "/v1/tallies", Authorization=f"Bearer {collector.token}")
            assert (status, json.loads(body)["type"]) == (503, "urn:hubbub:problem:store-unreachable")
        finally:
            shared.start()
        collector.wait_for_notice("the database is reached again")
        assert collector.request("GET", "/readyz")[0] == 200
        assert collector.post(make(1))[1]["status"] == "duplicate"
        assert collector.post(make(2))[0] == 200
        assert {tally.num_reports for tally in collector.tallies().values()} == {2}


def test_kept_reports_become_a_file_when_their_epoch_closes_and_go_with_their_retention(shop):
    parquet = pytest.importorskip("pyarrow.parquet")
    keeping = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "30d"\nkeep_reports = true')
    with shop.collector(keeping) as here, shop.collector(keeping) as there:
        here.send(*(make(seed, [REGISTRY["homepage"]]) for seed in range(5)))
        there.send(make(5, [REGISTRY["homepage"]]))
        here.keep()
        assert list(shop.folder.rglob("*.parquet")) == []
        shop.move_clock(8 * DAY)
        there.keep()
        (path,) = shop.folder.rglob("*.parquet")
        assert parquet.read_table(path).num_rows == 6
        assert shop.rows("select count(*) from kept") == [(0,)]
        here.keep()
        assert parquet.read_table(path).num_rows == 6
        shop.move_clock(60 * DAY)
        here.keep()
        assert not path.exists()
