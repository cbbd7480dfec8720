"""The privacy facts of a registry: as numbers (`facts`) and in words for the person whose data it is (`words`).

Every number is derived from the exact channels and rounded up. No epsilon is shown without saying of what.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, log2
from textwrap import wrap
from typing import Any

from hubbub.protocol.asked_parts import as_sentence, of_whom, room, says_sampled
from hubbub.protocol.cross_words import (
    facts_with_crosses,
    in_all_with_crosses,
    keeps_for_crosses,
    one_more_with_crosses,
)
from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.invalid import plural
from hubbub.protocol.linking import CROWD, found_again, num_groups
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.segments import OTHER, Declared, in_words, num_segments

PER = {"once": "once", "day": "every day", "week": "every week", "month": "every month"}
PERIOD = {"once": "month", "day": "day", "week": "week", "month": "month"}
WIDTH = 96


def facts(registry: Registry) -> dict[str, Any]:
    """The label as data. Epsilons are decimals rounded up, in text so that nothing rounds them again."""
    return {
        "app": registry.app,
        "fingerprint": registry.fingerprint,
        "recipient": {"name": registry.recipient.name, "url": registry.recipient.url},
        "lifetime_epsilon": show(registry.lifetime_epsilon, 6),
        "epsilon_lifetime": show(registry.epsilon_lifetime, 6),
        "epsilon_one_epoch": {every: show(registry.epsilon_one_epoch(every), 6) for every in registry.cadences},
        "segments": {key: [*values, OTHER] for key, values in registry.segments.items()},
        "groups": registry.num_groups,
        "identifying_bits": show_bits(registry.num_groups),
        "found_again_among_1000": round(found_again_in(registry), 2),
        "metrics": {m.name: {**_metric_facts(m, registry), **facts_with_crosses(m, registry)} for m in registry},
        "together": registry.pairs_by_name,
    }


def show_bits(groups: int) -> str:
    """How many bits of an install's identity it shows to be in one of `groups`, rounded up: of 2**bits installs,
    every one could have a group of its own."""
    return f"{ceil(log2(groups) * 100) / 100:.2f}"


def found_again_in(registry: Registry) -> float:
    """By its next message of the same cadence, at the worst."""
    repeated = [registry.with_cadence(every) for every in registry.cadences if every != "once"]
    return max((found_again(metrics, registry.num_groups) for metrics in repeated), default=0.0)


def _widest(metric: Definition) -> int:
    return max(metric.shape.width(cohort) for cohort in range(metric.shape.num_cohorts))


def _discoverable(metric: Metric, registry: Registry) -> str:
    return metric.shape.discoverable(metric.noise, registry.expected_installs, metric.expires)


def _metric_facts(metric: Metric, registry: Registry) -> dict[str, Any]:
    return {
        "kind": metric.kind,
        "answers": list(metric.shape.answers),
        **({"spare_places": metric.shape.spare} if metric.shape.spare else {}),
        **({"discoverable": _discoverable(metric, registry)} if metric.shape.discovers else {}),
        "every": metric.every,
        **({"sample": str(metric.sample)} if metric.sample < 1 else {}),
        "accumulate": metric.accumulate,
        "why": metric.why,
        "owner": metric.owner,
        "expires": metric.expires.isoformat(),
        "bits_per_report": _widest(metric),
        "epsilon_one_report": show(metric.epsilon_one_report, 6),
        "epsilon_after_7_reports": show(metric.epsilon_after(7), 6),
        "epsilon_permanent": show(metric.epsilon_permanent, 6),
        "max_values": metric.max_values,
        "epsilon_same_answer": show(metric.epsilon_same_answer, 6),
        "epsilon_one_more": None if metric.epsilon_one_more is None else show(metric.epsilon_one_more, 6),
        "answers_a_part": metric.shape.asks_part,
        "epsilon_lifetime": show(metric.epsilon_lifetime, 6),
        "lifetime_bound_holds_for": "any two histories" if metric.whole_history else "histories that change together",
        "reports_kept": metric.keep_reports,
        "retention": metric.retention,
    }


def words(registry: Registry, before: Fraction = Fraction(0)) -> str:
    """The label for a person who knows nothing of differential privacy. `before` is the epsilon that questions of
    earlier releases, which this one no longer asks, have set aside on this very install."""
    lines = [f"Privacy label of {registry.app}", "", *_paragraph(_WHAT_THIS_IS), "", *_paragraph(_how_to_read())]
    lines += ["", *_paragraph(_to_whom(registry)), "", "WHAT IS ASKED"]
    for metric in registry:
        lines += ["", *_metric_words(metric, registry)]
    lines += ["", "HOW MUCH IT ALL TELLS", ""]
    for sentence in _bounds(registry, before):
        lines += _paragraph(sentence, bullet="* ")
    lines += ["", "WHAT IS NOT PROTECTED", ""]
    for sentence in _unprotected(registry):
        lines += _paragraph(sentence, bullet="* ")
    return "\n".join(lines)


def short(registry: Registry) -> str:
    """A text to ask for consent with, in a few lines: what, to whom, how sure anybody can get, how to take it back."""
    names = ", ".join(metric.name.replace("_", " ") for metric in registry)
    most = max(registry, key=registry.epsilon_same_answer)
    all_messages, of_what = "All messages about one answer", "it"
    if most.hold is not None:
        all_messages, of_what = "All messages together, whatever you change and when,", "your answers"
    plain = f" It also says, as it is: {', '.join(registry.segments)}." if registry.segments else ""
    sentences = (
        f"{registry.app} would like to send statistics to {registry.recipient}: {names}.",
        "Random noise is added on this device, so that no message shows your real answer; only totals over many people "
        f"can be read.{plain} {all_messages} can make somebody up to "
        f"{certainty(registry.epsilon_same_answer(most))} sure of {of_what} ({most.name.replace('_', ' ')}).",
        f"You can look, or change your mind, at any time: hubbub preview, off or forget --app {registry.app}. More: "
        f"{registry.recipient.url}/privacy",
    )
    return "\n".join("\n".join(wrap(sentence, WIDTH)) for sentence in sentences)


_WHAT_THIS_IS = (
    "This app counts how it is used without learning what you do. Random noise is added on your device, so no message "
    "shows your real answer: whatever it says, you may have answered otherwise. Only over many people does the noise "
    "cancel out, and the counts become visible."
)


def _how_to_read() -> str:
    one, two, five = (certainty(Fraction(epsilon)) for epsilon in (1, 2, 5))
    return (
        f'How to read "{one} sure": if someone thinks two answers equally likely, 50 % each, then the messages can '
        "raise their confidence in one of the two to at most this. Epsilon is the experts' number for the same: 0 "
        f"tells nothing, 1 is {one} sure, 2 is {two}, 5 is {five}. Epsilons of several messages add up."
    )


def _to_whom(registry: Registry) -> str:
    return (
        f"Messages go to {registry.recipient}, and nowhere else. If what is asked, why, by whom, or who receives it "
        f"changes, you are asked again. Fingerprint of these questions: {in_fours(registry.fingerprint)}"
    )


def in_fours(fingerprint: str) -> str:
    """As people compare it."""
    return " ".join(fingerprint[i : i + 4] for i in range(0, len(fingerprint), 4))


def _metric_words(metric: Metric, registry: Registry) -> list[str]:
    answers, meanwhile = metric.shape.answers_in_words(), _meanwhile(metric, registry)
    return [
        f"  {metric.name}: {metric.shape.question()}, {how_often(metric)}",
        *(_row("answers", f"{answers}.") if answers else ()),
        *(_row("room", room(metric.shape.spare)) if metric.shape.spare else ()),
        *(_row("found", found) if (found := _discoverable(metric, registry)) else ()),
        *_row("why", as_sentence(metric.why)),
        *_row("who", f"{metric.owner}, until {metric.expires}."),
        *(_row("of whom", of_whom(metric)) if metric.sample < 1 else ()),
        *(_row("meanwhile", meanwhile) if meanwhile else ()),
        *_row("sent", _sent(metric)),
        *_row("tells", _tells(metric)),
        *(_row("but", _BUT) if metric.hold is not None and metric.max_values > 1 else ()),
        *_row("for life", _for_life(metric)),
        *(_row("together", with_crosses) if (with_crosses := in_all_with_crosses(metric, registry)) else ()),
        *(_row("a change", _change(metric, registry)) if not metric.whole_history else ()),
        *_row("kept", f"{'Every single message' if metric.keep_reports else 'Only counts'}, for {span(metric)}."),
        *(_row("in pairs", _in_pairs(others)) if (others := registry.counted_with(metric.name)) else ()),
    ]


def _in_pairs(others: list[str]) -> str:
    return f"Also counts of pairs: how often which answers come together with those to {', '.join(others)}."


def how_often(metric: Definition) -> str:
    """How often it is asked, in words."""
    history = metric.turns
    if history is None:
        return PER[metric.every]
    times = "once" if history.answers == 1 else f"{_in_letters(history.answers)} times"
    return f"once in {_periods(metric, history.hold)}, {times} in all" if history.hold > 1 else f"{times} in all"


def _in_letters(number: int) -> str:
    small = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return small[number] if number < len(small) else str(number)


def _periods(metric: Definition, number: int) -> str:
    return f"one {PERIOD[metric.every]}" if number == 1 else plural(number, PERIOD[metric.every])


def _sent(metric: Definition) -> str:
    q, p = _of_100(metric.noise.q_star), _of_100(metric.noise.p_star)
    if metric.one_hot:
        width, others = metric.shape.width(0), metric.noise.p_star * (metric.shape.width(0) - 1)
        return (
            f"One {metric.shape.one_of_what} out of {width}. In {q} of 100 messages it is the true one; in "
            f"{_of_100(others)} chance picks another, any of them equally often."
        )
    if metric.weight is not None:
        return (
            f"{metric.weight} answers out of {metric.shape.width(0)}. In {q} of 100 messages the true one is among "
            f"them; any other answer is in {p} of 100."
        )
    return metric.shape.sent(q, p)


_ACCUMULATED = {
    "last": "the last thing recorded",
    "sum": "the sum of all that is recorded",
    "max": "the largest number recorded",
    "any": "whether anything recorded was yes",
}


def _meanwhile(metric: Metric, registry: Registry) -> str:
    """What the device keeps in plain until the epoch is over; nothing of most metrics."""
    period = PERIOD[metric.every]
    if metric.accumulate == "first":
        return keeps_for_crosses(metric, registry, period)
    what = metric.shape.gathered_in_words or _ACCUMULATED[metric.accumulate]
    return (
        f"The answer is {what} in a {period}. Your device keeps it as it is, without noise, "
        f"in the app's files until the app next runs after that {period}; then it is deleted there."
    )


def _tells(metric: Definition) -> str:
    one, forever = metric.epsilon_one_report, metric.epsilon_permanent
    if metric.every == "once":
        return f"At most {certainty(one)} sure: epsilon {show(one)}."
    if metric.hold is not None:
        return (
            "From everything your device ever says, whatever you changed and when, nobody can be more than "
            f"{certainty(forever)} sure (epsilon {show(forever)}). One message alone: {certainty(one)} (epsilon "
            f"{show(one)})."
        )
    return (
        f"After one message at most {certainty(one)} sure (epsilon {show(one)}). After all messages about one kept "
        f"answer, however many, at most {certainty(forever)} sure (epsilon {show(forever)})."
    )


_BUT = "There is no smaller promise for a single answer if all the others are known."


def _change(metric: Metric, registry: Registry) -> str:
    part = (
        "Your device answers one randomly chosen part of this question; an observer can notice when that part of your "
        "answer changes. "
    )
    more = one_more_with_crosses(metric, registry)
    return (part if metric.shape.asks_part else "") + (
        f"After a year of messages, one more can make an observer up to {certainty(more)} sure that your answer has "
        "just changed."
    )


def words_of(metric: Definition) -> dict[str, str]:
    """What can be said of a metric by its definition alone, which is what a tally carries: no purpose, no budget."""
    return {"asked": f"{metric.shape.question()}, {how_often(metric)}", "sent": _sent(metric), "tells": _tells(metric)}


def unprotected_of(metric: Definition) -> list[str]:
    """What its definition does not hide; `max_values` is none of it, so a change is said to be visible unless there is
    `hold`."""
    sentences = list(_ALWAYS_SEEN)
    groups = num_groups([metric.shape.num_cohorts])
    if groups > 1:
        sentences.append(_says_group(groups))
    if metric.segment:
        sentences.append(f"Every message says as it is: {in_words(metric.segment)}.")
    if resembles_itself(metric):
        sentences.append(_says_resemblance([metric.name], found_again([metric], groups)))
    if metric.hold is not None:
        sentences.append(_says_age([metric.name]))
    elif metric.every != "once":
        sentences.append(_says_change([metric.name]))
    return [*sentences, _FILES_ARE_READ]


def _for_life(metric: Metric) -> str:
    lifetime = f"at most {certainty(metric.epsilon_lifetime)} sure (epsilon {show(metric.epsilon_lifetime)})"
    if metric.every == "once":
        return "It is asked once in the life of an install, so that is all."
    history = metric.noise.history
    if history is not None:
        where = f", in {PERIOD[metric.every]}s your device picks at random" if history.hold > 1 else ""
        whole = _periods(metric, history.hold * history.answers)
        return (
            f"You are asked {how_often(metric)}{where}. When it falls silent, one can see that it has been there for "
            f"about {whole}."
        )
    if metric.max_values == 1:
        return f"Your first answer is repeated for ever, whatever you change. All together: {lifetime}."
    if metric.keeps_by_bit:
        return (
            "For each item at most two answers are ever given: one while it is used, one while it is not. All "
            f"together: {lifetime} about what you answered. That an item's answer changed, and when, can be seen."
        )
    return (
        f"At most {metric.max_values} different answers are ever given; then old ones are repeated. All together: "
        f"{lifetime} about what you answered. That your answer changed, and when, can be seen."
    )


def _bounds(registry: Registry, before: Fraction) -> list[str]:
    sentences = []
    for every in registry.cadences:
        names = [metric.name for metric in registry.with_cadence(every)]
        sentences.append(
            f"{'The message sent once' if every == 'once' else f'One message per {PERIOD[every]}'} carries "
            f"{'one answer' if len(names) == 1 else f'{len(names)} answers'} ({', '.join(names)}): at most "
            f"{certainty(registry.epsilon_one_epoch(every))} sure which of two sets of answers is yours (epsilon "
            f"{show(registry.epsilon_one_epoch(every))})."
        )
    if registry.together:
        sentences.append(_says_pairs(registry.pairs_by_name.values()))
    total, limit = registry.epsilon_lifetime, registry.lifetime_epsilon
    everything = min(total + before, max(limit, before))
    return [
        *sentences,
        f"Everything these questions ever send, over all years: at most {certainty(total)} sure which of two whole "
        f"lives of answers is yours (epsilon {show(total)}). The device enforces a limit of {show(limit)} "
        f"({certainty(limit)} sure), which is never renewed.",
        *(
            [
                f"Earlier releases asked other questions on this device. With them, everything comes to at most "
                f"{certainty(everything)} sure (epsilon {show(everything)})."
            ]
            if before
            else []
        ),
        "Several devices of one person add up.",
    ]


def _says_pairs(pairs: Iterable[list[str]]) -> str:
    each = "; ".join(" with ".join(pair) for pair in pairs)
    return (
        f"Also counts of pairs are made ({each}): for each message, which answers came together. Nothing more is sent "
        "for that, and what one message tells is what is said above."
    )


def _unprotected(registry: Registry) -> list[str]:
    sentences = list(_ALWAYS_SEEN)
    groups = num_groups(registry.cohorts)
    if registry.segments:
        sentences.append(_says_segments(registry.segments))
    if groups > 1:
        sentences.append(_says_group(groups))
    if registry.segments and groups > 1:
        sentences.append(f"Both together make {registry.num_groups:,} groups ({show_bits(registry.num_groups)} bits).")
    sampled = [metric for metric in registry if metric.sample < 1]
    if sampled:
        sentences.append(says_sampled(sampled, show_bits(registry.num_samples)))
    alike = [metric.name for metric in registry if resembles_itself(metric)]
    if alike:
        sentences.append(_says_resemblance(alike, found_again_in(registry)))
    changing = [m.name for m in registry if not m.whole_history]
    if changing:
        sentences.append(_says_change(changing))
    silent = [m.name for m in registry if m.hold is not None]
    if silent:
        sentences.append(_says_age(silent))
    return [*sentences, _FILES_ARE_READ]


_ALWAYS_SEEN = (
    "That the app ran on some device in a given period is visible to the collector. What you did with it is not: "
    "an unused feature sends an answer too.",
    "Your network address is seen by every server you talk to, this one too. It is neither stored nor counted, but "
    "that is the operator's promise, not mathematics.",
)

_FILES_ARE_READ = (
    "Whoever can read this app's files on your device can test guesses about your answers. They are readable by "
    "your user account only."
)


def _says_segments(segments: Declared) -> str:
    each = "; ".join(f"{key}: {', '.join(values)} or {OTHER}" for key, values in segments.items())
    return (
        f"Every message says as it is, without noise, what the app was built for and runs on ({each}): "
        f"{show_bits(num_segments(segments))} bits that help to tell installs apart. None of it is an answer of yours."
    )


def _says_group(groups: int) -> str:
    return (
        f"Each install belongs to one of {groups:,} groups, chosen at random, and its messages show which "
        f"({show_bits(groups)} bits). That helps to tell which messages come from one install, though not from whom."
    )


def resembles_itself(metric: Definition) -> bool:
    """Whether kept noise of many bits links its messages."""
    return metric.every != "once" and metric.hold is None and not metric.one_hot and _widest(metric) > 8


def _says_resemblance(names: list[str], found: float) -> str:
    return (
        f"Where chance is drawn once and kept for many bits ({', '.join(names)}), the messages of one install "
        "resemble each other. By that and its group, the next message of an install is picked out of those of "
        f"{CROWD:,} installs with the same answers about {round(100 * found)} times in 100."
    )


def _says_change(names: list[str]) -> str:
    return f"That an answer changed, and when, can become visible over time ({', '.join(names)})."


def _says_age(names: list[str]) -> str:
    return (
        f"How long the app has been on a device can become visible: some questions fall silent after their last answer "
        f"({', '.join(names)})."
    )


def _of_100(probability: Fraction) -> str:
    whole = round(100 * probability)
    return "fewer than 1" if whole == 0 else "more than 99" if whole == 100 else str(whole)


def span(metric: Metric) -> str:
    number, unit = metric.retention[:-1], {"d": "day", "w": "week", "m": "month", "y": "year"}[metric.retention[-1]]
    return plural(number, unit)


def _row(key: str, text: str) -> list[str]:
    return _paragraph(text, bullet=f"  {key:<10}")


def _paragraph(text: str, bullet: str = "") -> list[str]:
    return wrap(text, WIDTH, initial_indent="  " + bullet, subsequent_indent="  " + " " * len(bullet))
