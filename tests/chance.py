"""Verdicts on chance with a stated price: how often the test would fail though the code is right.

Bounds are exact binomial tails, never a normal approximation or a bare tolerance, so a test that draws from a fixed
seed needs no luck with it: a new seed fails with probability `false_alarm`, one in a million unless said otherwise.
A bound alone proves little, because a test with few trials accepts anything; `power` and `uniform_power` say how
likely a given slip would have been caught, and a test asserts that too:

    assert_binomial(successes, trials, p)
    assert power(trials, p, wrong_p=p + 0.01) > 0.999
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scipy.stats import binom, chi2, ncx2

Probability = float | Fraction

FALSE_ALARM = 1e-6
SMALLEST_EXPECTED = 20
"""Below this many expected per cell the chi-square law is no longer close enough, so far out in its tail."""


def assert_binomial(successes: int, trials: int, p: Probability, false_alarm: float = FALSE_ALARM) -> None:
    """Fail unless `successes` is a count that Binomial(trials, p) plausibly gives.

    The verdict is two-sided. If the claim holds, this fails with probability at most `false_alarm`, exactly.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be in [0, trials={trials}], got {successes}")
    low, high = binomial_bounds(trials, p, false_alarm)
    assert low <= successes <= high, (
        f"n = {trials} trials gave k = {successes} successes, p-hat = {successes / trials:.8g}; "
        f"expected p = {float(p):.8g}, so k in [{low}, {high}] but for false_alarm = {false_alarm:g}"
    )


def binomial_bounds(trials: int, p: Probability, false_alarm: float = FALSE_ALARM) -> tuple[int, int]:
    """The narrowest (low, high) such that Binomial(trials, p) falls below low with probability at most
    false_alarm / 2, and above high with probability at most false_alarm / 2."""
    _check(trials, p, false_alarm)
    tail = false_alarm / 2
    # scipy's quantiles come from a search in floats and may be one off; its tails are accurate: they decide.
    low = int(binom.ppf(tail, trials, float(p)))
    while low > 0 and binom.cdf(low - 1, trials, float(p)) > tail:
        low -= 1
    while low < trials and binom.cdf(low, trials, float(p)) <= tail:
        low += 1
    high = int(binom.isf(tail, trials, float(p)))
    while high < trials and binom.sf(high, trials, float(p)) > tail:
        high += 1
    while high > 0 and binom.sf(high - 1, trials, float(p)) <= tail:
        high -= 1
    return low, high


def power(trials: int, p: Probability, wrong_p: Probability, false_alarm: float = FALSE_ALARM) -> float:
    """How likely `assert_binomial(.., trials, p, false_alarm)` fails if the truth is `wrong_p`. Exact."""
    low, high = binomial_bounds(trials, p, false_alarm)
    _check(trials, wrong_p, false_alarm)
    return float(binom.cdf(low - 1, trials, float(wrong_p)) + binom.sf(high, trials, float(wrong_p)))


def noticed(trials: int, p: Probability, chance: float = 0.99, false_alarm: float = FALSE_ALARM) -> float:
    """The largest wrong probability below p that `assert_binomial(.., trials, p)` notices with this chance, within
    0.001: what a test of so many trials cannot hide. 0 where it would hide anything."""
    low, high = 0, int(1000 * p)
    while low < high:
        middle = (low + high + 1) // 2
        if power(trials, p, middle / 1000, false_alarm) >= chance:
            low = middle
        else:
            high = middle - 1
    return low / 1000


def assert_uniform(counts: Sequence[int], false_alarm: float = FALSE_ALARM) -> None:
    """Fail unless draws that fell into equally likely cells plausibly gave these counts (Pearson's chi-square).

    One-sided: counts more even than chance would give pass. The chi-square law is a limit, so a cell must expect at
    least `SMALLEST_EXPECTED` draws; then this fails about as often as `false_alarm` says if the claim holds.
    """
    cells, total = len(counts), int(sum(counts))
    expected = _expected(total, cells)
    statistic = sum((int(count) - expected) ** 2 for count in counts) / expected
    chance = float(chi2.sf(statistic, cells - 1))
    worst = max(range(cells), key=lambda cell: abs(int(counts[cell]) - expected))
    assert chance > false_alarm, (
        f"n = {total} draws over {cells} cells gave chi-square = {statistic:.6g}, expected about {cells - 1}; "
        f"evenly drawn, so much or more has probability {chance:.3g}, not above false_alarm = {false_alarm:g}; "
        f"worst cell {worst}: k = {int(counts[worst])}, p-hat = {int(counts[worst]) / total:.8g}, "
        f"expected {expected:.6g}, p = {1 / cells:.8g}"
    )


def uniform_power(total: int, probabilities: Sequence[Probability], false_alarm: float = FALSE_ALARM) -> float:
    """How likely `assert_uniform` of `total` draws fails if the cells really have these probabilities.

    The statistic is then noncentral chi-square in the limit, its excess n sum (p_i - 1/cells)**2 cells.
    """
    cells = len(probabilities)
    _expected(total, cells)
    if abs(sum(map(float, probabilities)) - 1) > 1e-9:
        raise ValueError(f"probabilities must add up to 1, got {float(sum(map(float, probabilities)))}")
    excess = total * cells * sum((float(p) - 1 / cells) ** 2 for p in probabilities)
    return float(ncx2.sf(chi2.isf(false_alarm, cells - 1), cells - 1, excess))


def _expected(total: int, cells: int) -> float:
    if cells < 2:
        raise ValueError(f"counts must have at least 2 cells, got {cells}")
    if total < SMALLEST_EXPECTED * cells:
        raise ValueError(f"counts must expect at least {SMALLEST_EXPECTED} draws a cell, got {total} over {cells}")
    return total / cells


def _check(trials: int, p: Probability, false_alarm: float) -> None:
    if trials < 1:
        raise ValueError(f"trials must be at least 1, got {trials}")
    if not 0 <= p <= 1:
        raise ValueError(f"a probability must be in [0, 1], got {p}")
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm must be above 0 and below 1, got {false_alarm}")
