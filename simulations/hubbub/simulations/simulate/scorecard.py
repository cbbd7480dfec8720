"""The scorecard: what an analyst would have found, held against the truth, in figures and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import floor, isfinite, isnan, log10
from typing import Any

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.protocol.metric import Metric
from hubbub.protocol.printed import percent, text_table
from hubbub.simulations.kinds import kind_class, kind_of
from hubbub.simulations.people.truth import Truth
from hubbub.simulations.simulate.theory import predicted_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """One metric. Errors are of the unbiased estimates: shares, or for a mean parts of its range.

    `distance` is the total variation between the best guess and the truth: the share of people on the wrong answer.
    For a range it is the largest error of its distribution function, for a mean the error as a part of the range.
    """

    metric: str  # its name, and its segment if it has one
    kind: str  # its kind
    reports: int  # reports counted
    epochs: int  # epochs pooled
    present: int  # values that somebody has
    found: int  # of these, how many were detected
    missed: int  # and how many were not
    false: int  # values detected that nobody has
    smallest_seen: float | None  # the smallest share detected
    noise_floor: float | None  # the estimate from which on a value is detected
    distance: float  # how far the best guess is from the truth (see above)
    covered: int  # intervals that hold the truth
    intervals: int  # of so many
    error: float  # root mean square error of the estimates
    theory: float  # what the formulas predict for it
    stale: float  # the share of reports that repeat an answer no longer true

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the truth."""
        return self.covered / max(self.intervals, 1)

    @property
    def against_theory(self) -> float:
        """The error that was made over the one predicted: 1 on average, where answers do not change."""
        return self.error / self.theory

    def to_json(self) -> dict[str, Any]:
        """All figures by name; None where one is not finite."""
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
    present = kind_of(metric.shape).present(int(there.sum()), counts)
    return Scorecard(
        metric=decoding.title,
        kind=metric.kind,
        reports=decoding.num_reports,
        epochs=len(decoding.epochs),
        present=present,
        found=int(found.sum()),
        missed=present - int(found.sum()),
        false=int((answers & (truth == 0) & decoding.detected).sum()),
        smallest_seen=float(truth[found].min()) if found.any() else None,
        noise_floor=float(decoding.noise_floor) if np.isfinite(decoding.noise_floor) else None,
        distance=kind_of(metric.shape).distance(decoding, truth, counts),
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
    kind = kind_of(metric.shape)
    errors, known = kind.errors(decoding, truth, counts)
    fitted = kind.fitted_together(decoding)
    shares, repeats = np.unique(known, return_counts=True)
    variances = [predicted_error(metric, float(share), installs, epochs, fitted) ** 2 for share in shares]
    return _rms(errors), float(np.sqrt(np.average(variances, weights=repeats))) if len(shares) else np.nan


def _rms(errors: Array) -> float:
    known = errors[np.isfinite(errors)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")


# --- in words -----------------------------------------------------------------------------------------------------


def sentence(metric: Metric, card: Scorecard, decoding: Decoding, truth: Truth) -> str:
    """What the undecided want to know."""
    if not card.reports:
        return f"{card.metric}: nobody would report."
    stale = _stale_words(card)
    kind = kind_of(metric.shape)
    row = kind.headline_row(decoding)
    if row is not None:
        if not isfinite(decoding.estimate[row]):
            return f"{card.metric}: so few reports show nothing.{stale}"
        read = kind.headline.format(reading=_reading(decoding, truth, row), distance=percent(card.distance))
        return f"{card.metric}: you would read {read}.{stale}"
    things = kind.answers_are_called
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
                if kind_class(card.kind).counts_answers
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
    return "\n".join(text_table(header, rows, left=(0, 1)))
