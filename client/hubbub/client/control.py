"""What the person whose data it is can see and do: status, preview, yes, no, forget. Needs a state, not an app.

The client and the `hubbub` command both go through here, so that both tell the same.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from types import MappingProxyType

from hubbub.client import outbox, parsed
from hubbub.client.budget import (
    beyond_micro,
    cohorts_shown,
    committed_micro,
    reserved_micro,
    samples_shown,
    spent_micro,
)
from hubbub.client.consent import Decision, decisions, lapsed, most_restrictive
from hubbub.client.epochs import discard_unsent
from hubbub.client.facts import Facts, put, read_counts, read_facts
from hubbub.client.recorder import in_the_making
from hubbub.client.state import INSISTENCE, Busy, State, Unusable
from hubbub.protocol.cadence import DAY, epoch_text
from hubbub.protocol.epsilon import MICRO
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.linking import num_groups, num_samples
from hubbub.protocol.registry import Registry
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from hubbub.client.vocabulary import CountName, Mode
    from hubbub.protocol.vocabulary import Cadence


class Status(Value):
    """How things stand, for people and for programs. What is spent is never given back."""

    app: str
    """The app's name, as in its registry."""
    mode: Mode
    """`off`, `local` or `on`."""
    rule: str
    """The rule that decided, in words."""
    rules: tuple[Decision, ...]
    """What every rule says by itself."""
    state_directory: str
    """Where the state lies, or would."""
    epsilon_spent: float = 0.0
    """What was told so far at most, earlier lives included."""
    epsilon_set_aside: float = 0.0
    """What all slots that are set aside would come to, with what was spent by earlier lives."""
    lifetime_epsilon: float | None = None
    """The most that will ever be spent here: the smallest budget that any registry had. None: none was seen yet."""
    groups: int = 1
    """How many groups of installs the messages of all releases so far tell apart; this install is in one of them."""
    segment: Mapping[str, str] = MappingProxyType({})
    """What the next message says as it is: facts of the build (`segments`), by key."""
    together: Mapping[str, list[str]] = MappingProxyType({})
    """The questions whose answers the collector counts in pairs as well, by the pair's name, as was agreed to."""
    reports_in_the_making: int = 0
    """Reports of epochs that are not over."""
    gathered: Mapping[str, str] = MappingProxyType({})
    """What is kept as it is, without noise, until its epoch is over (`accumulate`): by metric, in words."""
    batches_waiting: int = 0
    """Messages that wait to be sent."""
    reports_waiting: int = 0
    """The reports in them."""
    next_send: float | None = None
    """When the next message may leave, in Unix seconds; None if none waits."""
    failures: int = 0
    """Attempts that have failed since the last that did not."""
    counts: Mapping[str, int] = MappingProxyType({})
    """What became of records and messages since the last `forget`, by name: `made`, `sent`, `dropped_busy`, ..."""
    set_aside: tuple[str, ...] = ()
    """Files that were found corrupt and are no longer used."""
    fingerprint: str = ""
    """Of what was agreed to (`Registry.fingerprint`), as it was then; empty: nothing. `hubbub verify` compares it."""
    test: str = ""
    """Why what is sent is a test and no real telemetry, such as a clock of the app's own or an address on this machine;
    empty if it is real. Only a client knows."""

    def to_json(self) -> dict[str, Any]:
        """What `hubbub status --json` prints."""
        rules = [decision.to_dict() for decision in self.rules]
        mappings = ("counts", "gathered", "segment", "together")
        plain = {name: dict(getattr(self, name)) for name in mappings}
        return {**self.to_dict(), "rules": rules, **plain, "set_aside": list(self.set_aside)}


if TYPE_CHECKING:

    class Shown(TypedDict):
        """One report, as the person can see it."""

        metric: str
        """Its name, or its hash where the registry at hand does not have it."""
        cohort: int
        """The group of the install, which says how the bits are read."""
        bits: str
        """The bits that leave, in hex, position 0 first."""

else:
    Shown = dict  # what it is; to make the class would cost an app's start a millisecond


