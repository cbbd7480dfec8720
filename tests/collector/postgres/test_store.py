"""The shared store beyond single batches: readers, days, clocks, damage, and a database that is gone for a while."""

import signal
import time
from random import Random

import pytest

from hubbub.collector.postgres import session
from hubbub.collector.postgres.administration import (
    accept_clock_of,
    check_store,
    create_store,
    migrate_store,
    purged_in,
    restore_purged_in,
    select_from,
    status_of,
)
from hubbub.collector.postgres.journal import fold
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.store import Verdict
from hubbub.protocol.cadence import DAY, epoch_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import Refused
from hubbub.protocol.tally import count
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY, REGISTRY_TOML, random_batch
from tests.collector.postgres.kit import Shop
from tests.collector.postgres.test_taking import METRICS, make

HOMEPAGE = REGISTRY["homepage"]


def test_readers_of_every_collector_see_all_that_was_acknowledged_folded_or_not(shop):
    batches = [random_batch(Random(seed), METRICS, time.time()) for seed in range(30)]
    with shop.collector() as here, shop.collector() as there:
        here.send(*map(pack, batches[:10]))
        here.store._fold()
        there.send(*map(pack, batches[10:]))
        readable = here.readable()
        for metric in METRICS:
            expected = count(metric, [r for batch in batches for r in batch.reports if r.metric is metric])
            got = {epoch: cells.counts() for (key, epoch), cells in readable.cells.items() if key == metric.metric_hash}
            assert got == dict(expected.epochs)
        assert there.reports() == here.reports() == len(batches) * len(METRICS)


def test_counts_that_have_not_changed_are_the_very_object_they_were(shop):
    with shop.collector() as here:
        here.send(make(1))
        first = here.readable().cells
        here.send(make(2, [HOMEPAGE]))
        second = here.readable().cells
        changed = {key for key in first if first[key] is not second[key]}
        assert {metric_hash for metric_hash, _ in changed} == {HOMEPAGE.metric_hash}


def test_what_is_handed_out_grows_in_steps_for_all_collectors_alike(shop):
    def shown(counter):
        return {cells.total for cells in counter.readable().cells.values()}

    with shop.collector(min_reports=3) as here, shop.collector(min_reports=3) as there:
        here.send(make(1, [HOMEPAGE]), make(2, [HOMEPAGE]))
        assert shown(here) == set()
        assert list(here.readable().withheld.values()) == [2]
        there.send(make(3, [HOMEPAGE]))
        assert shown(here) == {3}
        there.send(make(4, [HOMEPAGE]))
        assert shown(there) == shown(here) == {3}
        (readable,) = select_from(shop.address, lambda metric, epoch: True)
        assert ({cells.total for cells in readable.cells.values()}, readable.min_reports) == ({3}, 3)


