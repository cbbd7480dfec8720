"""The audit: what the client's own code tells, measured, against what its registry claims.

Three parts. The *draw*: memos and reports of two values, a million trials for each metric, from `respond` and the
operating system's chance. The *client*: thousands of installs from `record` to the bytes on the wire. Every test of
these gets an equal share of the run's chance to be wrong; the thresholds are fixed before anything is drawn. And
*time*: whether the same messages leave at the same moments whatever is recorded, which is compared exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from scipy import stats

from hubbub.analysis.progress import NamedProgress
from hubbub.client.respond import respond
from hubbub.client.vocabulary import Random
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.printed import text_table
from hubbub.protocol.registry import Registry
from hubbub.simulations.audit.any_callable import CallableAudit, Mechanism
from hubbub.simulations.audit.departures import Watched, watch_departures
from hubbub.simulations.audit.draws import DrawAudit, Respond
from hubbub.simulations.audit.evidence import ALPHA, STRAY, Finding
from hubbub.simulations.audit.promises import Promise, promises
from hubbub.simulations.audit.transcripts import ClientAudit
from hubbub.simulations.audit.whole_histories import HistoryAudit

TRIALS = 1_000_000
FEWEST_TRIALS = 10_000
TRIALS_PER_INSTALL = 800
FEWEST_INSTALLS = 160


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings of a run."""

    findings: tuple[Finding, ...]  # every test, with what it claimed and what was seen
    alpha: float = ALPHA  # the chance that a true claim fails any of them
    promises: tuple[Promise, ...] = ()  # what was tried besides, which is no matter of chance
    watched: tuple[Watched, ...] = ()  # whether messages leave at the same moments whatever is recorded

    @property
    def failures(self) -> list[Finding]:
        """The claims that what was seen contradicts."""
        return [finding for finding in self.findings if finding.failure]

    @property
    def false_stray(self) -> float:
        """How likely the run finds that a true law strays, at most."""
        return 2 * float(stats.norm.sf(STRAY)) * sum(bool(finding.deviation) for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether every claim and every promise held."""
        return not self.failures and not self.broken

    @property
    def broken(self) -> int:
        """How many promises besides did not hold."""
        return sum(bool(promise.failure) for promise in self.promises) + sum(
            bool(each.failure) for each in self.watched
        )

    def to_json(self) -> dict[str, Any]:
        """What `hubbub audit --json` prints."""
        return {
            "passed": self.passed,
            "false_alarm": {"exceeded": self.alpha, "stray": self.false_stray},
            "findings": [_to_json(finding) for finding in self.findings],
            "promises": [{"tried": promise.tried, "failure": promise.failure} for promise in self.promises],
            "watched": [watched._asdict() for watched in self.watched],
        }


def audit_registry(
    registry: Registry,
    *,
    trials: int = TRIALS,
    installs: int | None = None,
    answer: Respond = respond,
    random: Random = os.urandom,
    progress: NamedProgress | None = None,
) -> Audit:
    """Audit every metric of a registry. `answer` is what is audited in place of the client's `respond`; no installs
    means that whole clients are left out."""
    if trials < FEWEST_TRIALS:
        raise Invalid([f"trials must be at least {FEWEST_TRIALS}, got {trials}"])
    if installs is None:
        installs = max(FEWEST_INSTALLS, trials // TRIALS_PER_INSTALL)
    if installs and installs < FEWEST_INSTALLS:
        raise Invalid([f"installs must be 0 or at least {FEWEST_INSTALLS}, got {installs}"])
    registry = _asking_all(registry)
    kept, held = ([metric for metric in registry if (metric.noise.history is None) is each] for each in (True, False))
    tests = DrawAudit.tests * len(kept) + HistoryAudit.tests * len(held)
    alpha = ALPHA / (tests + (ClientAudit.tests_of(registry) if installs else 0))
    draws = [DrawAudit(metric, trials, alpha) for metric in kept]
    histories = [HistoryAudit(metric, trials, alpha) for metric in held]
    steps: list[tuple[str, int, Iterable[None]]] = [
        *((draw.metric.name, draw.work, draw.run(answer, random)) for draw in draws),
        *((history.metric.name, history.work, history.run(random)) for history in histories),
    ]
    clients = ClientAudit(registry, installs, alpha) if installs else None
    if clients:
        steps.append(("whole clients", clients.work, clients.run(random)))
    _walk(steps, progress)
    found = [finding for draw in draws for finding in draw.findings()]
    found += [finding for history in histories for finding in history.findings()]
    if clients is None:
        return Audit(tuple(found))
    watched = watch_departures(registry, clients.times[0], seed=int.from_bytes(random(8), "little"))
    return Audit(tuple(found + clients.findings()), promises=tuple(promises(registry, random)), watched=tuple(watched))


def _asking_all(registry: Registry) -> Registry:
    """Without samples: of whoever is asked everything holds in full, and that is what is audited."""
    whole = {name: metric.replace(sample=Fraction(1)) for name, metric in registry.metrics.items()}
    return registry if registry.num_samples == 1 else registry.replace(metrics=whole)


def audit_callable(
    mechanism: Mechanism,
    values: tuple[Any, Any],
    epsilon: float,
    *,
    trials: int = TRIALS,
    name: str = "callable",
    progress: NamedProgress | None = None,
) -> Audit:
    """Audit anything that turns a value into bits."""
    audited = CallableAudit(mechanism, values, epsilon, trials, name)
    _walk([(name, audited.work, audited.run())], progress)
    return Audit(tuple(audited.findings()))


def _walk(steps: Sequence[tuple[str, int, Iterable[None]]], progress: NamedProgress | None) -> None:
    for number, (name, work, run) in enumerate(steps):
        for done, _ in enumerate(run, start=1):
            if progress:
                progress((number + done / max(1, work)) / len(steps), name)


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

_HEADER = ("metric", "what", "claimed", "exact", "shown", "expected", "trials")
_WIDTHS = (16, 32, 9, 9, 9, 10, 11)


def table(audit: Audit) -> str:
    """For people: each claim once, with the direction that came closest to it; every failure in full."""
    findings = list(_closest(audit.findings))
    header, *lines = text_table(_HEADER, map(_cells, findings), left=(0, 1), widths=_WIDTHS, gap="")
    marked = [line + "  FAILS" * bool(finding.failure) for line, finding in zip(lines, findings, strict=True)]
    tried = ["", "Tried besides:", *(f"  {promise}" for promise in audit.promises)] if audit.promises else []
    return "\n".join([header, *marked, *tried, "", *_verdict(audit)])


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


def _cells(finding: Finding) -> list[str]:
    return [
        finding.metric,
        finding.what,
        f"{finding.claim:.4f}",
        "" if finding.exact is None else f"{finding.exact:.4f}",
        f"{finding.bound:.3f}" if isfinite(finding.bound) else "nothing",
        "" if finding.expected is None else f"{finding.expected:.3f}",
        f"{finding.trials:,}",
    ]


def _verdict(audit: Audit) -> Iterator[str]:
    for watched in audit.watched:
        yield f"{watched.what}: {watched.tried}" + (f"  FAILS: {watched.failure}" if watched.failure else "")
    for finding in audit.failures:
        yield f"FAILS  {finding.metric}, {finding.what}, {finding.pair}: {finding.failure}"
    if audit.passed:
        yield (
            f"All {len(audit.findings)} tests pass. What is shown is a lower bound: at least so much is told. That no "
            "more is told follows\nfrom the exact column, where the code was fed every random number, not from trials. "
            "If all claims are true, a run\nlike this finds one exceeded with probability at most "
            f"{audit.alpha:g}, and one straying as {STRAY:g} standard deviations\n"
            f"of a normal law would with probability at most {audit.false_stray:.1g}."
        )
    else:
        tests, kept = len(audit.findings), len(audit.promises) + len(audit.watched)
        yield f"{len(audit.failures)} of {tests} tests fail, and {audit.broken} of {kept} promises."
