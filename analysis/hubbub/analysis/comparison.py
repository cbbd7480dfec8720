"""Two decodings side by side: two epochs, two releases. What changed, and is it more than noise?

The two sides are taken as independent, so variances add. Where both saw the same installs that is the careful side for
constant answers (shared memos would make the difference more exact), and the true one for installs that changed:
assuming full overlap would cover the truth too rarely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.intervals import RatioVariance, RowVariances, Variance, critical, normal_interval
from hubbub.analysis.estimation.rare_changes import two_sided_p_value
from hubbub.analysis.kinds.rows import adjusted
from hubbub.analysis.quantile_changes import quantile_change
from hubbub.analysis.result import NUMBER, QUANTILE, Decoding, Role, epoch_span
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import in_words

_Variance = Variance | RatioVariance | RowVariances
_NUMBERS = ("estimate_before", "estimate_after", "difference", "std_error", "low", "high", "p_value", "p_adjusted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`difference` is after minus before, for each value that both have; p-values are two-sided."""

    before: Decoding  # the earlier decoding
    after: Decoding  # the later one
    values: tuple[str, ...]  # the values that both have
    roles: tuple[Role, ...]  # what each row is
    estimate_before: Array  # the earlier estimate of each
    estimate_after: Array  # the later one
    difference: Array  # after minus before
    std_error: Array  # of the difference; of a quantile that of a normal law with so wide an interval
    low: Array  # lower end of its interval
    high: Array  # upper end
    p_value: Array  # two-sided, of no difference; nan where there is no test
    p_adjusted: Array  # corrected for the number of rows

    @property
    def changed(self) -> Mask:
        """Rows whose difference is more than noise, corrected for their number."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.p_adjusted <= 1 - self.after.confidence)

    @property
    def tested(self) -> Mask:
        """Rows that have a test. A sum has none: it is a mean times the installs, and changes with their number."""
        return np.isfinite(self.p_value)

    def columns(self) -> dict[str, list[Any]]:
        """The tidy table, column by column; what is not known is None."""
        size = len(self.values)
        found: dict[str, list[Any]] = {
            "metric": [self.after.metric] * size,
            "segment_before": [in_words(self.before.segment)] * size,
            "segment_after": [in_words(self.after.segment)] * size,
            "epochs_before": [epoch_span(self.before.epochs)] * size,
            "epochs_after": [epoch_span(self.after.epochs)] * size,
            "value": list(self.values),
        }
        for name in _NUMBERS:
            found[name] = [float(x) if np.isfinite(x) else None for x in getattr(self, name)]
        both = zip(self.changed, self.tested, strict=True)
        return found | {"changed": [bool(changed) if tested else None for changed, tested in both]}


def compare(before: Decoding, after: Decoding) -> Comparison:
    """What changed between two decodings of one kind of metric. Raises `Invalid` where they cannot be compared."""
    for name in ("kind", "estimand", "of", "confidence", "correction", "unit"):
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            raise Invalid([f"decodings to compare must have the same {name}, got {ours!r} and {theirs!r}"])
    for side in (before, after):
        if side.tested_besides:
            besides = f"{side.tested_besides:,} of {side.metric} have none"
            raise Invalid([f"decodings to compare must have a row for each candidate, {besides}"])
    there = {key: i for i, key in enumerate(zip(after.values, after.roles, strict=True))}
    pairs = [(i, there[key]) for i, key in enumerate(zip(before.values, before.roles, strict=True)) if key in there]
    if not pairs:
        raise Invalid([f"decodings to compare must share a value, got none in {before.metric} and {after.metric}"])
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    difference = after.estimate[b] - before.estimate[a]
    std_error = np.hypot(before.std_error[a], after.std_error[b])
    low, high = _interval(before, a, after, b)
    values, roles = tuple(before.values[i] for i in a), tuple(before.roles[i] for i in a)
    is_sum = [key == ("sum", NUMBER) for key in zip(values, roles, strict=True)]
    p_value = np.where(is_sum, np.nan, _p_values(before, a, after, b))
    for row, (value, role) in enumerate(zip(values, roles, strict=True)):
        if role == NUMBER and value.startswith(QUANTILE) and before.distribution and after.distribution:
            q = float(value.removeprefix(QUANTILE))
            p_value[row], low[row], high[row] = quantile_change(before.distribution, after.distribution, q)
            std_error[row] = (high[row] - low[row]) / (2 * critical(after.confidence))
    return Comparison(
        before=before,
        after=after,
        values=values,
        roles=roles,
        estimate_before=before.estimate[a],
        estimate_after=after.estimate[b],
        difference=difference,
        std_error=std_error,
        low=low,
        high=high,
        p_value=p_value,
        p_adjusted=adjusted(p_value, roles, 1 - after.confidence, after.correction),
    )


def _interval(before: Decoding, a: Index, after: Decoding, b: Index) -> tuple[Array, Array]:
    """Of the difference. Where each side has a score interval (or Fieller's), its reach to the other side (Newcombe
    1998): few counts reach farther up than down; and half a step of the counts, as the test allows."""
    difference = after.estimate[b] - before.estimate[a]
    if before.variance is None or after.variance is None:
        return normal_interval(difference, np.hypot(before.std_error[a], after.std_error[b]), after.confidence)
    (down_before, up_before), (down_after, up_after) = (_reaches(*side) for side in ((before, a), (after, b)))
    down, up = np.hypot(down_after, up_before), np.hypot(up_after, down_before)
    half = _half_step(before.variance.of(a), after.variance.of(b))
    return difference - down - half, difference + up + half


def _reaches(side: Decoding, rows: Index) -> tuple[Array, Array]:
    """How far intervals reach down and up. Those of numbers are cut at the ends of their range, and a difference needs
    them whole: a score interval reaches as far as the errors at its end say, and so, at least, does a cut one."""
    assert side.variance is not None
    variance, estimate = side.variance.of(rows), side.estimate[rows]
    is_number = np.array([side.roles[i] == NUMBER for i in rows])
    with np.errstate(invalid="ignore"):
        down, up = estimate - side.low[rows], side.high[rows] - estimate
        least = (critical(side.confidence) * np.sqrt(variance.at(end[rows])) for end in (side.low, side.high))
        low, high = (
            np.where(is_number, np.maximum(reach, own), reach) for reach, own in zip((down, up), least, strict=True)
        )
    return low, high


def _half_step(ours: _Variance, theirs: _Variance) -> Array:
    return np.asarray((ours.step + theirs.step) / 4)


def _p_values(before: Decoding, a: Index, after: Decoding, b: Index) -> Array:
    """Of no difference, two-sided. For declared answers a score test, with both variances at the share that both sides
    then have: at each side's own estimate, few counts would seem too sure. Of shares of those who answered the same, at
    the ratio that both have. Counts come in steps, so a difference is taken as nearer to none by half a step (Yates
    1934; here the mean of the two sides' half steps), and its tail is skewed as theirs is."""
    distance = np.abs(after.estimate[b] - before.estimate[a])
    of_before, of_after = before.std_error[a] ** 2, after.std_error[b] ** 2
    step_before = step_after = np.zeros_like(distance)
    with np.errstate(invalid="ignore", divide="ignore"):
        if before.variance is not None and after.variance is not None:
            ours, theirs = before.variance.of(a), after.variance.of(b)
            distance = np.maximum(distance - _half_step(ours, theirs), 0)
            share = (before.estimate[a] + after.estimate[b]) / 2
            for _ in range(3):  # each side weighs by its precision, which depends on the share a little
                weight = 1 / np.maximum(ours.at(share), 1e-300)
                other = 1 / np.maximum(theirs.at(share), 1e-300)
                share = (weight * before.estimate[a] + other * after.estimate[b]) / (weight + other)
            of_before, of_after = ours.at(share), theirs.at(share)
            step_before, step_after = np.asarray(ours.step), np.asarray(theirs.step)
        p_value = two_sided_p_value(distance, (of_after, step_after), (of_before, step_before))
    return np.where((distance == 0) & (of_before + of_after >= 0), 1.0, p_value)
