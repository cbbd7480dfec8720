"""A store that is spread over several databases: each batch in one, chosen by its id, the list fixed for each lot."""

import json
import signal
import time

import psycopg
import pytest

from hubbub.collector.export import from_database
from hubbub.collector.postgres.administration import (
    add_databases,
    check_store,
    create_store,
    migrate_store,
    purged_in,
    restore_purged_in,
    status_of,
    tokens_in,
)
from hubbub.collector.postgres.importing import import_store
from hubbub.collector.postgres.listed import listed
from hubbub.collector.settings import Settings, databases_in
from hubbub.protocol.cadence import DAY
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally_files import Wanted
from tests.collector import kit
from tests.collector.kit import REGISTRY, REGISTRY_TOML, Collector, run_command
from tests.collector.postgres.kit import Shop
from tests.collector.postgres.test_taking import METRICS, make
from tests.postgres_server import Server, ask

DAILY = [REGISTRY["dark_theme"]]


@pytest.fixture
def two(postgres):
    """The addresses of a store in two databases, and its read token."""
    addresses = [postgres.new_database(), postgres.new_database()]
    return addresses, create_store(",".join(addresses), None)


def start(folder, store, token, monkeypatch, *flags):
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(kit, "new_store", lambda: (store, token))
    return Collector(folder, *flags)


def ids_in(address):
    return ask(address, "select count(*) from ids")[0][0]


def test_commas_between_hosts_are_not_those_between_databases(tmp_path):
    store = "postgresql://me@a,b/x?sslmode=require,service=second,postgres://c/y"
    assert databases_in(store) == ["postgresql://me@a,b/x?sslmode=require", "service=second", "postgres://c/y"]
    with pytest.raises(Invalid, match="store must name each database once, got 'service=a,service=a'"):
        Settings(metrics=tmp_path, store="service=a,service=a")


def test_batches_are_spread_counted_once_and_read_together(two, tmp_path, monkeypatch):
    addresses, token = two
    messages = [make(seed) for seed in range(24)]
    with (
        start(tmp_path / "a", ",".join(addresses), token, monkeypatch) as here,
        start(tmp_path / "b", ",".join(addresses), token, monkeypatch) as there,
    ):
        assert {here.post(message)[1]["status"] for message in messages} == {"stored"}
        assert {there.post(message)[1]["status"] for message in messages} == {"duplicate"}
        shares = [ids_in(address) for address in addresses]
        assert (sum(shares), min(shares) > 0) == (24, True)
        assert {tally.num_reports for tally in there.tallies().values()} == {24}
        first = there.request("GET", "/v1/tallies", Authorization=f"Bearer {token}")[1]["ETag"]
        assert there.request("GET", "/v1/tallies", Authorization=f"Bearer {token}", If_None_Match=first)[0] == 304
        words = there.get("/metrics").decode()
        assert "hubbub_databases 2\n" in words
        assert "hubbub_store_reachable 1\n" in words
        store = ("--store", ",".join(addresses))
        exported = from_database(store[1], Wanted())
        assert {tally.num_reports for tally in exported.tallies} == {24}
        board = run_command("token", "new", *store, "--name", "board").stdout.strip()
        there.wait_for_token(board)
        assert run_command("stop", "homepage", *store).returncode == 0
        assert run_command("stop", "--list", *store).stdout == "homepage\n"
    status = status_of(",".join(addresses))
    assert [line.partition(", ")[2] for line in status if "schema" in line] == [
        f"database test_{address.rpartition('_')[2]} at 127.0.0.1 port {address.rpartition(':')[2].partition('/')[0]}: "
        f"schema version 3, database {number} of its store"
        for number, address in enumerate(addresses, 1)
    ]
    reports = [int(line.split()[3]) for line in check_store(",".join(addresses)) if line.startswith("counts: ")]
    assert sum(reports) == 24 * len(METRICS)


def test_while_one_database_is_away_the_batches_of_the_other_are_taken(
    postgres, postgres_template, tmp_path, monkeypatch
):
    second = Server().make(postgres_template).start()
    try:
        store = f"{postgres.new_database()},{second.new_database()}"
        token = create_store(store, None)
        with start(tmp_path, store, token, monkeypatch) as collector:
            assert collector.post(make(0))[0] == 200
            second.stop(signal.SIGKILL)
            answers = [collector.post(make(seed)) for seed in range(1, 20)]
            assert {status for status, _ in answers} == {200, 503}
            assert {said["type"] for status, said in answers if status == 503} == {
                "urn:hubbub:problem:store-unreachable"
            }
            collector.wait_for_notice("the database cannot be reached; batches are refused until it can")
            assert f"port {second.port}" in collector.log_path.read_text()
            assert collector.request("GET", "/readyz")[0] == 200
            assert "hubbub_databases_unreachable 1\n" in collector.get("/metrics").decode()
            assert collector.request("GET", "/v1/tallies", Authorization=f"Bearer {token}")[0] == 503, (
                "not a part of it"
            )
            second.start()
            collector.wait_for_notice("the database is reached again")
            again = [collector.post(make(seed))[1]["status"] for seed in range(1, 20)]
            assert again == ["duplicate" if status == 200 else "stored" for status, _ in answers]
            assert {tally.num_reports for tally in collector.tallies().values()} == {20}
    finally:
        second.remove()


