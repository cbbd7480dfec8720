"""The law of the truth flags: every history and every transcript as fractions, the code's own draws, its choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod

import pytest

from hubbub.client.respond import (
    RandomDraws,
    carry_flagged_bits,
    carry_flagged_category,
    carry_flagged_position,
    flags_of,
)
from hubbub.protocol.channel import UNIT, UNITS
from hubbub.protocol.epsilon import exp_below
from hubbub.protocol.history import UNITS as UNITS_OF_HISTORIES
from hubbub.protocol.history import History, category_history, history_of_bits, history_of_categories, variance
from hubbub.protocol.invalid import Invalid

F = Fraction
Law = dict[int, Fraction]
Answer = Callable[[int, int], Law]
"""From the mask of an answer and its own flags to the law of its report."""


def flag_laws(history: History) -> Iterator[tuple[int, Fraction]]:
    """Every choice of flags with its probability, as the code draws it: each number it may be given, on both sides."""
    for above in (True, False):
        weight = history.side(above)
        named = Counter(flags_of(history, above, number) for number in range(weight))
        for flags, numbers in named.items():
            yield flags, (history.above if above else 1 - history.above) * F(numbers, weight)


def category(d: int) -> Answer:
    def answer(mask: int, flag: int) -> Law:
        named = Counter(carry_flagged_category(mask, flag, other) for other in range(d - 1))
        return {report: F(number, d - 1) for report, number in named.items()}

    return answer


def bits(width: int, chance: Fraction) -> Answer:
    def answer(mask: int, flag: int) -> Law:
        law: Counter[int] = Counter()
        for noise in range(1 << width):
            probability = prod(chance if noise >> i & 1 else 1 - chance for i in range(width))
            law[carry_flagged_position(mask, flag, noise)] += probability
        return dict(law)

    return answer


def items(number: int) -> Answer:
    return lambda mask, flags: {carry_flagged_bits(mask, number, flags): F(1)}


def transcripts(history: History, answer: Answer, masks: Sequence[int]) -> dict[tuple[int, ...], Fraction]:
    """The law of everything that is ever said by one whose answers have these masks."""
    law: Counter[tuple[int, ...]] = Counter()
    own = (1 << history.items) - 1
    for flags, probability in flag_laws(history):
        each = [answer(mask, flags >> i * history.items & own) for i, mask in enumerate(masks)]
        for reports in product(*each):
            law[reports] += probability * prod(one[report] for one, report in zip(each, reports, strict=True))
    assert sum(law.values()) == 1
    return dict(law)


def worst(history: History, answer: Answer, masks: Sequence[int], seen: int | None = None) -> Fraction:
    """Over every pair of histories and every transcript, or its first so many answers."""
    least: dict[tuple[int, ...], Fraction] = {}
    most: dict[tuple[int, ...], Fraction] = {}
    for one in product(masks, repeat=history.answers):
        law: Counter[tuple[int, ...]] = Counter()
        for reports, probability in transcripts(history, answer, one).items():
            law[reports[:seen]] += probability
        for reports, probability in law.items():
            least[reports] = min(least.get(reports, probability), probability)
            most[reports] = max(most.get(reports, probability), probability)
    return max(most[reports] / least[reports] for reports in most)


CATEGORIES = [(2, 1), (2, 2), (2, 4), (2, 5), (3, 1), (3, 2), (3, 3), (4, 2), (4, 3)]


@pytest.mark.parametrize(("d", "answers"), CATEGORIES)
@pytest.mark.parametrize("epsilon", [F(1), F(4)])
def test_of_categories_no_two_histories_differ_by_more_than_said_and_some_do(d: int, answers: int, epsilon: F) -> None:
    history = history_of_categories(epsilon, 13, answers, d)
    found = worst(history, category(d), [1 << i for i in range(d)])
    assert found == history.worst_odds <= exp_below(epsilon)


@pytest.mark.parametrize(("width", "answers"), [(2, 1), (2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("threshold", [1, 2])
def test_of_bits_with_absences_no_two_histories_differ_by_more_than_said(
    width: int, answers: int, threshold: int
) -> None:
    """Where nothing is recorded no bit is set, and the flag is not shown."""
    chance, above = F(1, 4), F(7, 8)
    history = History(hold=13, answers=answers, threshold=min(threshold, answers), above=above, chance=chance)
    masks = [0, *(1 << i for i in range(width))]
    assert worst(history, bits(width, chance), masks) == history.worst_odds


@pytest.mark.parametrize(("number", "answers"), [(1, 3), (2, 1), (2, 2), (3, 1)])
def test_of_the_items_of_a_set_all_together_tell_what_is_said(number: int, answers: int) -> None:
    history = history_of_categories(F(3), 13, answers, 2, number)
    assert worst(history, items(number), range(1 << number)) == history.worst_odds <= exp_below(F(3))


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_some_of_the_answers_tell_what_is_said_of_as_many(seen: int) -> None:
    history = history_of_categories(F(2), 13, 3, 3)
    assert worst(history, category(3), [1, 2, 4], seen) == history.odds_after(seen)
    assert history.odds_after(3) == history.odds_after(9) == history.worst_odds
    a1, a0 = history.truth, history.chance
    assert history.odds_after(1) == a1 * (1 - a0) / (a0 * (1 - a1))


def test_one_report_of_a_set_tells_of_all_its_items_what_is_said() -> None:
    history = history_of_categories(F(3), 13, 2, 2, 2)
    assert worst(history, items(2), range(4), seen=1) == history.odds_after(1)


@pytest.mark.proof
@pytest.mark.parametrize(("d", "answers"), [(2, 6), (3, 5), (4, 4)])
def test_of_more_categories_and_answers_likewise(d: int, answers: int, figure) -> None:
    history = history_of_categories(F(4), 13, answers, d)
    found = worst(history, category(d), [1 << i for i in range(d)])
    figure(
        f"{answers} answers of {d} categories", f"worst odds {float(found):.6f} of e**4 = {float(exp_below(F(4))):.6f}"
    )
    assert found == history.worst_odds <= exp_below(F(4))


@pytest.mark.proof
@pytest.mark.parametrize("d", [3, 4])
def test_of_six_answers_likewise(d: int, figure) -> None:
    """All d**6 histories and transcripts; the flags' law is taken from the code, how a flag is seen from above."""
    history = history_of_categories(F(4), 13, 6, d)
    law = dict(flag_laws(history))
    agreeing = {flags: law[flags] / (d - 1) ** (6 - flags.bit_count()) for flags in law}
    everything = list(product(range(d), repeat=6))
    for said in everything:
        found = [
            agreeing[sum((a == b) << i for i, (a, b) in enumerate(zip(said, true, strict=True)))] for true in everything
        ]
        assert max(found) / min(found) == history.worst_odds
    figure(f"6 answers of {d} categories", f"{len(everything) ** 2} pairs, worst odds {float(history.worst_odds):.6f}")


