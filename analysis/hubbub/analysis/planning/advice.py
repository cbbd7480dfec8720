"""Advice that follows from a plan: shapes, slots, what RAPPOR would give, and how a budget is shared out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

import scipy  # its larger parts are loaded where they are asked for: half of a command's start

from hubbub.analysis.planning.plan import Plan, installs_for, share_for
from hubbub.protocol.channel import KaryChannel, Noise, SubsetChannel
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import percent, short_percent
from hubbub.protocol.registry import Registry


def channel_in_words(noise: Noise) -> str:
    high, low = noise.composed.probabilities
    if isinstance(noise.permanent, KaryChannel):
        return f"one category of {noise.permanent.categories}: the truth arrives with {float(high):.3f}"
    if isinstance(noise.permanent, SubsetChannel):
        some = f"{noise.permanent.size} categories of {noise.permanent.categories}"
        return f"{some}: the true one is among them with {float(high):.3f}, any other with {float(low):.3f}"
    return f"bits: a 1 arrives as 1 with q* = {float(high):.4f}, a 0 with p* = {float(low):.4f}"


# --- slots --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slots:
    """How many answers an install may need in its life, if each different one is kept."""

    change_rate: float
    life: int
    max_values: int


def slots_for(change_rate: float, life: int) -> Slots:
    """For values that change with this probability in each epoch, over a life of so many epochs: so many slots that 19
    of 20 installs never run out, if every change is to a value never had."""
    problems = []
    if not 0 <= change_rate <= 1:
        problems.append(f"change-rate must be in [0, 1], got {change_rate:g}")
    if life < 1:
        problems.append(f"life must be at least 1 epoch, got {life}")
    if problems:
        raise Invalid(problems)
    changes = int(scipy.stats.binom.ppf(0.95, life - 1, change_rate)) if life > 1 else 0
    return Slots(change_rate, life, changes + 1)


# --- budgets ------------------------------------------------------------------------------------------------------


def split_budget(registry: Registry, lifetime: Fraction) -> dict[str, tuple[Fraction, Fraction]]:
    """New (epsilon_one_report, epsilon_permanent) for each metric: all scaled alike, so that the budget is spent.

    Rounded down to hundredths, so the sum never exceeds it. The file's own proportions say what matters more.
    """
    spent = registry.epsilon_lifetime
    scale = lifetime / spent
    found = {}
    for metric in registry:
        one, permanent = (
            Fraction(int(value * scale * 100), 100) for value in (metric.epsilon_one_report, metric.epsilon_permanent)
        )
        if one < Fraction(1, 100) or permanent > 16:
            raise Invalid(
                [f"lifetime {float(lifetime):g} gives {metric.name} epsilons out of [0.01, 16]: {one}, {permanent}"]
            )
        found[metric.name] = (one, permanent)
    return found


# --- when the answer is no ----------------------------------------------------------------------------------------


def what_would_change_it(plan: Plan) -> list[str]:
    """For a plan that cannot reach its goal: each single change that would."""
    found = []
    installs = installs_for(plan)
    if installs != inf:
        found.append(f"{installs:,.0f} installs instead of {plan.installs:,.0f}")
    share = share_for(plan)
    if share != inf:
        found.append(f"looking for shares of {percent(share)} and more instead of {short_percent(plan.share)}")
    if plan.consent < 1:
        more = replace(plan, consent=1.0)
        if installs_for(more) <= plan.installs:
            found.append("more consent")
    if plan.shape.open_list and plan.rule.tests > 1:
        found.append(f"looking at fewer than {plan.rule.tests:,} values")
    return found
