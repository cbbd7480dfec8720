"""The noise of published counts: which, how wide, and what a count with it tells about whether an install took part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import exp, log, sqrt
from typing import Literal

import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.accounting.mechanisms import gaussian_count, laplace_count, randomized_response
from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.protocol.invalid import Invalid, brief, say
from hubbub.protocol.metric import Definition

EXPONENTIAL = "exponential"
"""In a ledger, `exponential:0.1`: one choice by the exponential mechanism with this epsilon."""
_FORM = "count noise must be gaussian:DEVIATION from 1 to 1000000 or laplace:EPSILON from 0.000001 to 1"
_DECIMAL = re.compile(r"[0-9]{1,7}(\.[0-9]{1,12})?")


@dataclass(frozen=True, slots=True)
class CountNoise:
    """`gaussian:20`: discrete Gaussian noise of deviation 20 on every count. `laplace:0.1`: discrete Laplace noise that
    hides one in a count with epsilon 0.1."""

    law: Literal["gaussian", "laplace"]
    width: Fraction  # the deviation, or 1 / epsilon

    @classmethod
    def parse(cls, text: str) -> CountNoise:
        law, _, number = text.partition(":")
        # Digits as everybody writes them: a number with a million of them would be reckoned with for hours.
        given = Fraction(number) if _DECIMAL.fullmatch(number) else Fraction(0)
        if law == "gaussian" and 1 <= given <= 1_000_000:
            return cls("gaussian", given)
        if law == "laplace" and Fraction(1, 1_000_000) <= given <= 1:
            return cls("laplace", 1 / given)
        raise Invalid([f"{_FORM}, got {brief(text)}"])

    def __str__(self) -> str:
        return f"{self.law}:{say(self.width if self.law == 'gaussian' else 1 / self.width)}"

    @property
    def variance(self) -> float:
        """Of the Gaussian law at most this, and from a deviation of 1 on within a millionth of it."""
        if self.law == "gaussian":
            return float(self.width**2)
        r = exp(-1 / float(self.width))
        return 2 * r / (1 - r) ** 2

    def margin(self, draws: int, chance: float) -> float:
        """How far the sum of so many draws stays from 0 on either side, but for this chance."""
        if self.law == "gaussian":
            return float(self.width) * sqrt(draws) * float(scipy.stats.norm.isf(chance / 2))
        return draws * float(self.width) * log(draws / chance)

    def draw(self, source: NoiseSource) -> int:
        return source.gaussian(self.width**2) if self.law == "gaussian" else source.laplace(self.width)

    def loss(self, counts: int) -> PrivacyLoss:
        """Of so many counts, in each of which one report makes a difference of 1."""
        return _loss(self, counts)


def loss_of(noise: str, times: int) -> PrivacyLoss:
    """Of so many draws of what a ledger calls by this name. Nothing with a pure epsilon tells more than randomised
    response with it."""
    name, _, epsilon = noise.partition(":")
    if name == EXPONENTIAL and _DECIMAL.fullmatch(epsilon):
        return randomized_response(float(epsilon)).times(times)
    return CountNoise.parse(noise).loss(times)


def counts_of_a_report(metric: Definition) -> int:
    """In how many published counts of an epoch one report shows: that of reports, and one for each bit it may set."""
    shape = metric.shape
    return 1 + (metric.weight or max(shape.width(cohort) for cohort in range(shape.num_cohorts)))


@cache
def _loss(noise: CountNoise, counts: int) -> PrivacyLoss:
    one = gaussian_count(float(noise.width)) if noise.law == "gaussian" else laplace_count(float(noise.width))
    return one.times(counts)
