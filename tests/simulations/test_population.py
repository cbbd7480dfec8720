"""Crowds are the same for the same seed, have the shares they were asked for, and their truth is counted right."""

from __future__ import annotations

import numpy as np

from hubbub.analysis import decode
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.demo.run import QUESTIONS, make_crowd
from hubbub.simulations.people.truth import truth_of
from hubbub.simulations.population import Question, draw_crowd, lognormal, weighted, zipf
from tests.chance import assert_binomial, power

TERMS = 'why = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nmax_values = 2\n'
NOISE = "epsilon_one_report = 1\nepsilon_permanent = 2\n"


def metric(keys: str):
    return Registry.parse(f'app = "t"\nlifetime_epsilon = 9\n[metrics.m]\n{TERMS}{NOISE}{keys}')["m"]


def truth(keys: str, answers: list[list], candidates: list[str] | None = None) -> dict[str, float]:
    asked = metric(keys)
    decoding = decode(Tally(asked, {}), candidates)
    return dict(zip(decoding.values, truth_of(decoding, asked, answers).tolist(), strict=True))


def test_the_same_seed_gives_the_same_crowd_and_another_another() -> None:
    assert make_crowd(50, seed=1) == make_crowd(50, seed=1)
    assert make_crowd(50, seed=1) != make_crowd(50, seed=2)


def test_answers_last_unless_they_are_daily() -> None:
    crowd = make_crowd(50, seed=1)
    assert crowd.installs == 50
    assert crowd.epochs[0]["homepage"] == crowd.epochs[1]["homepage"]
    assert crowd.epochs[0]["startup_time"] != crowd.epochs[1]["startup_time"]


def test_weights_and_absences_are_those_asked_for() -> None:
    """20,000 installs tell 0.50 from 0.52 nearly always."""
    crowd = draw_crowd({"m": Question(draw=weighted(["a", "b"], [1, 3]), absent=0.5)}, 20_000, 1, seed=3)
    (answers,) = crowd.answers("m")
    said = [answer for answer in answers if answer is not None]
    assert_binomial(len(answers) - len(said), 20_000, 0.5)
    assert_binomial(said.count("a"), len(said), 0.25)
    assert power(20_000, 0.5, wrong_p=0.54) > 0.999


def test_zipf_falls_with_the_rank_and_lognormal_has_its_median() -> None:
    rng = np.random.default_rng(4)
    ranks = zipf(["a", "b"], 1.0)(rng, 30_000)
    assert_binomial(ranks.count("a"), 30_000, 2 / 3)
    numbers = lognormal(10.0, 0.7, 50.0)(rng, 30_000)
    assert_binomial(sum(number < 10.0 for number in numbers), 30_000, 0.5)
    assert max(numbers) == 50.0


def test_every_question_of_the_demo_is_one_of_its_metrics() -> None:
    from importlib.resources import files

    registry = Registry.parse(files("hubbub.simulations.demo").joinpath("metrics.toml").read_text())
    assert list(QUESTIONS) == list(registry.metrics)


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


def test_the_truth_of_a_range_has_leaves_and_quantiles() -> None:
    keys = 'kind = "range"\nlow = 0\nhigh = 4\nnum_leaves = 4\nbranching = 2'
    found = truth(keys, [[0.5, 1.5, 1.6, 4.0]])
    assert list(found.values())[:4] == [0.25, 0.5, 0.0, 0.25]
    assert found["quantile 0.5"] == 1.55
