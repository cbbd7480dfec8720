"""What the collector can learn from everything an install ever sends, exactly: no sampling, the real client, all draws.

Odds are e**epsilon as fractions. Value privacy compares histories that change at the same times; with `hold` (in
test_histories.py) any two histories are compared. The longer histories are in `make proof`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import pytest

from hubbub.client import Registry
from hubbub.client.identity import Identity
from hubbub.client.memos import Memo, _fingerprint
from hubbub.client.respond import permanent_response
from hubbub.protocol.epsilon import log_above
from tests.client.transcripts import DAY, Epoch, law_of, worst_odds
from tests.registry_head import head

HEAD = head("t", 1000)
DAILY = 'every = "day"\n'
TERMS = f'why = "w"\nowner = "o"\nexpires = 2099-01-01\n{DAILY}'
NOISY = "epsilon_one_report = 1.0\nepsilon_permanent = 2.0\n"
CLEAR = "epsilon_one_report = 2.0\nepsilon_permanent = 2.0\n"  # reports show the memo itself: the bound is reached


def registry(**metrics: str) -> Registry:
    return Registry.parse(HEAD + "".join(f"[metrics.{name}]\n{TERMS}{keys}\n" for name, keys in metrics.items()))


def histories(values: list[object], epochs: int) -> list[tuple[object, ...]]:
    """Every history of one metric; None stands for an epoch without a record."""
    return list(product(values, repeat=epochs))


def as_epochs(name: str, history: tuple[object, ...]) -> list[Epoch]:
    return [{} if value is None else {name: value} for value in history]


def pattern(history: tuple[object, ...]) -> tuple[int, ...]:
    """Which epochs share an answer."""
    return tuple(history.index(value) for value in history)


def same_pattern(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    return pattern(first) == pattern(second)


def any_two(first: object, second: object) -> bool:
    return True


def bound(reg: Registry, name: str, slots: int) -> Fraction:
    metric = reg[name]
    return metric.noise.odds_permanent(metric.shape.flips) ** slots


def flag_laws(keys: str, epochs: int, restart: bool = False) -> tuple[Registry, dict[tuple[object, ...], dict]]:
    reg = registry(theme=f'kind = "flag"\n{keys}')
    # `False` and not recording are the same mask here, so one letter stands for both; `True, None` is still tried.
    return reg, {h: law_of([reg], as_epochs("theme", h), restart=restart) for h in histories([True, None], epochs)}


@pytest.mark.parametrize("restart", [False, True])
def test_equal_change_patterns_stay_under_slots_times_epsilon_permanent(restart: bool) -> None:
    reg, laws = flag_laws(NOISY + "max_values = 2", epochs=3, restart=restart)
    worst = worst_odds(laws, same_pattern)
    assert 1 < worst < bound(reg, "theme", 2)


def test_the_bound_is_reached_where_reports_show_the_memo() -> None:
    reg, laws = flag_laws(CLEAR + "max_values = 2", epochs=3)
    assert worst_odds(laws, same_pattern) == bound(reg, "theme", 2)


def test_without_hold_a_change_can_be_seen() -> None:
    """Why the label says so: where reports show the memo, constant and changing can be told apart for certain."""
    reg = registry(theme=f'kind = "flag"\n{CLEAR}max_values = 2')
    laws = {h: law_of([reg], as_epochs("theme", h)) for h in [(True, None, True), (True, True, True)]}
    with pytest.raises(AssertionError, match="told apart for certain"):
        worst_odds(laws, any_two)


HISTOGRAM = f'kind = "histogram"\nedges = [0, 1, 2, 3]\nbuckets_per_report = 1\n{CLEAR}max_values = 2'


def test_a_histogram_is_compared_by_the_bucket_that_is_asked_about() -> None:
    """This install is asked about the first of three buckets. Histories whose asked part changes together stay under
    the bound, which is reached; by how far an answer moved (from 1.5 to 2.5 leaves the asked part as it is, from 0.5 to
    1.5 does not) they are told apart, as the label says."""
    reg = registry(size=HISTOGRAM)
    laws = {h: law_of([reg], as_epochs("size", h)) for h in histories([0.5, 1.5, 2.5], 3)}
    parts = {h: tuple(reg["size"].shape.encode(value, 0).mask for value in h) for h in laws}
    assert worst_odds(laws, lambda a, b: pattern(parts[a]) == pattern(parts[b])) == bound(reg, "size", 2)
    with pytest.raises(AssertionError, match="told apart for certain"):
        worst_odds(laws, same_pattern)
    assert reg["size"].shape.asks_part


def test_of_what_accumulates_only_the_answer_of_an_epoch_can_be_learnt() -> None:
    """However many records it took: the laws of equal answers are equal, and those of others stay under the same bound,
    which is reached."""
    reg = registry(crashed=f'kind = "flag"\n{CLEAR}max_values = 2\naccumulate = "any"')
    days = {"yes": [[True], [False, True, False]], "no": [[False], [False, False], None]}
    laws = {
        (answers, number): law_of([reg], as_epochs("crashed", tuple(days[a][number % len(days[a])] for a in answers)))
        for answers in product(days, repeat=2)
        for number in range(3)
    }
    for (answers, _), law in laws.items():
        assert law == laws[answers, 0]
    assert worst_odds(laws, lambda a, b: pattern(a[0]) == pattern(b[0])) == bound(reg, "crashed", 2)


def test_of_a_sum_only_its_part_that_is_asked_about_can_be_learnt() -> None:
    reg = registry(exports=HISTOGRAM + '\naccumulate = "sum"')
    days = [[0.5, 0.25], [0.5, 0.5], [1, 1, 0.5], None]
    laws = {h: law_of([reg], as_epochs("exports", h)) for h in product(map(tuple_or_none, days), repeat=2)}
    parts = {h: tuple(reg["exports"].shape.encode(sum(day or ()), 0).mask for day in h) for h in laws}
    for history, law in laws.items():
        assert law == next(other for h, other in laws.items() if parts[h] == parts[history])
    assert worst_odds(laws, lambda a, b: pattern(parts[a]) == pattern(parts[b])) == bound(reg, "exports", 2)


def tuple_or_none(day: list[float] | None) -> tuple[float, ...] | None:
    return None if day is None else tuple(day)


GRID = f'kind = "mean"\nlow = 0\nhigh = 1\nabsent = 0\npoints = 3\n{CLEAR}max_values = 2'


def grid_laws(
    numbers: list[object],
) -> tuple[Registry, dict[tuple[object, ...], dict], dict[tuple[object, ...], tuple]]:
    """Of a mean on three points over two days; and to which points this install rounds the numbers of each history."""
    reg = registry(time=GRID)
    dither = Identity(bytes(32), 0).dither(reg["time"])
    laws = {h: law_of([reg], as_epochs("time", h)) for h in histories(numbers, 2)}
    return reg, laws, {h: tuple(reg["time"].shape.encode(number, 0, dither).mask for number in h) for h in laws}


def test_of_a_mean_on_a_grid_each_kept_point_costs_epsilon_permanent() -> None:
    """A number that moves from point to point, and between them. What stays on a point costs one kept answer however
    often it is asked; histories that move at the same times stay under two, which is reached; and a move that stays at
    a point by this install's own rounding is none."""
    reg, laws, points = grid_laws([0, 0.5, 0.6, 1])
    assert len(set(points.values())) == 9
    for history, law in laws.items():
        assert law == next(other for h, other in laws.items() if points[h] == points[history])
    together = worst_odds(laws, lambda a, b: pattern(points[a]) == pattern(points[b]))
    assert together == bound(reg, "time", 2)
    stays = worst_odds(laws, lambda a, b: len({*points[a]}) == len({*points[b]}) == 1)
    assert stays == bound(reg, "time", 1)
    assert log_above(together) <= 2 * reg["time"].epsilon_permanent == reg["time"].epsilon_lifetime


