"""What strings that no list has add to the error of a table: they fall on the cells of listed ones, always the same.

The cells of a string metric that least squares leaves over vary more than noise explains, by how unevenly unlisted
strings fall. That much more is what a string's estimate strays by, whatever the number of reports.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.factor_scores import Response
from hubbub.analysis.estimation.joint_law import PairLaw


def unlisted_excess(law: PairLaw, unlisted: Sequence[bool]) -> Array:
    """(first, second): the variance to add to each cell; `unlisted` says which factors are strings."""
    found = np.zeros(law.shape)
    if unlisted[0]:
        found += _excess(law, [group.first for group in law.groups], [group.second for group in law.groups], False)
    if unlisted[1]:
        found += _excess(law, [group.second for group in law.groups], [group.first for group in law.groups], True).T
    return found


def _excess(law: PairLaw, strings: Sequence[Response], others: Sequence[Response], turned: bool) -> Array:
    table = law.estimate().T if turned else law.estimate()
    size = sum(one.expected.shape[1] for one in strings)
    left, noise, spread = (np.zeros((n, table.shape[1])) for n in (1, 1, len(table)))
    for group, one, other in zip(law.groups, strings, others, strict=True):
        counts = group.counts.T if turned else group.counts
        batches = group.batches
        # How often each bit came with each score of the other factor, and how often the table says it should.
        observed = (counts @ other.scores.T)[1:] / batches
        expected = one.expected.T @ table
        of_other = other.products(*(np.eye(other.num_categories),) * 2, kept=False) @ table.sum(axis=0)
        rate = one.expected.T @ table.sum(axis=1)
        left += ((observed - expected) ** 2).sum(axis=0)
        noise += (rate[:, None] * of_other[None] - expected**2).sum(axis=0) / batches
        spread += ((one.scores[:, 1:] * batches / law.batches) ** 2).sum(axis=1, keepdims=True)
    return np.asarray(spread * np.maximum(left - noise, 0) / size)