SETTINGS = [(F(e), w, d) for e in ("1/2", "1", "4", "8") for w in (1, 3, 4, 13) for d in (2, 3, 7)]


@pytest.mark.parametrize(("epsilon", "answers", "d"), SETTINGS)
def test_a_slip_of_one_unit_to_the_wrong_side_would_tell_too_much(epsilon: F, answers: int, d: int) -> None:
    for history in (history_of_categories(epsilon, 13, answers, d), history_of_bits(epsilon, 13, answers, F(1, d))):
        assert history.worst_odds <= exp_below(epsilon)
        if history.above + UNIT < 1:
            assert history.replace(above=history.above + UNIT).worst_odds > exp_below(epsilon)


def test_a_law_that_is_drawn_with_a_slip_is_noticed_by_the_enumeration() -> None:
    history = history_of_categories(F(1), 13, 3, 2)
    slipped = history.replace(above=history.above + UNIT)
    assert worst(slipped, category(2), [1, 2]) > exp_below(F(1)) >= history.worst_odds


# --- the law itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chance", [F(1, 2), F(1, 3), F(3, 8)])
@pytest.mark.parametrize("threshold", [1, 2, 4])
def test_the_numbers_that_are_drawn_name_flags_by_the_law(chance: Fraction, threshold: int) -> None:
    """P(z) = a0**|z| (1 - a0)**(W - |z|) x (p/q or (1 - p)/(1 - q)), for every z; and the moments that follow."""
    d = 3 if chance == F(1, 3) else None
    history = History(hold=2, answers=4, threshold=threshold, above=F(63, 64), chance=chance, categories=d)
    law = dict(flag_laws(history))
    q = sum(comb(4, k) * chance**k * (1 - chance) ** (4 - k) for k in range(threshold, 5))
    for z in range(16):
        raised = history.above / q if z.bit_count() >= threshold else (1 - history.above) / (1 - q)
        assert law[z] == chance ** z.bit_count() * (1 - chance) ** (4 - z.bit_count()) * raised
    assert history.by_chance == q
    assert history.truth == sum(p for z, p in law.items() if z & 4)
    assert history.both_truths == sum(p for z, p in law.items() if z & 5 == 5)
    assert history.count_law == tuple(sum(p for z, p in law.items() if z.bit_count() == k) for k in range(5))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 100, 129, 255, 256])
