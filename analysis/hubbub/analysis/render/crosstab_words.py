"""What a crosstab says: one sentence that answers, the table as it is read, and what a reader must know besides."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hubbub.analysis.crosstab_result import ClearestDifference, Crosstab, Given, JointShares
from hubbub.analysis.estimation.intervals import Ratios
from hubbub.analysis.kinds.factor import Categories
from hubbub.analysis.render.digits import SPACE, Digits
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import percent, plain_percent

_SMALLEST_P = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A table as it is read: each row adds up to 100 % if a factor is given, all cells together if none is."""

    rows: Categories
    columns: Categories
    given: Given | None
    shares: JointShares  # a row for each of `rows`
    of_rows: JointShares  # how common each row is
    of_columns: JointShares
    digits: Digits


def view(crosstab: Crosstab, given: int | None) -> View:
    """Given the first factor (0), the second (1), or of all installs (None)."""
    turned = given == 1
    shares = crosstab.cells if given is None else crosstab.given[given].shares
    first, second = reversed(crosstab.factors) if turned else crosstab.factors
    of_rows, of_columns = reversed(crosstab.margins) if turned else crosstab.margins
    shares = _turned(shares) if turned else shares
    ends = zip(np.clip(shares.low, 0, 1).ravel(), np.clip(shares.high, 0, 1).ravel(), strict=True)
    return View(
        rows=first,
        columns=second,
        given=None if given is None else crosstab.given[given],
        shares=shares,
        of_rows=of_rows,
        of_columns=of_columns,
        digits=Digits.of(
            ((low, high) for (low, high), seen in zip(ends, shares.detected.ravel(), strict=True) if seen),
            is_share=True,
        ),
    )


def _turned(shares: JointShares) -> JointShares:
    return JointShares(**{each.name: getattr(shares, each.name).T for each in fields(JointShares)})


@dataclass(frozen=True, slots=True)
class Cell:
    """How one share is written: the figure, and below it how sure that is. `detected` is None where it is unknown."""

    figure: str
    interval: str
    detected: bool | None


def cell_of(shares: JointShares, place: int | tuple[int, int], digits: Digits) -> Cell:
    """A share that is not detected is written as what it is surely below: the limit."""
    estimate, low, high = (float(each[place]) for each in (shares.estimate, shares.low, shares.high))
    if not np.isfinite(estimate) or not np.isfinite(float(shares.std_error[place])):
        return Cell("unknown", "", None)
    if not bool(shares.detected[place]):
        limit = float(shares.limit[place])
        return Cell(f"<{SPACE}{percent(limit)}", "not detected", False) if limit < 1 else Cell("unknown", "", None)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Cell(digits.value(estimate), "anything", True)
    return Cell(digits.value(estimate), f"{digits.figure(low)} to {digits.figure(high)}", True)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a reader takes away, who stops after it."""

    headline: str
    details: str

    def __str__(self) -> str:
        return f"{self.headline} {self.details}".strip()


def answer(crosstab: Crosstab, given: int = 0) -> Conclusion:
    """Whether the two answers go together, and where that shows most."""
    names = [factor.name for factor in crosstab.factors]
    p = p_in_words(crosstab.independence.p_value)
    if not np.isfinite(crosstab.independence.p_value):
        return Conclusion(
            f"Whether {names[0]} and {names[1]} are related cannot be tested.", "One of them has one answer."
        )
    if not crosstab.related:
        return Conclusion(
            f"No relation between {names[0]} and {names[1]} was detected ({p}).", _what_would_be_seen(crosstab, given)
        )
    return Conclusion(f"{names[0]} and {names[1]} are related ({p}).", _clearest_in_words(crosstab, given))


def p_in_words(p: float) -> str:
    if not np.isfinite(p):
        return "not tested"
    return f"p < {_SMALLEST_P:g}" if p < _SMALLEST_P else f"p = {p:.2g}"


def _clearest_in_words(crosstab: Crosstab, given: int) -> str:
    found = crosstab.given[given].clearest
    if found is None:
        return ""
    if crosstab.given[given].means is not None:
        return _averages_in_words(crosstab, given)
    seen = view(crosstab, given)
    group, other = seen.rows, seen.columns
    outcome = outcome_in_words(other, found)
    more, less = (_share_in_words(seen, row, found) for row in (found.more, found.less))
    words = (
        f"Of installs with {group.name} {group.values[found.more]}, {more[0]} have {outcome}{more[1]}; "
        f"of those with {group.name} {group.values[found.less]}, {less[0]}{less[1]}"
    )
    times = found.contrast
    if found.contrast.low <= 0:
        return f"{words}. No two groups differ significantly by themselves."
    if times.ratio_low > 1 and np.isfinite(times.ratio_high):
        few = Digits.of([(times.ratio_low, times.ratio_high)])
        ends = f"{few.figure(times.ratio_low)} to {few.figure(times.ratio_high)}"
        return f"{words}: {few.figure(times.ratio)} times as many ({ends} times)."
    apart = Digits.of([(times.low, times.high)], is_share=True)
    return f"{words}: {apart.difference(times.difference)} more."


def _averages_in_words(crosstab: Crosstab, given: int) -> str:
    """The largest and the smallest average, of groups that are surely there."""
    found, group = crosstab.given[given].means, crosstab.factors[given]
    assert found is not None
    known = [i for i in group.answers if crosstab.margins[given].detected[i] and np.isfinite(found.low[i])]
    if not known:
        return ""
    digits = Digits.of([(found.low[i], found.high[i]) for i in known], unit=crosstab.factors[1 - given].unit)
    most, least = (pick(known, key=lambda i: found.estimate[i]) for pick in (max, min))
    figures = [f"{digits.value(float(found.estimate[i]))} ({_ends(found, i, digits)})" for i in (most, least)]
    name = crosstab.factors[1 - given].name
    return (
        f"On average {name} is {figures[0]} with {group.name} {group.values[most]}, and {figures[1]} with "
        f"{group.name} {group.values[least]}."
    )


def outcome_in_words(other: Categories, found: ClearestDifference) -> str:
    """`crashes 1 to 5`, or `crashes other than 0 to 1`."""
    return f"{other.name} {'other than ' if found.complement else ''}{other.values[found.outcome]}"


def _share_in_words(seen: View, row: int, found: ClearestDifference) -> tuple[str, str]:
    """The figure, and its interval in brackets."""
    place = row, found.outcome
    if found.complement:
        estimate, low, high = rest_of(seen.shares, place)
        known = np.isfinite(low) and np.isfinite(high)
        return seen.digits.value(estimate), f" ({seen.digits.interval(low, high)})" if known else ""
    cell = cell_of(seen.shares, place, seen.digits)
    return cell.figure, f" ({cell.interval}{SPACE}%)" if cell.detected and cell.interval != "anything" else ""


def rest_of(shares: JointShares, place: tuple[int, int]) -> tuple[float, float, float]:
    """The share of all other categories, and its interval."""
    return 1 - float(shares.estimate[place]), 1 - float(shares.high[place]), 1 - float(shares.low[place])


def _what_would_be_seen(crosstab: Crosstab, given: int) -> str:
    """The size that the test would have found: as a difference where there are two groups, else as Cramer's V."""
    strength = crosstab.independence.detectable
    times = f"{10 * crosstab.independence.power:.0f} times in 10"
    found = crosstab.given[given].clearest
    if found is not None and found.chosen_from == 1 and found.detectable < 1:
        points = Digits.of([(0, found.detectable)], is_share=True).difference(found.detectable)
        return f"A difference of {points} would be detected {times}."
    if strength < 1:
        return f"A relation of Cramér's V {strength:.2g} would be detected {times}."
    return "Even the strongest relation would often be missed: more reports are needed."


