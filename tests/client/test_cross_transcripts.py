"""What others can learn of a cross, exactly: every transcript of the real client, and when messages leave."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hubbub.protocol.epsilon import log_above
from tests.client.registries import metric, registry
from tests.client.transcripts import law_of, worst_odds
from tests.client.virtual import DAY, HOUR, Life, Process, Record, departures

WATCHED = registry(metric("a"), metric("b", accumulate='"any"'), metric("both", "cross", of='["a", "b"]'))


def test_the_same_messages_leave_at_the_same_moments_whatever_was_recorded() -> None:
    """Two days, each factor never, early or late on each, every second way of it: the moments, lengths, ids and
    contents of messages are equal. The first run of a day is killed."""
    times = [12 * HOUR + day * DAY + 8 * HOUR for day in range(2)]
    life = Life([p for t in times for p in (Process(t, t + 1200, killed=True), Process(t + 600, t + 2400))], days=4)
    offsets = (None, 1.0, 2399.0)
    seen = []
    for number, choice in list(enumerate(product(offsets, repeat=4)))[::2]:
        places = zip(product(times, "ab"), choice, strict=True)
        records = [Record(t + offset, name, number % 3 == 0) for (t, name), offset in places if offset is not None]
        seen.append(departures(WATCHED, life, records, seed=number))
    assert len(seen[0]) >= 1
    assert all(other == seen[0] for other in seen)


CLEAR = {"epsilon_one_report": 2, "epsilon_permanent": 2}
SMALL = registry(
    metric("a", **CLEAR),
    metric("b", **CLEAR, accumulate='"any"'),
    metric("both", "cross", of='["a", "b"]', **CLEAR, max_values=4),
)


def odds(name: str) -> Fraction:
    return SMALL[name].noise.odds_permanent(SMALL[name].shape.flips)


def test_a_factor_and_its_cross_together_tell_exactly_the_sum_of_their_epsilons() -> None:
    """One epoch, every draw of the real client. Whoever differs in one factor differs in it and in the cross; whoever
    differs in both, in all three. These are the sums on the label, and they are reached."""
    days = {
        (a, b): {k: v for k, v in (("a", a), ("b", b)) if v is not None} for a, b in product((True, None), repeat=2)
    }
    laws = {day: law_of([SMALL], [records]) for day, records in days.items()}
    assert worst_odds(laws, lambda x, y: x[1] == y[1]) == odds("a") * odds("both")
    assert worst_odds(laws, lambda x, y: x[0] == y[0]) == odds("b") * odds("both")
    assert worst_odds(laws, lambda x, y: True) == odds("a") * odds("b") * odds("both")


def test_while_an_answer_stays_the_other_factor_may_change_and_the_cross_tells_of_it_again() -> None:
    """Two days, on which `a` is the same and `b` is not: both kept answers of the cross tell of `a`, as the label
    counts. With one answer of `b` it would be one."""
    asks = registry(
        metric("a", **CLEAR, max_values=1, expires="2020-01-01"),
        metric("b", **CLEAR, max_values=1, expires="2020-01-01"),
        metric("both", "cross", of='["a", "b"]', **CLEAR),
    )
    laws = {a: law_of([asks], [{"a": a, "b": True}, {"a": a, "b": False}]) for a in (True, False)}
    bound = asks["both"].noise.odds_permanent(asks["both"].shape.flips)
    assert worst_odds(laws, lambda x, y: True) == bound**2
    counted = asks.epsilon_same_answer(asks["a"]) - asks["a"].epsilon_permanent
    assert counted == 2 * asks["both"].epsilon_permanent
    assert log_above(bound**2) <= counted


ALONE = registry(
    metric("a", **CLEAR, expires="2020-01-01"),
    metric("b", **CLEAR, expires="2020-01-01", accumulate='"any"'),
    metric("both", "cross", of='["a", "b"]', **CLEAR),
)
"""Factors that are not asked any more: messages are about the cross alone."""


def test_of_a_cross_only_the_cells_of_epochs_can_be_learnt_and_no_more_than_slots_times_epsilon() -> None:
    """Two days. However the records came, equal cells have equal laws; histories that change at the same times stay
    under both slots, which is reached."""
    days = {
        (0, 0): [{}, {"a": False, "b": [False, False]}],
        (1, 0): [{"a": True}, {"a": [True, False], "b": False}],
        (1, 1): [{"b": True, "a": True}, {"b": [False, True], "a": [True, True]}],
    }
    laws = {
        (history, way): law_of([ALONE], [days[cell][way] for cell in history])
        for history in product(days, repeat=2)
        for way in (0, 1)
        if way == 0 or history[0] < history[1]
    }
    for (history, _), law in laws.items():
        assert law == laws[history, 0]
    bound = ALONE["both"].noise.odds_permanent(ALONE["both"].shape.flips)

    def together(one: tuple, other: tuple) -> bool:
        return (one[0][0] == one[0][1]) == (other[0][0] == other[0][1])

    assert worst_odds(laws, together) == bound**2
    assert worst_odds(laws, lambda x, y: together(x, y) and x[0][0] == x[0][1]) == bound