def test_a_number_below_a_limit_is_any_of_them_equally_often(limit: int) -> None:
    """Every byte there is; those that are too large are followed by one that is not."""
    found = Counter()
    for byte in range(256):
        given = iter([byte, 0])
        drawn = RandomDraws(lambda size, given=given: bytes(next(given) for _ in range(size))).below(limit)
        if next(given, None) == 0 or limit == 1:  # the second was not needed
            found[drawn] += 1
    assert set(found) == set(range(limit))
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(("side", "slip"), [(True, -1), (False, 0)])
def test_the_side_is_chosen_by_24_bits(side: bool, slip: int) -> None:
    """The largest number below p x 2**24 is on the one side, the next on the other."""
    history = history_of_categories(F(4), 13, 4, 2)
    number = int(history.above * UNITS) + slip
    given = iter([number.to_bytes(3, "little"), bytes(1)])
    assert (RandomDraws(lambda size: next(given)).flags(history).bit_count() >= history.threshold) is side


def test_one_answer_has_the_noise_of_a_memo() -> None:
    """Randomised response: e**epsilon / (e**epsilon + d - 1), but for rounding."""
    for d in (2, 4, 9):
        history = history_of_categories(F(2), 1, 1, d)
        best = exp_below(F(2)) / (exp_below(F(2)) + d - 1)
        assert best - UNIT < history.truth <= best


# --- its choice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "answers", "d"), SETTINGS)
def test_the_threshold_has_the_least_error_there_is(epsilon: F, answers: int, d: int) -> None:
    chosen = history_of_categories(epsilon, 13, answers, d)
    others = []
    for threshold in range(1, answers + 1):
        q = sum(comb(answers, k) * (d - 1) ** (answers - k) for k in range(threshold, answers + 1)) / F(d**answers)
        above = F(int(exp_below(epsilon) * q / (1 - q + exp_below(epsilon) * q) * UNITS), UNITS)
        if q < above:
            others.append(chosen.replace(threshold=threshold, above=above))
    assert chosen in others
    assert variance(chosen, F(1, d)) == min(variance(other, F(1, d)) for other in others)


@pytest.mark.parametrize("epsilon", [F(1), F(4)])
@pytest.mark.parametrize("answers", [1, 4])
def test_the_chance_of_bits_is_within_a_hundredth_of_the_best(epsilon: F, answers: int) -> None:
    """Against every multiple of 2**-12, and every threshold."""
    share = F(1, 64)
    chosen = history_of_bits(epsilon, 13, answers, share)
    best = variance(chosen, share)
    for units in range(4, 2049, 4):
        chance = F(units, 4096)
        for threshold in range(1, answers + 1):
            law = [comb(answers, k) * chance**k * (1 - chance) ** (answers - k) for k in range(answers + 1)]
            q = sum(law[threshold:])
            above = F(int(exp_below(epsilon) * q / (1 - q + exp_below(epsilon) * q) * UNITS), UNITS)
            if q < above:
                best = min(best, variance(chosen.replace(chance=chance, threshold=threshold, above=above), share))
    assert variance(chosen, share) < best * F(101, 100)