def test_a_list_that_is_not_the_stores_is_refused_in_words(two, postgres, tmp_path):
    (first, second), _ = two
    other, _ = postgres.new_store()
    another = [postgres.new_database(), postgres.new_database()]
    create_store(",".join(another), None)
    for wrong, words in (
        ([second, first], "is database 2 of its store, got it in place 1"),
        ([first], "store must name all databases of the store, 2 in number, got 1"),
        ([first, other], "is database 1 of its store, got it in place 2"),
        ([first, another[1]], "belongs to another store than the first database"),
        ([first, second, postgres.new_database()], "this database has no store of hubbub"),
    ):
        with pytest.raises(Invalid, match=words):
            listed(",".join(wrong))
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    flags = ("--metrics", tmp_path / "metrics.toml", "--port", "0", "--data", tmp_path / "data")
    said = run_command("collect", *flags, "--store", first)
    assert (said.returncode, "2 in number, got 1" in said.stderr) == (2, True)
    with pytest.raises(Invalid, match="import must go into a store of one database"):
        import_store(f"{first},{second}", tmp_path)
    assert "2 in number, got 1" in run_command("export", "--store", first, "--out", tmp_path / "x").stderr


def test_a_longer_list_holds_for_lots_that_open_from_then_on(postgres, tmp_path, monkeypatch):
    first, second = postgres.new_database(), postgres.new_database()
    token = create_store(first, None)
    yesterday = time.time() - DAY
    with start(tmp_path / "old", first, token, monkeypatch) as old:
        for seed in range(8):
            assert old.post(make(seed, DAILY))[0] == 200
        with pytest.raises(Invalid, match="must name more databases than the 1 that the store has, got 1"):
            add_databases(first, None)
        assert add_databases(f"{first},{second}", None) == 2
        assert old.post(make(8, DAILY))[1]["status"] == "stored", "this lot stays in the first"
        status, said = old.post(make(9, DAILY, yesterday))
        assert (status, "spread over 2 databases, and this collector was started with 1" in said["detail"]) == (
            503,
            True,
        )
        with start(tmp_path / "new", f"{first},{second}", token, monkeypatch) as new:
            assert {new.post(make(seed, DAILY))[1]["status"] for seed in range(9)} == {"duplicate"}
            assert {new.post(make(seed, DAILY, yesterday))[1]["status"] for seed in range(9, 29)} == {"stored"}
            assert ids_in(first) < 29 < ids_in(first) + 1 + ids_in(second)
            assert ids_in(second) > 0
            assert new.tallies()["dark_theme"].num_reports == 29


def test_while_ids_are_imported_lots_stay_in_the_first_database(postgres, tmp_path, monkeypatch):
    with Collector(tmp_path) as embedded:
        for seed in range(12):
            assert embedded.post(make(seed, DAILY))[0] == 200
    first, second = postgres.new_database(), postgres.new_database()
    create_store(first, None)
    import_store(first, embedded.data)
    add_databases(f"{first},{second}", None)
    with start(tmp_path / "new", f"{first},{second}", embedded.token, monkeypatch) as new:
        assert {new.post(make(seed, DAILY))[1]["status"] for seed in range(12)} == {"duplicate"}
        assert new.tallies()["dark_theme"].num_reports == 12


def test_each_database_has_kept_reports_in_files_of_its_own(two, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    keeping = REGISTRY_TOML.replace("grace = 6", "grace = 6\nkeep_reports = true")
    for number, address in enumerate(two[0]):
        shop = Shop(address, tmp_path / "data")
        with shop.collector(keeping, number=number, databases=2) as here:
            here.send(*(make(seed, DAILY) for seed in range(3 + number)))
            shop.move_clock(8 * DAY)
            here.keep()
    found = {path.parent.parent.name: parquet.read_table(path).num_rows for path in tmp_path.rglob("*.parquet")}
    assert found == {"database-1": 3, "database-2": 4}


def test_what_was_purged_comes_back_in_all_databases(two, tmp_path):
    short = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "30d"')
    store = ",".join(two[0])
    for number, address in enumerate(two[0]):
        shop = Shop(address, tmp_path)
        with shop.collector(short, number=number, databases=2) as here:
            here.send(make(number, DAILY))
            here.store._fold()
            shop.move_clock(60 * DAY)
            here.keep()
    assert [(item.metric, item.reports) for item in purged_in(store)] == [("dark_theme", 2)]
    assert [(item.metric, item.reports) for item in restore_purged_in(store, None)] == [("dark_theme", 2)]
    assert purged_in(store) == []


def test_a_store_of_the_first_version_is_brought_up_with_all_it_has(postgres, tmp_path):
    address = postgres.new_database()
    shop = Shop(address, tmp_path)
    schema = kit.ROOT / "collector/hubbub/collector/postgres/schema.sql"
    with psycopg.connect(address) as connection:
        connection.execute(schema.read_bytes())
        connection.execute("select open_lots(array[80000])")
        connection.execute("insert into tokens values ('x', 'read', 'old')")
    with pytest.raises(Invalid, match="must have version 3, got 1; `hubbub store migrate` brings it up"):
        listed(address)
    assert [(was, now) for _, was, now in migrate_store(address)] == [(1, 3)]
    assert shop.rows("select lot, databases from lots") == [(80000, 1)]
    assert [token.name for token in tokens_in(address)] == ["old"]
    with shop.collector() as here:
        assert [str(verdict) for verdict in here.send(make(1), make(1))] == ["stored", "duplicate"]
        assert here.reports() == len(METRICS)


def test_a_reload_reaches_all_databases(two, tmp_path, monkeypatch):
    addresses, token = two
    with start(tmp_path, ",".join(addresses), token, monkeypatch) as collector:
        toml = (tmp_path / "metrics.toml").read_text()
        (tmp_path / "metrics.toml").write_text(toml.replace("grace = 6", "grace = 5"))
        collector.process.send_signal(signal.SIGHUP)
        collector.wait_for_notice("reloaded")
        assert [ask(address, "select distinct grace from metrics") for address in addresses] == [[(5,)], [(5,)]]
        assert json.loads(collector.request("GET", "/v1/metrics")[2])