def test_of_a_mean_on_a_grid_memos_that_are_drawn_afresh_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.client.recorder.find_or_draw", drawn_afresh)
    reg = registry(time=GRID)
    laws = {h: law_of([reg], as_epochs("time", h)) for h in [(0, 0), (1, 1)]}
    assert worst_odds(laws, any_two) == bound(reg, "time", 2) > bound(reg, "time", 1)


GATHERED = {
    "last": (
        registry(theme=f'kind = "flag"\n{CLEAR}max_values = 2\naccumulate = "last"'),
        {"yes": ([True], [False, True]), "no": ([False], [True, False], None)},
        lambda metric, before, value: before or value,
    ),
    "max": (
        registry(theme=f'kind = "mean"\nlow = 0\nhigh = 2\nabsent = 0\n{CLEAR}max_values = 2\naccumulate = "max"'),
        {"yes": ([2], [0, 2, 0]), "no": ([0], [0, 0], None)},
        lambda metric, before, value: value,
    ),
}
"""A registry, days that come to one answer each, and a wrong way to put two records together."""


def gathered_laws(how: str) -> tuple[Registry, dict[tuple[tuple[str, ...], int], dict]]:
    """Of every two answers, each by every kind of day."""
    reg, days, _ = GATHERED[how]
    return reg, {
        (answers, number): law_of([reg], as_epochs("theme", tuple(days[a][number % len(days[a])] for a in answers)))
        for answers in product(days, repeat=2)
        for number in range(3)
    }


