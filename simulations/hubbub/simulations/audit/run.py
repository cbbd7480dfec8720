"""The audit: what the client's own code tells, measured, against what its registry claims.

Two parts. The *draw*: memos and reports of two values, a million trials for each metric, from `respond` and the
operating system's chance. The *client*: thousands of installs from `record` to the bytes on the wire. Every test gets
an equal share of the run's chance to be wrong; the thresholds are fixed before anything is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from scipy import stats

from hubbub.client.respond import Random, respond
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from hubbub.simulations.audit.any_callable import ForeignAudit, Mechanism
from hubbub.simulations.audit.draws import DrawAudit, Respond
from hubbub.simulations.audit.evidence import ALPHA, STRAY, Finding
from hubbub.simulations.audit.transcripts import ClientAudit

TRIALS = 1_000_000
FEWEST_TRIALS = 10_000
TRIALS_PER_INSTALL = 800
FEWEST_INSTALLS = 160

Progress = Callable[[int, int, str], None]
"""Called with the steps done, all steps, and what is being done."""


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings of a run."""

    findings: tuple[Finding, ...]
    alpha: float = ALPHA

    @property
    def failures(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.failure]

    @property
    def false_stray(self) -> float:
        """About how likely the run finds that a true law strays."""
        return 2 * float(stats.norm.sf(STRAY)) * sum(bool(finding.deviation) for finding in self.findings)

    @property
    def passed(self) -> bool:
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "false_alarm": {"exceeded": self.alpha, "stray": self.false_stray},
            "findings": [_to_json(finding) for finding in self.findings],
        }


def audit_registry(
    registry: Registry,
    *,
    trials: int = TRIALS,
    installs: int | None = None,
    answer: Respond = respond,
    random: Random = os.urandom,
    progress: Progress | None = None,
) -> Audit:
    """Audit every metric of a registry. `answer` is what is audited in place of the client's `respond`; no installs
    means that whole clients are left out."""
    if trials < FEWEST_TRIALS:
        raise Invalid([f"trials must be at least {FEWEST_TRIALS}, got {trials}"])
    if installs is None:
        installs = max(FEWEST_INSTALLS, trials // TRIALS_PER_INSTALL)
    if installs and installs < FEWEST_INSTALLS:
        raise Invalid([f"installs must be 0 or at least {FEWEST_INSTALLS}, got {installs}"])
    tests = DrawAudit.tests * len(registry) + (ClientAudit.tests_of(registry) if installs else 0)
    alpha = ALPHA / tests
    draws = [DrawAudit(metric, trials, alpha) for metric in registry]
    steps: list[tuple[str, int, Iterable[None]]] = [
        (draw.metric.name, draw.work, draw.run(answer, random)) for draw in draws
    ]
    clients = ClientAudit(registry, installs, alpha) if installs else None
    if clients:
        steps.append(("whole clients", clients.work, clients.run(random)))
    _walk(steps, progress)
    found = [finding for draw in draws for finding in draw.findings()]
    return Audit(tuple(found + (clients.findings() if clients else [])))


def audit_callable(
    mechanism: Mechanism,
    values: tuple[Any, Any],
    epsilon: float,
    *,
    trials: int = TRIALS,
    name: str = "callable",
    progress: Progress | None = None,
) -> Audit:
    """Audit anything that turns a value into bits."""
    foreign = ForeignAudit(mechanism, values, epsilon, trials, name)
    _walk([(name, foreign.work, foreign.run())], progress)
    return Audit(tuple(foreign.findings()))


def _walk(steps: Sequence[tuple[str, int, Iterable[None]]], progress: Progress | None) -> None:
    for number, (name, work, run) in enumerate(steps):
        for done, _ in enumerate(run, start=1):
            if progress:
                progress(1000 * number + 1000 * done // max(1, work), 1000 * len(steps), name)


def _to_json(finding: Finding) -> dict[str, Any]:
    return {
        "metric": finding.metric,
        "what": finding.what,
        "pair": finding.pair,
        "claim": finding.claim,
        "bound": finding.bound if isfinite(finding.bound) else None,
        "expected_bound": finding.expected,
        "standard_deviation": finding.deviation,
        "exact": finding.exact,
        "trials": finding.trials,
        "counts": [finding.seen.one, finding.seen.other],
        "failure": finding.failure,
    }


# --- in words -----------------------------------------------------------------------------------------------------


def table(audit: Audit) -> str:
    """For people: each claim once, with the direction that came closest to it; every failure in full."""
    lines = [f"{'metric':<16}{'what':<32}{'claimed':>9}{'exact':>9}{'shown':>9}{'expected':>10}{'trials':>11}"]
    lines += [_line(finding) for finding in _closest(audit.findings)]
    lines.append("")
    lines += _verdict(audit)
    return "\n".join(lines)


def _closest(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding for each claim: a failure if there is one, otherwise the largest bound. Claims on two metrics
    together are shown only where they fail: there are many."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.metric, finding.what), []).append(finding)
    for (_, what), group in groups.items():
        worst = max(group, key=lambda finding: (finding.failure is not None, finding.bound))
        if worst.failure or "together" not in what:
            yield worst


def _line(finding: Finding) -> str:
    exact = "" if finding.exact is None else f"{finding.exact:.4f}"
    expected = "" if finding.expected is None else f"{finding.expected:.3f}"
    shown = f"{finding.bound:.3f}" if isfinite(finding.bound) else "nothing"
    mark = "  FAILS" if finding.failure else ""
    return (
        f"{finding.metric:<16}{finding.what:<32}{finding.claim:>9.4f}{exact:>9}{shown:>9}{expected:>10}"
        f"{finding.trials:>11,}{mark}"
    )


def _verdict(audit: Audit) -> Iterator[str]:
    for finding in audit.failures:
        yield f"FAILS  {finding.metric}, {finding.what}, {finding.pair}: {finding.failure}"
    if audit.passed:
        yield (
            f"All {len(audit.findings)} tests pass. What is shown is a lower bound: at least so much is told. That no "
            "more is told follows\nfrom the exact column, where the code was fed every random number, not from trials. "
            "If all claims are true, a run\nlike this finds one exceeded with probability at most "
            f"{audit.alpha:g}, and one straying by {STRAY:g} standard deviations\n"
            f"with probability about {audit.false_stray:.1g}."
        )
    else:
        yield f"{len(audit.failures)} of {len(audit.findings)} tests fail."
