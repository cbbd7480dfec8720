"""From an estimated table and its law to all that a `Crosstab` says: cells, margins, shares given either, a test.

The best guess has the margins' own best guess, and of what the table has beside their product the part that noise does
not explain: the whole of it where the answers are clearly related, nothing where no relation is seen (James and Stein's
rule), moved to the nearest possible table. Variances are taken there, because they depend on a table that can be true.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hubbub.analysis.arrays import Array, Mask
from hubbub.analysis.crosstab_result import ClearestDifference, Crosstab, Given, JointShares, Way
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.guesses import nearest_shares
from hubbub.analysis.estimation.independence import POWER, Independence, independence_of
from hubbub.analysis.estimation.intervals import Ratios, critical, exceeded_with, score_interval
from hubbub.analysis.estimation.joint_intervals import (
    Joint,
    cells_of,
    columns_of,
    contrast,
    event_variance,
    means_given,
    rows_of,
    shares_given,
)
from hubbub.analysis.estimation.joint_law import CrossLaw, Functionals, PairLaw
from hubbub.analysis.estimation.selection import normal_p_value
from hubbub.analysis.kinds.factor import Categories
from hubbub.analysis.options import Options
from hubbub.protocol.segments import Segment

_MOST = 0.5
_EXPECTED = 5  # installs in a cell, if the answers are independent: below, the test's law is another


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a table is about, whatever its numbers."""

    name: str
    way: Way
    factors: tuple[Categories, Categories]
    segment: Segment
    epochs: tuple[str, ...]
    num_reports: int
    finite: float
    notes: tuple[str, ...]
    largest: float  # how far one fake report can move a cell, times the reports


def crosstab(setting: Setting, law: PairLaw | CrossLaw, excess: Array, options: Options) -> Crosstab:
    """All of it. `excess` is added to the variance of each cell."""
    estimate = law.estimate()
    margins = _possible_margins(estimate)
    tested = independence_of(law, estimate, margins, excess, options.alpha)
    joint = Joint(law, estimate, _best_guess(estimate, margins, tested), setting.finite, excess)
    parts = _Parts(joint, setting.factors, options)
    cells, margins_found = parts.cells(), (parts.margin(0), parts.margin(1))
    return Crosstab(
        name=setting.name,
        way=setting.way,
        factors=setting.factors,
        segment=setting.segment,
        epochs=setting.epochs,
        estimand=options.estimand,
        of="answered" if parts.answered_only else "all",
        confidence=options.confidence,
        correction=options.correction,
        num_reports=setting.num_reports,
        installs=law.installs,
        cells=cells,
        margins=margins_found,
        given=(parts.given(0, cells, margins_found[0]), parts.given(1, cells, margins_found[1])),
        independence=tested,
        absent=parts.absent(),
        notes=(*setting.notes, *_few_expected(law.installs, margins)),
        fake_share=options.fake_share,
        attack_radius=options.fake_share * setting.largest,
    )


def _few_expected(installs: float, margins: tuple[Array, Array]) -> list[str]:
    """Where the chi-square law of the test is not to be trusted, by Cochran's rule (1954)."""
    expected = np.outer(*margins)
    least = installs * float(expected[expected > 0].min())
    if least >= _EXPECTED:
        return []
    return [
        f"If the answers were independent, a combination would have fewer than {_EXPECTED} installs: with so few the "
        "test finds a relation too easily."
    ]


def _possible_margins(estimate: Array) -> tuple[Array, Array]:
    first, second = (
        nearest_shares(margin, np.ones(len(margin)), exactly=True)
        for margin in (estimate.sum(axis=1), estimate.sum(axis=0))
    )
    return first, second


def _best_guess(estimate: Array, margins: tuple[Array, Array], tested: Independence) -> Array:
    product = np.outer(*margins)
    beside = estimate - np.outer(estimate.sum(axis=1), estimate.sum(axis=0))
    kept = max(0.0, 1 - tested.degrees / tested.statistic) if tested.statistic > 0 else 0.0
    return nearest_shares((product + kept * beside).ravel(), np.ones(estimate.size), exactly=True).reshape(
        estimate.shape
    )


