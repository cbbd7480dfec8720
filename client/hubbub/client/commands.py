"""The commands for the person whose data it is: status, preview, on, off, forget. No app or extra is needed."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.client import control
from hubbub.client.consent import Decision, is_test_run, most_restrictive
from hubbub.client.control import Pending, Status
from hubbub.client.state import Busy, State, Unusable
from hubbub.client.state_dir import WOULD_NOT_LAST, in_container, is_explicit, known_apps, state_directory
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.label import in_fours, words
from hubbub.protocol.names import APP, is_app
from hubbub.protocol.printed import text_table
from hubbub.protocol.refusal import IN_WORDS
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import in_words as segment_in_words

if TYPE_CHECKING:
    from hubbub.protocol.vocabulary import Cadence


def _add_state(parser: ArgumentParser, example: str, every: str = "") -> None:
    """Which app. `every` is what --all means, where all of this machine may be meant."""
    parser.epilog = f"example:\n  {example}"
    which = parser.add_mutually_exclusive_group(required=every != _STATUS)
    which.add_argument("--app", metavar="NAME", help="the app, as its metrics.toml calls it")
    which.add_argument("--state", metavar="DIR", help="the app's state directory, where it is not the usual one")
    if every:
        which.add_argument("--all", action="store_true", help=every)


_STATUS = "every app of this machine (default)"


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def state_of(arguments: Namespace) -> State:
    if arguments.app is not None and not is_app(arguments.app):
        raise Invalid([f"--app must match {APP}, got {arguments.app!r}"])
    return State(state_directory(arguments.app or "", os.environ, arguments.state))


def _app(arguments: Namespace, registry: Registry | None) -> str:
    return arguments.app or (registry.app if registry else Path(arguments.state).resolve().name)


# --- status -------------------------------------------------------------------------------------------------------


def add_status(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub status --app org.example.editor --explain", _STATUS)
    parser.add_argument("--explain", action="store_true", help="what each rule says, and which decided")
    add_json(parser)


def run_status(arguments: Namespace) -> int:
    if arguments.app is None and arguments.state is None:
        return _show_all(arguments)
    status = _status(arguments)
    if arguments.json:
        print(json.dumps(status.to_json(), indent=2))
        return 0
    _print_head(status, arguments.explain)
    if stranger := _no_such_app(arguments):
        print(f"  {stranger}")
    print(f"  state           {status.state_directory}")
    if status.fingerprint:
        print(f"  agreed to       {in_fours(status.fingerprint)}")
    limit = ", no limit known yet" if status.lifetime_epsilon is None else f" of at most {status.lifetime_epsilon:g}"
    print(f"  epsilon spent   {status.epsilon_spent:g}{limit}")
    if status.groups > 1:
        print(f"  group           one of {status.groups:,}, which messages show")
    for key, value in status.segment.items():
        print(f"  said as it is   {key}: {value}")
    for names in status.together.values():
        print(f"  in pairs        {' with '.join(names)}: the collector also counts which answers come together")
    collecting = plural(status.reports_in_the_making, "report")
    print(f"  collecting      {collecting} for the current day, week or month")
    for name, value in status.gathered.items():
        print(f"  kept as it is   {name}: {value}, until its period is over")
    when = "" if status.next_send is None else f", to be sent from {_moment(status.next_send)}"
    print(f"  waiting         {status.reports_waiting} reports in {status.batches_waiting} messages{when}")
    for name, number in sorted(status.counts.items()):
        print(f"  {_count_in_words(name, number)}")
    for path in status.set_aside:
        print(f"  set aside       {path}")
    return 0


def _print_head(status: Status, explain: bool) -> None:
    print(f"{status.app}: {status.mode}, because {status.rule}")
    for decision in status.rules if explain else ():
        mark = "*" if decision.rule == status.rule else " "
        print(f"  {mark} {decision.mode:<5}  {decision.rule}")


def _no_such_app(arguments: Namespace) -> str:
    """For somebody who may have mistyped a name: that no app of this name keeps anything here. Empty if one does."""
    known = known_apps(os.environ)
    if arguments.app is None or arguments.app in known:
        return ""
    others = f"; apps that do: {', '.join(known)}" if known else ""
    return f"nothing is kept here by an app called {arguments.app}{others}"


def _count_in_words(name: str, number: int) -> str:
    """One count; of messages that were not taken, with the reason."""
    what, _, reason = name.partition("_")
    if what == "dropped" and reason in IN_WORDS:
        return f"{'refused':<15} {plural(number, 'report')}, for good: {reason} ({IN_WORDS[reason]})"
    if what == "tried":
        why = f"{reason} ({IN_WORDS[reason]})" if reason in IN_WORDS else reason.replace("_", " ")
        return f"{'not taken':<15} {plural(number, 'attempt')}, to be made again: {why}"
    return f"{name.replace('_', ' '):<15} {number}"


def _show_all(arguments: Namespace) -> int:
    """A line for each app that keeps a state on this machine."""
    found = [_status(each) for each in _every_app(arguments)]
    if arguments.json:
        print(json.dumps([status.to_json() for status in found], indent=2))
        return 0
    for status in found:
        _print_head(status, getattr(arguments, "explain", False))  # `off --all` has no such word
        print(f"  epsilon {status.epsilon_spent:g} spent, {status.reports_waiting} reports waiting")
    if not found:
        print("No app keeps a state for telemetry in the usual place of this machine.")
    return 0


def _every_app(arguments: Namespace) -> list[Namespace]:
    """The same words for each of them."""
    return [Namespace(**{**vars(arguments), "app": name, "state": None}) for name in known_apps(os.environ)]


def _status(arguments: Namespace) -> Status:
    state = state_of(arguments)
    try:
        registry = control.agreed_registry(state)
        rules = _rules(arguments, state, registry)
        return control.describe(state, most_restrictive(rules), rules, _app(arguments, registry))
    except (Busy, Unusable) as error:
        why = Decision("off", str(error))
        return control.describe(state, why, (why,), _app(arguments, None), readable=False)
    finally:
        state.close()


def _rules(arguments: Namespace, state: State, registry: Registry | None) -> tuple[Decision, ...]:
    """The rules that the app's client would apply here. Only the app itself can know whether its release asks more."""
    rules = control.rules_for(os.environ, state, registry, is_test_run(os.environ, sys.modules))
    if not is_explicit(os.environ, arguments.state) and in_container(os.environ):
        rules = (Decision("off", WOULD_NOT_LAST, "no_place"), *rules)
    return rules


