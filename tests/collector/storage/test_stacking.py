"""Messages that lie alike are counted by column: each has the reports of all of them, and those of several segments are
counted together, each for its own."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from hubbub.collector.message_layout import Layout, layout_of
from hubbub.collector.storage.counting import Cells
from hubbub.collector.storage.stacking import Gathered, stacked, stacks
from hubbub.protocol.metric import Metric
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import count
from hubbub.protocol.wire import pack
from tests.collector.kit import REGISTRY, random_batch

NOW = 1_795_000_000.0
SEGMENTS = [(("release", value),) for value in ("1", "2", "3")]


def by_layout(batches: Sequence[Batch]) -> dict[Layout, list[bytes]]:
    """Each batch with a layout of its own, as if none had been remembered."""
    return {layout_of(batch, 0): [pack(batch)] for batch in batches}


def counted(gathered: Sequence[Gathered]) -> dict[str, Cells]:
    cells: dict[str, Cells] = {}
    for reports in gathered:
        found = [cells.setdefault(one.metric.metric_hash, Cells(one.metric)) for one in reports.columns]
        reports.add_to(found)
    return cells


def test_a_column_of_two_stacks_has_the_reports_of_both() -> None:
    random = Random(4)
    whole = [random_batch(random, [REGISTRY["dark_theme"]], NOW) for _ in range(3)]
    alike: dict[int, list[Batch]] = {0: whole[:2], 1: whole[2:]}
    found = list(stacked(stacks({layout_of(some[0], 0): [pack(one) for one in some] for some in alike.values()})))
    assert len(found) == 1
    (column,) = found[0].columns
    assert column.metric.name == "dark_theme"
    reports = [report for batch in whole for report in batch.reports]
    assert found[0].cohorts.tolist() == [report.cohort for report in reports]
    assert found[0].vectors.tolist() == [report.bits for report in reports]


@pytest.mark.parametrize("reports", [1, 143], ids=["of installs", "relayed"])
@pytest.mark.parametrize("metric", list(REGISTRY), ids=lambda metric: metric.name)
def test_segments_that_are_counted_together_have_the_counts_that_each_has_alone(metric: Metric, reports: int) -> None:
    """Some segments in few messages, some in many; with one metric before it, so that places differ, and without."""
    random, other = Random(reports), REGISTRY["dark_theme" if metric.name != "dark_theme" else "language"]
    batches = []
    for number in range(24):
        segment = SEGMENTS[number % 3 if number % 4 else 0]
        asked = [other, metric] if number % 2 else [metric]
        batches.append(random_batch(random, [one.in_segment(segment) for one in asked], NOW, reports=reports))
    found = counted(list(stacked(stacks(by_layout(batches)))))
    every = [report for batch in batches for report in batch.reports]
    for segment in SEGMENTS:
        mine = metric.in_segment(segment)
        its = [report for report in every if report.metric == mine]
        (alone,) = count(mine, its).epochs.values()
        assert found[mine.metric_hash].counts() == alone
        assert found[mine.metric_hash].total == len(its) > 0


def test_messages_of_all_segments_are_one_stack_and_those_of_another_epoch_are_not() -> None:
    random = Random(7)
    asked = [REGISTRY["dark_theme"], REGISTRY["homepage"]]
    batches = [random_batch(random, [one.in_segment(segment) for one in asked], NOW) for segment in SEGMENTS]
    later = random_batch(random, [one.in_segment(SEGMENTS[0]) for one in asked], NOW + 40 * 86_400)
    found = stacks(by_layout([*batches, later]))
    assert [stack.sizes for stack in found] == [[1, 1, 1], [1]]
    assert [pack(batch) for batch in batches] == [rows.tobytes() for _, rows in found[0].by_layout()]
    assert [len(reports.columns) for reports in stacked(found)] == [3, 3, 1, 1]


def test_the_reports_of_one_segment_are_found_again_among_those_of_all() -> None:
    """As they are kept where a metric says so."""
    random = Random(8)
    batches = [
        random_batch(random, [REGISTRY["homepage"].in_segment(SEGMENTS[number % 2])], NOW) for number in range(9)
    ]
    (found,) = stacked(stacks(by_layout(batches)))
    size = REGISTRY["homepage"].vector_bytes(0)
    for number, column in enumerate(found.columns):
        cohorts, vectors = found.of(number)
        its = [report for batch in batches for report in batch.reports if report.metric == column.metric]
        assert cohorts.tolist() == [report.cohort for report in its]
        assert vectors.tobytes() == b"".join(report.bits.to_bytes(size, "little") for report in its)
