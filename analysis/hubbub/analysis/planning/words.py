"""Plans in words, as a table, and as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import inf, log10

from hubbub.analysis.planning.advice import Slots, channel_in_words, rappor_at, what_would_change_it
from hubbub.analysis.planning.plan import Plan
from hubbub.protocol.epsilon import show
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String


def answer_words(plan: Plan, unknown: str, answer: float, slots: Slots | None) -> list[str]:
    """What was found, how it comes about, and what goes with it."""
    if answer == inf:
        return _no(plan, unknown)
    one, permanent = show(plan.epsilon_one_report), show(plan.epsilon_permanent)
    what = "a difference" if isinstance(plan.shape, Mean) else "an answer"
    of = "of the range" if isinstance(plan.shape, Mean) else "of installs"
    lines = []
    match unknown:
        case "installs":
            lines.append(
                f"To see {what} of {percent(plan.share)} {of} at epsilon {one} with power {percent(plan.power)} "
                f"you need {rounded(plan.reports)} reports"
                + (
                    f": {rounded(plan.installs)} installs, of which {percent(plan.consent)} agree."
                    if plan.consent < 1
                    else "."
                )
            )
        case "share":
            lines.append(
                f"With {rounded(plan.reports)} reports at epsilon {one} you will see {what.split()[1]}s above "
                f"{percent(plan.share)} {of}, with power {percent(plan.power)}."
            )
        case "epsilon":
            lines.append(
                f"To see {what} of {percent(plan.share)} {of} in {rounded(plan.reports)} reports you need "
                f"epsilon_one_report = {one} (and epsilon_permanent at least that; here {permanent})."
            )
        case _:
            lines.append(
                f"{what.capitalize()} of {percent(plan.share)} {of} will be seen in {rounded(plan.reports)} reports "
                f"at epsilon {one} with probability {percent(plan.power)}."
            )
    lines.append(f"Standard error {percent(plan.std_error())}; seen from an estimate of {percent(plan.line)}.")
    lines.append(f"Noise: {channel_in_words(plan.noise)}; all reports of one answer: epsilon {permanent}.")
    if isinstance(plan.shape, String):
        lines += _string_words(plan, plan.shape)
    if slots is not None:
        lines += _slot_words(slots, plan)
    return lines


def _string_words(plan: Plan, shape: String) -> list[str]:
    lines = [
        f"Shape: num_bits = {shape.num_bits}, num_hashes = {shape.num_hashes}, num_cohorts = {shape.num_cohorts}"
        + (f", for {plan.strings:,} strings." if plan.strings else ".")
    ]
    rappor = rappor_at(float(plan.epsilon_one_report), float(plan.epsilon_permanent))
    ours = plan.std_error(0.0) ** 2 * plan.reports
    lines.append(
        f"RAPPOR at the same epsilons (2 hashes, p = 0.5, q = {rappor.prob_q:.3f}, f = {rappor.prob_f:.3f}) would need "
        f"{rappor.unit_variance / ours:.1f} times the reports."
    )
    return lines


def _slot_words(slots: Slots, plan: Plan) -> list[str]:
    permanent = plan.epsilon_permanent
    return [
        f"Values that change in {percent(slots.change_rate)} of epochs, over {slots.life} epochs: "
        f"max_values = {slots.max_values} (lifetime epsilon {show(slots.max_values * permanent)}, between histories "
        "that change together);",
        f"or hold = {slots.hold} with max_values = {slots.held_values} (lifetime epsilon "
        f"{show(slots.held_values * permanent)}, between any two histories; "
        f"{percent(slots.stale)} of reports are stale).",
    ]


def _no(plan: Plan, unknown: str) -> list[str]:
    goal = f"{percent(plan.share)} with power {percent(plan.power)}"
    what = {
        "installs": f"No number of installs shows {goal}.",
        "share": f"No: {rounded(plan.reports)} reports at epsilon {show(plan.epsilon_one_report)} show nothing.",
        "epsilon": f"No: no epsilon up to 16 shows {goal} in {rounded(plan.reports)} reports.",
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
    whom = "reports" if plan.consent == 1 else f"installs, of which {percent(plan.consent)} agree,"
    what = "a difference as a share of the range" if isinstance(plan.shape, Mean) else "an answer by its share"
    lines = [f"How many {whom} it takes to see {what} ({plan.shape.kind}, power {percent(plan.power)}):", ""]
    lines.append("share   " + "".join(f"{f'epsilon {float(epsilon):g}':>14}" for epsilon in epsilons))
    for share in shares:
        cells = (found[share, epsilon] for epsilon in epsilons)
        lines.append(f"{f'{100 * share:g} %':<8}" + "".join(f"{'-' if n == inf else rounded(n):>14}" for n in cells))
    return lines


def toml_of(plan: Plan, slots: Slots | None) -> str:
    """The planned metric, to be put into a metrics.toml."""
    most = plan.shape.num_masks
    keys = {
        Flag: "absent = false",
        Mean: "low = 0\nhigh = 1\nabsent = 0",
    }.get(type(plan.shape))
    match plan.shape:
        case Choice() as shape:
            keys = f"choices = {json.dumps(list(shape.choices))}"
        case String() as shape:
            keys = f"num_bits = {shape.num_bits}\nnum_hashes = {shape.num_hashes}\nnum_cohorts = {shape.num_cohorts}"
        case Histogram() as shape:
            edges = [int(edge) for edge in shape.edges]
            keys = f"edges = {edges}\nbuckets_per_report = {shape.buckets_per_report}"
        case Range() as shape:
            keys = f"low = 0\nhigh = 1\nnum_leaves = {shape.num_leaves}\nbranching = {shape.branching}"
    return "\n".join(
        [
            "[metrics.planned]",
            f'kind = "{plan.shape.kind}"',
            'why = "Say what will be decided with it"',
            'owner = "somebody@example.org"',
            "expires = 2030-01-01",
            'every = "week"',
            f"epsilon_one_report = {float(plan.epsilon_one_report):g}",
            f"epsilon_permanent = {float(plan.epsilon_permanent):g}",
            f"max_values = {min(most, slots.max_values) if slots else min(most, 2)}",
            keys or "",
        ]
    )


def percent(share: float) -> str:
    digits = max(0, 1 - int(log10(share * 100) // 1)) if share > 0 else 0
    return f"{share * 100:.{min(digits, 8)}f} %"


def rounded(number: float) -> str:
    for size, name in ((1e9, " billion"), (1e6, " M"), (1e4, ",000")):
        if number >= size:
            return f"{number / 1e3:,.0f}{name}" if name == ",000" else f"{number / size:.3g}{name}"
    return f"{number:,.0f}"
