"""Pairs are counted as one would by hand, whatever the shapes and however messages are stacked."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.client.identity import NUMBER_BITS, cohort_of
from hubbub.collector.message_layout import Layout, layout_of
from hubbub.collector.storage import pair_counting
from hubbub.collector.storage.counting import Cells
from hubbub.collector.storage.pair_counting import PairedColumns, add_pairs, counts_of
from hubbub.collector.storage.stacking import stacks
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.pair import Pair, PairTally, count_pairs
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.wire import pack
from tests.protocol.pairs import METRICS, REGISTRY, pair

OTHERS = [REGISTRY[name] for name in ("editor", "page")]


def possible_pairs() -> Iterable[Pair]:
    for first in METRICS:
        for second in METRICS:
            try:
                yield pair(first, second)
            except Invalid:
                continue


ALL = [found for found in possible_pairs() if found.shape.num_cells < 5000]  # larger ones only take longer


def batch(found: Pair, random: Random) -> Batch:
    """Of an install, of a relay, of somebody who makes up cohorts, or without one of the two."""
    number = random.getrandbits(NUMBER_BITS)
    made_up, relayed, epoch = random.random() < 0.1, random.random() < 0.1, 3000 + random.randrange(2)
    wanted = [*found.metrics, *random.sample(OTHERS, random.randrange(3))]
    wanted = [metric for metric in wanted if random.random() < 0.95] or wanted
    random.shuffle(wanted)
    reports: dict[str, list[Report]] = {}
    for metric in wanted:
        for _ in range(random.choice((1, 2)) if relayed else 1):
            place = random.getrandbits(NUMBER_BITS) if made_up or relayed else number
            cohort = cohort_of(place, metric.shape.num_cohorts)
            width = metric.shape.width(cohort)
            bits = 1 << random.randrange(width) if metric.one_hot else random.getrandbits(width)
            reports.setdefault(metric.metric_hash, []).append(Report(metric, epoch, cohort, bits))
    return Batch.of(random.randbytes(16), [report for some in reports.values() for report in some])


def counted(found: Pair, batches: list[Batch], others: Iterable[Pair] = ()) -> PairTally:
    """As a store counts: messages by layout, a stack of each."""
    by_table: dict[bytes, Layout] = {}
    messages: dict[Layout, list[bytes]] = {}
    for one in batches:
        layout = layout_of(one, closes=0)
        key = repr([(c.metric.metric_hash, c.epoch, c.count, c.level, c.end) for c in layout.columns]).encode()
        messages.setdefault(by_table.setdefault(key, layout), []).append(pack(one))
    cells: dict[int, Cells] = {}
    for together in PairedColumns([found, *others]).find(stacks(messages)):
        if together.pair == found:
            add_pairs(cells.setdefault(together.epoch, Cells(found)), together)
    return PairTally(found, {epoch: counts_of(one) for epoch, one in cells.items()})


@settings(max_examples=100)
@given(st.sampled_from(ALL), st.integers(0, 60), st.integers(0, 2**32))
def test_counts_are_those_made_by_hand(found: Pair, number: int, seed: int) -> None:
    random = Random(seed)
    batches = [batch(found, random) for _ in range(number)]
    assert counted(found, batches) == count_pairs(found, batches)


@pytest.mark.parametrize("names", [("theme", "os"), ("page", "site"), ("minutes", "bitwise"), ("os", "sizes")])
def test_many_batches_are_counted_in_parts_that_add_up(names, monkeypatch) -> None:
    """More than fit a word, more than are counted at once: no border between parts loses or doubles one."""
    found, random = pair(*names), Random(7)
    batches = [batch(found, random) for _ in range(700)]
    expected = count_pairs(found, batches)
    assert counted(found, batches) == expected
    monkeypatch.setattr(pair_counting, "_AT_ONCE", 65)
    assert counted(found, batches) == expected


@pytest.mark.parametrize("number", [63, 64, 65, 127, 128, 129, 130, 1000])
def test_cohort_pairs_that_fill_several_words_do_not_touch_each_other(number) -> None:
    """One layout, three cohort pairs of about so many batches each: the borders of words are where slips would be."""
    found, random = pair("theme", "tools"), Random(number)
    batches = [
        Batch.of(random.randbytes(16), [Report(metric, 3000, cohort, random.getrandbits(1)) for metric, cohort in both])
        for place in range(3)
        for both in [list(zip(found.metrics, (0, place), strict=True))] * (number + place - 1)
    ]
    random.shuffle(batches)
    tally = counted(found, batches)
    assert tally == count_pairs(found, batches)
    assert tally.epochs[3000].num_batches == (number - 1, number, number + 1)


def test_one_report_can_be_in_several_pairs() -> None:
    theme_os, os_page, random = pair("theme", "os", "a"), pair("os", "page", "b"), Random(3)
    batches = []
    for _ in range(40):
        reports = [r for found in (theme_os, pair("editor", "page")) for r in batch_of(found, random)]
        batches.append(Batch.of(random.randbytes(16), reports))
    assert counted(theme_os, batches, [os_page]) == count_pairs(theme_os, batches)
    assert counted(os_page, batches, [theme_os]) == count_pairs(os_page, batches)


def batch_of(found: Pair, random: Random) -> list[Report]:
    return [
        Report(metric, 3000, 0, 1 if metric.one_hot else random.getrandbits(metric.shape.width(0)))
        for metric in found.metrics
    ]


def test_the_largest_fold_overflows_no_counter(monkeypatch) -> None:
    """All bits of all batches: the sums of one part are as large as they can be, and fit 16 bits."""
    assert np.iinfo(np.uint16).max >= pair_counting._AT_ONCE
    found = pair("theme", "start")
    message = pack(Batch.of(bytes(16), [Report(metric, 3000, 0, 1) for metric in found.metrics]))
    layout = layout_of(Batch.of(bytes(16), [Report(metric, 3000, 0, 1) for metric in found.metrics]), 0)
    number = 2 * pair_counting._AT_ONCE + 3
    cells = Cells(found)
    for together in PairedColumns([found]).find(stacks({layout: [message] * number})):
        add_pairs(cells, together)
    assert counts_of(cells).both == (((number,),),)
