"""A batch counts once, whichever collectors it comes to, how often and with what settings they run."""

import time
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.message_layout import LOT_CADENCES
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.cadence import DAY, epoch_of
from hubbub.protocol.report import Batch
from hubbub.protocol.wire import pack, unpack
from tests.collector.kit import REGISTRY, REGISTRY_TOML, random_batch, random_report

METRICS = list(REGISTRY)
STORED, DUPLICATE, REUSED, CLOSED = Verdict.STORED, Verdict.DUPLICATE, Verdict.ID_REUSED, Verdict.EPOCH_CLOSED


def make(seed, metrics=METRICS, now=None, **options):
    return pack(random_batch(Random(seed), metrics, now or time.time(), **options))


def with_id(message, other):
    """The same reports as those of `message`, under the id of `other`."""
    batch = unpack(message, {metric.short_hash: metric for metric in METRICS})
    return pack(Batch(other[8:24], batch.blocks))


def test_a_batch_counts_once_whichever_collector_it_comes_to(shop):
    first, second, third = make(1), make(2), make(3)
    with shop.collector() as here, shop.collector() as there:
        assert here.send(first, second) == [STORED, STORED]
        assert there.send(second, third, first) == [DUPLICATE, STORED, DUPLICATE]
        assert there.send(with_id(third, first)) == [REUSED]
        assert here.reports() == there.reports() == 3 * len(METRICS)


def test_an_id_that_comes_twice_in_one_group_is_stored_once(shop):
    first, second = make(1), make(2)
    with shop.collector() as here:
        assert here.send(first, first, with_id(second, first), second) == [STORED, DUPLICATE, REUSED, STORED]
        assert here.send(first, with_id(second, first)) == [DUPLICATE, REUSED]
        assert here.reports() == 2 * len(METRICS)


def test_a_group_in_part_known_stores_only_what_is_new_in_any_order(shop):
    messages = [make(seed, reports=1 + seed % 3) for seed in range(40)]
    with shop.collector() as here:
        for some in (messages[::3], messages[::-1], messages):
            here.send(*some)
        batches = [unpack(message, {metric.short_hash: metric for metric in METRICS}) for message in messages]
        assert here.reports() == sum(block.count for batch in batches for block in batch.blocks)


def test_groups_are_asked_about_one_by_one_only_after_one_that_was_not_all_new(shop):
    """One in vain costs more, and leaves rows to be cleared away: whoever sends all twice is to cost as much once."""
    first, second, third = make(1), make(2), make(3)
    with shop.collector() as here:
        here.send(first)
        for sent, all_new in ((first, False), (first, False), (second, True), (third, True)):
            here.send(sent)
            assert here.store._expect_new is all_new
        assert here.reports() == 3 * len(METRICS)


def test_an_id_that_came_before_is_not_in_the_servers_log(postgres, shop):
    """The server tells of whatever goes wrong in a statement, with the key that was there and the time."""
    ((database,),) = shop.rows("select current_database()")
    shop.rows(f"alter database {database} set log_min_messages = warning")
    first = make(1)
    with shop.collector() as here:
        assert here.send(first) + here.send(first, make(2)) == [STORED, DUPLICATE, STORED]
        shop.rows("update state set turn = turn + 1")
        here.send(make(3))
    log = (postgres.folder / "log").read_text()
    assert "what the collector knows is no longer so" in log, "such as this one, which says nothing about a batch"
    assert str(UUID(bytes=first[8:24])) not in log


def test_the_lot_follows_from_the_bytes_and_from_no_setting(shop):
    """With a lot by closing day, as the embedded store has it, the second collector would not find the id."""
    other_terms = REGISTRY_TOML.replace("grace = 6", "grace = 2")
    message = make(1, epochs=2)
    with shop.collector() as here, shop.collector(other_terms) as there:
        layouts = [counter.read(message).layout for counter in (here, there)]
        assert layouts[0].closes != layouts[1].closes
        assert layouts[0].lot == layouts[1].lot == 4 * (epoch_of("day", time.time()) - 1)
        assert here.send(message) == [STORED]
        assert there.send(message) == [DUPLICATE]


@pytest.mark.parametrize("cadence", LOT_CADENCES)
def test_a_lot_is_of_the_oldest_epoch_of_the_fastest_metric(cadence):
    slower = LOT_CADENCES[LOT_CADENCES.index(cadence) :]
    toml = REGISTRY_TOML.split("[metrics.")[0] + "".join(
        f'\n[metrics.m_{every}]\nkind = "flag"\nevery = "{every}"\nwhy = "w"\nowner = "o@example.org"\n'
        "expires = 2099-01-01\nepsilon_one_report = 1.0\nepsilon_permanent = 3.0\nmax_values = 1\n"
        for every in slower
    )
    registry, now, random = type(REGISTRY).parse(toml), time.time(), Random(1)
    reports = [
        random_report(metric, epoch_of(metric.every, now) - back, random) for metric in registry for back in (0, 1)
    ]
    message = pack(Batch.of(bytes(16), reports))
    arrival = Intake(Catalog(registry), lambda: now, {}).read(message, "application/vnd.hubbub.reports", True)
    assert arrival.layout.lot == 4 * (epoch_of(cadence, now) - 1) + LOT_CADENCES.index(cadence)


def test_a_closed_epoch_is_refused_by_a_collector_that_thinks_it_is_yesterday(shop):
    old = make(1, [REGISTRY["dark_theme"]], time.time() - 6 * DAY)
    with shop.collector() as awake, shop.collector() as asleep:
        arrival = asleep.read(old)
        assert awake.send(make(2)) == [STORED]
        shop.move_clock(DAY)
        awake.keep()
        assert asleep.store.day == awake.store.day - 1
        assert asleep.store.commit([arrival]) == [CLOSED]
        assert asleep.store.day == awake.store.day, "it has read again what it must know"
        assert shop.rows("select count(*) from ids") == [(1,)]


def test_ids_of_closed_lots_go_and_a_closed_lot_is_never_made_again(shop):
    message = make(1, [REGISTRY["dark_theme"]])
    longer = REGISTRY_TOML.replace("grace = 6", "grace = 50")
    with shop.collector() as here:
        assert here.send(message) == [STORED]
        shop.move_clock(6 * DAY)
        here.keep()
        assert here.send(message) == [DUPLICATE]
        shop.move_clock(DAY)
        here.keep()
        assert shop.rows("select count(*) from lots") == shop.rows("select count(*) from ids") == [(0,)]
    with shop.collector(longer) as here:
        here.store._sealed.clear()  # as if nothing else said that it is over: the lot alone must be enough
        here.store._shared = replace(here.store._shared, sealed={})
        assert here.send(message) == [CLOSED]
        assert shop.rows("select count(*) from ids") == [(0,)]


def test_while_a_collector_still_has_a_longer_grace_its_ids_are_kept(shop):
    """A rolling deploy: the old settings must find what the new ones stored, and the other way round."""
    shorter = REGISTRY_TOML.replace("grace = 6", "grace = 1")
    message = make(1, [REGISTRY["dark_theme"]])
    with shop.collector() as old:
        assert old.send(message) == [STORED]
        with shop.collector(shorter) as new:
            shop.move_clock(3 * DAY)
            new.keep()
            assert shop.rows("select count(*) from ids") == [(1,)]
            assert old.send(message) == [CLOSED], "the terms that were said last hold for all"
            assert old.reports() == 1
