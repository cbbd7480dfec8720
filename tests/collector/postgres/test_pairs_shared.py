"""Pairs in a store that is shared: counted by whichever collector, moved over, spread, purged, ended by a registry."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.export import from_database, of_pairs, pair_tallies
from hubbub.collector.postgres.administration import create_store, migrate_store, purged_in, restore_purged_in
from hubbub.collector.postgres.importing import import_store
from hubbub.collector.postgres.session import connect
from hubbub.collector.postgres.shared import adopt, read_shared
from hubbub.collector.postgres.taking import take
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.cadence import DAY
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally_files import Wanted
from hubbub.protocol.wire import pack
from tests.collector.kit import PAIRED_TOML, REGISTRY_TOML
from tests.collector.postgres.test_several import start
from tests.collector.storage.test_pair_store import METRICS, expected, filled
from tests.collector.storage.test_pair_store import make as made_at

SHORT = PAIRED_TOML.replace("grace = 6", 'grace = 6\nretention = "10d"')


def make(number, seed=1):
    return made_at(number, seed, time.time())


def by_name(tallies):
    return {tally.pair.name: tally for tally in tallies}


def in_database(store):
    return by_name(from_database(store, Wanted()).pairs)


def seen(counter):
    return by_name(pair_tallies(counter.readable(of_pairs(Wanted())).cells))


def test_pairs_are_all_there_whichever_collector_took_and_folded_them(shop):
    batches = make(20)
    with shop.collector(PAIRED_TOML) as here, shop.collector(PAIRED_TOML) as there:
        here.send(*map(pack, batches[:8]))
        here.store._fold()
        there.send(*map(pack, batches[4:]))
        assert seen(here) == seen(there) == expected(batches)


def test_what_a_registry_said_last_begins_and_ends_pairs_for_all(shop):
    batches = make(9)
    with shop.collector(PAIRED_TOML) as here:
        here.send(*map(pack, batches[:3]))
        assert seen(here) == expected(batches[:3])
        with shop.collector(REGISTRY_TOML) as there:
            there.send(*map(pack, batches[3:6]))
            assert seen(here) == seen(there) == expected(batches[:3])
        with shop.collector(PAIRED_TOML):
            here.send(*map(pack, batches[6:]))
            assert seen(here) == expected(batches[:3] + batches[6:])


def test_pairs_past_their_retention_go_and_can_be_had_back(shop):
    batches = make(3)
    with shop.collector(SHORT) as here:
        here.send(*map(pack, batches))
        assert seen(here) == expected(batches)
        shop.move_clock(12 * DAY)
        here.keep()
        shop.move_clock(7200)  # a jump is believed once it has kept pace
        here.keep()
        gone = {item.metric: item.reports for item in purged_in(shop.address)}
        assert gone["theme_language"] == gone["language"] == 3
        assert seen(here) == {}
        restore_purged_in(shop.address, "theme_language")
        assert seen(here) == {"theme_language": expected(batches)["theme_language"]}


def test_pairs_move_over_from_a_folder_and_go_on(shop, tmp_path):
    batches = make(6)
    place = filled(tmp_path / "data", batches[:4], now=time.time())
    assert import_store(shop.address, place.path) == 4 * len(METRICS)
    assert in_database(shop.address) == expected(batches[:4])
    with shop.collector(PAIRED_TOML) as here:
        here.send(*map(pack, batches))
        assert seen(here) == expected(batches)


def test_pairs_of_several_databases_add_up(postgres, tmp_path, monkeypatch):
    store = ",".join([postgres.new_database(), postgres.new_database()])
    token = create_store(store, None)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "metrics.toml").write_text(PAIRED_TOML)
    batches = make(24)
    with start(tmp_path / "a", store, token, monkeypatch) as collector:
        for batch in batches:
            assert collector.send(batch)[0] == 200
        assert collector.pairs() == expected(batches)
    assert in_database(store) == expected(batches)


@pytest.mark.parametrize("how", ["a reload", "another collector", "a crash and a restart"])
@pytest.mark.parametrize("ends", [True, False], ids=["a pair ends", "a pair begins"])
def test_batches_count_in_the_pairs_of_the_registry_that_held_when_they_were_taken(shop, ends, how):
    """They were acknowledged under the registry before, perhaps read, and are only in the journal when others come."""
    before, after = (PAIRED_TOML, REGISTRY_TOML) if ends else (REGISTRY_TOML, PAIRED_TOML)
    batches = make(6)
    early, late = batches[:4], batches[4:]
    with shop.collector(before) as here:
        here.send(*map(pack, early))
        match how:
            case "a reload":
                here.adopt(after)
                here.send(*map(pack, late))
            case "another collector":
                with shop.collector(after) as there:
                    here.send(*map(pack, late))
                    assert seen(there) == seen(here)
    with shop.collector(after) as here:
        here.send(*map(pack, late))
        counted = expected(early if ends else late)
        assert seen(here) == counted
        here.store._fold()
        assert seen(here) == counted
    assert in_database(shop.address) == counted
    assert shop.rows("select count(*) from journal") == [(0,)]


def test_a_group_that_was_on_its_way_when_the_pairs_changed_counts_in_those_it_was_taken_under(shop):
    """It was let in before the change and is stored after it: its row says which of the two it was."""
    batches = make(2)
    with shop.collector(PAIRED_TOML) as here, connect(shop.address) as rival, connect(shop.address) as connection:
        here.send(pack(batches[0]))  # the lot is open
        arrival, shared = here.read(pack(batches[1])), here.store._shared
        connection.execute("set lock_timeout = '60s'; set statement_timeout = '60s'")
        with ThreadPoolExecutor() as pool:
            with rival.transaction(force_rollback=True):  # somebody has the same id, and will not keep it
                row = (arrival.layout.lot, arrival.id_record[:16].hex())
                rival.execute("insert into ids values (%s, %s, 0)", row)
                stored = pool.submit(take, connection, shared, [arrival])
                shop.wait_for("select pid from pg_stat_activity where wait_event = 'transactionid'")
                with connect(shop.address) as other:
                    adopt(other, Catalog(Registry.parse(REGISTRY_TOML)).counted, min_reports=0)
            assert stored.result() == [Verdict.STORED]
        ((of_the_group,),) = shop.rows("select max(turn) from journal")
        assert of_the_group == shared.turn < read_shared(connection).turn
        assert seen(here) == expected(batches)


def test_pairs_that_came_and_went_while_the_journal_waited_count_what_came_with_them(shop):
    batches = make(9)
    with shop.collector(PAIRED_TOML) as here:
        for start, toml in ((0, REGISTRY_TOML), (3, PAIRED_TOML), (6, REGISTRY_TOML)):
            here.send(*map(pack, batches[start : start + 3]))
            here.adopt(toml)
        counted = expected(batches[:3] + batches[6:])
        assert seen(here) == counted
        here.store._fold()
        assert seen(here) == counted


def test_batches_that_a_store_of_the_second_version_had_waiting_count_in_the_pairs_it_had(shop):
    batches = make(4)
    with shop.collector(PAIRED_TOML) as here:
        here.send(*map(pack, batches))
    with connect(shop.address) as connection:
        connection.execute("alter table journal drop column turn; alter table metrics drop column counted_in")
        connection.execute("drop function take_new; update state set version = 2")
    assert [(was, now) for _, was, now in migrate_store(shop.address)] == [(2, 3)]
    with shop.collector(REGISTRY_TOML) as here:
        here.send(*map(pack, make(3, seed=2)))
        assert seen(here) == expected(batches)


def test_pairs_that_had_ended_when_a_folder_moves_over_stay_ended_and_the_others_end_when_they_are_left_out(
    shop, tmp_path
):
    batches = make(9)
    place = filled(tmp_path / "data", batches[:3], now=time.time())
    filled(tmp_path / "data", batches[3:6], REGISTRY_TOML, now=time.time())
    import_store(shop.address, place.path)
    assert shop.rows("select count(*) from metrics where counted_in <> '{}'") == [(0,)]
    with shop.collector(REGISTRY_TOML) as here:
        here.send(*map(pack, batches[6:]))
        assert seen(here) == expected(batches[:3])