class Pending(Value):
    """A message that waits, or is still being collected: all that would leave."""

    every: Cadence
    """The cadence: `day`, `week`, `month` or `once`."""
    epoch: str
    """Which one, such as `2026-W47`."""
    not_before: float | None
    """When it may leave, in Unix seconds; None while it is being made."""
    reports: tuple[Shown, ...]
    """Its reports; none where they are of a registry that is not at hand."""
    segment: Mapping[str, str]
    """What it says as it is: facts of the build, by key."""
    body: bytes = b""
    """The very bytes that leave; empty while it is being made."""


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
        facts = read_facts(db)
        said, *others = decisions(environ, facts.answer, test_run)
        rules = (lapsed(facts, registry) or said, *others)
        leaves = leaving and most_restrictive(rules).mode != "on"
        if leaves:
            discard_unsent(db)
    if leaves:
        _empty_log(state)
    return rules


def say_yes(state: State, registry: Registry, now: float) -> None:
    """Agree to this registry. Reporting starts with the next epoch; agreeing again changes nothing."""
    from hubbub.protocol.agreement import agreement  # here, because it is said once in a life

    with state.transaction(patience=INSISTENCE) as db:
        facts = read_facts(db)
        if facts.answer == "yes" and lapsed(facts, registry) is None:
            return
        put(db, "answer", "yes")
        put(db, "agreed", registry.source)
        put(db, "agreed_to", json.dumps(agreement(registry), ensure_ascii=False, separators=(",", ":")))
        put(db, "fingerprint", registry.fingerprint)
        put(db, "answered_at", now // DAY * DAY)


def say_no(state: State) -> None:
    """Decline. What was made and not yet sent is deleted."""
    with state.transaction(durable=True, patience=INSISTENCE) as db:
        put(db, "answer", "no")
        discard_unsent(db)
    _empty_log(state)


def _empty_log(state: State) -> None:
    """Where gathered values were deleted, they go from SQLite's log, too; while somebody reads, when the app next
    starts."""
    with suppress(Busy):
        state.empty_log()


def forget(state: State) -> float | None:
    """Delete all but one number, which is returned and still counts if the person ever agrees again: what was spent,
    with all slots of every metric that was asked, used or not. None if that cannot be read any more: a state that is
    corrupt is deleted whole, and nothing will be asked here again."""
    parsed.delete(state.directory)
    try:
        return _forget(state)
    except Unusable:
        if not state.set_aside():
            raise
    state.replace_corrupt()
    say_no(state)
    return None


def _forget(state: State) -> float:
    with state.transaction(durable=True, patience=INSISTENCE) as db:
        facts = read_facts(db)
        spent = committed_micro(db, facts)
        state.clear(db)
        put(db, "home", facts.home)
        put(db, "carried", spent)
        put(db, "answer", "no")
        if facts.lifetime is not None:
            put(db, "lifetime", facts.lifetime)
    state.shred()
    return spent / MICRO


def agreed_registry(state: State) -> Registry | None:
    """The registry the person agreed to, if any, as this release reads it; None where it no longer can."""
    if not state.exists():
        return None
    with state.transaction() as db:
        return _agreed_to(read_facts(db))


def set_aside_before(state: State, registry: Registry) -> Fraction:
    """The epsilon that other questions than these have set aside or spent on this install, whenever they were asked."""
    if not state.exists():
        return Fraction(0)
    with state.transaction() as db:
        return Fraction(beyond_micro(db, read_facts(db), registry), MICRO)


def describe(
    state: State,
    decision: Decision,
    rules: tuple[Decision, ...],
    app: str,
    unsaved: Mapping[CountName, int] | None = None,
    readable: bool = True,
    asked: Registry | None = None,
) -> Status:
    """The status of a state, whether it exists or not. One that is not `readable` is described from outside. What is
    `asked` now need not be read a second time where it is what the person agreed to."""
    known = Status(app, decision.mode, decision.rule, rules, state.directory, set_aside=_set_aside(state))
    counts: Counter[str] = Counter()
    for name, number in (unsaved or {}).items():
        counts[name] += number
    if readable and os.path.exists(state.path):
        with state.transaction() as db:
            known = _with_numbers(known, db, asked)
            counts.update(read_counts(db))
    return known.replace(counts=dict(counts))


def _set_aside(state: State) -> tuple[str, ...]:
    try:
        return tuple(state.set_aside())
    except OSError:  # the directory cannot be listed just now
        return ()


def _with_numbers(status: Status, db: sqlite3.Connection, asked: Registry | None) -> Status:
    facts = read_facts(db)
    agreed = asked if asked and asked.source == facts.agreed else _agreed_to(facts)
    messages, reports = outbox.size(db)
    return status.replace(
        epsilon_spent=spent_micro(db, facts) / MICRO,
        epsilon_set_aside=reserved_micro(db, facts) / MICRO,
        lifetime_epsilon=None if facts.lifetime is None else facts.lifetime / MICRO,
        groups=num_groups(cohorts_shown(facts))
        * (agreed.num_segments if agreed else 1)
        * num_samples(map(Fraction, samples_shown(facts))),
        segment=_newest_segment(db),
        together=agreed.pairs_by_name if agreed else {},
        reports_in_the_making=len(in_the_making(db)),
        gathered=_gathered(db, agreed),
        batches_waiting=messages,
        reports_waiting=reports,
        next_send=outbox.next_due(db),
        fingerprint=facts.fingerprint,
        failures=facts.failures,
    )


def _newest_segment(db: sqlite3.Connection) -> dict[str, str]:
    row = db.execute("SELECT segment FROM epochs WHERE sealed = 0 ORDER BY epoch DESC LIMIT 1").fetchone()
    return json.loads(row[0]) if row else {}


def _agreed_to(facts: Facts) -> Registry | None:
    try:
        return Registry.parse(facts.agreed) if facts.agreed else None
    except Invalid:  # of an earlier release of hubbub
        return None


def _gathered(db: sqlite3.Connection, agreed: Registry | None) -> dict[str, str]:
    rows = db.execute("SELECT metric_hash, value FROM gathered ORDER BY epoch").fetchall()
    if not rows:
        return {}
    from hubbub.client.gathering import in_words

    known = {metric.metric_hash: metric for metric in agreed or ()}
    found = ((metric_hash, known.get(metric_hash), value) for metric_hash, value in rows)
    return {metric.name if metric else key: in_words(value, metric) for key, metric, value in found}


def pending(state: State, registry: Registry | None) -> list[Pending]:
    """Every message that waits or is being collected, oldest first."""
    if not state.exists():
        return []
    names = {metric.metric_hash: metric.name for metric in registry or ()}
    with state.transaction() as db:
        waiting, making = outbox.waiting(db), in_the_making(db)
        builds = {(every, epoch): json.loads(build) for every, epoch, build in db.execute(_BUILDS)}
    found = [
        Pending(every, epoch_text(every, epoch), not_before, *_contents(body, registry), body)
        for every, epoch, not_before, body in waiting
    ]
    groups: dict[tuple[Cadence, int], list[Shown]] = {}
    for every, epoch, metric_hash, cohort, bits in making:
        row = Shown(metric=names.get(metric_hash, metric_hash), cohort=cohort, bits=bits.hex())
        groups.setdefault((every, epoch), []).append(row)
    found += [
        Pending(every, epoch_text(every, epoch), None, tuple(rows), builds[every, epoch])
        for (every, epoch), rows in groups.items()
    ]
    return found


_BUILDS = "SELECT every, epoch, segment FROM epochs WHERE sealed = 0"


def _contents(body: bytes, registry: Registry | None) -> tuple[tuple[Shown, ...], dict[str, str]]:
    """The reports of a message, and what it says of the build."""
    from hubbub.protocol.refusal import Refused
    from hubbub.protocol.report import by_short_hash
    from hubbub.protocol.wire import to_json, unpack

    try:
        batch = unpack(body, by_short_hash(registry.in_all_segments() if registry else ()))
    except Refused:  # of an older registry: the bytes themselves are shown
        return (), {}
    reports = (Shown(metric=r["metric"], cohort=r["cohort"], bits=r["bits"]) for r in to_json(batch)["reports"])
    return tuple(reports), dict(batch.blocks[0].metric.segment)
