"""How a collector is doing, as plain values for the strip at the end of the overview."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.dashboard import tables
from hubbub.dashboard.health import Health
from hubbub.dashboard.sentences import Fact
from hubbub.dashboard.tables import Table
from hubbub.protocol.printed import fixed_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorView:
    """Since it was started: what it took, what it refused and why."""

    healthy: bool
    facts: tuple[Fact, ...]
    refusals: Table | None


def collector_view(health: Health) -> CollectorView:
    refused = sum(health.refused.values())
    asked = health.stored + health.duplicates + refused
    share = f"{refused:,} ({fixed_percent(refused / asked)} of requests)" if refused else "0"
    facts = [
        Fact("Reports counted", f"{health.reports:,}"),
        Fact("Refused", share),
        Fact("Came twice, count once", f"{health.duplicates:,}"),
        Fact("Waiting to be written", f"{health.queue:,}"),
    ]
    if health.disk_free is not None:
        facts.append(Fact("Disk", f"{_bytes(health.disk_free)} free"))
    if health.slow_sync is not None:
        facts.append(Fact("Syncs", f"99 of 100 within {1000 * health.slow_sync:g} ms"))
    if health.failed_checkpoints:
        facts.append(Fact("Checkpoints that failed", f"{health.failed_checkpoints:,}; see the collector’s log"))
    return CollectorView(
        healthy=not health.failed_checkpoints,
        facts=tuple(facts),
        refusals=tables.refusals(health) if refused else None,
    )


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
