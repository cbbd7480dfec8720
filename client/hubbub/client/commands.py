"""The commands for the person whose data it is: status, preview, on, off, forget, peek. No app or extra is needed."""

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
from typing import Any

from hubbub.client import account
from hubbub.client.account import Pending, Status
from hubbub.client.consent import Decision, is_test_run, most_restrictive
from hubbub.client.place import in_container, is_explicit, state_directory
from hubbub.client.respond import draw_bits, draw_memo
from hubbub.client.state import Busy, State, Unusable
from hubbub.protocol.encoding import WrongValue, encode
from hubbub.protocol.epsilon import show
from hubbub.protocol.label import words
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import APP, Registry
from hubbub.protocol.rules import Invalid


def _add_state(parser: ArgumentParser, example: str) -> None:
    parser.epilog = f"example:\n  {example}"
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--app", metavar="NAME", help="the app, as its metrics.toml calls it")
    which.add_argument("--state", metavar="DIR", help="the app's state directory, where it is not the usual one")


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def _state(arguments: Namespace) -> State:
    if arguments.app is not None and not APP.fullmatch(arguments.app):
        raise Invalid([f"--app must match {APP.pattern}, got {arguments.app!r}"])
    return State(state_directory(arguments.app or "", os.environ, arguments.state))


def _app(arguments: Namespace, registry: Registry | None) -> str:
    return arguments.app or (registry.app if registry else Path(arguments.state).resolve().name)


# --- status -------------------------------------------------------------------------------------------------------


