"""`hubbub peek`: one value on its way. Value, mask, memo and three reports side by side (one of a metric that is asked
once); only reports ever leave.

With the state of an app on this machine it is this install's own cohort and, if it has answered so before, its own
memo. Nothing is stored, charged or sent: draws are made for this call.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from typing import Any, NamedTuple

from hubbub.client import control
from hubbub.client.commands import add_json, in_words, state_of
from hubbub.client.facts import read_facts
from hubbub.client.identity import known_identity
from hubbub.client.memos import kept_memo
from hubbub.client.respond import draw_bits, draw_memo
from hubbub.client.state import State
from hubbub.protocol.arguments import whole
from hubbub.protocol.encoding import WrongValue
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry


def add_peek(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Nothing is stored, charged or sent.\n\n"
        "examples:\n  hubbub peek homepage https://example.org --metrics metrics.toml\n"
        "  hubbub peek dark_theme yes --app org.example.editor"
    )
    parser.add_argument("metric", metavar="METRIC", help="one of the app's metrics")
    parser.add_argument("value", metavar="VALUE", help="a value one could record: true, 3.5, a text")
    parser.add_argument("--metrics", metavar="FILE", help="the app's metrics.toml (default: the one agreed to)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--app", metavar="NAME", help="as this install of the app, with its cohort and memos")
    which.add_argument("--state", metavar="DIR", help="the same, by its state directory")
    parser.add_argument("--cohort", type=whole, metavar="N", help="as an install of this cohort (default 0)")
    add_json(parser)


class _Sight(NamedTuple):
    cohort: int
    mask: int
    memo: int
    kept: bool


def run_peek(arguments: Namespace) -> int:
    state = state_of(arguments) if arguments.app or arguments.state else None
    metric = _metric(arguments, state)
    sight = _look(metric, _value(metric, arguments.value), state, arguments.cohort)
    alone = metric.every == "once" or metric.hold is not None
    names = ["report"] if alone else ["report 1", "report 2", "report 3"]
    reports = [(name, draw_bits(metric, sight.memo, sight.cohort, os.urandom)) for name in names]
    width = metric.shape.width(sight.cohort)
    rows = [("mask", sight.mask), *([] if metric.hold else [("memo", sight.memo)]), *reports]
    if arguments.json:
        shown = {name: _bits(bits, width) for name, bits in rows}
        print(json.dumps({"metric": metric.name, "cohort": sight.cohort, "memo_kept": sight.kept, **shown}, indent=2))
        return 0
    fates = {
        "mask": "stays on the device",
        "memo": "stays on the device, kept for life" if sight.kept else "would stay on the device, kept for life",
    }
    print(f"{metric.name}, cohort {sight.cohort} of {metric.shape.num_cohorts}, {plural(width, 'bit')}\n")
    print(f"  {'value':<9} {arguments.value}  stays with the app")
    for name, bits in rows:
        print(f"  {name:<9} {_bits(bits, width)}  {fates.get(name, 'leaves')}")
    print(f"\n{_tells(metric)}")
    return 0


def _tells(metric: Metric) -> str:
    one, forever = show(metric.epsilon_one_report), show(metric.epsilon_permanent)
    if metric.every == "once":
        return f"One report in the life of an install: this is all that leaves. It tells at most epsilon {one}."
    if metric.hold is not None:
        return (
            f"One report in {plural(metric.hold, 'epoch')}, {metric.max_values} in all: this is all that leaves. One "
            f"tells at most epsilon {one}, all of them together {forever}, whatever changes."
        )
    return (
        "One report per day, week or month, with fresh noise: this is all that leaves. "
        f"One tells at most epsilon {one} about the value, all of them together {forever}."
    )


def _metric(arguments: Namespace, state: State | None) -> Metric:
    with in_words():
        agreed = control.agreed_registry(state) if state and not arguments.metrics else None
    registry = Registry.load(arguments.metrics) if arguments.metrics else agreed
    if registry is None:
        raise Invalid(["--metrics must be given: nothing is known yet of what this app asks"])
    if arguments.metric not in registry.metrics:
        raise Invalid([f"METRIC must be one of {', '.join(registry.metrics)}, got {arguments.metric!r}"])
    return registry[arguments.metric]


def _look(metric: Metric, value: Any, state: State | None, cohort: int | None) -> _Sight:
    """The mask and the memo: those of the install if there is one, else of one made up for this call."""
    if cohort is not None and not 0 <= cohort < metric.shape.num_cohorts:
        raise Invalid([f"--cohort must be in [0, {metric.shape.num_cohorts - 1}], got {cohort}"])
    if cohort is None and state is not None and os.path.exists(state.path):
        with in_words(), state.transaction() as db:
            who = known_identity(read_facts(db))
            if who is not None:
                mask = _mask(metric, value, who.cohort(metric), who.dither(metric))
                kept = kept_memo(db, who, metric, mask)
                if kept is not None:
                    return _Sight(who.cohort(metric), mask, kept, kept=True)
                return _Sight(who.cohort(metric), mask, draw_memo(metric, mask, who.cohort(metric), os.urandom), False)
    cohort = cohort or 0
    mask = _mask(metric, value, cohort, int.from_bytes(os.urandom(8), "little"))
    return _Sight(cohort, mask, draw_memo(metric, mask, cohort, os.urandom), kept=False)


def _mask(metric: Metric, value: Any, cohort: int, dither: int) -> int:
    try:
        return metric.shape.encode(value, cohort, dither).mask
    except WrongValue as error:
        raise Invalid([f"VALUE {error}; it asks for {metric.shape.question()}"]) from None


def _value(metric: Metric, text: str) -> Any:
    try:
        return metric.shape.typed(text)
    except ValueError as error:
        raise Invalid([f"VALUE {error}"]) from None


def _bits(bits: int, width: int) -> str:
    """Position 0 first, one character each; a long row is cut."""
    shown = f"{bits:0{width}b}"[::-1]
    return shown if width <= 128 else f"{shown[:125]}..."
