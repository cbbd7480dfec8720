"""The law of an estimate, also where it rests on few counts: tails by saddlepoint, and intervals that invert them.

An estimate is a sum of ones, each of which moves it by so much. The cumulant generating function of that sum is known
whatever the channels, epochs and definitions (`curves`). Tails follow by the formula of Lugannani and Rice in
Barndorff-Nielsen's form.

Counts come in steps, so a tail includes the whole of the step observed (Daniels 1987, second correction). Intervals
made of such tails hold the truth at least as often as they say, and often more: as those of Clopper and Pearson (1934)
do for a plain count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from hubbub.analysis.arrays import Array, Index, Mask
from hubbub.analysis.estimation.curves import Curve, Curves, Moves, sums
from hubbub.analysis.estimation.intervals import Variance, critical, score_interval

_FARTHEST = 40.0  # exponential tilts, times the step: beyond, a law is at the end of what it can reach
_LARGEST = 600.0  # logarithm whose exponential is a number
_SURE = 40.0  # deviations that stand for certainty
_MANY_STEPS = 1e4  # that a count strays by: its law is normal to four digits, and rounding would show more
_TURNS = 300
_NUMBERED = {"row": "step", "crowd": "row", "bit": "crowd"}  # which arrays these number the places of


@dataclass(frozen=True, slots=True, kw_only=True)
class Law(Moves):
    """The laws of some rows' estimates as functions of the true share f of installs that are inside the row."""

    def of_finite(self, finite: float) -> Law:
        """The same with so much of the variance of sampling everyone taken off each row's."""
        kept = self.move * self.asked * (self.a1 - self.a0) * (self.q - self.p)
        moved = sums(self.bit, kept, len(self.crowd))
        moved = sums(self.crowd, moved * (self.inside - self.outside), len(self.row))
        sampling = sums(self.row, self.installs * moved**2, len(self.step))
        return replace(self, fixed=np.minimum(finite / np.maximum(sampling, 1e-300), 1))

    def of_rows(self, rows: Index) -> Law:
        """Some of the rows, which must ascend."""
        place = np.full(len(self.step), -1)
        place[rows] = np.arange(len(rows))
        crowds = np.flatnonzero(place[self.row] >= 0)
        bits = np.flatnonzero(place[self.row][self.crowd] >= 0)
        cells = np.flatnonzero(place[self.row][self.crowd][self.bit] >= 0)
        of = {"offset": rows, "step": rows, "fixed": rows, "added": rows, "row": crowds, "installs": crowds}
        of |= {"crowd": bits, "inside": bits, "outside": bits}
        kept: dict[str, Any] = {each.name: getattr(self, each.name)[of.get(each.name, cells)] for each in fields(self)}
        kept["row"] = place[kept["row"]]
        kept["crowd"], kept["bit"] = np.searchsorted(crowds, kept["crowd"]), np.searchsorted(bits, kept["bit"])
        return replace(self, **kept)

    @classmethod
    def joined(cls, laws: Sequence[Law]) -> Law:
        """The rows of all these laws, one law after the other."""

        def together(name: str) -> Any:
            values = [getattr(law, name) for law in laws]
            if name in _NUMBERED:  # by place in the arrays of the next coarser thing
                sizes = np.cumsum([0, *(len(getattr(law, _NUMBERED[name])) for law in laws[:-1])])
                values = [numbers + before for numbers, before in zip(values, sizes, strict=True)]
            return np.concatenate(values)

        return cls(**{each.name: together(each.name) for each in fields(cls)})

    def variance(self) -> Variance:
        """Of each estimate as a function of the true share, which is quadratic. Noise on counts blurs their steps."""
        nothing = np.zeros(len(self.step))
        curves = Curves(self)
        none, half, all_ = (
            curves(nothing, nothing + share)[0][2] + added
            for share, added in zip((0.0, 0.5, 1.0), self.added.T, strict=True)
        )
        step = np.where(self.added.any(axis=1), 0.0, self.step)
        return Variance(floor=none, slope=all_ - none, sampling=4 * half - 2 * (none + all_), step=step)

    def _reach(self, side: Callable[[Array, float], Array]) -> Array:
        """The least or the largest sum of moves there can be."""
        moves = sums(self.crowd[self.bit], self.alike * self.asked * side(self.move, 0.0), len(self.row))
        return sums(self.row, self.installs * moves, len(self.step))

    def _farthest(self) -> Array:
        """The largest tilt: an estimate that it does not reach with half a step taken off has a probability below
        exp(-_FARTHEST / 2) (Chernoff). Where a few installs sent many times as many reports as others, it is where
        exponentials end."""
        moves = sums(self.bit, self.asked * np.abs(self.move), len(self.crowd))
        most = np.zeros(len(self.step))
        np.maximum.at(most, self.row[self.crowd], moves)
        return np.minimum(_FARTHEST / self.step, _LARGEST / most)

    def p_values(self, estimate: Array) -> Array:
        """P(so large an estimate or a larger one | nobody is inside)."""
        found, _ = self._search(estimate - self.step / 2, np.zeros(len(self.step)), None)
        return np.asarray(ndtr(-found))

    def p_values_of_rest(self, estimate: Array) -> Array:
        """P(so small an estimate or a smaller one | everybody is inside): the test that nobody is outside. Where noise
        was added to counts, which these tails know nothing of, by a normal law."""
        everybody = np.ones(len(self.step))
        found, _ = self._search(estimate + self.step / 2, everybody, None)
        normal = (estimate - 1) / np.sqrt(self.variance().at(everybody))
        return np.asarray(ndtr(np.where(self.added.any(axis=1), normal, found)))

    @np.errstate(divide="ignore", invalid="ignore")
    def line(self, deviations: float) -> Array:
        """The estimates whose p-value is the probability that a standard normal number exceeds this one, which is
        positive; beyond all that can be reached where none has so small a p-value.

        At a tilt the estimate that is expected is known, and so is its p-value: the tilt is found by Newton's steps,
        and by halving where they lead astray. They begin near that of a Poisson count with the same variance, which
        must be z sqrt(variance) + z^2 / 6 above its mean (Cornish, Fisher 1938).
        """
        curves, nobody, far = Curves(self), np.zeros(len(self.step)), self._farthest()
        error = np.sqrt(curves(nobody, nobody)[0][2])
        is_normal, beyond = error > _MANY_STEPS * self.step, deviations * self.step / error
        tilt = np.minimum(np.log1p(beyond + beyond**2 / 6) / self.step, far / 2)
        low, high = nobody, far
        for _ in range(_TURNS):
            curve, _ = curves(tilt, nobody)
            reached, r = self._deviations(curve, curve[1], tilt, tilt, far)
            low, high = np.where(reached < deviations, tilt, low), np.where(reached < deviations, high, tilt)
            found = (high - low) * curve[2] < 1e-4 * self.step  # to a small part of what one install can change
            if (found | (np.abs(reached - deviations) < 1e-4) | is_normal).all():
                break
            newton = tilt + (deviations - reached) * r / (tilt * curve[2])
            tilt = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        return np.where(is_normal, deviations * error, curve[1] - self.offset + self.step / 2)

    def solve(self, estimate: Array, deviations: Array, start: Array) -> Array:
        """The share at which an estimate has so many deviations: minus infinity where every share in [0, 1] has fewer,
        infinity where every one has more."""
        found, share = self._search(estimate, np.clip(start, 0, 1), deviations)
        edge = 2e-3 * self.step
        share = np.where((share <= edge) & (found <= deviations), -np.inf, share)
        return np.where((share >= 1 - edge) & (found >= deviations), np.inf, share)

    @np.errstate(divide="ignore", invalid="ignore")
    def _search(self, estimate: Array, share: Array, wanted: Array | None) -> tuple[Array, Array]:
        """The number that a standard normal one exceeds as often as an estimate exceeds this one, at given shares; or,
        where it is `wanted`, with the share at which it is so.

        It takes the tilt at which the estimate is expected: found by Newton's steps in log odds, which are nearly
        linear in the tilt, as for a plain count they are. Whenever a row has its tilt, its share moves on: by Newton's
        step too, as long as each halves what is missing, and else to the middle of what is left.
        """
        curves, value, far = Curves(self), estimate + self.offset, self._farthest()
        least, most = self._reach(np.minimum), self._reach(np.maximum)
        odds = _odds(value, least, most)
        tilt, low, high = np.zeros_like(share), -far, far
        # Shares known to be too small, too large: at the estimate itself, which is unbiased, there is no deviation.
        below, above = np.full_like(share, -1.0), np.full_like(share, 2.0)
        missing = np.full_like(share, np.inf)
        if wanted is not None:
            below, above = np.where(wanted < 0, estimate, below), np.where(wanted > 0, estimate, above)
            share = np.where((share > below) & (share < above), share, _middle(below, above))
        found, done = np.zeros_like(share), np.zeros(len(share), dtype=bool)
        for _ in range(_TURNS):
            curve, slope = curves(tilt, share)
            _, mean, variance = curve
            low, high = np.where(mean < value, tilt, low), np.where(mean < value, high, tilt)
            rate = variance * (1 / (mean - least) + 1 / (most - mean))
            newton = tilt + (odds - _odds(mean, least, most)) / rate
            moved = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
            # Deviations are flat in the tilt, so that it need not be found to many digits. Without any variance (a
            # channel that never errs, and nobody inside) only the ends of what can be reached are left.
            spread = np.sqrt(np.maximum(variance, 0))
            near = 1e-2 * np.minimum(np.abs(moved) * spread, 1) + 1e-6
            settled = (np.abs(moved - tilt) * spread <= near) & (spread * far > 1e-3)
            settled |= high - low < 1e-3 * far
            settled &= ~done
            if not settled.any():
                tilt = np.where(done, tilt, moved)
                continue
            now, r = self._deviations(curve, value, tilt, moved, far)
            found = np.where(settled, now, found)
            if wanted is None:
                done |= settled
            else:
                excess = now - wanted
                below = np.where(settled & (excess > 0), share, below)
                above = np.where(settled & (excess <= 0), share, above)
                at_edge = ((share == 0) & (excess <= 0)) | ((share == 1) & (excess > 0))
                done |= settled & ((np.abs(excess) < 2e-3) | (above - below < 1e-3 * self.step) | at_edge)
                onward = settled & ~done
                halved = np.abs(excess) <= missing / 2
                share = np.where(onward, _next_share(share, now, excess, r, slope, below, above, halved), share)
                missing = np.where(onward, np.abs(excess), missing)
                low, high = np.where(onward, -far, low), np.where(onward, far, high)
            tilt = np.where(done, tilt, moved)
            if done.all():
                break
        return found, share

    def _deviations(self, curve: Curve, value: Array, tilt: Array, moved: Array, far: Array) -> tuple[Array, Array]:
        """By Lugannani and Rice, in Barndorff-Nielsen's form; and the signed root of twice the exponent. The curve is
        that at one tilt and continued to the next one: an error of a hundredth of the tilt, next to the middle of the
        law, would be one of three hundredths of the p-value."""
        log_mgf, mean, variance = curve
        ahead = moved - tilt
        log_mgf = log_mgf + ahead * (mean + ahead * variance / 2)
        r = np.sign(moved) * np.sqrt(np.maximum(2 * (moved * value - log_mgf), 0))
        u = 2 * np.sinh(moved * self.step / 2) / self.step * np.sqrt(variance)
        found = np.where(np.abs(r) > 0.05, r + np.log(u / r) / r, r)
        # At the farthest tilts the law is at the end of what it can reach: the estimate is beyond.
        found = np.where(tilt < -0.99 * far, -_SURE, np.where(tilt > 0.99 * far, _SURE, found))
        return np.minimum(np.maximum(np.where(np.isnan(found), 0.0, found), -_SURE), _SURE), r


