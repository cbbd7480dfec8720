"""The scorecard: what an analyst would have found, held against the truth, in figures and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import floor, isfinite, isnan, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.kinds import Mean, Range, String
from hubbub.protocol.metric import Metric
from hubbub.simulations.people.truth import Truth, leaf_shares
from hubbub.simulations.simulate.theory import predicted_error

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """One metric. Errors are of the unbiased estimates: shares, or for a mean parts of its range.

    `distance` is the total variation between the best guess and the truth: the share of people on the wrong answer.
    For a range it is the largest error of its distribution function, for a mean the error as a part of the range.
    """

    metric: str
    kind: str
    reports: int
    epochs: int
    present: int
    found: int
    missed: int
    false: int
    smallest_seen: float | None
    noise_floor: float | None
    distance: float
    covered: int
    intervals: int
    error: float
    theory: float
    stale: float

    @property
    def coverage(self) -> float:
        return self.covered / max(self.intervals, 1)

    @property
    def against_theory(self) -> float:
        """The error that was made over the one predicted: 1 on average, where answers do not change."""
        return self.error / self.theory

    def to_json(self) -> dict[str, Any]:
        figures = {**asdict(self), "coverage": self.coverage, "against_theory": self.against_theory}
        return {name: None if isinstance(x, float) and not isfinite(x) else x for name, x in figures.items()}


def score(metric: Metric, decoding: Decoding, truth: Truth, counts: Mapping[Any, int], stale: float) -> Scorecard:
    """Judge a decoding whose truth is known; `counts` say how often each answer was recorded."""
    answers = np.array([role == ANSWER for role in decoding.roles], dtype=bool)
    there = answers & (truth > 0)
    found = there & decoding.detected
    judged = np.isfinite(truth) & np.isfinite(decoding.low) & np.array([value != "sum" for value in decoding.values])
    holds = judged & (decoding.low <= truth) & (truth <= decoding.high)
    error, theory = _errors(metric, decoding, truth, counts)
    return Scorecard(
        metric=metric.name,
        kind=metric.kind,
        reports=decoding.num_reports,
        epochs=len(decoding.epochs),
        present=int(there.sum()),
        found=int(found.sum()),
        missed=int(there.sum() - found.sum()),
        false=int((answers & (truth == 0) & decoding.detected).sum()),
        smallest_seen=float(truth[found].min()) if found.any() else None,
        noise_floor=float(decoding.noise_floor) if np.isfinite(decoding.noise_floor) else None,
        distance=_distance(metric, decoding, truth, counts),
        covered=int(holds.sum()),
        intervals=int(judged.sum()),
        error=error,
        theory=theory,
        stale=stale / max(decoding.num_reports, 1),
    )


def _errors(metric: Metric, decoding: Decoding, truth: Truth, counts: Mapping[Any, int]) -> tuple[float, float]:
    """Root mean squares over all answers: of the errors made, and of those the formulas predict."""
    installs = max(decoding.installs, 1.0)
    epochs = max(len(decoding.epochs), 1)
    shape = metric.shape
    if isinstance(shape, Mean):
        span = float(shape.high - shape.low)
        return abs(float(decoding.estimate[0] - truth[0])) / span, predicted_error(metric, 0.5, installs, epochs)
    if isinstance(shape, Range):
        assert decoding.distribution is not None
        known, estimate = leaf_shares(shape, counts), decoding.distribution.leaves
    else:
        rows = [i for i, role in enumerate(decoding.roles) if role == ANSWER]
        known, estimate = truth[rows], decoding.estimate[rows]
    strings = _fitted_together(decoding, metric)
    shares, repeats = np.unique(known, return_counts=True)
    variances = [predicted_error(metric, float(share), installs, epochs, strings) ** 2 for share in shares]
    return _rms(estimate - known), float(np.sqrt(np.average(variances, weights=repeats))) if len(shares) else np.nan


def _fitted_together(decoding: Decoding, metric: Metric) -> int:
    if not isinstance(metric.shape, String):
        return 0
    cells = metric.shape.num_bits * metric.shape.num_cohorts
    return min(int(decoding.detected.sum()), cells - 1)


def _distance(metric: Metric, decoding: Decoding, truth: Truth, counts: Mapping[Any, int]) -> float:
    shape = metric.shape
    if isinstance(shape, Mean):
        return abs(float(decoding.best_guess[0] - truth[0])) / float(shape.high - shape.low)
    if isinstance(shape, Range):
        assert decoding.distribution is not None
        guess, known = (np.cumsum(x) for x in (decoding.distribution.best_guess, leaf_shares(shape, counts)))
        # Of those who answered, as the distribution function is.
        return float(np.max(np.abs(guess / max(guess[-1], 1e-300) - known / max(known[-1], 1e-300))))
    shares = np.array([role != NUMBER for role in decoding.roles], dtype=bool)
    guess, known = decoding.best_guess[shares], truth[shares]
    if decoding.kind == "flag":  # the one row is yes; no is what is left
        return abs(float(guess[0] - known[0]))
    return float(np.nansum(np.abs(guess - known)) / 2)


def _rms(errors: Array) -> float:
    known = errors[np.isfinite(errors)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")


# --- in words -----------------------------------------------------------------------------------------------------

_PLURALS = {"string": "strings", "choice": "choices", "histogram": "buckets"}


def sentence(card: Scorecard, decoding: Decoding, truth: Truth) -> str:
    """What the undecided want to know."""
    if not card.reports:
        return f"{card.metric}: nobody would report."
    stale = _stale_words(card)
    match card.kind:
        case "flag":
            return f"{card.metric}: you would read {_reading(decoding, truth, 0)}.{stale}"
        case "mean":
            return f"{card.metric}: you would read {_reading(decoding, truth, 0)}.{stale}"
        case "range":
            row = decoding.values.index("quantile 0.5")
            if not isfinite(decoding.estimate[row]):
                return f"{card.metric}: so few reports show nothing.{stale}"
            return (
                f"{card.metric}: you would read a median of {_reading(decoding, truth, row)}, and no share below any "
                f"number off by more than {percent(card.distance)}.{stale}"
            )
    things = _PLURALS[card.kind]
    if not card.found:
        few = card.noise_floor is None or card.noise_floor >= 1
        why = "so few reports show nothing" if few else f"nothing under {percent(card.noise_floor or 0)} can be seen"
        return f"{card.metric}: you would see none of {card.present:,} {things}: {why}.{stale}"
    smallest = f"the smallest seen is held by {percent(card.smallest_seen or 0)} of installs"
    wrong = "nothing that is not there" if not card.false else f"{card.false} that nobody holds"
    seen = f"all {card.present:,}" if not card.missed else f"{card.found:,} of {card.present:,}"
    return f"{card.metric}: you would see {seen} {things}; {smallest}, and {wrong} is seen.{stale}"


def _stale_words(card: Scorecard) -> str:
    if not card.stale > 0:
        return ""
    worse = ", and that bias is larger than the noise: intervals do not know of it" if card.against_theory > 3 else ""
    return f" {percent(card.stale)} of the reports repeat an older answer{worse}."


def _reading(decoding: Decoding, truth: Truth, row: int) -> str:
    """An estimate, half its interval and the truth, with as many digits as the interval warrants."""
    number = decoding.roles[row] == NUMBER
    scale, unit = (1, f" {decoding.unit}".rstrip()) if number else (100, " %")
    reach = float(decoding.high[row] - decoding.low[row]) / 2
    digits = min(max(1 - floor(log10(scale * reach)), 0), 8) if reach > 0 else 4

    def show(x: float) -> str:
        return f"{scale * x:,.{digits}f}{unit}"

    return f"{show(float(decoding.estimate[row]))} ± {show(reach)} where the truth is {show(float(truth[row]))}"


def percent(share: float) -> str:
    if not isfinite(share):
        return "unknown"
    digits = 1 if abs(share) >= 0.1 else 2 if abs(share) >= 0.001 else 4
    return f"{100 * share:.{digits}f} %"


def share_of_stale(card: Scorecard) -> str:
    if isnan(card.stale):
        return "unknown"
    return percent(card.stale) if card.stale else "none"


def table(cards: list[Scorecard]) -> str:
    """All metrics side by side."""
    header = ["metric", "kind", "found", "missed", "false", "distance", "coverage", "error", "theory", "stale"]
    rows = [
        [
            card.metric,
            card.kind,
            *(
                [f"{card.found:,}", f"{card.missed:,}", f"{card.false:,}"]
                if card.kind not in ("mean", "flag")
                else [""] * 3
            ),
            percent(card.distance),
            f"{card.covered:,} of {card.intervals:,}",
            percent(card.error),
            percent(card.theory),
            share_of_stale(card),
        ]
        for card in cards
    ]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )
