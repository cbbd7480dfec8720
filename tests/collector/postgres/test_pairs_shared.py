"""Pairs in a store that is shared: counted by whichever collector, moved over, spread, purged, ended by a registry."""

import time

from hubbub.collector.export import from_database, of_pairs, pair_tallies
from hubbub.collector.postgres.administration import create_store, purged_in, restore_purged_in
from hubbub.collector.postgres.importing import import_store
from hubbub.protocol.cadence import DAY
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
    return by_name(pair_tallies(counter.lent(of_pairs(Wanted())).cells))


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
