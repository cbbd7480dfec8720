"""What the person whose data it is can see and do: status, preview, yes, no, forget. Needs a state, not an app.

The client and the `hubbub` command both go through here, so that both tell the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from hubbub.client import recorder
from hubbub.client.consent import Decision, decisions, most_restrictive
from hubbub.client.memos import MICRO, reserved_micro
from hubbub.client.recorder import empty_outbox
from hubbub.client.state import INSISTENCE, State, facts, get, put, spent_micro
from hubbub.client.upload import next_due
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry


class Status(NamedTuple):
    """How things stand, for people and for programs. What is spent is never given back."""

    app: str
    mode: str
    rule: str
    rules: tuple[Decision, ...]
    state_directory: str
    epsilon_spent: float = 0.0
    epsilon_set_aside: float = 0.0
    lifetime_epsilon: float | None = None
    reports_in_the_making: int = 0
    batches_waiting: int = 0
    reports_waiting: int = 0
    next_send: float | None = None
    failures: int = 0
    counts: Mapping[str, int] = MappingProxyType({})
    set_aside: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `hubbub status --json` prints."""
        rules = [decision._asdict() for decision in self.rules]
        return {**self._asdict(), "rules": rules, "counts": dict(self.counts), "set_aside": list(self.set_aside)}


class Pending(NamedTuple):
    """A message that waits, or is still in the making: all that would leave. `body` is empty while it is being made."""

    every: str
    epoch: str
    not_before: float | None
    reports: tuple[dict[str, Any], ...]
    body: bytes = b""


def rules_for(
    environ: Mapping[str, str], state: State, registry: Registry | None, test_run: bool, leaving: bool = False
) -> tuple[Decision, ...]:
    """What every rule says about this state, the stored answer first. Raises `Busy` and `Unusable`.

    With `leaving`, what was not yet sent is deleted if they forbid to send it, whoever said so: the person or the
    environment. It happens in the same transaction, so that a yes that another process keeps meanwhile is not hit.
    """
    if not state.exists():
        return tuple(decisions(environ, None, test_run))
    with state.transaction() as db:
        answer, lapsed = stored_answer(facts(db), registry)
        said, *others = decisions(environ, answer, test_run)
        rules = (lapsed or said, *others)
        if leaving and most_restrictive(rules).mode != "on":
            empty_outbox(db)
    return rules


def stored_answer(known: Mapping[str, Any], registry: Registry | None) -> tuple[str | None, Decision | None]:
    """What the person said, and whether it no longer holds because the app now asks more."""
    answer = known.get("answer")
    if answer == "yes" and registry is not None:
        return answer, _lapse(known.get("agreed", ""), registry.source)
    return answer, None


@lru_cache(maxsize=8)
def _lapse(agreed: str, current: str) -> Decision | None:
    if agreed == current:
        return None
    from hubbub.protocol.changes import asks_more  # here: only an upgrade needs it

    try:
        more = asks_more(Registry.parse(agreed), Registry.parse(current))
    except Invalid:
        return Decision("local", "the registry you agreed to can no longer be read, so you must be asked again")
    if not more:
        return None
    return Decision("local", f"the app asks more than you agreed to, so you must be asked again: {more[0]}")


def say_yes(state: State, registry: Registry, now: float) -> None:
    """Agree to this registry. Reporting starts with the next epoch; agreeing again changes nothing."""
    with state.transaction(patience=INSISTENCE) as db:
        answer, lapsed = stored_answer(facts(db), registry)
        if answer == "yes" and lapsed is None:
            return
        put(db, "answer", "yes")
        put(db, "agreed", registry.source)
        put(db, "answered_at", now)


def say_no(state: State) -> None:
    """Decline. What was made and not yet sent is deleted."""
    with state.transaction(durable=True, patience=INSISTENCE) as db:
        put(db, "answer", "no")
        empty_outbox(db)


def forget(state: State) -> float:
    """Delete all but one number, what was spent, which is returned; it still counts if the person ever agrees again."""
    with state.transaction(durable=True, patience=INSISTENCE) as db:
        spent = spent_micro(db)
        recorder.forget(db, spent)
    state.shred()
    return spent / MICRO


def agreed_registry(state: State) -> Registry | None:
    """The registry the person agreed to, if any."""
    if not state.exists():
        return None
    with state.transaction() as db:
        source = get(db, "agreed")
    return Registry.parse(source) if source else None


def describe(
    state: State,
    decision: Decision,
    rules: tuple[Decision, ...],
    app: str,
    unsaved: Mapping[str, int] | None = None,
    readable: bool = True,
) -> Status:
    """The status of a state, whether it exists or not. One that is not `readable` is described from outside."""
    status: dict[str, Any] = {
        "app": app,
        "mode": decision.mode,
        "rule": decision.rule,
        "rules": rules,
        "state_directory": str(state.directory),
        "set_aside": _set_aside(state),
        "counts": dict(unsaved or {}),
    }
    if readable and state.path.exists():
        with state.transaction() as db:
            status |= _facts(db)
            for name, number in db.execute("SELECT name, number FROM counts"):
                status["counts"][name] = status["counts"].get(name, 0) + number
    return Status(**status)


def _set_aside(state: State) -> tuple[str, ...]:
    try:
        return tuple(str(path) for why in ("copied", "corrupt") for path in state.set_aside(why))
    except OSError:  # the directory cannot be listed just now
        return ()


def _facts(db: sqlite3.Connection) -> dict[str, Any]:
    (making,) = db.execute("SELECT count(*) FROM reports").fetchone()
    batches, reports = db.execute("SELECT count(*), coalesce(sum(reports), 0) FROM outbox").fetchone()
    lifetime = get(db, "lifetime")
    return {
        "epsilon_spent": spent_micro(db) / MICRO,
        "epsilon_set_aside": reserved_micro(db) / MICRO,
        "lifetime_epsilon": None if lifetime is None else lifetime / MICRO,
        "reports_in_the_making": making,
        "batches_waiting": batches,
        "reports_waiting": reports,
        "next_send": next_due(db),
        "failures": int(get(db, "failures", 0)),
    }


def pending(state: State, registry: Registry | None) -> list[Pending]:
    """Every message that waits or is in the making, oldest first."""
    if not state.exists():
        return []
    names = {metric.metric_hash: metric.name for metric in registry or ()}
    with state.transaction() as db:
        waiting = db.execute("SELECT every, epoch, not_before, body FROM outbox ORDER BY not_before").fetchall()
        making = db.execute("SELECT every, epoch, metric_hash, cohort, bits FROM reports ORDER BY epoch").fetchall()
    found = [
        Pending(every, epoch_text(every, epoch), not_before, _reports_in(body, registry), body)
        for every, epoch, not_before, body in waiting
    ]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for every, epoch, metric_hash, cohort, bits in making:
        row = {"metric": names.get(metric_hash, metric_hash), "cohort": cohort, "bits": bits.hex()}
        groups.setdefault((every, epoch), []).append(row)
    found += [Pending(every, epoch_text(every, epoch), None, tuple(rows)) for (every, epoch), rows in groups.items()]
    return found


def _reports_in(body: bytes, registry: Registry | None) -> tuple[dict[str, Any], ...]:
    from hubbub.protocol.refusal import Refused
    from hubbub.protocol.report import by_short_hash
    from hubbub.protocol.wire import to_json, unpack

    try:
        reports = to_json(unpack(body, by_short_hash(registry or ())))["reports"]
    except Refused:  # of an older registry: the bytes themselves are shown
        return ()
    return tuple({key: report[key] for key in ("metric", "cohort", "bits")} for report in reports)
