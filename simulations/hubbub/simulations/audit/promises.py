"""Promises that no draw can break: what a registry's people were told, tried on the real client. Nothing is sampled but
places on the line of cohorts; each promise says in one line what was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2

from hubbub.client import Client
from hubbub.client.identity import Identity
from hubbub.client.vocabulary import Random
from hubbub.protocol.linking import num_groups
from hubbub.protocol.registry import Registry
from hubbub.simulations.pretend_machine import NOWHERE, PretendMachine, state_folder

INSTALLS = 20_000
"""Places on the line of cohorts that are tried."""

_ELSEWHERE = "https://elsewhere.invalid"
_NOW = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Promise:
    """What was tried, in one line, and what broke, if something did."""

    tried: str
    failure: str | None = None

    def __str__(self) -> str:
        return f"{self.tried}: {'FAILS, ' + self.failure if self.failure else 'holds'}"


def promises(registry: Registry, random: Random) -> Iterator[Promise]:
    """Every promise of this registry that is not about draws."""
    yield _cohorts(registry, random)
    yield from _consent(registry)


def _cohorts(registry: Registry, random: Random) -> Promise:
    groups = num_groups(registry.cohorts)
    seen = set()
    for _ in range(INSTALLS):
        who = Identity(b"", int.from_bytes(random(8), "little") >> 2)
        seen.add(tuple(who.cohort(metric) for metric in registry))
    tried = f"cohorts, all metrics together: {INSTALLS:,} installs, {len(seen):,} groups of the {groups:,} on the label"
    limit = registry.max_identifying_bits
    broken = len(seen) > groups or log2(groups) > limit
    return Promise(tried, f"more than the label says, or than 2**{limit}" if broken else None)


def _consent(registry: Registry) -> Iterator[Promise]:
    """Who agreed to this registry must be asked again before anything is recorded for another."""
    metric = next(iter(registry))

    def with_(**terms: str) -> Registry:
        return registry.replace(metrics={**registry.metrics, metric.name: metric.replace(**terms)})

    for what, changed in {
        "why": with_(why=f"Something else than: {metric.why}"),
        "owner": with_(owner="somebody@elsewhere.invalid"),
        "recipient": registry.replace(recipient=registry.recipient.replace(url=_ELSEWHERE)),
        "endpoint": registry,
    }.items():
        mode = _mode_after(registry, changed, NOWHERE if changed is not registry else _ELSEWHERE)
        yield Promise(
            f"consent, another {what}: telemetry is {mode} until somebody agrees", None if mode != "on" else "it is on"
        )


def _mode_after(agreed: Registry, changed: Registry, endpoint: str) -> str:
    with state_folder() as directory:
        machine = PretendMachine(state_dir=directory, now=_NOW)
        for registry, where in ((agreed, NOWHERE), (changed, endpoint)):
            machine.endpoint = where
            client = Client(registry, **machine.for_client())
            if registry is agreed and where == NOWHERE:
                client.consent(True)
            mode = client.mode
            client.close()
    return mode
