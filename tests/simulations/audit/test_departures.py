"""The audit of time finds nothing in the client, and finds one whose records change which epochs are answered."""

from __future__ import annotations

from unittest.mock import patch

from hubbub.client import Registry
from hubbub.client.recorder import Recorder
from hubbub.simulations.audit.departures import watch_departures
from hubbub.simulations.audit.run import Audit, table
from tests.client.registries import metric, registry

REGISTRY: Registry = registry(metric("theme"), metric("page", "string", every="week"), metric("born", every="once"))
START = 20_000 * 86_400.0


def test_the_client_sends_the_same_whatever_is_recorded_and_the_report_says_what_was_tried() -> None:
    found = watch_departures(REGISTRY, START, seed=1)
    assert [watched.what for watched in found] == ["departure times", "kills"]
    assert [watched.failure for watched in found] == [None, None]
    audit = Audit((), watched=tuple(found))
    assert audit.passed
    (first, second) = [line for line in table(audit).splitlines() if "lives" in line]
    assert first.startswith(
        "departure times: 3 lives of 12 processes (0 killed), 3 histories of records each: the same"
    )
    assert second.startswith("kills: 3 lives of 12 processes (")
    assert "(0 killed)" not in second


def test_a_client_whose_messages_depend_on_records_is_caught() -> None:
    """Planted: a record closes the epochs of even number that are open, as if they had not been looked at."""
    record = Recorder.record

    def recorded(self: Recorder, asked, value: object, now: float):
        with self._state.transaction() as db:
            db.execute("DELETE FROM epochs WHERE epoch % 2 = 0 AND sealed = 0")
        return record(self, asked, value, now)

    with patch.object(Recorder, "record", recorded):
        found = watch_departures(REGISTRY, START, seed=1)
    assert all(watched.failure for watched in found)
    audit = Audit((), watched=tuple(found))
    assert not audit.passed
    assert "FAILS: in" in table(audit)
