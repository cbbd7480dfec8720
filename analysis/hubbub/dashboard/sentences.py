"""What a decoding says, in a sentence an analyst can repeat: detected or not, how much, how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.text import number, percent, verdict
from hubbub.analysis.result import ANSWER, NUMBER, Decoding
from hubbub.dashboard.row_choice import leading_answer

PERIODS = {"once": "month", "day": "day", "week": "week", "month": "month"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of a list: what, and how much or how."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Headline:
    """One figure, what it is, and the whole in a sentence. `certain` is false where noise is all there is."""

    figure: str
    caption: str
    sentence: str
    certain: bool = True


def headline(decoding: Decoding) -> Headline:
    if not decoding.num_reports:
        return Headline("No reports", "nothing has been counted", "Nothing has been counted yet.", False)
    if decoding.distribution is not None:
        return _of_distribution(decoding)
    if not decoding.has_shares:
        return _of_number(decoding)
    return _of_yes(decoding) if decoding.has_one_answer else _of_shares(decoding)


def _of_yes(decoding: Decoding) -> Headline:
    share, interval = percent(decoding.estimate[0]), interval_of(decoding, 0)
    if decoding.detected[0]:
        return Headline(share, f"yes, {interval}", f"{share} say yes, {interval}: surely more than nobody.")
    floor = percent(decoding.noise_floor)
    return Headline(
        "Not detected",
        f"yes is under the noise floor of {floor}",
        f"Whether anybody says yes cannot be told from noise: the estimate is {share}, and under {floor} it may be "
        "nothing.",
        False,
    )


def _of_shares(decoding: Decoding) -> Headline:
    answers = [i for i, role in enumerate(decoding.roles) if role == ANSWER]
    what = "candidate" if decoding.is_open else "bucket" if decoding.natural_order else "answer"
    if not answers:
        return Headline(
            "No candidates",
            "nothing to look for yet",
            "There are no candidates to look for: strings can only be found among those listed.",
            False,
        )
    detected = decoding.detected
    found = [i for i in answers if detected[i]]
    floor = percent(decoding.noise_floor)
    if not found:
        return Headline(
            "None detected",
            f"of {several(len(answers), what)}; noise floor {floor}",
            f"None of the {several(len(answers), what)} can be told from noise: with these reports it takes a share "
            f"of about {floor}.",
            False,
        )
    largest = leading_answer(decoding, found)
    share, value = percent(decoding.estimate[largest]), decoding.values[largest]
    unseen = len(answers) - len(found)
    rest = f" The other {unseen:,} may be nothing, or less than about {floor} each." if unseen else ""
    verb = "is" if len(found) == 1 else "are"
    return Headline(
        share,
        f"{value}, {interval_of(decoding, largest)}",
        f"{len(found):,} of {several(len(answers), what)} {verb} detected. The largest is {value} with {share}, "
        f"{interval_of(decoding, largest)}.{rest}",
    )


def _of_number(decoding: Decoding) -> Headline:
    mean, interval = with_unit(decoding, f"{decoding.estimate[0]:,.3g}"), interval_of(decoding, 0)
    return Headline(mean, f"mean, {interval}", f"The mean is {mean}, {interval}.")


def _of_distribution(decoding: Decoding) -> Headline:
    middle = decoding.values.index("quantile 0.5")
    if not np.isfinite(decoding.std_error[middle]):
        words = "The distribution cannot be estimated from these reports."
        return Headline("Unknown", "too few reports", words, False)
    half, interval = with_unit(decoding, f"{decoding.estimate[middle]:,.3g}"), interval_of(decoding, middle)
    ninth = decoding.values.index("quantile 0.9")
    tail = with_unit(decoding, f"{decoding.estimate[ninth]:,.3g}")
    return Headline(
        half,
        f"median, {interval}",
        f"Half of the answers lie below {half}, {interval}; nine in ten lie below {tail}, "
        f"{interval_of(decoding, ninth)}.",
    )


def interval_of(decoding: Decoding, i: int) -> str:
    if decoding.roles[i] == NUMBER:
        low, high = (f"{end:,.3g}" for end in (decoding.low[i], decoding.high[i]))
        return with_unit(decoding, f"{low} to {high}")
    return f"{percent(decoding.low[i]).removesuffix(' %')} to {percent(decoding.high[i])}"


def value_label(value: str, role: str) -> str:
    """A string that is called like a row of ours is quoted; quantiles are said in words."""
    if role == ANSWER and value in ("absent", "other"):
        return f"“{value}”"
    if value.startswith("quantile ") and role == NUMBER:
        return {"0.5": "median", "0.25": "lower quartile", "0.75": "upper quartile"}.get(
            value[9:], f"{100 * float(value[9:]):g} % lie below"
        )
    return value


def with_unit(decoding: Decoding, words: str) -> str:
    return f"{words} {decoding.unit}" if decoding.unit else words


def cell(decoding: Decoding, i: int, x: float) -> str:
    """A figure of a row: numbers as numbers, shares in per cent."""
    return number(x) if decoding.roles[i] == NUMBER else percent(x)


def several(count: int, what: str) -> str:
    """So many of something: "1 report", "2,000 reports"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def withheld_in_words(num_reports: int, min_reports: int) -> str:
    """Why there are reports that the page does not show."""
    if not num_reports:
        return ""
    verb = "is" if num_reports == 1 else "are"
    return (
        f"{several(num_reports, 'report')} {verb} withheld: to protect single installs, the collector shows new "
        f"reports of a day, week or month only when there are at least {min_reports} of them."
    )


def verdict_in_words(decoding: Decoding, i: int) -> str:
    """As the table of `hubbub decode` says it; what follows from having been detected is said where it is news."""
    words = verdict(decoding, i)
    same = percent(decoding.low_selected[i]), percent(decoding.high_selected[i])
    if same == (percent(decoding.low[i]), percent(decoding.high[i])):
        return words.partition(";")[0]
    return words


def periods_in_words(epochs: Sequence[str], every: str) -> str:
    return several(len(epochs), PERIODS[every])


def epochs_in_words(epochs: Sequence[str], every: str) -> str:
    if not epochs:
        return f"no {PERIODS[every]} yet"
    if len(epochs) == 1:
        return f"{periods_in_words(epochs, every)}, {epochs[0]}"
    return f"{periods_in_words(epochs, every)}, {epochs[0]} to {epochs[-1]}"
