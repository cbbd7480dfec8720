"""The lifetime budget, recounted by somebody who trusts neither the client nor its ledger.

Thousands of random calls over years of epochs: changing values, three releases of the registry, consent given and
withdrawn, forgetting, processes killed at arbitrary instructions. The recount reads the bytes that left and the rows
of the state file, and nothing else.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.client import Registry, control
from hubbub.client.state import State
from hubbub.protocol.epsilon import MICRO
from hubbub.protocol.label import words
from hubbub.protocol.report import Batch, by_short_hash
from hubbub.protocol.wire import unpack
from tests.client.careless_app import registries
from tests.client.install import Install
from tests.client.registries import metric, registry, source
from tests.systems import needs_timers

METRICS = {metric.metric_hash: metric for registry in registries() for metric in registry}
DEATHS = 3
LIMIT = 38  # the first release's, the smallest: later ones may not raise it


def live(directory: Path, calls: int) -> tuple[int, int]:
    """Run processes, one after the other, until so many calls were made and some processes were killed on the way,
    however fast the machine is: (calls, processes that died early)."""
    done = died = seed = 0
    now = "1728000000.0"
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    while done < calls or died < DEATHS:
        left = max(calls - done, 1_000)
        worker = [sys.executable, "tests/client/careless_app.py", str(directory), str(seed), str(left), now]
        result = subprocess.run(worker, env=environ, capture_output=True, text=True)
        assert result.returncode < 0, result.stderr  # killed, one way or the other
        times = [line for line in result.stdout.splitlines(keepends=True) if line.endswith("\n")]
        made, now = len(times), times[-1].strip() if times else now
        died += made < left
        done += made
        seed += 1
    return done, died


def messages(directory: Path) -> Iterator[Batch]:
    data = (directory / "wire").read_bytes()
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        yield unpack(data[at + 4 : end], by_short_hash(METRICS.values()))
        at = end


def spent_on_the_wire(directory: Path) -> Fraction:
    """What the bytes that left have told: every different answer of a metric, once."""
    reports = {report for batch in messages(directory) for report in batch.reports}
    answers = {(report.metric.metric_hash, report.cohort, report.bits) for report in reports}
    return sum((METRICS[name].epsilon_permanent for name, _, _ in answers), Fraction(0))


def spent_in_the_state(directory: Path) -> Fraction:
    """The memos that exist, each at its metric's price, and what earlier lives left."""
    db = sqlite3.connect(directory / "state" / "state.db")
    memos = sum(
        (METRICS[name].epsilon_permanent for (name,) in db.execute("SELECT metric_hash FROM memos")), Fraction(0)
    )
    (carried,) = db.execute("SELECT value FROM meta WHERE name = 'carried'").fetchone() or (0,)
    db.close()
    return memos + Fraction(carried, 10**6)


def no_report_twice(directory: Path) -> None:
    """Never two reports for one metric and epoch: a message sent again is the same message."""
    seen: dict[tuple[str, int], bytes] = {}
    for batch in messages(directory):
        for report in batch.reports:
            assert seen.setdefault((report.metric.metric_hash, report.epoch), batch.batch_id) == batch.batch_id


def check(directory: Path, calls: int) -> str:
    made, died = live(directory, calls)
    wire, sent = spent_on_the_wire(directory), len({batch.batch_id for batch in messages(directory)})
    state = spent_in_the_state(directory)
    no_report_twice(directory)
    assert died >= DEATHS, "the point is to be killed"
    assert sent > 20
    assert wire <= state <= LIMIT
    return f"{made} calls, {died} deaths, {sent} messages; told {float(wire)}, charged {float(state)} of {LIMIT}"


@needs_timers
def test_no_life_spends_more_than_its_budget(tmp_path: Path) -> None:
    check(tmp_path, calls=1_500)


@needs_timers
@pytest.mark.proof
def test_ten_thousand_calls_spend_no_more_than_the_budget(tmp_path: Path, figure) -> None:
    figure("budget", check(tmp_path, calls=10_000))


def test_what_cohorts_show_adds_up_over_all_releases(install: Install) -> None:
    """A metric that would tell more installs apart than was agreed to is not asked, whenever the others were."""
    limit = "max_identifying_bits = 3\n"
    pages = limit + source(metric("page", "string", num_cohorts=8))
    sizes = metric("size", "histogram", edges="[0, 1, 2, 3, 4, 5]", buckets_per_report=1)
    for text, groups in ((pages, 8), (limit + source(sizes, metric("dark_theme")), 8), (source(sizes), 12)):
        client = install.agreed(Registry.parse(text))
        for name in client.registry.metrics:
            client.record(name, {"page": "x", "size": 3, "dark_theme": True}[name])
        assert client.status().groups == groups
        client.close()
    assert client.status().counts["not_asked"] == 1  # size, in the second release


def test_the_label_of_a_new_release_counts_what_earlier_ones_have_set_aside(install: Install) -> None:
    """Releases asked page (2 x 3), then theme (2 x 3) as well, then size (2 x 3) alone: 12 were set aside before."""
    page, theme, size = metric("page", "string"), metric("theme"), metric("size", "histogram")
    for asked in ((page,), (page, theme)):
        client = install.agreed(registry(*asked))
        client.close()
    new, state = registry(size), State(str(install.directory))
    before = control.set_aside_before(state, new)
    assert 12 - Fraction(4, MICRO) <= before <= 12  # the ledger counts each of four slots in whole millionths, down
    assert control.set_aside_before(state, registry(theme, page)) == 0
    state.close()
    told = " ".join(words(new, before).split())
    assert "With them, everything comes to at most practically 100 % sure (epsilon 18)." in told
