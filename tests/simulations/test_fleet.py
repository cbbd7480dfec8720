"""An install of a fleet does what an app does: counts one by one, records a set item by item, and says its build."""

from __future__ import annotations

import pytest

from hubbub.client import Client, Registry
from hubbub.protocol.cadence import DAY
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.segments import all_segments
from hubbub.protocol.wire import unpack
from hubbub.simulations.fleet import MOST_ADDED_SINGLY, Run, run_install
from hubbub.simulations.pretend_machine import keep_in
from tests.registry_head import head

NOW = 20_760 * DAY + DAY // 2
TERMS = """why = "w"
owner = "o"
expires = 2099-01-01
every = "day"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 2
"""
REGISTRY = Registry.parse(f"""{head("t", 20)}
[segments]
platform = ["linux", "macos"]
release = ["2.0", "2.1"]
[metrics.exports]
kind = "histogram"
accumulate = "sum"
edges = [0, 1, 100, 1000]
buckets_per_report = 1
{TERMS}
[metrics.features]
kind = "set"
items = ["a", "b", "c"]
{TERMS}
""")


def live(monkeypatch, exports: float, **options) -> tuple[list[tuple], list[bytes]]:
    """The calls that the app made in its only day, and the messages that left."""
    calls: list[tuple] = []
    messages: list[bytes] = []
    for name in ("record", "add"):
        real = getattr(Client, name)

        def call(client, *given, name=name, real=real):
            calls.append((name, *given))
            return real(client, *given)

        monkeypatch.setattr(Client, name, call)
    runs = [Run(NOW - DAY, {"exports": exports, "features": frozenset("ca")})]
    run_install(REGISTRY, runs, agreed=NOW - 2 * DAY, finished=NOW, post=keep_in(messages), **options)
    return calls, messages


@pytest.mark.parametrize(
    ("exports", "added"),
    [
        (0.0, []),
        (3.0, [("add", "exports")] * 3),
        (2.5, [("add", "exports", 2.5)]),
        (MOST_ADDED_SINGLY + 1, [("add", "exports", MOST_ADDED_SINGLY + 1)]),
    ],
)
def test_a_count_grows_one_by_one_and_a_set_item_by_item(monkeypatch, exports: float, added: list[tuple]) -> None:
    calls, _ = live(monkeypatch, exports)
    assert calls == [*added, ("record", "features", "a"), ("record", "features", "c")]


def test_a_message_belongs_to_the_segment_of_its_install(monkeypatch) -> None:
    _, messages = live(monkeypatch, 1.0, segments={"platform": "macos", "release": "2.1"})
    segment = (("platform", "macos"), ("release", "2.1"))
    asked = {metric.in_segment(segment).metric_hash for metric in REGISTRY}
    (body,) = messages
    everything = by_short_hash(
        [metric.in_segment(any_) for metric in REGISTRY for any_ in all_segments(REGISTRY.segments)]
    )
    assert {report.metric.metric_hash for report in unpack(body, everything).reports} == asked
