"""Messages that lie alike are counted by column: each column has the reports of all of them, in their order."""

from __future__ import annotations

from random import Random

from hubbub.collector.message_layout import layout_of
from hubbub.collector.storage.stacking import stacked, stacks
from hubbub.protocol.report import Batch
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0


def test_a_column_of_two_stacks_has_the_reports_of_both() -> None:
    random = Random(4)
    whole = [random_batch(random, [REGISTRY["dark_theme"]], NOW) for _ in range(3)]
    alike: dict[int, list[Batch]] = {0: whole[:2], 1: whole[2:]}
    found = list(stacked(stacks({layout_of(some[0], 0): [pack(one) for one in some] for some in alike.values()})))
    assert len(found) == 1
    column, cohorts, vectors = found[0]
    assert column.metric.name == "dark_theme"
    reports = [report for batch in whole for report in batch.reports]
    assert cohorts.tolist() == [report.cohort for report in reports]
    assert vectors.tolist() == [report.bits for report in reports]
