"""What a decoding says, in a sentence an analyst can repeat: detected or not, how much, how sure, what changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.comparison import compare
from hubbub.analysis.render.digits import Digits
from hubbub.analysis.result import ABSENT, ANSWER, NUMBER, OTHER, Decoding, Role
from hubbub.dashboard.row_choice import card_rows, leading_answer
from hubbub.protocol.invalid import Invalid, plural
from hubbub.protocol.printed import plain_percent

_BUCKET = re.compile(r"\[([^,\[\]]+), ([^,\[\]]+)[\])]")
_QUANTILES = {"0.5": "50 % under", "0.25": "25 % under", "0.75": "75 % under"}
LEVEL = 0.05
"""Of all changes on a page together."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a list: what, and how much or how."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure and its unit, what it is, and the whole in a sentence. `found` is false where noise is all there is;
    then the figure is words. `row` is the row that leads."""

    figure: str
    unit: str
    caption: str
    sentence: str
    found: bool = True
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What changed since the period before, as a card says it. `sign` is empty where nothing significant did."""

    words: str
    sign: str = ""
    value: str = ""
    """The value that changed, where there are several."""
    moved: str = ""
    """The same for a sentence of its own: `Up 0.20 s to 1.94 s`."""
    interval: str = ""
    row: tuple[str, Role] | None = None
    """Which row of the decoding it is that changed most surely."""


def row_digits(decoding: Decoding, i: int) -> Digits:
    """Those of a row by itself."""
    is_number = decoding.roles[i] == NUMBER
    low, high = float(decoding.low[i]), float(decoding.high[i])
    ends = (low, high) if is_number else (max(low, 0.0), min(high, 1.0))
    return Digits.of([ends], unit=decoding.unit if is_number else "", is_share=not is_number)


def headline(decoding: Decoding, digits: Digits | None = None) -> Headline:
    """`digits` are those of the table beside it, whose figures it repeats."""
    if not decoding.num_reports:
        return Headline("No reports", "", "nothing has been counted", "Nothing has been counted yet.", False)
    if decoding.distribution is not None:
        return _of_distribution(decoding, digits)
    if not decoding.has_shares:
        return _of_number(decoding, digits)
    return _of_yes(decoding, digits) if decoding.has_one_answer else _of_shares(decoding, digits)


def _hidden(decoding: Decoding) -> str:
    return f"up to {limit_in_words(decoding)} would be hidden by noise"


def limit_in_words(decoding: Decoding) -> str:
    """The detection limit, with two digits that say something."""
    limit = float(decoding.noise_floor)
    if not np.isfinite(limit):
        return "an unknown share"
    places = 1 if limit >= 0.01 else 2 if limit >= 0.001 else 4
    return Digits(places, is_share=True).value(limit)


def _of_yes(decoding: Decoding, digits: Digits | None) -> Headline:
    if not decoding.detected[0]:
        hidden = _hidden(decoding)
        return Headline("No use detected", "", hidden, f"No use detected; {hidden}.", False, 0)
    digits = digits or row_digits(decoding, 0)
    share, interval = digits.value(decoding.estimate[0]), digits.interval(decoding.low[0], decoding.high[0])
    whom = "of those who answered say yes" if decoding.of == "answered" else "of installs say yes"
    sentence = f"{share} {whom} ({interval})."
    return Headline(digits.figure(decoding.estimate[0]), "%", f"yes, {interval}", sentence, row=0)


def _of_shares(decoding: Decoding, digits: Digits | None) -> Headline:
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER]
    if not answers and decoding.tested_besides:
        words = "Nothing was found that enough installs share."
        return Headline("Nothing detected", "", "searched without a list", words, False)
    if not answers:
        words = "There are no candidates to look for: strings can only be found among those listed."
        return Headline("No list yet", "", "nothing to look for", words, False)
    detected = decoding.detected
    found = [i for i in answers if detected[i]]
    what = "candidate" if decoding.is_open else "bucket" if decoding.natural_order else "answer"
    if not found:
        hidden = _hidden(decoding)
        words = f"None of {several(len(answers), what)} detected; {hidden}."
        return Headline("Nothing detected", "", hidden, words, False)
    largest = leading_answer(decoding, found)
    digits = digits or row_digits(decoding, largest)
    share, value = digits.value(decoding.estimate[largest]), value_label(decoding, largest)
    interval = digits.interval(decoding.low[largest], decoding.high[largest])
    unseen = len(answers) - len(found)
    below = "value is" if unseen == 1 else "values are"
    rest = f" {unseen:,} {below} below the detection limit ({limit_in_words(decoding)})." if unseen else ""
    how_many = f"{len(found):,} of {several(len(answers), what)} detected"
    if decoding.tested_besides and not unseen:  # searched for, without a list
        how_many = f"{several(len(found), 'text')} found"
        if np.isfinite(decoding.noise_floor):
            rest = f" Texts below {limit_in_words(decoding)} stay hidden."
    sentence = (
        f"{value} leads with {share} of {'those who answered' if decoding.of == 'answered' else 'installs'} "
        f"({interval}). {how_many}.{rest}"
    )
    return Headline(digits.figure(decoding.estimate[largest]), "%", f"{value}, {interval}", sentence, row=largest)


