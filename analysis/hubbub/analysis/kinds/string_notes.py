"""What must be known beside the rows of strings: which candidates look alike, what was not fitted, how hard a fake is
to see."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import numpy as np

from hubbub.analysis.arrays import Index
from hubbub.analysis.estimation import misfit
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.string_screen import StringEstimates
from hubbub.analysis.kinds.kind import Pools
from hubbub.analysis.options import Options
from hubbub.analysis.result import Diagnostics
from hubbub.protocol.printed import fixed_percent

_MUCH = 0.25  # of the variance: more than that of strings not fitted is said


def groups_of(listed: Sequence[str], duplicate_of: Index) -> tuple[tuple[str, ...], ...]:
    """Candidates that set the same bits in every cohort that reported."""
    members: dict[int, list[str]] = {}
    for i in np.flatnonzero(duplicate_of != np.arange(len(duplicate_of))):
        members.setdefault(int(duplicate_of[i]), [listed[int(duplicate_of[i])]]).append(listed[int(i)])
    return tuple(tuple(group) for group in members.values())


def _num_estimated(design: Design, found: StringEstimates) -> int:
    return design.num_candidates + (found.crowd.known + found.crowd.unknown if found.crowd else 0)


def diagnostics_of(
    pools: Pools, design: Design, found: StringEstimates, groups: tuple[tuple[str, ...], ...], options: Options
) -> Diagnostics:
    cohort_p = misfit.of_strings(design, found)
    fit, crowd = found.fit, found.crowd
    cells = int(design.observed.sum())
    # The mass outside the list is estimated, too: a fake with the target's bits alone pulls that down and so the
    # target up, by 1/(q* - p*).
    attack_gain = max(1 / pool.cohorts[0].noise.gain for pool in pools)
    hidden = float(np.mean(fit.residual[found.excluded])) if fit is not None and found.excluded.any() else 0.0
    return Diagnostics(
        cohort_p=cohort_p,
        odd_cohorts=misfit.misfitting_cohorts(cohort_p),
        indistinguishable=groups,
        rank=min(int(np.isfinite(found.estimate).sum()) + (crowd.known if crowd else 0), max(cells - 1, 0)),
        num_columns=_num_estimated(design, found) + sum(len(group) - 1 for group in groups),
        attack_radius=options.fake_share * attack_gain,
        fake_share=options.fake_share,
        hidden_heavy_share=hidden,
    )


def notes_of(design: Design, found: StringEstimates, groups: tuple[tuple[str, ...], ...], alpha: float) -> list[str]:
    notes = []
    cells = int(design.observed.sum())
    estimated = _num_estimated(design, found) + sum(len(group) - 1 for group in groups)
    if not cells:
        notes.append("No reports: nothing can be estimated.")
    elif estimated > cells:
        notes.append(
            f"More candidates ({estimated}) than cells ({cells}): each was estimated by itself, beside those detected."
        )
    if design.num_candidates and design.cohorts_seen == 1:
        notes.append(
            "All reports are of one cohort: a string outside the list that sets the same bits as a candidate would "
            "look the same, so no candidate is called detected."
        )
    elif cells and log2(max(design.num_candidates, 1) / alpha) > design.signature_bits:
        notes.append(
            f"There are only {round(2**design.signature_bits):,} ways to set bits, for {design.num_candidates} "
            "candidates: a string outside the list may look like one of them, so no candidate is called detected."
        )
    if groups:
        notes.append(
            f"{sum(len(group) - 1 for group in groups)} candidates set the same bits as an earlier one and are "
            "counted there: this hash cannot tell them apart."
        )
    unknown = int(np.isnan(found.estimate).sum()) + (found.crowd.unknown if found.crowd else 0)
    if cells and unknown:
        notes.append(f"{unknown} candidates look the same as strings outside the list.")
    if found.fit is not None and found.fit.weights.unfitted > _MUCH:
        unfitted = fixed_percent(found.fit.weights.unfitted, 0)
        notes.append(
            f"{unfitted} of the variance is of strings that were not fitted: outside the list, or too rare. They set "
            "the same bits every time, so that part of an error repeats every time, and pooling does not average it "
            "out."
        )
    if found.excluded.any():
        notes.append(
            f"{int(found.excluded.sum())} cells stick out that no candidate explains: a string outside the list is "
            "likely held by many. They were set aside."
        )
    return notes
