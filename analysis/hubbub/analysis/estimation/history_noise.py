"""Answers of one install in several periods, drawn with flags that hang together: two stages that vary as they do.

An install with a history (`hubbub.protocol.history`) answers once in each period. The truth is told where its flag is
set; flags are set with probability a1 and covary by C = E z_i z_j - a1^2. So the answers of several periods are not
independent, and their average is less sure than that of as many installs. Everything that estimates knows a memo which
is drawn once, with a1 and a0, and shown in each epoch, with q and p; its reports covary, too. `stages` gives such a
pair for a history:

* One of d categories. The answers x_i and x_j covary by C u u', u = e_x - (1 - e_x) / (d - 1). A k-ary memo which is
  true with A, shown by a k-ary stage that keeps L of it (its truth less any other), covaries by L^2 (diag - product),
  which is nowhere below that matrix as soon as L^2 A (1 - A) = C, because u' diag^-1 u = 1 / (A (1 - A)). With d = 2
  they are equal. L times what the memo keeps must be a1 - a0 again, and A is the larger root of a square equation.
* Bits. Those that are not the answer's own are drawn afresh: the memo of a bit that is not in the mask is never set, p
  is a0, and the memo of one that is, set with A, has A (1 - A)(q - p)^2 = C and A (q - p) = a1 - a0. Where q would
  exceed 1 it is 1, and the memo of the other bits covaries a little.

Where C is negative, flags keep apart, and what is careful is an answer that changes: then two periods covary by
-C / (d - 1) in each of the two categories, so that 2 / (d - 1) of -C is enough, and all of it for two or three.
"""

from __future__ import annotations

from math import sqrt

from hubbub.protocol.history import History


def stages(history: History) -> tuple[float, float, float, float]:
    """a1, a0, q and p of two stages whose reports have the means of one answer and covary as two answers do at most."""
    truth, other = (float(each) for each in history.probabilities)
    covariance = float(history.both_truths - history.truth**2)
    if history.categories is None:
        return _of_bits(truth, other, max(covariance, 0.0))
    if covariance < 0:
        covariance *= -min(1.0, 2 / (history.categories - 1))
    return _of_categories(truth - other, covariance, history.categories)


def _of_categories(gain: float, covariance: float, d: int) -> tuple[float, float, float, float]:
    """From (gain / kept)^2 A (1 - A) = C with kept = (d A - 1) / (d - 1)."""
    g = (gain * (d - 1)) ** 2
    memo = (g + 2 * covariance * d + sqrt(g * (g + 4 * covariance * (d - 1)))) / (2 * (g + covariance * d * d))
    shown = gain * (d - 1) / (d * memo - 1)
    return memo, (1 - memo) / (d - 1), (1 + (d - 1) * shown) / d, (1 - shown) / d


def _of_bits(truth: float, other: float, covariance: float) -> tuple[float, float, float, float]:
    gain = truth - other
    if truth + covariance / gain <= 1:
        memo = gain / (gain + covariance / gain)
        return memo, 0.0, other + gain / memo, other
    p = truth - covariance / (1 - truth)
    return (truth - p) / (1 - p), (other - p) / (1 - p), 1.0, p
