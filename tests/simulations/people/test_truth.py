"""The truth about a crowd is counted right, row by row, for every kind."""

from __future__ import annotations

from collections import Counter

from hubbub.analysis import decode
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.people.truth import truth_of
from tests.registry_head import head

TERMS = 'why = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nmax_values = 2\n'
NOISE = "epsilon_one_report = 1\nepsilon_permanent = 2\n"


def truth(keys: str, answers: list[list], candidates: list[str] | None = None) -> dict[str, float]:
    """The true value of each row, from what the installs recorded in each epoch."""
    metric = Registry.parse(f"{head('t', 9)}[metrics.m]\n{TERMS}{NOISE}{keys}")["m"]
    decoding = decode(Tally(metric, {}), candidates)
    counts = Counter(answer for epoch in answers for answer in epoch)
    return dict(zip(decoding.values, truth_of(decoding, metric, counts, len(answers)).tolist(), strict=True))


def test_the_truth_of_a_flag_counts_silence_as_its_absent_value() -> None:
    assert truth('kind = "flag"', [[True, None], [False, None]])["yes"] == 0.25
    assert truth('kind = "flag"\nabsent = true', [[True, None], [False, None]])["yes"] == 0.75


def test_the_truth_of_a_choice_has_a_row_for_silence() -> None:
    found = truth('kind = "choice"\nchoices = ["a", "b"]', [["a", "a", None, "b"]])
    assert found == {"a": 0.5, "b": 0.25, "absent": 0.25}


def test_the_truth_of_strings_knows_what_is_not_listed() -> None:
    keys = 'kind = "string"\nnum_bits = 8\nnum_hashes = 1\nnum_cohorts = 4'
    found = truth(keys, [["x", "y", "z", None]], candidates=["x", "w"])
    assert found == {"x": 0.25, "w": 0.0, "absent": 0.25, "other": 0.5}


def test_the_truth_of_a_mean_is_in_its_unit_and_its_sum_is_that_of_one_epoch() -> None:
    found = truth('kind = "mean"\nlow = 0\nhigh = 10\nabsent = 1', [[3.0, None], [5.0, 3.0]])
    assert found == {"mean": 3.0, "sum": 6.0}


def test_the_truth_of_a_histogram_follows_its_edges() -> None:
    keys = 'kind = "histogram"\nedges = [0, 1, 10]\nbuckets_per_report = 2'
    assert list(truth(keys, [[0.0, 0.9, 1.0, 10.0]]).values()) == [0.5, 0.5, 0.0]


def test_the_truth_of_a_set_counts_a_person_once_for_each_item() -> None:
    found = truth('kind = "set"\nitems = ["a", "b", "c"]', [[frozenset("ab"), frozenset("a"), None, frozenset()]])
    assert found == {"a": 0.5, "b": 0.25, "c": 0.0}


def test_the_truth_of_a_range_has_leaves_and_quantiles() -> None:
    keys = 'kind = "range"\nlow = 0\nhigh = 4\nnum_leaves = 4\nbranching = 2'
    found = truth(keys, [[0.5, 1.5, 1.6, 4.0]])
    assert list(found.values())[:4] == [0.25, 0.5, 0.0, 0.25]
    assert found["quantile 0.5"] == 1.55