def test_a_year_of_a_flag_in_four_answers() -> None:
    """52 weeks, 30 % say yes, epsilon 4 in all: n Var of a week, of a change between two weeks, of a quarter's average;
    the first and last also of four independent answers of epsilon 1. With q = 1/16, a1 = p + (1 - p) 7/15."""
    history = history_of_categories(F(4), 13, 4, 2)
    e, share, weeks = exp_below(F(4)), F(3, 10), 13
    assert UNITS_OF_HISTORIES == UNITS
    assert (history.threshold, history.by_chance) == (4, F(1, 16))
    assert history.above <= e / (e + 15) < history.above + UNIT
    a1 = history.above + (1 - history.above) * F(7, 15)
    assert history.truth == a1
    assert history.both_truths == history.above + (1 - history.above) * F(1, 5)  # 12 of 60 pairs with less than four
    once = a1 * (1 - a1) / (2 * a1 - 1) ** 2
    assert variance(history, share) == once
    week = weeks * once + share * (1 - share) * (weeks - 1)
    alone = exp_below(F(1)) / (exp_below(F(1)) - 1) ** 2
    shown = [f"{float(x):.3g}" for x in (week, 2 * week, once, weeks * alone + share * (1 - share) * 12, alone)]
    assert shown == ["4.75", "9.5", "0.172", "14.5", "0.921"]
    both = (a1 * (1 - a1) / 4 + F(3, 4) * (history.both_truths - a1**2)) / (2 * a1 - 1) ** 2
    assert f"{float(both):.3g}" == "0.0989", "a year's average: the answers of an install are not independent"


def test_four_categories_in_four_answers() -> None:
    """A share of 10 %, epsilon 4: n Var of a quarter, where four independent answers have 1.71."""
    assert f"{float(variance(history_of_categories(F(4), 13, 4, 4), F(1, 10))):.2f}" == "0.47"


# --- what is refused ------------------------------------------------------------------------------------------------

GOOD = {"hold": 13, "answers": 4, "threshold": 4, "above": F(3, 4), "chance": F(1, 2), "categories": 2, "items": 1}


@pytest.mark.parametrize(
    ("slip", "problem"),
    [
        ({"hold": 0}, "hold must be in [1, 1000] epochs, got 0"),
        ({"hold": 1001}, "hold must be in [1, 1000] epochs, got 1001"),
        ({"answers": 0}, "max_values must be in [1, 64] where hold is set, got 0"),
        ({"answers": 65}, "max_values must be in [1, 64] where hold is set, got 65"),
        ({"items": 65}, "max_values x items_per_report must be at most 256 where hold is set, got 260"),
        ({"threshold": 0}, "threshold must be in [1, 4], the number of flags, got 0"),
        ({"threshold": 5}, "threshold must be in [1, 4], the number of flags, got 5"),
        ({"chance": F(1, 3)}, "the flags of 2 categories need a chance of one in as many, got 1/3"),
        ({"categories": 1, "chance": F(1)}, "the flags of 1 categories need a chance of one in as many, got 1"),
        ({"categories": None, "chance": F(1, 3)}, "must be a multiple of 2**-24 above 0 and at most 1/2, got 1/3"),
        ({"categories": None, "chance": F(5, 8)}, "must be a multiple of 2**-24 above 0 and at most 1/2, got 5/8"),
        ({"above": F(1, 16)}, "between 1/16, what independent flags have, and 1, got 1/16"),
        ({"above": F(1)}, "between 1/16, what independent flags have, and 1, got 1"),
        ({"above": F(2, 3)}, "above must be a multiple of 2**-24 between"),
    ],
)
def test_what_is_no_law_is_refused_in_words(slip: dict, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        History(**{**GOOD, **slip})
    assert problem in str(refused.value)


def test_categories_are_sent_in_whichever_way_has_less_error() -> None:
    ways = set()
    for d in (2, 4, 60):
        chosen = category_history(F(2), 4, 3, d)
        others = history_of_categories(F(2), 4, 3, d), history_of_bits(F(2), 4, 3, F(1, d))
        assert variance(chosen, F(1, d)) == min(variance(other, F(1, d)) for other in others)
        ways.add(chosen.categories is None)
    assert ways == {False, True}