@pytest.mark.parametrize("how", GATHERED)
def test_of_the_last_and_the_largest_record_only_the_answer_can_be_learnt(how: str) -> None:
    """Not how many records it took, nor what the others were: laws of equal answers are equal. Answers that change
    together stay under the bound, which is reached."""
    reg, laws = gathered_laws(how)
    assert all(law == laws[answers, 0] for (answers, _), law in laws.items())
    assert worst_odds(laws, lambda a, b: pattern(a[0]) == pattern(b[0])) == bound(reg, "theme", 2)


@pytest.mark.parametrize("how", GATHERED)
def test_records_that_are_put_together_wrongly_are_caught(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any yes instead of the last answer, the last number instead of the largest: other records tell, too."""
    monkeypatch.setattr("hubbub.client.gathering.combined", GATHERED[how][2])
    _, laws = gathered_laws(how)
    assert any(law != laws[answers, 0] for (answers, _), law in laws.items())


def set_of(keys: str, number: int = 2) -> Registry:
    return registry(used=f'kind = "set"\nitems = ["a", "b", "c"]\nitems_per_report = {number}\n{keys}')


def used(history: tuple[tuple[str, ...], ...], asked: str = "ab") -> tuple[tuple[bool, ...], ...]:
    """What is asked about, epoch by epoch, for each item: this install has the first cohort."""
    return tuple(tuple(item in day for day in history) for item in asked)


SETS = [(), ("a",), ("b",), ("a", "b")]


def test_of_a_set_each_item_is_bounded_by_its_part_and_all_by_slots_times_epsilon_permanent() -> None:
    """Two of three items, two days. Histories in which each item changes at the same times stay under twice
    epsilon_permanent, which is reached where both items change; where one of them is the same in both histories, and
    where none changes, it is half of that: one part for each kept answer that differs."""
    reg = set_of(CLEAR + "max_values = 2")
    laws = {h: law_of([reg], as_epochs("used", h)) for h in histories(SETS, 2)}
    part = bound(reg, "used", 1)  # of both items together

    def together(one: tuple, other: tuple) -> bool:
        return all(pattern(a) == pattern(b) for a, b in zip(used(one), used(other), strict=True))

    assert worst_odds(laws, together) == part**2
    assert worst_odds(laws, lambda a, b: together(a, b) and len(set(a)) == 1) == part
    assert worst_odds(laws, lambda a, b: together(a, b) and used(a)[1] == used(b)[1]) == part
    assert log_above(part**2) <= 2 * reg["used"].epsilon_permanent == reg["used"].epsilon_lifetime


def test_of_a_set_only_the_items_asked_about_can_be_learnt_and_not_how_often_or_in_which_order() -> None:
    reg = set_of(CLEAR + "max_values = 2")
    days = [(["a", "b"], ["b", "a", "c", "a"]), (["a"], [("a", "c"), "a"]), ([], ["c"])]
    for one, other in days:
        plain, busy = ([{"used": day} if day else {}, {"used": ["b"]}] for day in (one, other))
        assert law_of([reg], plain) == law_of([reg], busy)


def test_of_a_set_reports_tell_less_than_the_memo_and_a_report_its_epsilon() -> None:
    reg = set_of(NOISY + "max_values = 2")
    laws = {h: law_of([reg], as_epochs("used", h)) for h in histories(SETS, 1)}
    metric = reg["used"]
    assert worst_odds(laws, any_two) == metric.noise.odds_after(1, metric.shape.flips)


def test_of_a_set_whose_whole_answer_is_kept_any_two_histories_stay_under_the_bound() -> None:
    reg = set_of(CLEAR + "max_values = 1")
    laws = {h: law_of([reg], as_epochs("used", h)) for h in histories(SETS[1:], 2)}
    assert worst_odds(laws, any_two) == bound(reg, "used", reg["used"].max_values)


def test_one_more_message_after_a_year_tells_as_much_of_a_change_as_the_label_says() -> None:
    """To one who knows both memos from the past, the next report is one of two draws of the instantaneous channel."""
    metric = registry(theme=f'kind = "flag"\n{NOISY}max_values = 2')["theme"]
    q, p = metric.noise.instantaneous.probabilities
    worst = max(q / p, (1 - p) / (1 - q))
    assert log_above(worst, 12) == metric.epsilon_one_more


def test_one_slot_answers_for_life() -> None:
    reg, laws = flag_laws(CLEAR + "max_values = 1", epochs=3)
    assert worst_odds(laws, any_two) == bound(reg, "theme", 1)


def test_presence_and_length_never_depend_on_what_was_recorded() -> None:
    """Recorded, not recorded or refused: as many messages, of the same sizes."""
    reg = registry(
        theme=f'kind = "flag"\n{CLEAR}max_values = 2',
        language=f'kind = "choice"\nchoices = ["a", "b"]\n{CLEAR}max_values = 3',
    )
    shapes = set()
    for history in (
        [{}, {}],
        [{"theme": True}, {"language": "b"}],
        [{"language": "wrong"}, {"theme": True, "language": "a"}],
    ):
        shapes |= {tuple(map(len, transcript)) for transcript in law_of([reg], history)}
    assert len(shapes) == 1
    assert len(next(iter(shapes))) == 2


def test_two_metrics_together_stay_under_the_sum_of_their_epsilons() -> None:
    reg = registry(
        theme=f'kind = "flag"\n{CLEAR}max_values = 1',
        size=f'kind = "mean"\nlow = 0\nhigh = 1\nabsent = 0\n{NOISY}max_values = 1',
    )
    laws = {
        (theme, size): law_of([reg], [{"theme": theme, "size": size}, {"theme": theme, "size": size}])
        for theme in (True, False)
        for size in (0, 1)
    }
    worst = worst_odds(laws, any_two)
    flips = reg["size"].shape.flips
    assert worst == bound(reg, "theme", 1) * reg["size"].noise.odds_after(2, flips)
    assert worst <= bound(reg, "theme", 1) * bound(reg, "size", 1)


def overflow_keys(reg: Registry, name: str, masks: list[int]) -> list[bytes]:
    """Keys under which the overflowing masks fall on the slots in every way, equally often: the keyed hash taken as a
    random function of masks."""
    metric = reg[name]
    found: dict[tuple[int, ...], bytes] = {}
    seed = 0
    while len(found) < metric.max_values ** len(masks):
        who = Identity(seed.to_bytes(32, "little"), 0)
        prints = [_fingerprint(who, metric, 0, mask) for mask in masks]
        slots = tuple(int.from_bytes(who.keyed(b"overflow", p), "little") % metric.max_values for p in prints)
        found.setdefault(slots, who.key)
        seed += 1
    return list(found.values())


CHOICE = 'kind = "choice"\nchoices = ["a", "b", "c"]\nabsent = "c"\n'


def choice_laws(noise: str, epochs: int, max_values: int) -> tuple[Registry, dict[tuple[object, ...], dict]]:
    reg = registry(language=f"{CHOICE}{noise}max_values = {max_values}")
    keys = overflow_keys(reg, "language", [1, 2, 4])
    return reg, {h: law_of([reg], as_epochs("language", h), keys=keys) for h in histories(["a", "b", None], epochs)}


def test_answers_beyond_the_last_slot_repeat_old_ones_and_cost_nothing() -> None:
    reg, laws = choice_laws(CLEAR, epochs=3, max_values=1)
    assert worst_odds(laws, same_pattern) == bound(reg, "language", 1)


def test_which_old_answer_is_repeated_tells_nothing_of_the_new_one() -> None:
    """Three answers in two slots, in every order: the third repeats the first or the second, as its hash says."""
    reg = registry(language=f"{CHOICE}{CLEAR}max_values = 2")
    keys = overflow_keys(reg, "language", [1, 2, 4])
    orders = list(permutations(["a", "b", None]))
    laws = {order: law_of([reg], as_epochs("language", order), keys=keys) for order in orders}
    assert worst_odds(laws, same_pattern) == bound(reg, "language", 2)


def test_a_subset_that_is_sent_once_tells_its_epsilon_whatever_comes_later() -> None:
    """Every subset of five categories, from `record` to the wire, over two months: exactly the odds of the channel."""
    keys = 'kind = "choice"\nevery = "once"\nchoices = ["a", "b", "c", "d"]\n' + CLEAR.replace("2.0", "0.5")
    reg = Registry.parse(HEAD + f"[metrics.editor]\n{TERMS.replace(DAILY, '')}{keys}")
    assert reg["editor"].weight == 2
    laws = {h: law_of([reg], as_epochs("editor", h), span=31 * DAY) for h in histories(["a", "c", None], 2)}
    assert {len(law) for law in laws.values()} == {10}, "there is one message, and as many as there are subsets"
    assert worst_odds(laws, any_two) == bound(reg, "editor", 1)


def redefined() -> tuple[Registry, Registry]:
    before = registry(theme=f'kind = "flag"\n{CLEAR}max_values = 1')
    after = registry(theme='kind = "flag"\nepsilon_one_report = 1.5\nepsilon_permanent = 1.5\nmax_values = 1')
    return before, after


def test_a_redefined_metric_is_a_new_metric_and_both_charges_add() -> None:
    before, after = redefined()
    # The first epoch goes out in the second. The upgrade in the third asks anew, which empties the outbox; after the
    # new yes, reporting starts with the fourth.
    laws = {h: law_of([before, before, after], as_epochs("theme", h)) for h in histories([True, None], 4)}
    assert worst_odds(laws, any_two) == bound(before, "theme", 1) * bound(after, "theme", 1)


def test_a_planted_leak_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check fails if an epoch without a record stays silent, and if memos are drawn afresh."""
    reg = registry(theme=f'kind = "flag"\n{CLEAR}max_values = 1')
    with monkeypatch.context() as patch:
        patch.setattr("hubbub.client.epochs._metrics_asked", only_what_was_recorded)
        laws = {h: law_of([reg], as_epochs("theme", h)) for h in [(True,), (None,)]}
        with pytest.raises(AssertionError, match="told apart for certain"):
            worst_odds(laws, any_two)
    with monkeypatch.context() as patch:
        patch.setattr("hubbub.client.recorder.find_or_draw", drawn_afresh)
        laws = {h: law_of([reg], as_epochs("theme", h)) for h in [(True, True), (None, None)]}
        assert worst_odds(laws, same_pattern) == bound(reg, "theme", 2) > bound(reg, "theme", 1)


def only_what_was_recorded(maker, every, epoch):
    return (metric for metric in maker.registry.with_cadence(every) if maker.has_report(metric, epoch))


def drawn_afresh(db, who, metric, mask, draws) -> Memo:
    return Memo(permanent_response(metric, mask, who.cohort(metric), draws))


# --- the long forms -----------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_five_epochs_of_a_flag_under_value_privacy(figure) -> None:
    for name, noise in (("noisy", NOISY), ("clear", CLEAR)):
        reg, laws = flag_laws(noise + "max_values = 2", epochs=5)
        worst = worst_odds(laws, same_pattern)
        assert worst <= bound(reg, "theme", 2)
        figure(
            f"five epochs, two slots, {name}",
            f"worst odds {float(worst):.6f}, bound {float(bound(reg, 'theme', 2)):.6f}",
        )
    assert worst == bound(reg, "theme", 2)


@pytest.mark.proof
@pytest.mark.parametrize("max_values", [1, 2])
def test_choices_with_overflow_over_every_history(figure, max_values: int) -> None:
    for name, noise, epochs in (("noisy", NOISY, 3), ("clear", CLEAR, 4)):
        reg, laws = choice_laws(noise, epochs, max_values)
        limit = bound(reg, "language", max_values)
        worst = worst_odds(laws, same_pattern)
        assert worst <= limit
        figure(
            f"choice, {epochs} epochs, {max_values} slots, {name}",
            f"{len(laws)} histories, worst odds {float(worst):.6f}, bound {float(limit):.6f}",
        )
    assert worst == limit


@pytest.mark.proof
def test_two_metrics_over_every_pair_of_histories(figure) -> None:
    reg = registry(
        theme=f'kind = "flag"\n{CLEAR}max_values = 2',
        beta=f'kind = "flag"\n{CLEAR}max_values = 1',
    )
    laws = {
        (theme, beta): law_of(
            [reg], [{**a, **b} for a, b in zip(as_epochs("theme", theme), as_epochs("beta", beta), strict=True)]
        )
        for theme in histories([True, None], 4)
        for beta in histories([True, None], 4)
    }
    worst = worst_odds(laws, lambda a, b: same_pattern(a[0], b[0]))
    limit = bound(reg, "theme", 2) * bound(reg, "beta", 1)
    figure(
        "two metrics, four epochs", f"{len(laws)} histories, worst odds {float(worst):.6f}, bound {float(limit):.6f}"
    )
    assert worst == limit
