"""Bulk counting gives the numbers of `protocol.tally.count`, one report at a time."""

from random import Random

import numpy as np
import pytest

from hubbub.collector.storage.counting import Cells
from hubbub.protocol.report import Batch
from hubbub.protocol.tally import count
from tests.collector.kit import REGISTRY, random_report


@pytest.mark.parametrize("metric", list(REGISTRY), ids=lambda metric: metric.name)
@pytest.mark.parametrize("reports", [1, 2, 255, 256, 257, 3000])
def test_bulk_counting_equals_counting_one_by_one(metric, reports):
    random = Random(reports)
    made = [random_report(metric, 20_000, random) for _ in range(reports)]
    (block,) = Batch.of(bytes(16), made).blocks
    cells = Cells(metric)
    cells.add(np.frombuffer(block.cohorts, np.uint8), np.frombuffer(block.vectors, np.uint8))
    assert cells.counts() == count(metric, made).epochs[20_000]
    assert cells.total == reports


def test_no_lane_overflows_when_a_cohort_has_every_bit_set_thousands_of_times():
    metric = REGISTRY["homepage"]
    cells = Cells(metric)
    cells.add(np.zeros(5000, np.uint8), np.full(8 * 5000, 255, np.uint8))
    assert cells.bit_counts[:64].tolist() == [5000] * 64
    assert cells.bit_counts[64:].sum() == 0


def test_reports_of_one_level_of_a_tree_are_counted_at_that_level():
    metric = REGISTRY["minutes"]
    random = Random(5)
    made = [random_report(metric, 20_000, random) for _ in range(100)]
    cells = Cells(metric)
    for level in range(metric.shape.num_cohorts):
        mine = [report for report in made if report.cohort == level]
        (block,) = Batch.of(bytes(16), mine).blocks
        cells.add_level(level, np.frombuffer(block.vectors, np.uint8))
    assert cells.counts() == count(metric, made).epochs[20_000]
