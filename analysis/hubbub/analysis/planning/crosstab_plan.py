"""Which of three ways a question about two answers needs, and how many reports each takes.

A group may be a public fact of the build (a *segment*: nothing is lost), be asked together with the other answer as one
question (a *cross*), or be another metric whose reports the collector counts together with it (a *pair*). All three
have the same epsilon in all: the segment gives all of it to the one answer that is asked, the cross to its cells, the
pair half to each metric. What is planned is the difference of one answer's share between two groups, where all groups
are equally large and the answers equally common; the errors are those of `hubbub.analysis.estimation.joint_law`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from hubbub.analysis.estimation.factor_scores import Response
from hubbub.analysis.estimation.intervals import exceeded_with
from hubbub.analysis.estimation.joint_intervals import Joint, contrast
from hubbub.analysis.estimation.joint_law import CrossGroup, CrossLaw, Functionals, JointLaw, PairGroup, PairLaw
from hubbub.analysis.kinds.factor import one_bit, one_of
from hubbub.analysis.kinds.variances import bit_variance
from hubbub.analysis.planning.plan import MOST_INSTALLS
from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import Noise
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import require
from hubbub.protocol.noise import category_noise, one_bit_noise
from hubbub.protocol.printed import points, short_number, short_percent, text_table
from hubbub.protocol.shape import MAX_CROSSED


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosstabPlan:
    """Does a share of `answers` differ by `difference` between two of `groups`? `epsilon` is that of both together."""

    groups: int
    answers: int
    epsilon: Fraction
    difference: float = 0.05
    power: float = 0.8
    alpha: float = 0.05
    consent: float = 1.0

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        for name in ("groups", "answers"):
            if not 2 <= getattr(self, name) <= 256:
                yield f"{name} must be in [2, 256], got {getattr(self, name)}"
        if not 2 * eps.SMALLEST <= self.epsilon <= eps.LARGEST:
            limits = f"[{float(2 * eps.SMALLEST):g}, {float(eps.LARGEST):g}]"
            yield f"epsilon of both must be in {limits}, got {float(self.epsilon):g}"
        for name in ("difference", "power", "alpha"):
            if not 0 < getattr(self, name) < 1:
                yield f"{name} must be above 0 and below 1, got {getattr(self, name):g}"
        if not 0 < self.consent <= 1:
            yield f"consent must be above 0 and at most 1, got {self.consent:g}"

    @property
    def ways(self) -> dict[str, float | None]:
        """The reports that each way takes; None where it cannot be asked so."""
        return {"segment": self._reports(self._segment()), "cross": self._cross(), "pair": self._pair()}

    def _reports(self, unit_variance: float) -> float:
        """From the variance of the difference, times the reports: a two-sided test."""
        reach = exceeded_with(self.alpha / 2) + exceeded_with(1 - self.power)
        return float(ceil(unit_variance * (reach / self.difference) ** 2))

    def _segment(self) -> float:
        """Two groups of n / groups reports each, of a population."""
        noise, share = noise_of(self.epsilon, self.answers), 1 / self.answers
        return 2 * self.groups * (bit_variance(noise, share) + share * (1 - share))

    def _cross(self) -> float | None:
        cells = self.groups * self.answers
        if cells > MAX_CROSSED:
            return None
        found = one_of(noise_of(self.epsilon, cells), cells)
        law = CrossLaw(CrossGroup(np.eye(1 + found.expected.shape[1])[0], 1.0, found), (self.groups, self.answers))
        return self._reports(self._unit_variance(law))

    def _pair(self) -> float:
        first, second = (_response(self.epsilon / 2, size) for size in (self.groups, self.answers))
        counts = np.zeros((1 + first.expected.shape[1], 1 + second.expected.shape[1]))
        counts[0, 0] = 1
        law = PairLaw([PairGroup(counts=counts, sampling=1.0, first=first, second=second)], 1.0)
        return self._reports(self._unit_variance(law))

    def _unit_variance(self, law: JointLaw) -> float:
        """Of the difference of the first answer between the first two groups, with one report."""
        size = self.groups, self.answers
        table = np.full(size, 1 / (self.groups * self.answers))
        joint = Joint(law, table, table, 0.0, np.zeros(size))
        rows, column = np.eye(self.groups)[:2], np.tile(np.eye(self.answers)[0], (2, 1))
        found = contrast(joint, Functionals(rows, column), Functionals(rows, np.ones((2, self.answers))), 0.95)
        return found.std_error**2


def noise_of(epsilon: Fraction, categories: int) -> Noise:
    """The noise of one report with this epsilon, that a repeated metric may use."""
    if categories == 2:
        return one_bit_noise(epsilon, epsilon)
    return category_noise(epsilon, epsilon, categories, once=False)


def _response(epsilon: Fraction, categories: int) -> Response:
    noise = noise_of(epsilon, categories)
    return one_bit(noise) if categories == 2 else one_of(noise, categories)


# --- in words ------------------------------------------------------------------------------------------------------


def crosstab_words(plan: CrosstabPlan, installs: float | None) -> list[str]:
    """Which way, how many; and no, where the answer is no."""
    ways = plan.ways
    half, whole = show(plan.epsilon / 2), show(plan.epsilon)
    asks = {
        "segment": f"the group is a public fact of the build; one question, epsilon {whole}",
        "cross": f"one question of {plan.groups * plan.answers} cells, epsilon {whole}",
        "pair": f"two questions, counted together, epsilon {half} each",
    }
    header = ["way", "what is asked", "reports"]
    many = [[way, asks[way], "too many cells" if found is None else short_number(found)] for way, found in ways.items()]
    lines = [
        f"To see that a share differs by {points(plan.difference)} between two of {plan.groups} groups "
        f"({plan.answers} answers), with power {short_percent(plan.power)}:",
        "",
        *text_table(header, many, left=(0, 1), longest=80),
        "",
    ]
    return lines + (_advice(plan) if installs is None else _verdict(plan, installs))


def possible(plan: CrosstabPlan, installs: float | None) -> list[str]:
    """The ways that so many installs are enough for; with no number, any that a trillion would be."""
    reports = (MOST_INSTALLS if installs is None else installs) * plan.consent
    return [way for way, found in plan.ways.items() if found is not None and found <= reports]


def _advice(plan: CrosstabPlan) -> list[str]:
    lines = [
        "A segment is only for facts of the build, such as platform and release, never of the person.",
        "A cross must be declared beforehand; a pair needs no question of its own where both are asked anyway.",
    ]
    if plan.consent < 1:
        lines.append(f"Reports are of installs that agree: divide by {short_percent(plan.consent)} for installs.")
    return lines


def _verdict(plan: CrosstabPlan, installs: float) -> list[str]:
    enough = possible(plan, installs)
    who = f"{short_number(installs)} installs" + (
        f", of which {short_percent(plan.consent)} agree," if plan.consent < 1 else ""
    )
    if not enough:
        return [
            f"No: {who} are too few for each of the three. Ask for a larger difference, merge categories, or collect "
            "longer: but one answer is told again and again with the same noise, so that weeks help less than installs."
        ]
    others = [way for way, found in plan.ways.items() if way not in enough]
    lines = [f"Yes: {who} are enough for a {' or a '.join(enough)}."]
    if others:
        lines.append(f"Not for a {' nor a '.join(others)}.")
    if enough == ["segment"]:
        lines.append("So the answer is no, unless the group is a public fact of the build.")
    return lines