# --- preview ------------------------------------------------------------------------------------------------------


def add_preview(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub preview --app org.example.editor")
    add_json(parser)


def run_preview(arguments: Namespace) -> int:
    state = state_of(arguments)
    with in_words():
        found = control.pending(state, control.agreed_registry(state))
    if arguments.json:
        print(json.dumps([_pending_to_json(message) for message in found], indent=2))
        return 0
    if not found:
        print(f"Nothing waits to be sent. {_why_nothing(_status(arguments))}")
    for message in found:
        print("\n".join(_pending_in_words(message)))
    return 0


def _why_nothing(status: Status) -> str:
    if status.mode != "on":
        return f"Telemetry is {status.mode}, because {status.rule}."
    return "After a yes, reporting starts with the next day, week or month; a message leaves once its period is over."


def _pending_in_words(message: Pending) -> Iterable[str]:
    if message.not_before is None:
        yield f"{message.epoch} ({message.every}): collecting; leaves after the {_period(message.every)} is over"
    else:
        when = _moment(message.not_before)
        yield f"{message.epoch} ({message.every}): one message of {len(message.body)} bytes, leaves from {when}"
    if message.segment:
        yield f"  said as it is: {segment_in_words(message.segment.items())}"
    rows = [(f"  {one['metric']}", f"cohort {one['cohort']}", f"bits {one['bits']}") for one in message.reports]
    yield from text_table((), rows, left=(0, 1, 2), longest=None, widths=(26, 12, 0), gap=" ")


def _pending_to_json(message: Pending) -> dict[str, Any]:
    return {
        "every": message.every,
        "epoch": message.epoch,
        "not_before": message.not_before,
        "segment": dict(message.segment),
        "reports": list(message.reports),
        "body": message.body.hex(),
    }


# --- on, off, forget ----------------------------------------------------------------------------------------------


def add_on(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub on --app org.example.editor --metrics metrics.toml")
    parser.add_argument("--metrics", metavar="FILE", help="the app's metrics.toml, to see and agree to")
    add_json(parser)


def run_on(arguments: Namespace) -> int:
    state = state_of(arguments)
    with in_words():
        registry = Registry.load(arguments.metrics) if arguments.metrics else control.agreed_registry(state)
        if registry is None:
            raise Invalid(["--metrics must be given: nothing is known yet of what this app asks, so see it first"])
        if arguments.app and registry.app != arguments.app:
            raise Invalid([f"--metrics must be of the app {arguments.app!r}, got {registry.app!r}"])
        before = control.set_aside_before(state, registry)
        control.say_yes(state, registry, time.time())
    status = _status(arguments)
    ends = "Reporting starts with the next day, week or month. `hubbub off` ends it, `hubbub forget` wipes it."
    but = f"You agreed, but here it stays {status.mode}, because {status.rule}."
    return _done(arguments, f"{words(registry, before)}\n\n{f'On. {ends}' if status.mode == 'on' else but}")


def add_off(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub off --app org.example.editor", "every app that keeps a state on this machine")
    add_json(parser)


def run_off(arguments: Namespace) -> int:
    if not arguments.all:
        stranger = _no_such_app(arguments)
        with in_words():
            control.say_no(state_of(arguments))
        before = f"Off before it ever ran: {stranger}."
        return _done(arguments, before if stranger else "Off. What waited to be sent is deleted.")
    for each in _every_app(arguments):
        with in_words():
            control.say_no(state_of(each))
        if not arguments.json:
            print(f"{each.app}: off. What waited to be sent is deleted.")
    return _show_all(arguments) if arguments.json or not known_apps(os.environ) else 0


def add_forget(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub forget --app org.example.editor")
    add_json(parser)


def run_forget(arguments: Namespace) -> int:
    state = state_of(arguments)
    if not state.exists():
        return _done(arguments, f"There is nothing to forget in {state.directory}.")
    with in_words():
        spent = control.forget(state)
    if spent is None:
        unknown = "What was spent is unknown, so nothing will be asked here again."
        return _done(arguments, f"Forgotten: the state was corrupt and is deleted. Off. {unknown}")
    kept = f"One number is kept: epsilon {spent:g} counts as spent."
    return _done(arguments, f"Forgotten: identity, answers and everything unsent. Off. {kept}")


def _done(arguments: Namespace, text: str) -> int:
    """What was done, in words; as JSON, how things stand now."""
    print(json.dumps(_status(arguments).to_json(), indent=2) if arguments.json else text)
    return 0


def _period(every: Cadence) -> str:
    return "month" if every == "once" else every


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@contextmanager
def in_words() -> Iterator[None]:
    """Turns a state that is busy or damaged into an error that the command prints."""
    try:
        yield
    except Busy:
        raise Invalid(["the state is in use by another process just now; try again"]) from None
    except Unusable as error:
        raise Invalid([str(error)]) from None
