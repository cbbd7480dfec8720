"""Runs a collector on a shared store with a bug: `PLANTED_BUG=no-dedup python planted_shared.py collect ...`."""

import os
import sys
import time

import numpy as np

from hubbub.collector.message_layout import Layout
from hubbub.collector.postgres import session, taking
from hubbub.collector.postgres.store import PostgresStore
from hubbub.collector.storage.store import Verdict
from hubbub.command.main import main
from hubbub.protocol.refusal import Refused


def no_dedup() -> None:
    """Every id is a new one."""

    uuids = taking.uuids
    taking.uuids = lambda ids: uuids(np.frombuffer(os.urandom(ids.size), np.uint8).reshape(ids.shape))


def two_transactions() -> None:
    """First the ids, then the batches: a death in between loses what nobody will send again as new."""

    def ask(connection, shared, arrivals, expect_new):
        new = sorted({arrival.layout.lot for arrival in arrivals} - shared.lots.keys())
        if new:
            connection.execute("select open_lots(%s::int[])", (new,))
            raise taking.Stale
        before = {}
        for number, arrival in enumerate(arrivals, 1):
            record = arrival.id_record
            row = (arrival.layout.lot, record[:16].hex(), taking._mark(record))
            done = connection.execute("insert into ids values (%s, %s, %s) on conflict do nothing", row)
            if not done.rowcount:
                before[number] = taking._mark(record)
        time.sleep(0.3)  # long enough that a kill falls here, on any machine
        body = b"".join(arrival.message for number, arrival in enumerate(arrivals, 1) if number not in before)
        if body:
            connection.execute("insert into journal (body, turn) values (%b, %s)", (body, shared.turn))
        return before

    taking._ask = ask


def lot_from_the_clock() -> None:
    """Each collector has a clock of its own."""
    Layout.lot = property(lambda self: 4 * (int(time.time() // 86_400) + int(os.environ["PLANTED_SKEW"])))


def spread_by_setting() -> None:
    """Each collector goes by a list of its own, and not by what the first database says of the lot."""
    PostgresStore.databases_of = lambda self, lot: 1 + int(os.environ["PLANTED_SKEW"])


def impatient() -> None:
    """No bug: whoever waits for the database gives up after two seconds instead of twenty or sixty."""
    initial = session.Session.__init__
    session.Session.__init__ = lambda self, address, longest_seconds=2.0: initial(self, address, 2.0)


def answered_too_early() -> None:
    """What may have been stored is said to be."""
    impatient()
    commit = PostgresStore.commit

    def optimistic(self, arrivals):
        try:
            return commit(self, arrivals)
        except Refused:
            return [Verdict.STORED] * len(arrivals)

    PostgresStore.commit = optimistic


BUGS = {
    "impatient": impatient,
    "answered-too-early": answered_too_early,
    "no-dedup": no_dedup,
    "two-transactions": two_transactions,
    "lot-from-the-clock": lot_from_the_clock,
    "spread-by-setting": spread_by_setting,
}

if __name__ == "__main__":
    BUGS[os.environ["PLANTED_BUG"]]()
    sys.exit(main())
