"""What one report tells of the category of its install: scores that are 1 on average for the true one, 0 for others.

A score is a linear function of the bits of a report and of 1. With y the bits of a cohort, s = scores [1, y], and
E[s_i | x] is 1 where i = x and 0 elsewhere; over all cohorts together where a cohort asks only a part. The scores of a
factor add up to 1 for every report. Second moments of scores given the true category follow from the channel alone:
they are all that the variance of a table of two such factors needs (docs/estimation.md, "Two answers at once").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.protocol.channel import KaryChannel, Noise, SubsetChannel


@dataclass(frozen=True, slots=True)
class BitLaw:
    """How the bits of a report, or what their kept answer makes of them on average, covary given the true category x:
    diag(own[x]) + the sum of factor (left[x] right[x]' + right[x] left[x]') / 2."""

    own: Array  # (categories, bits)
    shared: tuple[tuple[float, Array, Array], ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """The reports of one cohort. Arrays have a row for each true category, but for `scores`, which have one for each
    category that is estimated."""

    scores: Array  # (categories, 1 + bits)
    expected: Array  # (categories, bits): P(bit set | true category)
    report: BitLaw
    kept: BitLaw  # of what is the same in all reports of an install

    @property
    def num_categories(self) -> int:
        return len(self.scores)

    def means(self, weights: Array) -> Array:
        """E[score | true category] of scores with these weights (n, categories): (n, true categories)."""
        return self._means(weights @ self.scores)

    def products(self, one: Array, other: Array, *, kept: bool) -> Array:
        """E[score x score' | true category] of two lists of weights (n, categories), pair by pair. With `kept`, of the
        averages over all reports that an install might have sent from one kept answer."""
        first, second = one @ self.scores, other @ self.scores
        law = self.kept if kept else self.report
        found = self._means(first) * self._means(second) + (first[:, 1:] * second[:, 1:]) @ law.own.T
        for factor, left, right in law.shared:
            a, b = first[:, 1:] @ left.T, second[:, 1:] @ right.T
            c, d = first[:, 1:] @ right.T, second[:, 1:] @ left.T
            found = found + factor * (a * b + c * d) / 2
        return np.asarray(found)

    def moment(self, shares: Array, *, kept: bool) -> Array:
        """E[s s'] where the categories have these shares: (categories, categories)."""
        law = self.kept if kept else self.report
        means = self._means(self.scores)
        bits = self.scores[:, 1:]
        found = (means * shares) @ means.T + (bits * (shares @ law.own)) @ bits.T
        for factor, left, right in law.shared:
            half = factor * (left.T * shares) @ right
            found = found + bits @ (half + half.T) @ bits.T / 2
        return np.asarray(found)

    def _means(self, weights: Array) -> Array:
        return np.asarray(weights[:, :1] + weights[:, 1:] @ self.expected.T)

    def largest(self) -> float:
        """The largest score that one report can have, whatever it says; for what fake reports could do."""
        bits = self.scores[:, 1:]
        if self.report.shared:  # one or a few of the bits are set, so that a single one says most
            return float(np.max(self.scores[:, 0] + bits.max(axis=1)))
        return float(np.max(self.scores[:, 0] + np.maximum(bits, 0).sum(axis=1)))


def response(noise: Noise, masks: Array, scores: Array) -> Response:
    """Of reports through these channels, where an install of category x has the bits masks[x]; a mask may be a
    probability where the install is one of many that set different bits."""
    stages = TwoStageNoise.of(noise)
    memo = stages.a0 + (stages.a1 - stages.a0) * masks
    expected = stages.p_star + stages.gain * masks
    scale = (stages.q - stages.p) ** 2
    match noise.permanent:
        case KaryChannel():
            return Response(
                scores,
                expected,
                BitLaw(expected, ((-1.0, expected, expected),)),
                BitLaw(scale * memo, ((-scale, memo, memo),)),
            )
        case SubsetChannel() as subsets:
            law = _of_subsets(subsets, masks)
            return Response(scores, expected, law, law)  # shown once, as it is
        case _:
            return Response(scores, expected, BitLaw(expected * (1 - expected)), BitLaw(scale * memo * (1 - memo)))


def _of_subsets(channel: SubsetChannel, masks: Array) -> BitLaw:
    """Two categories are in a report together with `one` if one of them was sent, else with `neither`."""
    (q, p), (one, neither) = (tuple(map(float, pair)) for pair in (channel.probabilities, channel.pairs))
    base, more = neither - p * p, one - q * p - (neither - p * p)
    expected, ones = p + (q - p) * masks, np.ones_like(masks)
    # On the diagonal the terms below would count a bit with itself.
    own = expected * (1 - expected) - base - 2 * more * masks
    return BitLaw(own, ((base, ones, ones), (2 * more, masks, ones)))


# --- scores -------------------------------------------------------------------------------------------------------


def one_hot_scores(noise: Noise, categories: int) -> Array:
    """Of a question with a bit for each category, of which exactly one is true.

    u = (y - p*) / (q* - p*) has the right average. Categories of a k-ary channel and subsets add up by themselves; of
    bits that were drawn each by itself the sum is noise, and each gives up its part of it: u - (sum u - 1) / k.
    """
    plain = bit_scores(noise, categories)
    if isinstance(noise.permanent, KaryChannel | SubsetChannel):
        return plain
    total = plain.sum(axis=0)
    total[0] -= 1
    return np.asarray(plain - total / categories)


def with_none(scores: Array) -> Array:
    """The same scores and that of none of these categories: what is left of 1."""
    rest = -scores.sum(axis=0)
    rest[0] += 1
    return np.vstack([scores, rest])


def bit_scores(noise: Noise, bits: int) -> Array:
    """u = (y - p*) / (q* - p*) of each bit."""
    stages = TwoStageNoise.of(noise)
    return np.hstack([np.full((bits, 1), -stages.p_star), np.eye(bits)]) / stages.gain


def asked_in_parts(scores: Sequence[Array], reports: Array) -> list[Array]:
    """Scores of cohorts that ask different categories (rows of zeros: not asked), so that all reports together have the
    right average: each cohort stands for all the others that do not ask the same."""
    asks = np.array([np.any(one, axis=1) for one in scores], dtype=float)
    heard = reports @ asks
    with np.errstate(divide="ignore"):
        times = np.where(heard > 0, np.sum(reports) / heard, np.nan)
    return [np.where(asked[:, None] > 0, one * times[:, None], 0.0) for one, asked in zip(scores, asks, strict=True)]