def interval(
    estimate: Array, variance: Variance, law: Callable[[Index], Law], confidence: float
) -> tuple[Array, Array]:
    """Score intervals, and where counts are few those of the law: `law` gives that of some rows.

    Where the law excludes no share at an end, the interval is open there as a score interval is, and not cut at 0 or 1.
    """
    low, high = score_interval(estimate, variance, confidence)
    few = np.flatnonzero(variance.rests_on_few(estimate))
    if not len(few):
        return low, high
    both = Law.joined([law(few)] * 2)
    half = np.concatenate([-both.step[: len(few)], both.step[len(few) :]]) / 2
    z = np.repeat([1.0, -1.0], len(few)) * critical(confidence)
    start = np.concatenate([low[few], high[few]])
    found = both.solve(np.tile(estimate[few], 2) + half, z, start)
    uncut = np.where(found > 0, np.maximum(start, 1), np.minimum(start, 0))
    found = np.where(np.isfinite(found), found, uncut)
    low[few], high[few] = found[: len(few)], found[len(few) :]
    return low, high


def _next_share(
    share: Array, deviations: Array, excess: Array, r: Array, slope: Array, below: Array, above: Array, halved: Mask
) -> Array:
    """Newton's step towards no excess, or the middle where it leaves what is left or the last one `halved` nothing;
    where the law is at its end, the last share there is."""
    newton = np.minimum(np.maximum(share + excess * r / slope, 0), 1)
    newton = np.where(np.abs(deviations) == _SURE, deviations > 0, newton)
    return np.where((newton > below) & (newton < above) & halved, newton, _middle(below, above))


def _middle(below: Array, above: Array) -> Array:
    """Of the shares between that a population can have."""
    return np.minimum(np.maximum((np.maximum(below, 0) + np.minimum(above, 1)) / 2, 0), 1)


def _odds(value: Array, least: Array, most: Array) -> Array:
    return np.asarray(np.log((value - least) / (most - value)))
