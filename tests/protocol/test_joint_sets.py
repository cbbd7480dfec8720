"""Sets that are asked once: which items are told truly is drawn for all together, where that is better; exactly so."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest

from hubbub.client.respond import flags_of, permanent_response
from hubbub.client.vocabulary import Draws, Random
from hubbub.protocol.channel import UNIT, SubsetChannel, Units
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.history import History, history_of_categories, variance
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Set
from hubbub.protocol.label import words
from hubbub.protocol.metric import Definition
from tests.protocol.toml import registry

F = Fraction
ONCE = {"every": '"once"', "max_values": None}
NAMES = '["a", "b", "c", "d", "e", "f", "g", "h"]'


class Flags:
    """Draws that give these flags and nothing else: a set asked once needs no other chance."""

    def __init__(self, flags: int) -> None:
        self._flags = flags

    def flags(self, history: History) -> int:
        return self._flags

    def number(self, units: Units, width: int) -> int:
        raise AssertionError("not drawn")

    def digits(self, units: Units, width: int, sent: int) -> bytes:
        raise AssertionError("not drawn")

    def subset(self, channel: SubsetChannel, sent: int) -> int:
        raise AssertionError("not drawn")

    def below(self, limit: int) -> int:
        raise AssertionError("not drawn")

    def of_a_memo(self, random: Random) -> Draws:
        return self


def law_of_flags(history: History) -> dict[int, Fraction]:
    """By every number that the client's own code could draw on each side of the threshold."""
    found: dict[int, Fraction] = {}
    for above, chance in ((True, history.above), (False, 1 - history.above)):
        side = history.side(above)
        for number in range(side):
            flags = flags_of(history, above, number)
            found[flags] = found.get(flags, F(0)) + chance / side
    return found


def asked(epsilon: str, items: int) -> Definition:
    return registry(
        "set", items=NAMES, items_per_report=str(items), epsilon_one_report=epsilon, epsilon_permanent="8", **ONCE
    )["it"]


@pytest.mark.parametrize("items", [2, 3, 4, 6])
@pytest.mark.parametrize("epsilon", ["2", "4"])
def test_no_report_tells_two_answers_apart_by_more_than_the_stated_odds(epsilon: str, items: int) -> None:
    """All answers, all reports, all flags: the worst odds are the stated fraction, below e**epsilon, and reached."""
    metric = asked(epsilon, items)
    history = metric.noise.history
    assert history is not None
    assert (history.hold, history.answers, history.items, metric.hold) == (1, 1, items, None)
    law = law_of_flags(history)
    assert sum(law.values()) == 1
    chances = []
    for mask in range(1 << items):
        reports: dict[int, Fraction] = {}
        for flags, chance in law.items():
            report = permanent_response(metric, mask, 0, Flags(flags))
            reports[report] = reports.get(report, F(0)) + chance
        chances.append(reports)
    worst = max(one[report] / other[report] for one in chances for other in chances for report in one)
    assert worst == history.worst_odds == metric.noise.odds_after(1, metric.shape.flips)
    assert exp_below(F(epsilon)) * F(999, 1000) < worst <= exp_below(F(epsilon))
    assert metric.epsilon_permanent == metric.epsilon_one_report
    # A slip of 2**-24 the wrong way would be noticed.
    slipped = history.replace(above=history.above + UNIT)
    assert slipped.worst_odds > exp_below(F(epsilon))
    # The channel that decoding and label know is that of one item.
    first = sum((chance for flags, chance in law.items() if flags & 1), F(0))
    assert metric.noise.composed.probabilities == (first, 1 - first)


@pytest.mark.parametrize(
    ("epsilon", "share", "apart", "together"),
    [
        ("4", 0.05, 0.48, 0.29),
        ("4", 0.2, 1.20, 0.48),
        ("4", 0.5, 1.47, 0.59),
        ("2", 0.5, 3.20, 2.39),  # 1.34 times better
        ("1", 0.5, 9.11, 9.11),  # no gain
    ],
)
def test_how_much_better_eight_items_are_told_together(epsilon: str, share: float, apart: float, together: float):
    """n Var of an item's share: (b/d) V + f (1 - f)(b/d - 1), each with its best d."""

    def best(unit) -> float:
        return min(8 / d * unit(d) + share * (1 - share) * (8 / d - 1) for d in range(1, 9))

    def bit(d: int) -> float:
        e = exp(float(epsilon) / d)
        return e / (e - 1) ** 2

    assert best(bit) == pytest.approx(apart, abs=6e-3)
    joint = best(lambda d: float(variance(history_of_categories(F(epsilon), 1, 1, 2, d), F(1, 2))))
    assert joint == pytest.approx(together, abs=6e-3)


@pytest.mark.parametrize(("epsilon", "items"), [("1", 1), ("2", 2), ("4", 4), ("8", 8)])
def test_a_registry_asks_about_as_many_items_as_are_best(epsilon: str, items: int) -> None:
    metric = registry(
        "set", items=NAMES, items_per_report=None, epsilon_one_report=epsilon, epsilon_permanent="8", **ONCE
    )["it"]
    assert metric.shape.items_per_report == items
    assert (metric.noise.history is not None) == (items > 1)
    weekly = registry("set", items=NAMES, epsilon_one_report=epsilon, epsilon_permanent="8")["it"]
    assert weekly.noise.history is None, "an answer that is repeated promises each item by itself"


def test_never_with_more_variance_than_items_told_apart() -> None:
    for epsilon in ("0.1", "0.5", "1", "2", "6", "12"):
        for items in (2, 3, 5, 8):
            shape = Set(items=tuple("abcdefgh"), items_per_report=items)
            once, kept = (shape.best_noise(F(epsilon), F(12), once) for once in (True, False))
            (q, p), (r, s) = once.composed.probabilities, kept.composed.probabilities
            assert p * (1 - p) / (q - p) ** 2 <= s * (1 - s) / (r - s) ** 2


def test_the_label_is_that_of_one_message() -> None:
    text = words(
        registry("set", items=NAMES, items_per_report="4", epsilon_one_report="4", epsilon_permanent="4", **ONCE)
    )
    assert "which of 8 items (a, b, c, d, e, f, ...), once" in text
    assert "At most 98.3 % sure: epsilon 4." in text
    assert "It is asked once in the life of an install, so that is all." in text
    assert "falls silent" not in text


def test_only_a_set_asked_once_has_such_a_history() -> None:
    metric = asked("4", 3)
    data = metric.to_json()
    again = Definition.from_json(data)
    assert again.metric_hash == metric.metric_hash
    flag = registry("flag", epsilon_one_report=None, epsilon_permanent=None, hold="1", epsilon_history="4")["it"]
    with pytest.raises(Invalid, match="hold must be left out where every"):
        Definition.from_json({**flag.to_json(), "every": "once"})