def test_a_fold_that_dies_leaves_journal_and_counts_as_they_were(shop, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with shop.collector() as here:
        here.send(make(1), make(2))
        with monkeypatch.context() as patched:
            patched.setattr("hubbub.collector.postgres.journal.write_cells", die)
            with pytest.raises(KeyboardInterrupt):
                here.store._fold()
        assert shop.rows("select count(*) from journal") == [(1,)]
        assert shop.rows("select count(*) from counts") == [(0,)]
        assert here.reports() == 2 * len(METRICS)


def test_one_collector_folds_at_a_time(shop):
    with shop.collector() as here, shop.collector() as there:
        here.send(make(1))
        with session.connect(shop.address) as other, other.transaction():
            other.execute("select pg_advisory_xact_lock(%s)", (0x68756262,))
            folded = there.store._keeping.run(lambda c: fold(c, there.store._journal, there.store._shared))
            assert not folded
        assert there.reports() == len(METRICS)


def test_a_collector_folds_batches_of_metrics_that_only_another_one_knows(shop):
    newer = REGISTRY_TOML.replace('choices = ["python", "rust", "other"]', 'choices = ["python", "rust", "zig"]')
    with shop.collector() as old:
        old.readable()
        with shop.collector(newer) as new:
            new.send(pack(random_batch(Random(1), [new.registry["language"]], time.time())))
            assert old.reports() == 1


def test_a_jump_of_the_databases_clock_is_not_believed_until_the_operator_accepts_it(shop):
    with shop.collector() as here:
        here.send(make(1))
        here.stands_still = True
        day = here.store.day
        shop.move_clock(4 * 365 * DAY)
        assert any("not believed" in words for words in here.keep())
        assert here.store.refusal(0).reason == "clock-not-believed"
        assert (here.store.day, here.reports()) == (day, len(METRICS))
        accept_clock_of(shop.address)
        assert "the clock is believed" in here.keep()
        assert here.store.refusal(0) is None
        assert here.store.day == day + 4 * 365


def test_days_that_were_counted_and_have_not_come_are_still_to_come_once_the_clock_is_accepted(shop):
    with shop.collector() as here:
        first = make(1, [REGISTRY["dark_theme"]])
        assert here.send(first) == [Verdict.STORED]
        shop.move_clock(400 * DAY)
        here.keep()
        shop.move_clock(-400 * DAY)
        accept_clock_of(shop.address)
        here.keep()
        assert here.store.day == epoch_of("day", time.time())
        with pytest.raises(Refused, match="epoch-closed"):
            here.send(first)  # its id is gone, so it may never count again
        shop.move_clock(DAY)
        here.keep()
        assert here.send(make(2, [REGISTRY["dark_theme"]], time.time() + DAY)) == [Verdict.STORED]


def test_counts_past_their_retention_go_and_can_be_had_back_for_a_week(shop):
    short = REGISTRY_TOML.replace("grace = 6", 'grace = 6\nretention = "30d"')
    with shop.collector(short, min_reports=1) as here:
        here.send(make(1))
        assert here.reports() == len(METRICS)
        shop.move_clock(60 * DAY)
        assert sum("purged" in words for words in here.keep()) == len(METRICS)
        assert here.reports() == 0
        assert {item.reports for item in purged_in(shop.address)} == {1}
        assert [item.metric for item in restore_purged_in(shop.address, "homepage")] == ["homepage"]
        assert here.reports() == 1
        here.store._purge_due = True
        here.keep()
        assert here.reports() == 0, "what is still past its retention goes again"
        shop.move_clock(8 * DAY)
        here.keep()
        assert purged_in(shop.address) == []
        assert shop.rows("select count(*) from handed_out") == [(0,)]


@pytest.mark.parametrize(("table", "column"), [("counts", "bit_counts"), ("counts", "epoch"), ("journal", "body")])
def test_a_flipped_bit_is_noticed_before_anything_is_shown(shop, table, column):
    with shop.collector() as here:
        here.send(make(1))
        if table == "counts":
            here.store._fold()
        change = "epoch = epoch + 1" if column == "epoch" else f"{column} = set_byte({column}, 4, 77)"
        shop.rows(f"update {table} set {change}")
        with pytest.raises(Damaged, match=f"table {table}.*damaged"):
            here.store._until_current(
                here.store._reading, lambda c, shared: here.store._cells.select(c, shared, lambda *_: True)
            )
    with pytest.raises(Invalid, match=f"table {table}"):
        check_store(shop.address)


def test_while_the_database_is_away_batches_are_refused_and_then_all_goes_on(postgres, shop):
    with shop.collector() as here:
        assert here.send(make(1)) == [Verdict.STORED]
        arrival = here.read(make(2))
        postgres.stop(signal.SIGQUIT)
        try:
            with pytest.raises(Refused, match="store-unreachable: the database cannot be reached"):
                here.store.commit([arrival])
            assert here.store.refusal(0).reason == "store-unreachable"
            with pytest.raises(session.Unreachable):
                here.store._keep()
        finally:
            postgres.start()
        here.store._keep()
        here.store._tell_reachable()
        assert here.store.refusal(0) is None
        assert here.store.commit([arrival]) == [Verdict.STORED]
        words = [notice.words for notice in here.store.tick()]
        assert words[-2:] == [
            "the database cannot be reached; batches are refused until it can",
            "the database is reached again",
        ]
        assert here.reports() == 2 * len(METRICS)


def test_a_backend_that_was_ended_is_replaced_and_nobody_notices(shop):
    with shop.collector() as here:
        here.send(make(1))
        shop.rows("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hubbub'")
        assert here.send(make(1), make(2)) == [Verdict.DUPLICATE, Verdict.STORED]
        assert here.reports() == 2 * len(METRICS)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_could_lose_what_it_acknowledged_is_refused(postgres, shop, setting):
    postgres.sql(f"alter system set {setting} = off")
    postgres.sql("select pg_reload_conf()")
    try:
        deadline = time.monotonic() + 60
        while postgres.sql(f"show {setting}") != [("off",)]:
            assert time.monotonic() < deadline
        with pytest.raises(Invalid, match=f"{setting} must be on, got off: a crash could lose"), shop.collector():
            pass
    finally:
        postgres.sql(f"alter system reset {setting}")
        postgres.sql("select pg_reload_conf()")
        while postgres.sql(f"show {setting}") != [("on",)]:
            pass


def test_a_pooler_in_between_is_refused_with_words(shop):
    class Pooled:
        """What a pooler looks like: the process that answers is not the one that greeted."""

        def __init__(self, connection):
            self.execute = connection.execute
            self.info = type("Info", (), {"server_version": 150000, "backend_pid": 1})

    with session.connect(shop.address) as connection, pytest.raises(Invalid, match="a pooler such as pgbouncer"):
        session.check_server(Pooled(connection))


def test_a_schema_that_is_missing_or_of_another_version_is_refused(postgres, shop):
    with pytest.raises(Invalid, match="no store of hubbub; `hubbub store create` makes one"):
        status_of(postgres.new_database())
    with pytest.raises(Invalid, match="the schema hubbub must not be there yet"):
        create_store(shop.address, None)
    assert [(before, now) for _, before, now in migrate_store(shop.address)] == [(3, 3)]
    with shop.collector() as here:
        shop.rows("update state set version = 7, turn = turn + 1")
        with pytest.raises(Invalid, match="version 3, got 7; it was made by a newer hubbub"):
            here.send(make(1))  # also to a collector that was at work meanwhile
    with pytest.raises(Invalid, match="version 3, got 7; it was made by a newer hubbub"), shop.collector():
        pass


def test_a_password_in_the_address_is_refused(shop):
    for address in ("postgresql://me:secret@127.0.0.1/x", "postgresql://127.0.0.1/x?password=secret"):
        with pytest.raises(Invalid, match="must not have a password in it") as caught:
            session.check_address(address)
        assert "secret" not in str(caught.value)


def test_a_role_that_may_only_count_can_do_all_a_collector_does(postgres, tmp_path):
    address = postgres.new_database()
    postgres.sql("drop role if exists counting")
    postgres.sql("create role counting login")
    create_store(address, "counting")
    shop = Shop(address.replace("owner@", "counting@"), tmp_path)
    owner = Shop(address, tmp_path)
    with shop.collector(min_reports=1) as here:
        assert here.send(make(1)) == [Verdict.STORED]
        owner.move_clock(8 * DAY)
        shop.ahead = owner.ahead
        here.keep()
        assert here.reports() == len(METRICS)
        assert shop.rows("select count(*) from lots") == [(0,)]
    with pytest.raises(Exception, match="must be owner of table counts"):
        shop.rows("drop table counts")
