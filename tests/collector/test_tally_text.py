"""The text of tallies is that of the protocol, made in small pieces and remembered within bounds."""

import numpy as np
import pytest

from hubbub.collector.export import tallies
from hubbub.collector.storage.counting import Cells
from hubbub.collector.tally_text import EncodedEpochs, pieces
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally_files import tallies_to_json
from tests.collector.kit import REGISTRY

HOMEPAGE = REGISTRY["homepage"]


def made_up(metric: Definition, seed: int, most: int = 1000) -> Cells:
    """Counts of which some are 0 and none is more than the reports of its cohort."""
    random = np.random.default_rng(seed)
    cells = Cells(metric)
    cells.num_reports[:] = random.integers(0, most, len(cells.num_reports))
    shape = metric.shape
    widths = [shape.width(cohort) for cohort in range(shape.num_cohorts)]
    limits = np.repeat(cells.num_reports, widths)
    if metric.one_hot:
        cells.bit_counts[np.cumsum(widths) - 1] = cells.num_reports
    else:
        cells.bit_counts[:] = random.integers(0, limits + 1)
    return cells


def answer(cells, encoded):
    """What there is beside the tallies left out."""
    text = b"".join(pieces(cells, encoded)).decode()
    return text.removesuffix(', "withheld": []}\n') + "}\n"


@pytest.mark.parametrize("most", [1, 10, 1000, 10**9, 5 * 10**9, 2**62])
def test_the_text_is_that_of_the_protocol(most):
    cells = {(m.metric_hash, 20_000 + i): made_up(m, i, most) for m in REGISTRY for i in range(3)}
    encoded = EncodedEpochs()
    expected = tallies_to_json(tallies(cells))
    for _ in ("made", "remembered"):
        assert answer(cells, encoded) == expected
    assert answer({}, encoded) == tallies_to_json([])


def test_no_piece_is_more_than_a_small_part_of_a_large_answer():
    """Between two pieces batches are taken: what a piece costs is what a batch may wait."""
    cells = {(HOMEPAGE.metric_hash, epoch): made_up(HOMEPAGE, epoch) for epoch in range(20)}
    sizes = [len(piece) for piece in pieces(cells, EncodedEpochs())]
    assert max(sizes) < 60_000
    assert sum(sizes) > 10 * max(sizes)


def test_what_has_not_changed_is_not_made_again_and_what_has_is():
    encoded = EncodedEpochs()
    cells = {(HOMEPAGE.metric_hash, epoch): made_up(HOMEPAGE, epoch) for epoch in range(3)}
    b"".join(pieces(cells, encoded))
    for key, counted in cells.items():
        assert encoded.get(key, counted) is not None
        assert encoded.get(key, counted.copy()) is None
    changed = {**cells, (HOMEPAGE.metric_hash, 2): made_up(HOMEPAGE, 9)}
    assert answer(changed, encoded) == tallies_to_json(tallies(changed))


def test_what_is_remembered_is_bounded_and_what_was_not_asked_for_longest_goes_first():
    encoded = EncodedEpochs(max_bytes=1_000_000)
    cells = {(HOMEPAGE.metric_hash, epoch): made_up(HOMEPAGE, epoch) for epoch in range(60)}
    b"".join(pieces(cells, encoded))
    assert 900_000 < encoded.num_bytes <= 1_000_000
    remembered = {epoch for (_, epoch), counted in cells.items() if encoded.get((_, epoch), counted)}
    assert remembered == set(range(60 - len(remembered), 60))
    huge = made_up(HOMEPAGE, 1)
    encoded.keep((HOMEPAGE.metric_hash, 99), huge, bytes(500_000))
    assert encoded.get((HOMEPAGE.metric_hash, 99), huge) is None
