"""The privacy facts of a registry: as numbers (`facts`) and in words for the person whose data it is (`words`).

Every number is derived from the exact channels and rounded up. No epsilon is shown without saying of what.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, lcm, log2
from textwrap import wrap
from typing import Any

from hubbub.protocol.channel import BitChannel
from hubbub.protocol.epoch import CADENCES
from hubbub.protocol.epsilon import show
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import Choice, Flag, Histogram, Mean, Range, String

_PER = {"once": "once", "day": "every day", "week": "every week", "month": "every month"}
_PERIOD = {"once": "month", "day": "day", "week": "week", "month": "month"}
WIDTH = 96


def facts(registry: Registry) -> dict[str, Any]:
    """The label as data. Epsilons are decimals rounded up, in text so that nothing rounds them again."""
    return {
        "app": registry.app,
        "lifetime_epsilon": show(registry.lifetime_epsilon, 6),
        "epsilon_lifetime": show(registry.epsilon_lifetime, 6),
        "epsilon_one_epoch": {every: show(registry.epsilon_one_epoch(every), 6) for every in registry.cadences},
        "cohort_bits": round(cohort_bits(registry), 2),
        "metrics": {metric.name: _metric_facts(metric) for metric in registry},
    }


def cohort_bits(registry: Registry) -> float:
    """How many bits of an install's identity its cohorts show: one number, seen modulo every num_cohorts."""
    return log2(lcm(*(metric.shape.num_cohorts for metric in registry)))


def _metric_facts(metric: Metric) -> dict[str, Any]:
    return {
        "kind": metric.kind,
        "every": metric.every,
        "why": metric.why,
        "owner": metric.owner,
        "expires": metric.expires.isoformat(),
        "bits_per_report": max(metric.shape.width(c) for c in range(metric.shape.num_cohorts)),
        "epsilon_one_report": show(metric.epsilon_one_report, 6),
        "epsilon_after_7_reports": show(metric.epsilon_after(7), 6),
        "epsilon_permanent": show(metric.epsilon_permanent, 6),
        "max_values": metric.max_values,
        "epsilon_lifetime": show(metric.epsilon_lifetime, 6),
        "lifetime_bound_holds_for": "any two histories" if metric.whole_history else "histories that change together",
        "reports_kept": metric.keep_reports,
        "retention": metric.retention,
    }


def words(registry: Registry) -> str:
    """The label for a person who knows nothing of differential privacy."""
    lines = [
        f"Privacy label of {registry.app}",
        "",
        *_paragraph(
            "This app counts how it is used without learning what you do. Before anything leaves your device, the "
            "answer is mixed with chance, so that no message is proof of anything: whatever it says, you may have "
            "answered otherwise. Only over many people does chance cancel out and the counts become visible."
        ),
        "",
        "WHAT IS ASKED",
    ]
    for metric in registry:
        lines += ["", *_metric_words(metric)]
    lines += ["", "HOW MUCH CAN BE LEARNT", "", *_bounds(registry)]
    lines += ["", "WHAT IS NOT PROTECTED", ""]
    for sentence in _unprotected(registry):
        lines += _paragraph(sentence, bullet="* ")
    return "\n".join(lines)


def _metric_words(metric: Metric) -> list[str]:
    return [
        f"  {metric.name}: {question(metric)}, {_PER[metric.every]}",
        *_paragraph(f"Why: {metric.why}. Asked until {metric.expires} by {metric.owner}.", indent=4),
        *_paragraph(_leaves(metric), indent=4),
        *_paragraph(_chance(metric), indent=4),
        *_paragraph(_odds(metric), indent=4),
    ]


def question(metric: Metric) -> str:
    """What the metric asks, in a few words."""
    match metric.shape:
        case Flag():
            return "yes or no"
        case Choice(choices=choices):
            shown = ", ".join(choices[:6]) + (", ..." if len(choices) > 6 else "")
            return f"one of {len(choices)} choices ({shown})"
        case String():
            return "a text, which is never sent but only a scrambled trace of it"
        case Mean(low=low, high=high, unit=unit):
            return f"a number from {_number(low)} to {_number(high)}{_unit(unit)}, for its average"
        case Histogram(edges=edges, unit=unit):
            return f"a number from {_number(edges[0])} to {_number(edges[-1])}{_unit(unit)}, by range"
        case Range(low=low, high=high, unit=unit):
            return f"a number from {_number(low)} to {_number(high)}{_unit(unit)}, for its distribution"


