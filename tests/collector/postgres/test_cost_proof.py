"""What the shared store costs, at full size: CPU beside the embedded store, bytes of an id, the drop of a lot."""

import sys
import time

import pytest

from hubbub.collector.postgres.session import connect
from hubbub.collector.postgres.shared import read_shared, turn_day
from hubbub.protocol.cadence import DAY, epoch_of
from tests.bench import collector_shared
from tests.collector.postgres.kit import Shop
from tests.collector.postgres.test_taking import make

pytestmark = [pytest.mark.proof, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
MILLIONS = 4
MOST = dict(zip(collector_shared.SHAPES, (1.45, 2.1), strict=True))


def test_what_one_collector_and_its_database_cost_beside_the_embedded_store(postgres_template, tmp_path, figure):
    """To be run on a machine with nothing else to do: whoever sleeps between two groups pays for what others did to
    the processor's caches meanwhile, and of these two that is the shared store."""
    found = collector_shared.measure(tmp_path, requests=10_000, rounds=5)
    for line in collector_shared.in_words(found):
        figure("a batch", line)
    for shape, most in MOST.items():
        assert collector_shared.times_embedded(found, shape, "one collector") <= most


def test_an_id_takes_little_room_and_a_lot_of_millions_is_dropped_within_a_second(postgres, tmp_path, figure):
    address, _ = postgres.new_store()
    shop = Shop(address, tmp_path)
    with shop.collector() as here:
        here.send(make(1, [here.registry["dark_theme"]]))
    ((lot,),) = shop.rows("select lot from lots")
    for _ in range(MILLIONS * 10):  # in their own order, as they come
        shop.rows(
            "insert into ids select %s, gen_random_uuid(), (random() * 1e9)::int from generate_series(1, 100000)", lot
        )
    ((size,),) = shop.rows(f"select pg_total_relation_size('ids_{lot}')")
    each = size / (MILLIONS * 1e6)
    with connect(address) as connection:
        shared = read_shared(connection)
        begun = time.perf_counter()
        assert turn_day(connection, shared, time.time() + 8 * DAY)
        seconds = time.perf_counter() - begun
    assert shop.rows("select count(*) from lots") == [(0,)]
    figure(
        "ids", f"{MILLIONS} million in a lot: {each:.0f} bytes each; closing the day and dropping it {seconds:.2f} s"
    )
    assert epoch_of("day", time.time()) == lot // 4
    assert each <= 110
    assert seconds < 1