class _Parts:
    """The parts of one table; those without absent categories if shares are of the installs that answered both."""

    def __init__(self, joint: Joint, factors: tuple[Categories, Categories], options: Options) -> None:
        self._joint, self._factors, self._options = joint, factors, options
        self._answered = [np.isin(np.arange(len(each)), each.answers).astype(float) for each in factors]
        self.answered_only = options.exclude_absent and any((each == 0).any() for each in self._answered)
        self._whole = self._answered if self.answered_only else [np.ones(len(each)) for each in factors]

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self._factors[0]), len(self._factors[1])

    def absent(self) -> float:
        """The share of installs that did not answer both, as the best guess has it."""
        return max(0.0, 1 - float(self._answered[0] @ self._joint.possible @ self._answered[1]))

    def cells(self) -> JointShares:
        return self._shares(cells_of(self._shape), self._shape)

    def margin(self, factor: int) -> JointShares:
        every = rows_of(self._shape) if factor == 0 else columns_of(self._shape)
        return self._shares(self._within(every), (self._shape[factor],))

    def given(self, factor: int, cells: JointShares, margin: JointShares) -> Given:
        """The shares of the other factor's categories, given each of this one's."""
        tops, bottoms = cells_of(self._shape), self._bottoms(factor)
        found = shares_given(self._joint, tops, bottoms, self._options.confidence)
        bottom, guess = self._joint.of(bottoms), bottoms.cells @ self._joint.possible.ravel()
        inside = self._inside(tops)
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = np.where(bottom > 0, cells.limit.ravel() * self._share_of_whole() / bottom, np.nan)
            best = np.where(guess > 0, self._joint.possible.ravel() / guess, 0)
        shaped = [
            np.where(inside, each, np.nan).reshape(self._shape)
            for each in (found.estimate, found.std_error, found.low, found.high, limit, best)
        ]
        shares = JointShares(
            estimate=shaped[0],
            std_error=shaped[1],
            low=shaped[2],
            high=shaped[3],
            p_value=cells.p_value,
            p_adjusted=cells.p_adjusted,
            detected=cells.detected,
            limit=shaped[4],
            best_guess=shaped[5],
        )
        return Given(
            given=factor, shares=shares, clearest=self._clearest(factor, shares, margin), means=self._means(factor)
        )

    # -- the parts of parts

    def _shares(self, events: Functionals, shape: tuple[int, ...]) -> JointShares:
        """Of sets of cells, as shares of the whole table or of those that answered."""
        joint, options = self._joint, self._options
        estimate, variance = joint.of(events), event_variance(joint, events)
        p_value = normal_p_value(estimate, np.sqrt(np.maximum(variance.floor, 0)))
        inside = self._inside(events)
        p_value = np.where(inside, p_value, np.nan)
        rule = Rule.of(p_value, options.alpha, options.correction)
        limit = rule.deviations * np.sqrt(np.maximum(variance.floor, 0))
        guess = events.cells @ joint.possible.ravel()
        if self.answered_only:
            whole = Functionals(*(np.tile(each, (len(estimate), 1)) for each in self._whole))
            found = shares_given(joint, events, whole, options.confidence)
            estimate, std_error, low, high = found.estimate, found.std_error, found.low, found.high
            limit, guess = (
                limit / self._share_of_whole(),
                guess / max(float(whole.cells[0] @ joint.possible.ravel()), 1e-9),
            )
        else:
            std_error = np.sqrt(variance.at(estimate))
            low, high = score_interval(estimate, variance, options.confidence)
        p_adjusted, detected = rule.adjusted(p_value), rule.detected(p_value)
        shaped = {
            name: np.where(inside, each, np.nan).reshape(shape)
            for name, each in (
                ("estimate", estimate),
                ("std_error", std_error),
                ("low", low),
                ("high", high),
                ("limit", limit),
                ("best_guess", guess),
            )
        }
        return JointShares(
            p_value=p_value.reshape(shape),
            p_adjusted=p_adjusted.reshape(shape),
            detected=np.asarray(detected).reshape(shape),
            **shaped,
        )

    def _within(self, events: Functionals) -> Functionals:
        return Functionals(events.rows * self._whole[0], events.columns * self._whole[1])

    def _inside(self, events: Functionals) -> Mask:
        """Which of these sets are part of the table that is shown."""
        return np.asarray(self._within(events).cells.any(axis=1))

    def _share_of_whole(self) -> float:
        return float(self._whole[0] @ self._joint.estimate @ self._whole[1]) if self.answered_only else 1.0

    def _bottoms(self, factor: int) -> Functionals:
        """For each cell, the row or column of the given factor that it is in."""
        cells = cells_of(self._shape)
        wide = np.tile(self._whole[1 - factor], (len(cells.rows), 1))
        return Functionals(cells.rows, wide) if factor == 0 else Functionals(wide, cells.columns)

    def _means(self, factor: int) -> Ratios | None:
        numbers = self._factors[1 - factor].numbers
        if numbers is None:
            return None
        size = self._shape[factor]
        own, values, ones = np.eye(size), np.tile(numbers, (size, 1)), np.ones((size, len(numbers)))
        top = Functionals(own, values) if factor == 0 else Functionals(values, own)
        bottom = Functionals(own, ones) if factor == 0 else Functionals(ones, own)
        return means_given(self._joint, top, bottom, self._options.confidence)

    def _clearest(self, factor: int, shares: JointShares, margin: JointShares) -> ClearestDifference | None:
        """Among all differences of one outcome between two given categories, the one of the most standard errors."""
        given, other = self._factors[factor], self._factors[1 - factor]
        known = margin.detected
        groups = [i for i in given.answers if known[i]]
        outcomes = other.answers[1:] if len(other) == 2 else other.answers
        chosen_from = len(outcomes) * len(groups) * (len(groups) - 1) // 2
        if not chosen_from:
            return None
        estimate, error = (each if factor == 0 else each.T for each in (shares.estimate, shares.std_error))

        def deviations(choice: tuple[int, int, int]) -> float:
            outcome, one, two = choice
            apart = estimate[one, outcome] - estimate[two, outcome]
            spread = np.hypot(error[one, outcome], error[two, outcome])
            return float(abs(apart) / spread) if spread > 0 else 0.0

        choices = ((outcome, one, two) for outcome in outcomes for one, two in combinations(groups, 2))
        outcome, one, two = max(choices, key=deviations)
        more, less = (one, two) if estimate[one, outcome] >= estimate[two, outcome] else (two, one)
        # Where nearly all have it in both groups, those who have not tell the groups apart more clearly.
        complement = len(other) > 2 and float(min(estimate[one, outcome], estimate[two, outcome])) > _MOST
        more, less = (less, more) if complement else (more, less)
        tops, bottoms = self._cells_at(factor, outcome, (more, less), complement)
        confidence = 1 - self._options.alpha / chosen_from
        found = contrast(self._joint, tops, bottoms, confidence)
        reach = critical(confidence) + exceeded_with(1 - POWER)
        return ClearestDifference(
            outcome=outcome,
            complement=complement,
            more=more,
            less=less,
            contrast=found,
            chosen_from=chosen_from,
            detectable=reach * found.std_error,
        )

    def _cells_at(
        self, factor: int, outcome: int, groups: tuple[int, int], complement: bool
    ) -> tuple[Functionals, Functionals]:
        own = np.eye(self._shape[factor])[list(groups)]
        cell = np.tile(np.eye(self._shape[1 - factor])[outcome], (2, 1))
        wide = np.tile(self._whole[1 - factor], (2, 1))
        cell = wide - cell if complement else cell
        if factor == 0:
            return Functionals(own, cell), Functionals(own, wide)
        return Functionals(cell, own), Functionals(wide, own)
