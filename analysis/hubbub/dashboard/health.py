"""How a collector is doing, from its /metrics: a few figures and a sentence for each reason to refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LINE = re.compile(r'(hubbub_[a-z_]+)(?:\{[a-z]+="([^"]{0,64})"\})? ([0-9.eE+-]+|\+Inf)')

WHY_REFUSED = {
    "malformed": "not a batch at all: rubbish, or another program",
    "version-unsupported": "a newer client than this collector",
    "media-type-unsupported": "a body of a kind that is not taken",
    "unauthorized": "asked to read or relay without the right token",
    "metric-unknown": "a metric or definition this collector does not list; a registry not deployed yet?",
    "report-impossible": "a report that no client can make: a broken client, or a forger",
    "epoch-closed": "came too late: its day, week or month was closed",
    "epoch-in-future": "from a device whose clock is ahead",
    "id-reused": "a batch id that came before with other bytes",
    "too-large": "larger than a batch may be",
    "rate-limited": "too many from one sender",
    "queue-full": "more than could be written at once",
    "storage-full": "the disk is nearly full",
    "too-many-ids": "as many batches of open periods as the collector may remember; raise its --max-ids",
    "clock-not-believed": "the collector's clock jumped; see its log, and `hubbub clock accept`",
    "store-unreachable": "the database that collectors share cannot be reached, or is too busy",
    "too-many-reads": "large downloads are made two at a time, and this one waited too long",
    "draining": "the collector was stopping",
    "internal": "an error of the collector itself; its log says where",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Since the collector was started."""

    reports: int = 0
    stored: int = 0
    duplicates: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    failed_checkpoints: int = 0
    queue: int = 0
    disk_free: float | None = None
    slow_sync: float | None = None
    """The time within which 99 of 100 syncs were done, in seconds, as far as its histogram tells."""


def parse_health(text: str) -> Health:
    """From the exposition format; what is not there counts as nothing."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line.strip()):
            found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
    batches = found.get("hubbub_batches_total", {})
    free = found.get("hubbub_disk_free_bytes", {}).get("")
    return Health(
        reports=int(found.get("hubbub_reports_total", {}).get("", 0)),
        stored=int(batches.get("stored", 0)),
        duplicates=int(batches.get("duplicate", 0)),
        refused={reason: int(n) for reason, n in sorted(found.get("hubbub_rejects_total", {}).items()) if n},
        failed_checkpoints=int(found.get("hubbub_checkpoints_total", {}).get("failed", 0)),
        queue=int(found.get("hubbub_queue_batches", {}).get("", 0)),
        disk_free=None if free is None else float(f"{free:.2g}"),  # so that not every byte is news
        slow_sync=_within(found.get("hubbub_fsync_seconds_bucket", {}), 0.99),
    )


def _within(buckets: Mapping[str, float], share: float) -> float | None:
    """The smallest bound under which so large a share of the observations lies."""
    total = max(buckets.values(), default=0.0)
    bounds = sorted((float(bound), count) for bound, count in buckets.items())
    return next((bound for bound, count in bounds if total and count >= share * total and bound != float("inf")), None)
