"""Runs a collector with a bug: `PLANTED_BUG=no-dedup python planted.py collect ...`. The oracle must notice each."""

import os
import sys
import time

from hubbub.collector.storage import batch_ids, checkpoint, log
from hubbub.command.main import main


def ack_before_sync() -> None:
    log.Log.sync = lambda self: None


def no_dedup() -> None:
    batch_ids.BatchIds.claim = lambda self, entry: None


def two_transactions() -> None:
    def save(self, snapshot):
        with self._transaction():
            self._save_position(snapshot)
        time.sleep(0.5)  # long enough that a kill falls here, on any machine
        with self._transaction():
            self._save_counts(snapshot)

    checkpoint.Checkpoint.save = save


BUGS = {"ack-before-sync": ack_before_sync, "no-dedup": no_dedup, "two-transactions": two_transactions}

if __name__ == "__main__":
    BUGS[os.environ["PLANTED_BUG"]]()
    sys.exit(main())