def _leaves(metric: Metric) -> str:
    widths = sorted({metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts)})
    bits = f"{widths[0]} bit{'s' * (widths[0] > 1)}" if len(widths) == 1 else f"{widths[0]} to {widths[-1]} bits"
    kept = "each report is kept" if metric.keep_reports else "reports are counted and then thrown away"
    return f"What leaves the device: {bits} mixed with chance. The collector: {kept}; counts stay {_span(metric)}."


def _chance(metric: Metric) -> str:
    noise = metric.noise
    q, p = round(100 * float(noise.q_star)), round(100 * float(noise.p_star))
    if metric.kind == "flag":
        return f"The chance: of 100 who would say yes, {q} reports say yes; of 100 who would say no, {p} say yes too."
    if isinstance(noise.permanent, BitChannel):
        return f"The chance: a bit that should be 1 is sent as 1 in {q} of 100 reports; one that should be 0, in {p}."
    return f"The chance: {q} of 100 reports name the true answer; each other answer is named by {p} of 100."


def _odds(metric: Metric) -> str:
    one, forever, lifetime = metric.epsilon_one_report, metric.epsilon_permanent, metric.epsilon_lifetime
    text = (
        "How much it tells: one report can shift the odds between any two guesses about your answer at most "
        f"{_times(one)}-fold (epsilon {show(one)}); all reports of one answer together, however many, "
        f"{_times(forever)}-fold (epsilon {show(forever)})."
    )
    if metric.every == "once":
        return text
    if metric.hold is not None:
        period = _PERIOD[metric.every]
        return text + (
            f" An answer is kept for {metric.hold} {period}s whatever you change, and after {metric.max_values} "
            f"answers old ones are repeated: over a lifetime epsilon {show(lifetime)}, whatever you did and when."
        )
    if metric.max_values == 1:
        return text + " There is one answer for life: the first one is repeated for ever."
    return text + (
        f" After {metric.max_values} different answers old ones are repeated: over a lifetime epsilon {show(lifetime)} "
        "about what you answered; that your answer changed, and when, can be seen."
    )


def _bounds(registry: Registry) -> list[str]:
    lines = []
    for every in (every for every in CADENCES if registry.with_cadence(every)):
        metrics = registry.with_cadence(every)
        when = "One message" if every == "once" else f"One message per {_PERIOD[every]}"
        lines += _paragraph(
            f"{when} carries {len(metrics)} answer{'s' * (len(metrics) > 1)} ({', '.join(m.name for m in metrics)}). "
            f"Read together they tell at most epsilon {show(registry.epsilon_one_epoch(every))}."
        )
    lines += _paragraph(
        f"Everything ever sent, over all metrics and years: at most epsilon {show(registry.epsilon_lifetime)}. "
        f"The device enforces a limit of {show(registry.lifetime_epsilon)} that is never renewed. "
        "Several devices of one person add up."
    )
    return lines


def _unprotected(registry: Registry) -> list[str]:
    bits = cohort_bits(registry)
    sentences = [
        "That the app ran on some device in a given period is visible to the collector. What you did with it is not: "
        "an unused feature sends an answer too.",
        "Your network address is seen by every server you talk to, this one too. It is neither stored nor counted, but "
        "that is the operator's promise, not mathematics.",
    ]
    if bits:
        sentences.append(
            f"Each install belongs to one of {2**bits:.0f} groups (cohorts) and says so in each message: "
            f"{bits:.1f} bits that help to link the messages of one install."
        )
    wide = [m.name for m in registry if m.every != "once" and max(map(m.shape.width, range(m.shape.num_cohorts))) > 8]
    if wide:
        sentences.append(
            f"Messages of one install resemble each other, because chance is drawn once and kept ({', '.join(wide)}): "
            "a few of them may suffice to tell that they come from one install, though not from whom."
        )
    changing = [m.name for m in registry if not m.whole_history and m.max_values > 1]
    if changing:
        sentences.append(f"That an answer changed, and when, can become visible over time ({', '.join(changing)}).")
    sentences.append(
        "Whoever can read this app's files on your device can test guesses about your answers. They are readable by "
        "your user account only."
    )
    return sentences


def _times(epsilon: Fraction) -> str:
    odds = exp(float(epsilon))
    return f"{ceil(10 * odds) / 10:.1f}" if odds < 10 else f"{ceil(odds):,}"


def _span(metric: Metric) -> str:
    number, unit = metric.retention[:-1], {"d": "day", "w": "week", "m": "month", "y": "year"}[metric.retention[-1]]
    return f"{number} {unit}{'s' * (number != '1')}"


def _number(value: Fraction) -> str:
    return f"{float(value):g}"


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _paragraph(text: str, indent: int = 2, bullet: str = "") -> list[str]:
    first = " " * indent + bullet
    return wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
