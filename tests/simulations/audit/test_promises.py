"""Promises that are no matter of chance: each holds, and each defect that was planted breaks the one it should."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from hubbub.client.identity import Identity
from hubbub.protocol.registry import Registry
from hubbub.simulations.audit.promises import promises
from hubbub.simulations.audit.run import Audit, _asking_all, table

EXAMPLE = Registry.load(Path(__file__).resolve().parents[3] / "examples" / "metrics.toml")


def broken() -> list[str]:
    return [promise.tried for promise in promises(EXAMPLE, Random(8).randbytes) if promise.failure]


def test_every_promise_says_in_a_line_what_was_tried_and_holds() -> None:
    found = tuple(promises(EXAMPLE, Random(8).randbytes))
    assert [str(promise) for promise in found] == [
        "cohorts, all metrics together: 20,000 installs, 68 groups of the 68 on the label: holds",
        "consent, another why: telemetry is local until somebody agrees: holds",
        "consent, another owner: telemetry is local until somebody agrees: holds",
        "consent, another recipient: telemetry is local until somebody agrees: holds",
        "consent, another endpoint: telemetry is local until somebody agrees: holds",
    ]
    audit = Audit((), promises=found)
    assert audit.passed
    assert "Tried besides:\n  cohorts, all metrics together" in table(audit)
    assert len(audit.to_json()["promises"]) == 5


def test_a_sample_is_left_out_however_the_file_writes_it() -> None:
    sampled = EXAMPLE.source.replace("[metrics.dark_theme]", '[metrics.dark_theme]\n"sample" = "1/2" # of all')
    whole = _asking_all(Registry.parse(sampled))
    assert whole == EXAMPLE
    assert _asking_all(EXAMPLE) is EXAMPLE
    assert all(promise.failure is None for promise in promises(whole, Random(8).randbytes))


def test_cohorts_by_remainder_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Identity, "cohort", lambda who, metric: who.number % metric.shape.num_cohorts)
    (tried,) = broken()
    assert tried == "cohorts, all metrics together: 20,000 installs, 320 groups of the 68 on the label"
    assert not Audit((), promises=tuple(promises(EXAMPLE, Random(8).randbytes))).passed


def test_a_consent_that_survives_everything_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.client.control.lapsed", lambda facts, registry: None)
    monkeypatch.setattr("hubbub.client.recorder.lapsed", lambda facts, registry: None)
    monkeypatch.setattr("hubbub.client.client.wrong_endpoint", lambda endpoint, registry: None)
    assert [tried.split(":")[0] for tried in broken()] == [
        "consent, another why",
        "consent, another owner",
        "consent, another recipient",
        "consent, another endpoint",
    ]