def add_status(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub status --app org.example.editor --explain")
    parser.add_argument("--explain", action="store_true", help="what each rule says, and which decided")
    _add_json(parser)


def run_status(arguments: Namespace) -> int:
    status = _status(arguments)
    if arguments.json:
        print(json.dumps(status.to_json(), indent=2))
        return 0
    print(f"{status.app}: {status.mode}, because {status.rule}")
    if arguments.explain:
        for decision in status.rules:
            mark = "*" if decision.rule == status.rule else " "
            print(f"  {mark} {decision.mode:<5}  {decision.rule}")
    print(f"  state           {status.state_directory}")
    limit = "no limit known yet" if status.lifetime_epsilon is None else f"of at most {status.lifetime_epsilon:g}"
    print(f"  epsilon spent   {status.epsilon_spent:g} {limit}")
    print(f"  in the making   {status.reports_in_the_making} reports of epochs that are not over")
    when = "" if status.next_send is None else f", to be sent from {_moment(status.next_send)}"
    print(f"  waiting         {status.reports_waiting} reports in {status.batches_waiting} messages{when}")
    for name, number in sorted(status.counts.items()):
        print(f"  {name.replace('_', ' '):<15} {number}")
    for path in status.set_aside:
        print(f"  set aside       {path}")
    return 0


def _status(arguments: Namespace) -> Status:
    state = _state(arguments)
    try:
        registry = account.agreed_registry(state)
        rules = _rules(arguments, state, registry)
        return account.describe(state, most_restrictive(rules), rules, _app(arguments, registry))
    except (Busy, Unusable) as error:
        why = Decision("off", str(error))
        return account.describe(state, why, (why,), _app(arguments, None), readable=False)


def _rules(arguments: Namespace, state: State, registry: Registry | None) -> tuple[Decision, ...]:
    """What the app's client would go by here; whether this release of it asks more, only the app itself can know."""
    rules = account.rules_for(os.environ, state, registry, is_test_run(os.environ, sys.modules))
    if not is_explicit(os.environ, arguments.state) and in_container(os.environ):
        rules = (Decision("off", "this is a container, and no state directory was given that would outlive it"), *rules)
    return rules


# --- preview ------------------------------------------------------------------------------------------------------


def add_preview(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub preview --app org.example.editor")
    _add_json(parser)


def run_preview(arguments: Namespace) -> int:
    state = _state(arguments)
    with _in_words():
        found = account.pending(state, account.agreed_registry(state))
    if arguments.json:
        print(json.dumps([_pending_to_json(message) for message in found], indent=2))
        return 0
    if not found:
        print("Nothing waits to be sent.")
    for message in found:
        print("\n".join(_pending_in_words(message)))
    return 0


def _pending_in_words(message: Pending) -> Iterable[str]:
    if message.not_before is None:
        yield f"{message.epoch} ({message.every}): in the making; leaves after the {_period(message.every)} is over"
    else:
        when = _moment(message.not_before)
        yield f"{message.epoch} ({message.every}): one message of {len(message.body)} bytes, leaves from {when}"
    for report in message.reports:
        yield f"  {report['metric']:<24} cohort {report['cohort']:<5} bits {report['bits']}"


def _pending_to_json(message: Pending) -> dict[str, Any]:
    return {
        "every": message.every,
        "epoch": message.epoch,
        "not_before": message.not_before,
        "reports": list(message.reports),
        "body": message.body.hex(),
    }


# --- on, off, forget ----------------------------------------------------------------------------------------------


def add_on(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub on --app org.example.editor --metrics metrics.toml")
    parser.add_argument("--metrics", metavar="FILE", help="the app's metrics.toml, to see and agree to")
    _add_json(parser)


def run_on(arguments: Namespace) -> int:
    state = _state(arguments)
    with _in_words():
        registry = Registry.load(arguments.metrics) if arguments.metrics else account.agreed_registry(state)
        if registry is None:
            raise Invalid(["--metrics must be given: nothing is known yet of what this app asks, so see it first"])
        if arguments.app and registry.app != arguments.app:
            raise Invalid([f"--metrics must be of the app {arguments.app!r}, got {registry.app!r}"])
        account.say_yes(state, registry, time.time())
    status = _status(arguments)
    ends = "Reporting starts with the next day, week or month. `hubbub off` ends it, `hubbub forget` wipes it."
    but = f"You agreed, but here it stays {status.mode}, because {status.rule}."
    return _done(arguments, f"{words(registry)}\n\n{f'On. {ends}' if status.mode == 'on' else but}")


def add_off(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub off --app org.example.editor")
    _add_json(parser)


def run_off(arguments: Namespace) -> int:
    with _in_words():
        account.say_no(_state(arguments))
    return _done(arguments, "Off. What waited to be sent is deleted.")


def add_forget(parser: ArgumentParser) -> None:
    _add_state(parser, "hubbub forget --app org.example.editor")
    _add_json(parser)


def run_forget(arguments: Namespace) -> int:
    state = _state(arguments)
    if not state.exists():
        return _done(arguments, f"There is nothing to forget in {state.directory}.")
    with _in_words():
        spent = account.forget(state)
    kept = f"One number is kept: epsilon {spent:g} is spent."
    return _done(arguments, f"Forgotten: identity, answers and everything unsent. Off. {kept}")


def _done(arguments: Namespace, text: str) -> int:
    """What was done, in words; as JSON, how things stand now."""
    print(json.dumps(_status(arguments).to_json(), indent=2) if arguments.json else text)
    return 0


# --- peek ---------------------------------------------------------------------------------------------------------


def add_peek(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Nothing is stored or sent; the draws are made for this call.\n\n"
        "example:\n  hubbub peek metrics.toml homepage https://example.org"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", help="the registry an app ships")
    parser.add_argument("metric", metavar="METRIC", help="one of its metrics")
    parser.add_argument("value", metavar="VALUE", help="a value one could record: true, 3.5, a text")
    parser.add_argument("--cohort", type=int, default=0, help="the cohort of the install (default 0)")
    _add_json(parser)


def run_peek(arguments: Namespace) -> int:
    registry = Registry.load(arguments.metrics)
    if arguments.metric not in registry.metrics:
        raise Invalid([f"METRIC must be one of {', '.join(registry.metrics)}, got {arguments.metric!r}"])
    metric = registry[arguments.metric]
    if not 0 <= arguments.cohort < metric.shape.num_cohorts:
        raise Invalid([f"--cohort must be in [0, {metric.shape.num_cohorts - 1}], got {arguments.cohort}"])
    dither = int.from_bytes(os.urandom(8), "little")
    try:
        mask = encode(metric.shape, _value(metric, arguments.value), arguments.cohort, dither).mask
    except WrongValue as error:
        raise Invalid([f"VALUE {error}"]) from None
    memo = draw_memo(metric, mask, arguments.cohort, os.urandom)
    reports = [draw_bits(metric, memo, arguments.cohort, os.urandom) for _ in range(3)]
    rows = [("mask", mask), ("memo", memo), *((f"report {i}", bits) for i, bits in enumerate(reports, 1))]
    width = metric.shape.width(arguments.cohort)
    if arguments.json:
        print(json.dumps({"metric": metric.name, **{name: _bits(bits, width) for name, bits in rows}}, indent=2))
        return 0
    print(f"{metric.name}, cohort {arguments.cohort} of {metric.shape.num_cohorts}, {width} bits\n")
    print(f"  {'value':<9} {arguments.value}      stays on the device")
    for name, bits in rows:
        fate = "stays on the device, kept for life" if name == "memo" else "stays" if name == "mask" else ""
        print(f"  {name:<9} {_bits(bits, width)}  {fate}".rstrip())
    one, forever = show(metric.epsilon_one_report), show(metric.epsilon_permanent)
    print(
        "\nThe reports, one per epoch: this is all that leaves. "
        f"One tells at most epsilon {one} about the value, all of them together {forever}."
    )
    return 0


def _value(metric: Metric, text: str) -> Any:
    if metric.kind == "flag":
        if text.lower() not in ("true", "false", "yes", "no"):
            raise Invalid([f"VALUE must be true or false, got {text!r}"])
        return text.lower() in ("true", "yes")
    if metric.kind in ("mean", "histogram", "range"):
        try:
            return float(text)
        except ValueError:
            raise Invalid([f"VALUE must be a number, got {text!r}"]) from None
    return text


def _bits(bits: int, width: int) -> str:
    """Position 0 first, one character each; a long row is cut."""
    shown = f"{bits:0{width}b}"[::-1]
    return shown if width <= 128 else f"{shown[:125]}..."


def _period(every: str) -> str:
    return "month" if every == "once" else every


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@contextmanager
def _in_words() -> Iterator[None]:
    """Turns what a state can suffer into an error that the command prints."""
    try:
        yield
    except Busy:
        raise Invalid(["the state is in use by another process just now; try again"]) from None
    except Unusable as error:
        raise Invalid([str(error)]) from None