def _of_number(decoding: Decoding, digits: Digits | None) -> Headline:
    if not np.isfinite(decoding.estimate[0]):
        words = "The mean cannot be estimated from these reports."
        return Headline("Unknown", "", "too few reports", words, False, 0)
    digits = digits or row_digits(decoding, 0)
    interval = digits.interval(decoding.low[0], decoding.high[0])
    answered = ABSENT in decoding.roles or decoding.of == "answered"
    whom = " of those who answered" if answered else ""
    words = f"The mean{whom} is {digits.value(decoding.estimate[0])} ({interval})."
    return Headline(digits.figure(decoding.estimate[0]), decoding.unit, f"mean, {interval}", words, row=0)


def _of_distribution(decoding: Decoding, digits: Digits | None) -> Headline:
    middle, ninth = (decoding.values.index(f"quantile {share}") for share in ("0.5", "0.9"))
    if not np.isfinite(decoding.std_error[middle]):
        words = "The distribution cannot be estimated from these reports."
        return Headline("Unknown", "", "too few reports", words, False, middle)
    own, tail = digits or row_digits(decoding, middle), digits or row_digits(decoding, ninth)
    half, interval = own.value(decoding.estimate[middle]), own.interval(decoding.low[middle], decoding.high[middle])
    words = (
        f"Half of the answers lie under {half} ({interval}), nine in ten under {tail.value(decoding.estimate[ninth])} "
        f"({tail.interval(decoding.low[ninth], decoding.high[ninth])})."
    )
    return Headline(own.figure(decoding.estimate[middle]), decoding.unit, f"median, {interval}", words, row=middle)


def change(before: Decoding | None, after: Decoding | None, since: str, metrics: int = 1) -> Change | None:
    """What changed most surely, if that is significant after correction for every row tested and for so many metrics
    on the page: the level is shared out evenly over metrics, and over the rows of each. None: nothing to compare."""
    if before is None or after is None:
        return None
    try:
        found = compare(before, after)
    except Invalid:
        return None
    tested = _tested(after)
    rows = [i for i, key in enumerate(zip(found.values, found.roles, strict=True)) if key in tested]
    rows = [i for i in rows if np.isfinite(found.p_value[i])]
    if not rows:
        return None
    surest = min(rows, key=lambda i: float(found.p_value[i]))
    if not found.p_value[surest] * len(rows) * metrics <= LEVEL:
        return Change(f"No significant change {since}")
    row = after.index(found.values[surest], found.roles[surest])
    is_number = found.roles[surest] == NUMBER
    digits = Digits.of(
        [(float(found.low[surest]), float(found.high[surest]))],
        unit=after.unit if is_number else "",
        is_share=not is_number,
    )
    by = digits.difference(found.difference[surest])
    way, sign = ("up", "▲") if found.difference[surest] > 0 else ("down", "▼")
    alone = len(tested) == 1
    value = "" if alone else value_label(after, row)
    words = f"{way.capitalize()} {by} {since}" if alone else f"{value}: {way} {by} {since}"
    to = row_digits(after, row).value(after.estimate[row])
    interval = digits.signed(float(found.low[surest]), float(found.high[surest]))
    key = found.values[surest], found.roles[surest]
    return Change(words, sign, value, f"{way.capitalize()} {by} to {to}", interval, key)


def _tested(decoding: Decoding) -> set[tuple[str, str]]:
    """The rows whose change a page describes: a mean, the quantiles of a card, or all answers."""
    if NUMBER in decoding.roles:
        return {(decoding.values[i], decoding.roles[i]) for i in card_rows(decoding)}
    return {key for key in zip(decoding.values, decoding.roles, strict=True) if key[1] == ANSWER}


def value_label(decoding: Decoding, i: int) -> str:
    """The value of a row as people say it: buckets with their unit, quantiles as shares, rows of ours in words."""
    value, role = decoding.values[i], decoding.roles[i]
    if role == ABSENT:
        return "no answer"
    if role == OTHER:
        return "any other text" if decoding.tested_besides else "not in the list"
    if role == NUMBER:
        name = value.removeprefix("quantile ")
        return value if name == value else _QUANTILES.get(name, f"{plain_percent(float(name))} under")
    if decoding.natural_order and (match := _BUCKET.fullmatch(value)):
        return f"{match[1]} to {match[2]}{f' {decoding.unit}' if decoding.unit else ''}"
    if decoding.made_of_others:
        return " · ".join("no answer" if part == "absent" else part for part in value.split(" · "))
    return value or "“”"


def several(count: int, what: str) -> str:
    """So many of something: "1 report", "2,000 reports"."""
    return plural(count, what, ",")


def withheld_in_words(num_reports: int, min_reports: int) -> str:
    """Why there are reports that the page does not show."""
    if not num_reports:
        return ""
    return (
        f"{several(num_reports, 'report')} withheld: the collector shows new reports of a day, week or month only when "
        f"there are at least {min_reports} of them. This is a courtesy; what protects people is the noise."
    )
