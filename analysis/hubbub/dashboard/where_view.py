"""For whom something changed, in a sentence: on which platforms, with which release, and where it did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hubbub.analysis.comparison import compare
from hubbub.analysis.result import Decoding, Role
from hubbub.dashboard.chart_rows import digits_of
from hubbub.dashboard.metric_inputs import MetricInputs
from hubbub.dashboard.sentences import LEVEL, Change
from hubbub.dashboard.steps import row_of, steps
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.segments import NOT_SAID, OTHER

_AT = {"platform": "on {}", "release": "with release {}"}


def where(inputs: MetricInputs, change: Change | None) -> str:
    """Empty where nothing changed, or where it is not known for each segment."""
    key = inputs.view.by
    if change is None or not change.sign or key is None:
        return ""
    both = {
        value: (inputs.segment_previous.get(value), decoded)
        for value, decoded in inputs.segments
        if value not in (OTHER, NOT_SAID)
    }
    pairs = {
        value: (before.decoding, after.decoding)
        for value, (before, after) in both.items()
        if before and after and before.decoding is not None and after.decoding is not None
    }
    if len(pairs) < 2 or len(pairs) < len(both):
        return ""
    moved = _moved(pairs, change)
    if moved is None:
        return ""
    still = [value for value in pairs if value not in moved]
    return _sentence(inputs, key, change, moved, still)


def _moved(pairs: Mapping[str, tuple[Decoding, Decoding]], change: Change) -> list[str] | None:
    """The segments whose own change in the same direction is significant, corrected for their number."""
    found = []
    for value, (before, after) in pairs.items():
        try:
            compared = compare(before, after)
        except Invalid:
            return None
        row = row_of(compared, change.row)
        if row is None:
            return None
        same = (compared.difference[row] > 0) == (change.sign == "▲")
        if same and compared.p_value[row] * len(pairs) <= LEVEL:
            found.append(value)
    return found


def _sentence(inputs: MetricInputs, key: str, change: Change, moved: list[str], still: list[str]) -> str:
    rise = "rise" if change.sign == "▲" else "fall"
    if not moved:
        return f"On no {key} by itself is the {rise} significant."
    if not still:
        return f"The {rise} is on every {key}." if key == "platform" else f"The {rise} is with every {key}."
    at = _AT.get(key, f"for {key} {{}}")
    rest = f" {listed(still)} {'show' if len(still) > 1 else 'shows'} no significant change."
    if len(moved) == 1 and (newer := _newest_release(inputs, key, moved[0], change.row)):
        return f"The {rise} is {at.format(moved[0])}, {newer}.{rest}"
    return f"The {rise} is {at.format(listed(moved))}.{rest}"


def listed(names: Sequence[str]) -> str:
    """`linux and macos`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def _newest_release(inputs: MetricInputs, key: str, value: str, row: tuple[str, Role] | None) -> str:
    """`with release 3.2: 2.43 s against 2.02 s with 3.1`, if the newest release differs from the one before."""
    of_value = {
        dict(segment)["release"]: decoded.decoding
        for segment, decoded in inputs.crossed.items()
        if dict(segment).get(key) == value and "release" in dict(segment) and decoded and decoded.decoding is not None
    }
    if row is None or len(of_value) < 2 or key == "release":
        return ""
    known = dict(list(of_value.items())[-2:])
    step = next(iter(steps(known, row, 1).values()), None)
    if step is None or not step.way:
        return ""
    some = [known[step.newer], known[step.older]]
    rows = [decoding.index(*row) for decoding in some]
    digits = digits_of(some, [[i] for i in rows])
    new, old = (digits.value(float(decoding.estimate[i])) for decoding, i in zip(some, rows, strict=True))
    return f"with release {step.newer}: {new} against {old} with {step.older}"
