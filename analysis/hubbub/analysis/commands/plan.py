"""The command of those who have not collected yet: plan."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf
from typing import Any

from hubbub.analysis.kinds import KINDS, kind_of
from hubbub.analysis.planning.advice import Slots, slots_for, split_budget, what_would_change_it
from hubbub.analysis.planning.history_plans import best_history_plan, sights_to_json
from hubbub.analysis.planning.plan import Plan, epsilon_for, installs_for, power_of, share_for
from hubbub.analysis.planning.words import answer_words, table_words, toml_of, warnings_of
from hubbub.protocol.arguments import exact, share, whole
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.lint import few_points, slots_of_silence
from hubbub.protocol.metric import Metric
from hubbub.protocol.printed import short_number, short_percent, text_table
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import Shape

TABLE_SHARES = (0.1, 0.01, 0.001)
TYPICAL_SHARE = 0.1  # of an answer: by it a history is planned, unless a share is given
TABLE_EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def add_plan(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Leave out one of --installs, --share, --epsilon, --power: it is solved for.\n"
        "If --power and another one are left out, power is 80 %.\n"
        "exit status: 0 it can be done, 1 it cannot, 2 wrong use\n\n"
        "examples:\n"
        "  hubbub plan --kind choice --num-choices 1000 --share 0.1% --epsilon 2      how many installs?\n"
        "  hubbub plan --installs 50000 --epsilon 2                                   what will be seen?\n"
        "  hubbub plan --kind flag --table                                            how many in general?\n"
        "  hubbub plan --kind choice --num-choices 16 --once --table                  how many, if asked once?\n"
        "  hubbub plan --kind flag --history 4 --life 52 --installs 20000             how often, if answers change?\n"
        "  hubbub plan --crosstab 3x2 --difference 5% --epsilon 2                     two answers at once?\n"
        "  hubbub plan metrics.toml --installs 1e6 --consent 0.3                      what will each metric show?\n"
        "  hubbub plan metrics.toml --lifetime 30                                     share a budget out"
    )
    parser.add_argument("metrics", metavar="METRICS.TOML", nargs="?", help="plan the metrics of this registry")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="string",
        help="of the metric (default: string); discovery is a string with discover = true, mean_apart a mean "
        'with absent = "apart"',
    )
    parser.add_argument("--installs", type=whole, help="that run the app")
    parser.add_argument("--share", type=share, help="of installs that hold the answer to be seen: 0.01 or 1%%")
    parser.add_argument("--epsilon", type=exact, help="epsilon_one_report")
    parser.add_argument("--power", type=share, help="probability of detection (default: 0.8)")
    parser.add_argument("--permanent", type=exact, help="epsilon_permanent (default: twice epsilon, at least 2)")
    parser.add_argument("--consent", type=share, default=1.0, help="share of installs that agree (default: 1)")
    parser.add_argument("--alpha", type=share, default=0.05, help="chance that any detection is false (default: 0.05)")
    parser.add_argument("--values", type=whole, help="string: candidates listed, all tested (default: --strings)")
    parser.add_argument("--strings", type=whole, default=0, help="different strings expected")
    for option in (option for name in KINDS for option in kind_of(name).plan_options):
        parser.add_argument(f"--{option.name.replace('_', '-')}", type=whole, default=option.default, help=option.help)
    parser.add_argument("--once", action="store_true", help="asked once in the life of an install, not in every epoch")
    parser.add_argument("--history", type=exact, metavar="EPSILON", help="epsilon_history: of all answers in a life")
    parser.add_argument("--hold", type=whole, help="with --history: ask in one of so many epochs (default: the best)")
    parser.add_argument("--change-rate", type=share, help="chance that a value changes in an epoch: advises slots")
    parser.add_argument("--life", type=whole, default=104, help="epochs an install lives (default: 104, two years)")
    parser.add_argument("--lifetime", type=exact, help="share this lifetime_epsilon out over METRICS.TOML")
    parser.add_argument("--chart", metavar="FILE", help="draw what is seen over reports: .png, .svg or .html")
    parser.add_argument(
        "--crosstab",
        metavar="GROUPSxANSWERS",
        help="two answers at once: segment, cross or pair, and how many installs; --epsilon is that of both together",
    )
    parser.add_argument(
        "--difference", type=share, default=0.05, help="with --crosstab: between two groups (default: 5%%)"
    )
    parser.add_argument("--table", action="store_true", help="how many are needed, over common shares and epsilons")
    parser.add_argument("--toml", action="store_true", help="write the planned metric as TOML")
    parser.add_argument("--json", action="store_true", help="the answer as JSON")


def run_plan(arguments: Namespace) -> int:
    if arguments.crosstab:
        return _plan_crosstab(arguments)
    if arguments.table:
        return _print_table(arguments)
    if arguments.lifetime is not None:
        return _share_out(arguments)
    if arguments.metrics is not None:
        return _plan_registry(arguments)
    return _plan_one(arguments)


# --- two answers at once ------------------------------------------------------------------------------------------


def _plan_crosstab(arguments: Namespace) -> int:
    from hubbub.analysis.planning.crosstab_plan import CrosstabPlan, crosstab_words, possible

    groups, times, answers = arguments.crosstab.lower().partition("x")
    if not (times and groups.isdecimal() and answers.isdecimal()):
        raise Invalid([f"--crosstab must be GROUPSxANSWERS, such as 3x2, got {arguments.crosstab!r}"])
    if arguments.epsilon is None:
        raise Invalid(["--crosstab needs --epsilon, that of both answers together"])
    plan = CrosstabPlan(
        groups=int(groups),
        answers=int(answers),
        epsilon=arguments.epsilon,
        difference=arguments.difference,
        power=arguments.power or 0.8,
        alpha=arguments.alpha,
        consent=arguments.consent,
    )
    enough = possible(plan, arguments.installs)
    if arguments.json:
        print(json.dumps({"reports": plan.ways, "enough": enough}, indent=2))
    else:
        print("\n".join(crosstab_words(plan, arguments.installs)))
    return 0 if enough else 1


# --- one metric ---------------------------------------------------------------------------------------------------


def _plan_one(arguments: Namespace) -> int:
    unknown = _unknown(arguments)
    plan, answer = _best_of(_history_plan(arguments) or _plans(arguments, unknown), unknown)
    solved = plan if answer == inf else _with(plan, unknown, answer)
    if arguments.chart:
        from hubbub.analysis.planning.chart import plan_chart
        from hubbub.analysis.render.charts import save

        save(plan_chart(solved), arguments.chart)
    if arguments.toml:
        print(toml_of(solved, _slots(arguments)))
    elif arguments.json:
        print(json.dumps(_facts(solved, unknown, answer), indent=2))
    else:
        print("\n".join(answer_words(solved, unknown, answer, _slots(arguments))))
    return 0 if answer != inf else 1


def _plans(arguments: Namespace, unknown: str) -> list[Plan]:
    shapes = _shapes(arguments)
    plan = _plan(arguments, shapes[0], unknown)
    return [replace(plan, shape=shape) for shape in shapes]


def _history_plan(arguments: Namespace) -> list[Plan]:
    """The one with the best number of answers, where answers are to have a history; else none."""
    if arguments.history is None:
        if arguments.hold is not None:
            raise Invalid([f"--hold needs --history, the epsilon of all answers together, got --hold {arguments.hold}"])
        return []
    for name in ("epsilon", "permanent", "once", "change_rate"):
        if getattr(arguments, name):
            raise Invalid([f"--{name.replace('_', '-')} must be left out with --history"])
    shape = _shapes(arguments)[0]
    options = [option.name for option in kind_of(arguments.kind).plan_options]
    given = [name for name in options if getattr(arguments, name) is not None]
    plan = _plan(arguments, shape, "epsilon")
    plan = replace(plan, epsilon_one_report=arguments.history, epsilon_permanent=arguments.history)
    typical = replace(plan, share=TYPICAL_SHARE if arguments.share is None else arguments.share)
    return [replace(best_history_plan(typical, arguments.life, arguments.hold, given), share=plan.share)]


def _slots(arguments: Namespace) -> Slots | None:
    if arguments.once and arguments.change_rate is not None:
        raise Invalid([f"--change-rate must be left out with --once, got {arguments.change_rate:g}"])
    return None if arguments.change_rate is None else slots_for(arguments.change_rate, arguments.life)


def _unknown(arguments: Namespace) -> str:
    given = {**vars(arguments), "epsilon": arguments.history if arguments.epsilon is None else arguments.epsilon}
    missing = [name for name in ("installs", "share", "epsilon", "power") if given[name] is None]
    if len(missing) == 2 and "power" in missing:
        missing.remove("power")
    if len(missing) != 1:
        said = "none is" if not missing else ", ".join(f"--{name}" for name in missing) + " are"
        raise Invalid([f"leave out exactly one of --installs, --share, --epsilon, --power; {said} left out"])
    return missing[0]


def _plan(arguments: Namespace, shape: Shape, unknown: str) -> Plan:
    epsilon = arguments.epsilon if arguments.epsilon is not None else Fraction(1)
    permanent = arguments.permanent
    if permanent is None:
        permanent = Fraction(2) if unknown == "epsilon" else min(Fraction(16), max(Fraction(2), 2 * epsilon))
    return Plan(
        shape=shape,
        epsilon_one_report=epsilon,
        epsilon_permanent=permanent,
        installs=1.0 if arguments.installs is None else arguments.installs,
        share=0.01 if arguments.share is None else arguments.share,
        power=0.8 if arguments.power is None else arguments.power,
        consent=arguments.consent,
        alpha=arguments.alpha,
        values=arguments.values,
        strings=arguments.strings,
        once=arguments.once,
    )


def _shapes(arguments: Namespace) -> Sequence[Shape]:
    """The shape that was asked for; several where something was left to the plan."""
    kind = kind_of(arguments.kind)
    asked_for = {option.name: getattr(arguments, option.name) for option in kind.plan_options}
    given = {name: value for name, value in asked_for.items() if value is not None}
    return kind.alternatives(kind.planned(given, arguments.strings), given)


def _best_of(plans: Sequence[Plan], unknown: str) -> tuple[Plan, float]:
    """The plan that shows most where least is told, and what it comes to; of equals the first."""
    if len(plans) == 1:
        return plans[0], _solve(plans[0], unknown)
    answers = [_solve(replace(each, worst=True), unknown) for each in plans]
    best = plans[answers.index((max if unknown == "power" else min)(answers))]
    return best, _solve(best, unknown)


def _solve(plan: Plan, unknown: str) -> float:
    match unknown:
        case "installs":
            found = installs_for(plan)
            return found if found == inf else float(ceil(found))
        case "share":
            return share_for(plan)
        case "epsilon":
            return epsilon_for(plan)
    return power_of(plan)


def _with(plan: Plan, unknown: str, answer: float) -> Plan:
    match unknown:
        case "installs":
            return replace(plan, installs=answer)
        case "share":
            return replace(plan, share=answer)
        case "power":
            return replace(plan, power=min(max(answer, 1e-12), 1 - 1e-12))
    one = Fraction(round(answer * 1000), 1000)
    return replace(plan, epsilon_one_report=one, epsilon_permanent=max(one, plan.epsilon_permanent))


def _facts(plan: Plan, unknown: str, answer: float) -> dict[str, Any]:
    return {
        "unknown": unknown,
        "answer": None if answer == inf else answer,
        "kind": plan.shape.kind,
        "installs": plan.installs,
        "reports": plan.reports,
        "share": plan.share,
        "power": plan.power,
        "epsilon_one_report": float(plan.epsilon_one_report),
        "epsilon_permanent": float(plan.epsilon_permanent),
        "std_error": plan.std_error(),
        "seen_from": None if plan.line == inf else plan.line,
        "what_would_change_it": what_would_change_it(plan) if answer == inf else [],
        "warnings": warnings_of(plan),
        **(sights_to_json(plan) if plan.has_history else {}),
    }


# --- how many installs do I need? ---------------------------------------------------------------------------------


def _print_table(arguments: Namespace) -> int:
    """Reports needed for common shares and epsilons: the question everybody asks first."""
    for name in ("installs", "share", "epsilon", "permanent", "metrics", "lifetime", "chart"):
        if getattr(arguments, name) is not None:
            raise Invalid([f"--table is over shares and epsilons, got --{name} too"])
    plans = _plans(arguments, "epsilon")
    plan = plans[0]
    found = {
        (share, epsilon): _best_of([replace(each, **_at(share, epsilon)) for each in plans], "installs")[1]
        for share in TABLE_SHARES
        for epsilon in TABLE_EPSILONS
    }
    if arguments.json:
        rows = [
            {"share": share, "epsilon_one_report": float(epsilon), "installs": None if answer == inf else answer}
            for (share, epsilon), answer in found.items()
        ]
        print(json.dumps({"kind": plan.shape.kind, "rows": rows, "warnings": warnings_of(plan)}, indent=2))
    else:
        print("\n".join(table_words(plan, found)))
    return 0


def _at(share: float, epsilon: Fraction) -> dict[str, Any]:
    return {"share": share, "epsilon_one_report": epsilon, "epsilon_permanent": max(Fraction(2), 2 * epsilon)}


# --- a registry ---------------------------------------------------------------------------------------------------


def _plan_registry(arguments: Namespace) -> int:
    registry = Registry.load(arguments.metrics)
    if arguments.installs is None:
        raise Invalid(["a registry has its epsilons: give --installs, and see what each metric will show"])
    rows = []
    for metric in registry:
        plan = Plan(
            shape=metric.shape,
            epsilon_one_report=metric.epsilon_one_report,
            epsilon_permanent=metric.epsilon_permanent,
            installs=arguments.installs,
            power=0.8 if arguments.power is None else arguments.power,
            consent=arguments.consent,
            alpha=arguments.alpha,
            values=arguments.values if metric.shape.open_list else None,
            strings=arguments.strings if metric.shape.open_list else 0,
            once=metric.every == "once",
            noise_given=metric.noise,
            sample=float(metric.sample),
        )
        rows.append((metric, plan, share_for(plan)))
    if arguments.json:
        facts = [
            {
                "metric": metric.name,
                "kind": metric.kind,
                "std_error": plan.std_error(0.0),
                "seen_from_share": None if least == inf else least,
                "warnings": warnings_of(plan),
            }
            for metric, plan, least in rows
        ]
        print(json.dumps({"installs": arguments.installs, "metrics": facts}, indent=2))
        return 0
    reports, power = short_number(arguments.installs * arguments.consent), short_percent(rows[0][1].power)
    print(f"{reports} reports of one epoch; power {power}")
    header, lines = ("metric", "kind", "epsilon", "std error", "seen from", ""), []
    for metric, plan, least in rows:
        seen = "nothing" if least == inf else short_percent(least)
        of = "" if plan.goal.counts_holders else f" {plan.goal.of}"
        epsilon, error = show(metric.epsilon_one_report), short_percent(plan.std_error(0.0))
        lines.append((metric.name, metric.kind, epsilon, error, seen, of))
    print(*text_table(header, lines, left=(0, 1, 5), longest=None, widths=(20, 12, 9, 12, 12, 0), gap=""), sep="\n")
    for metric, plan, _ in rows:
        for doubt in (*slots_of_silence(metric), *few_points(metric, registry), *warnings_of(plan)):
            print(f"warning: [metrics.{metric.name}] {doubt}")
    return 0


def _share_out(arguments: Namespace) -> int:
    if arguments.metrics is None:
        raise Invalid(["--lifetime needs a METRICS.TOML whose metrics share it"])
    registry = Registry.load(arguments.metrics)
    if not 0 < arguments.lifetime <= 10_000:
        raise Invalid([f"--lifetime must be above 0 and at most 10000, got {float(arguments.lifetime):g}"])
    found = split_budget(registry, arguments.lifetime)
    if arguments.json:
        rows = {
            name: {key: float(value) for key, value in _epsilon_keys(registry[name], *both).items()}
            for name, both in found.items()
        }
        print(json.dumps({"lifetime_epsilon": float(arguments.lifetime), "metrics": rows}, indent=2))
        return 0
    print(f"lifetime_epsilon = {float(arguments.lifetime):g}")
    for name, (one, permanent) in found.items():
        print(f"\n[metrics.{name}]")
        for key, value in _epsilon_keys(registry[name], one, permanent).items():
            print(f"{key} = {float(value):g}")
        print(f"max_values = {registry[name].max_values}")
    return 0


def _epsilon_keys(metric: Metric, one: Fraction, permanent: Fraction) -> dict[str, Fraction]:
    if metric.hold is not None:
        return {"epsilon_history": permanent}
    return {"epsilon_one_report": one, "epsilon_permanent": permanent}
