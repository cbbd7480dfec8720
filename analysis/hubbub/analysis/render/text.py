"""Tables and words for people. Shares are shares elsewhere, and percent only where a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, log10

import numpy as np

from hubbub.analysis.comparison import Comparison
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.render.html_table import html_table
from hubbub.analysis.render.terminal import PLAIN, Style
from hubbub.analysis.result import ANSWER, NUMBER, Decoding, Role, epoch_span
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import decimals, in_points, intervals_of, number, percent, plain_percent, text_table
from hubbub.protocol.segments import in_words

SHOWN = 50
_SHOWN_BEGINNINGS = 20
Show = Callable[[float], str]


def table(decoding: Decoding, most: int = SHOWN, style: Style = PLAIN) -> str:
    """What a person reads: what was found, how sure that is, and what cannot be said."""
    rows = decoding.top_rows(most)
    header, *lines = text_table(_header(decoding), [cells(decoding, i) for i in rows], left=(0, 5))
    untold = [not decoding.detected[i] and not np.isnan(decoding.p_adjusted[i]) for i in rows]
    lines = [style.faint(line) if faint else line for line, faint in zip(lines, untold, strict=True)]
    lines = [style.bold(_title(decoding)), "", header, *lines, "", *_hidden(decoding, most), *_beginnings(decoding)]
    return "\n".join([*lines, *remarks(decoding)])


def _title(decoding: Decoding) -> str:
    reports = plural(decoding.num_reports, "report", ",")
    epochs = f", {epoch_span(decoding.epochs)}" if decoding.epochs else ""
    unit = f", in {decoding.unit}" if decoding.unit else ""
    return f"{decoding.title} ({decoding.kind}{unit}){epochs}, {reports}"


def _header(decoding: Decoding) -> list[str]:
    return ["value", "estimate", intervals_of(decoding.confidence), "installs", "best guess", ""]


def cells(decoding: Decoding, i: int) -> list[str]:
    is_number = decoding.roles[i] == NUMBER
    show: Show = number if is_number else percent
    if not np.isfinite(decoding.std_error[i]):
        return [row_name(decoding, decoding.values[i], decoding.roles[i]), "unknown", "", "", "", "cannot be estimated"]
    return [
        row_name(decoding, decoding.values[i], decoding.roles[i]),
        show(decoding.estimate[i]),
        f"{show(decoding.low[i])} to {show(decoding.high[i])}",
        "" if is_number else _count(float(decoding.estimate[i]) * decoding.installs),
        show(decoding.best_guess[i]),
        verdict(decoding, i),
    ]


def row_name(decoding: Decoding, value: str, role: Role) -> str:
    """A string that is empty, or is called as a row of ours is (`other`), is quoted."""
    return f'"{value}"' if role == ANSWER and (not value or value in decoding.roles) else value


def verdict(decoding: Decoding, i: int) -> str:
    if np.isnan(decoding.p_adjusted[i]):
        return ""
    if not decoding.detected[i]:
        return "below the noise floor"
    if np.isfinite(decoding.high_selected[i]):
        low, high = percent(decoding.low_selected[i]), percent(decoding.high_selected[i])
        return f"detected; given that, {low} to {high}"
    return "detected"


def _hidden(decoding: Decoding, most: int) -> list[str]:
    hidden = len(decoding) - len(decoding.top_rows(most))
    are = "value is" if hidden == 1 else "values are"
    return [f"{hidden:,} more {are} not shown; --format csv has them all."] if hidden else []


def _beginnings(decoding: Decoding) -> list[str]:
    """Those of texts that no row has, and of them the longest: a shorter one says nothing more."""
    rows = [value.encode().hex() for value, role in zip(decoding.values, decoding.roles, strict=True) if role == ANSWER]
    goes_on = [*rows, *(beginning.hex for beginning in decoding.beginnings)]
    longest = [
        one
        for one in decoding.beginnings
        # Of a text too long to be found whole no row can be.
        if one.too_long or (one.hex not in rows and not any(_goes_on(one.hex, other) for other in goes_on))
    ]
    if not longest:
        return []
    shown = sorted(longest, key=lambda beginning: -beginning.estimate)[:_SHOWN_BEGINNINGS]
    lines = [
        [
            f"{one.text}...",
            percent(one.estimate),
            f"{percent(one.low)} to {percent(one.high)}",
            _count(one.estimate * decoding.installs),
        ]
        for one in shown
    ]
    head = ["beginning", "estimate", intervals_of(decoding.confidence), "installs"]
    more = f"{len(longest) - len(shown)} more beginnings are not shown; --format json has them all."
    all_installs = ["Beginnings are shares of all installs, also of those that did not answer."]
    return [
        *text_table(head, lines, left=(0,)),
        *([more] if len(longest) > len(shown) else []),
        *(all_installs if decoding.of == "answered" else []),
        "",
    ]


def _goes_on(beginning: str, other: str) -> bool:
    return len(other) > len(beginning) and other.startswith(beginning)


def described(decoding: Decoding) -> str:
    """Which installs intervals describe."""
    whom = {
        "reporting": "the installs that reported",
        "population": "the population that the reporting installs are a sample of",
    }[decoding.estimand]
    of = ", as shares of those who answered" if decoding.of == "answered" else ""
    return f"Intervals describe {whom}{of} ({decoding.estimand})."


def remarks(decoding: Decoding) -> list[str]:
    """Which installs the numbers describe, where noise begins, what fake reports could do, and all that is odd."""
    found_out = [described(decoding)]
    if np.isfinite(decoding.noise_floor):
        found_out.append(
            f"Noise floor: an estimate under {percent(decoding.noise_floor)} is not statistically different from zero "
            f"({_correction(decoding)})."
        )
    found = decoding.diagnostics
    unit = f" {decoding.unit}" if decoding.unit else ""
    radius = percent(found.attack_radius) if decoding.has_shares else f"{found.attack_radius:.4g}{unit}"
    if found.fake_share:
        found_out.append(
            f"If {percent(found.fake_share)} of the reports were fake, an estimate could be off by {radius}."
        )
    if found.odd_cohorts:
        some = ", ".join(map(str, found.odd_cohorts[:10]))
        found_out.append(f"Cohorts that do not fit the others, broken or tampered with: {some}.")
    return found_out + list(decoding.notes)


def _correction(decoding: Decoding) -> str:
    """The error allowed and over what: Bonferroni's is that of any false detection, Benjamini and Hochberg's the share
    of detections that are false, which finds more and is as honest. So whoever reads the one learns of the other."""
    level = plain_percent(1 - decoding.confidence, 3)
    is_answer = np.array([role == ANSWER for role in decoding.roles], dtype=bool)
    p_values = decoding.p_value[is_answer]
    if np.count_nonzero(~np.isnan(p_values)) < 2:
        return level
    if decoding.correction == "benjamini-hochberg":
        return f"{level} of detections, Benjamini-Hochberg"
    if decoding.tested_besides:  # the p-values of those that have no row are not known any more
        return f"{level}, Bonferroni"
    by_share = Rule.of(p_values, 1 - decoding.confidence, "benjamini-hochberg").found
    more = by_share - int(np.count_nonzero(decoding.detected[is_answer]))
    return f"{level}, Bonferroni; Benjamini-Hochberg would detect {f'{more:,}' if more else 'no'} more"


def comparison_table(comparison: Comparison, most: int = SHOWN, style: Style = PLAIN) -> str:
    """Before, after and the difference, for a person; of long lists the rows that changed most surely."""
    after = comparison.after
    unit = f", in {after.unit}" if after.unit else ""
    order = compared(comparison, most)
    header, *rows = text_table(
        comparison_header(comparison), [comparison_cells(comparison, i) for i in order], left=(0, 5)
    )
    lines = [row if comparison.changed[i] else style.faint(row) for i, row in zip(order, rows, strict=True)]
    common = in_words(set(comparison.before.segment) & set(after.segment))
    name = ", ".join(filter(None, (after.metric, common)))
    notes = [_independence(comparison), *([SUM_NOTE] if ("sum", NUMBER) in _rows_of(comparison) else [])]
    return "\n".join([style.bold(f"{name} ({after.kind}{unit})"), "", header, *lines, "", *notes])


SUM_NOTE = "The sum is not tested: it is a mean times the number of installs, and differs where only that number does."


def _rows_of(comparison: Comparison) -> list[tuple[str, Role]]:
    return list(zip(comparison.values, comparison.roles, strict=True))


def _are_apart(comparison: Comparison) -> bool:
    """Whether the sides are different installs, such as those of two releases: they differ, and nothing changed."""
    before, after = dict(comparison.before.segment), dict(comparison.after.segment)
    return any(before[key] != after[key] for key in before.keys() & after.keys())


def _independence(comparison: Comparison) -> str:
    if _are_apart(comparison):
        return "The two sides are different installs: variances add."
    return "The two sides are taken as independent: variances add."


def _outcome(comparison: Comparison, i: int) -> str:
    if not comparison.tested[i]:
        return "not tested"
    seen, unseen = ("differs", "no difference seen") if _are_apart(comparison) else ("changed", "no change seen")
    return seen if comparison.changed[i] else unseen


def comparison_header(comparison: Comparison) -> list[str]:
    interval = intervals_of(comparison.after.confidence)
    return ["value", *sides(comparison), "difference", interval, ""]


def sides(comparison: Comparison) -> tuple[str, str]:
    """What the two sides are called: their periods, or their segments."""
    before, after = comparison.before, comparison.after
    return _side(before, after), _side(after, before)


def compared(comparison: Comparison, most: int = SHOWN) -> list[int]:
    """The most certain changes, in the order of the values."""
    order = np.argsort(np.nan_to_num(comparison.p_adjusted, nan=2.0), kind="stable")[:most]
    return sorted(order.tolist())


def comparison_cells(comparison: Comparison, i: int) -> list[str]:
    is_number = comparison.roles[i] == NUMBER
    show: Show = number if is_number else percent
    sides = float(comparison.estimate_before[i]), float(comparison.estimate_after[i])
    ends = float(comparison.low[i]), float(comparison.high[i])
    return [
        comparison.values[i],
        *map(show, sides),
        *change_in_words(float(comparison.difference[i]), ends, sides, is_number=is_number),
        _outcome(comparison, i),
    ]


def change_in_words(
    change: float, ends: tuple[float, float], sides: tuple[float, float], *, is_number: bool
) -> tuple[str, str]:
    """How far apart two sides are, and the interval of that: of shares in points of percent, `+1.2 points`, with as
    many digits as the sides have, or more where the interval is so narrow that these would not show it."""
    if is_number:
        return _signed(change, number), " to ".join(_signed(end, number) for end in ends)
    digits = max((decimals(side) for side in sides if np.isfinite(side)), default=1)
    half = 50 * (ends[1] - ends[0])
    if np.isfinite(half) and half > 0:
        digits = min(max(digits, -floor(log10(half))), 4)

    def shown(share: float) -> str:
        return in_points(share, f".{digits}f")

    low, high = (_signed(end, shown) for end in ends)
    return f"{_signed(change, shown)} points", f"{low} to {high} points"


def _signed(x: float, show: Show) -> str:
    """With a plus where it is one; what rounds to nothing has no sign."""
    text = show(x)
    if not np.isfinite(x):
        return text
    return text.removeprefix("-") if not text.strip("-0.,") else f"+{text}" if x > 0 else text


def _side(decoding: Decoding, other: Decoding) -> str:
    """What tells this side from the other."""
    segment = in_words(set(decoding.segment) - set(other.segment)) or "all"
    epochs = epoch_span(decoding.epochs) or decoding.metric
    if decoding.segment == other.segment:
        return epochs
    return segment if decoding.epochs == other.epochs else f"{segment}, {epochs}"


def decoding_html(decoding: Decoding, most: int = SHOWN) -> str:
    """For notebooks."""
    rows = (cells(decoding, i) for i in decoding.top_rows(most))
    return html_table(_title(decoding), _header(decoding), rows, [*_hidden(decoding, most), *remarks(decoding)])


def _count(installs: float) -> str:
    return f"{installs:,.0f}" if np.isfinite(installs) else ""
