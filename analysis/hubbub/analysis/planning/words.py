"""Plans in words, as a table, and as TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

from hubbub.analysis.kinds import kind_of
from hubbub.analysis.kinds.kind import Sketch
from hubbub.analysis.planning.advice import Slots, channel_in_words, what_would_change_it
from hubbub.analysis.planning.history_plans import history_toml, history_words
from hubbub.analysis.planning.plan import Plan
from hubbub.protocol.epsilon import show
from hubbub.protocol.printed import plain_percent, short_number, short_percent, text_table


def answer_words(plan: Plan, unknown: str, answer: float, slots: Slots | None) -> list[str]:
    """What was found, how it comes about, and what goes with it."""
    if answer == inf:
        return _no(plan, unknown)
    one, permanent = show(plan.epsilon_one_report), show(plan.epsilon_permanent)
    if plan.has_history:
        one = f"{permanent} for a whole history"
    what, of = plan.goal.what, plan.goal.of
    share, power, reports = short_percent(plan.share), short_percent(plan.power), short_number(plan.reports)
    lines = []
    match unknown:
        case "installs":
            lines.append(
                f"To see {what} of {share} {of} at epsilon {one} with power {power} "
                f"you need {reports} reports"
                + (
                    f": {short_number(plan.installs)} installs, of which {short_percent(plan.consent)} agree."
                    if plan.consent < 1
                    else "."
                )
            )
        case "share":
            lines.append(
                f"With {reports} reports at epsilon {one} you will see {what.split()[1]}s above "
                f"{share} {of}, with power {power}."
            )
        case "epsilon":
            lines.append(
                f"To see {what} of {share} {of} in {reports} reports you need "
                f"epsilon_one_report = {one} (and epsilon_permanent at least that; here {permanent})."
            )
        case _:
            lines.append(
                f"{what.capitalize()} of {share} {of} will be seen in {reports} reports "
                f"at epsilon {one} with probability {power}."
            )
    line = plan.line
    seen = "so few reports promise nothing" if line > 1 else f"seen from an estimate of {short_percent(line)}"
    lines.append(f"Standard error {short_percent(plan.std_error())}; {seen}.")
    lines.append(f"Noise: {channel_in_words(plan.noise)}; {_told(plan)}.")
    if plan.has_history:
        lines += history_words(plan)
    lines += kind_of(plan.shape.form).plan_remarks(_sketch(plan))
    lines += [f"warning: {warning}" for warning in warnings_of(plan)]
    if slots is not None:
        lines += _slot_words(slots, plan)
    return lines


def warnings_of(plan: Plan) -> list[str]:
    """Why less may be seen than is planned."""
    return kind_of(plan.shape.form).plan_warnings(_sketch(plan))


def _told(plan: Plan) -> str:
    if plan.once:
        return "one report in the life of an install"
    all_of = "everything an install ever says" if plan.has_history else "all reports of one answer"
    return f"{all_of}: epsilon {show(plan.epsilon_permanent)}"


def _sketch(plan: Plan) -> Sketch[Any]:
    return Sketch(
        shape=plan.shape,
        noise=plan.noise,
        epsilon_one_report=float(plan.epsilon_one_report),
        epsilon_permanent=float(plan.epsilon_permanent),
        strings=plan.strings,
        candidates=plan.rule.tests,
    )


def _slot_words(slots: Slots, plan: Plan) -> list[str]:
    permanent = plan.epsilon_permanent
    values = min(slots.max_values, plan.shape.most_slots)
    return [
        f"Values that change in {short_percent(slots.change_rate)} of epochs, over {slots.life} epochs: "
        f"max_values = {values} (lifetime epsilon {show(values * permanent)}, between histories "
        "that change together);",
        "or one epsilon for everything an install ever says, between any two histories: --history EPSILON plans that.",
    ]


def _no(plan: Plan, unknown: str) -> list[str]:
    goal = f"{short_percent(plan.share)} with power {short_percent(plan.power)}"
    what = {
        "installs": f"No number of installs shows {goal}.",
        "share": f"No: {short_number(plan.reports)} reports at epsilon {show(plan.epsilon_one_report)} show nothing.",
        "epsilon": f"No: no epsilon up to 16 shows {goal} in {short_number(plan.reports)} reports.",
    }[unknown]
    at = (
        replace(plan, epsilon_one_report=Fraction(16), epsilon_permanent=Fraction(16)) if unknown == "epsilon" else plan
    )
    changes = what_would_change_it(at)
    at_most = " (at epsilon 16)" if unknown == "epsilon" else ""
    return [what, *(f"  What would change it{at_most}: {change}." for change in changes)]


def table_words(plan: Plan, found: Mapping[tuple[float, Fraction], float]) -> list[str]:
    """How many are needed, by share and epsilon."""
    shares, epsilons = (dict.fromkeys(share for share, _ in found), dict.fromkeys(epsilon for _, epsilon in found))
    whom = "reports" if plan.consent == 1 else f"installs, of which {short_percent(plan.consent)} agree,"
    lines = [
        f"How many {whom} it takes to see {plan.goal.by} ({plan.shape.kind}, power {short_percent(plan.power)}):",
        "",
    ]
    header = ["share", *(f"epsilon {float(epsilon):g}" for epsilon in epsilons)]
    needed = [[found[share, epsilon] for epsilon in epsilons] for share in shares]
    rows = [
        [plain_percent(share), *("-" if n == inf else short_number(n) for n in cells)]
        for share, cells in zip(shares, needed, strict=True)
    ]
    table = text_table(header, rows, widths=[8, *(14 for _ in epsilons)], gap="")
    return [*lines, *table, *(f"warning: {warning}" for warning in warnings_of(plan))]


def toml_of(plan: Plan, slots: Slots | None, name: str = "planned") -> str:
    """The planned metric, to be put into a metrics.toml, and the metrics that it is made of."""
    factors = [toml_of(replace(plan, shape=factor.shape), slots, factor.name) for factor in plan.shape.factors]
    warned = "".join(f"# warning: {warning}\n" for warning in warnings_of(plan))
    return "\n\n".join([warned + _toml_of_one(plan, slots, name), *factors])


def _toml_of_one(plan: Plan, slots: Slots | None, name: str) -> str:
    return "\n".join(
        [
            f"[metrics.{name}]",
            f'kind = "{plan.shape.kind}"',
            'why = "Say what will be decided with it"',
            'owner = "somebody@example.org"',
            "expires = 2030-01-01",
            f'every = "{"once" if plan.once else "week"}"',
            *(history_toml(plan) if plan.has_history else _kept_toml(plan, slots)),
            kind_of(plan.shape.form).toml(plan.shape),
        ]
    )


def _kept_toml(plan: Plan, slots: Slots | None) -> list[str]:
    most = plan.shape.most_slots
    usual = kind_of(plan.shape.form).slots(plan.shape)
    epsilons = [
        f"epsilon_one_report = {float(plan.epsilon_one_report):g}",
        f"epsilon_permanent = {float(plan.epsilon_permanent):g}",
    ]
    return epsilons if plan.once else [*epsilons, f"max_values = {min(most, slots.max_values) if slots else usual}"]