def means_in_words(crosstab: Crosstab, given: int) -> list[list[str]]:
    """For each category of the given factor, the average of the other, and its interval; none where it is no number."""
    found, group = crosstab.given[given].means, crosstab.factors[given]
    if found is None:
        return []
    digits = Digits.of(zip(found.low, found.high, strict=True), unit=crosstab.factors[1 - given].unit)
    return [
        [group.values[i], digits.value(float(found.estimate[i])), _ends(found, i, digits)] for i in range(len(group))
    ]


def _ends(found: Ratios, i: int, digits: Digits) -> str:
    low, high = float(found.low[i]), float(found.high[i])
    return digits.interval(low, high) if np.isfinite(low) and np.isfinite(high) else "unknown"


def remarks(crosstab: Crosstab) -> list[str]:
    """Which installs the numbers describe, how the test was made, what it can see, and all that a reader must know."""
    whom = {
        "reporting": "the installs that reported",
        "population": "the population that the reporting installs are a sample of",
    }[crosstab.estimand]
    of = ", as shares of those that answered both" if crosstab.of == "answered" else ""
    test = crosstab.independence
    said = [f"Intervals describe {whom}{of} ({crosstab.estimand})."]
    if test.degrees:
        found = f"{10 * test.power:.0f} times in 10 at the {plain_percent(test.alpha, 3)} level"
        said.append(
            f"Test of independence: chi-square {test.statistic:.4g}, {plural(test.degrees, 'degree')} of freedom, "
            f"{p_in_words(test.p_value)}. Strength of the relation (Cramér's V): {test.strength:.2g}; one of "
            f"{min(test.detectable, 1):.2g} is detected {found}."
        )
    chosen = max((each.clearest.chosen_from for each in crosstab.given if each.clearest is not None), default=0)
    if chosen > 1 and crosstab.related:
        said.append(f"The difference named was chosen as the clearest of {chosen}; its interval allows for that.")
    said.append("That two answers go together does not say that one causes the other.")
    if crosstab.fake_share:
        said.append(
            f"If {percent(crosstab.fake_share)} of the reports were fake, a cell could be off by "
            f"{percent(crosstab.attack_radius)} of all installs."
        )
    return said + list(crosstab.notes)
