"""Best guesses: possible populations, nearer to the truth where they are made together, and never much farther."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.estimation.cells import pool
from hubbub.analysis.estimation.design import Design
from hubbub.analysis.estimation.guesses import joint_shares, likely_shares, nearest_shares
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.estimation.string_screen import StringEstimates, screen
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds.string import string_design
from hubbub.protocol.kinds import Choice, String
from hubbub.protocol.noise import rappor_noise
from tests.analysis.worlds import define, tally_of, zipf

INSTALLS = 1_000_000


def world(shape: String, present: int, listed: int, seed: int) -> tuple[Design, StringEstimates, np.ndarray]:
    """A population by Zipf's law, its tally decoded; and the true shares of the listed strings."""
    metric = define(shape, noise=rappor_noise(Fraction(1, 2), Fraction(0), Fraction(1)))
    held = np.zeros(listed)
    held[:present] = np.floor(zipf(present) * INSTALLS)
    seeds = digests([f"text {i}" for i in range(listed)])
    tally = tally_of(metric, held.astype(int), np.random.default_rng(seed), positions(shape, seeds))
    design = string_design([pool(tally)], seeds)
    with one_thread():
        return design, screen(design, 0.05), held / held.sum()


def squared_errors(shape: String, present: int, listed: int, seeds: int) -> np.ndarray:
    """For each population, of guesses made together and of guesses made one by one."""
    found = []
    for seed in range(seeds):
        design, strings, truth = world(shape, present, listed, seed)
        alone = likely_shares(strings.estimate, strings.std_error**2, 1.0)
        together = joint_shares(design, strings, 1.0)
        found.append([((guess - truth) ** 2).sum() for guess in (together, alone)])
    return np.array(found)


def test_where_cells_are_few_guesses_made_together_are_nearer_to_the_truth() -> None:
    """A population's ratio is 0.82, give or take 0.04 (16 populations): for three of them 0.92 is 4 deviations off."""
    together, alone = squared_errors(String(num_bits=128, num_hashes=2, num_cohorts=16), 200, 1000, seeds=3).sum(axis=0)
    assert together < 0.92 * alone


@pytest.mark.parametrize(("bits", "cohorts", "listed"), [(128, 16, 1000), (32, 8, 400), (16, 4, 150), (64, 64, 600)])
def test_a_joint_guess_is_a_possible_population(bits: int, cohorts: int, listed: int) -> None:
    for most in (1.0, 0.5):
        design, strings, _ = world(String(num_bits=bits, num_hashes=2, num_cohorts=cohorts), 100, listed, seed=1)
        guess = joint_shares(design, strings, most)
        assert guess.shape == (listed,)
        assert (guess >= 0).all()
        assert guess.sum() <= most + 1e-9


def test_strings_that_were_all_fitted_at_once_need_no_second_look() -> None:
    design, strings, _ = world(String(num_bits=128, num_hashes=2, num_cohorts=64), 100, 200, seed=2)
    assert strings.fit is not None
    assert len(strings.fit.chosen) == 200
    alone = likely_shares(strings.estimate, strings.std_error**2, 1.0)
    assert (joint_shares(design, strings, 1.0) == alone).all()


def test_with_many_candidates_a_cell_guesses_are_made_one_by_one() -> None:
    design, strings, _ = world(String(num_bits=16, num_hashes=1, num_cohorts=4), 20, 300, seed=3)
    alone = likely_shares(strings.estimate, strings.std_error**2, 1.0)
    assert (joint_shares(design, strings, 1.0) == alone).all()


def test_best_guesses_of_a_long_list_of_choices_add_up_to_everyone_and_are_shrunk() -> None:
    """A population's ratio is 0.82, give or take 0.09 (40 populations): for twelve of them 0.93 is 4 deviations off."""
    names = tuple(f"c{i}" for i in range(100))
    metric = define(Choice(choices=names, absent=names[0]), "1", "1")
    held = np.floor(zipf(100, 1.1) * 100_000).astype(int)
    truth, shrunk, nearest = held / held.sum(), 0.0, 0.0
    for seed in range(12):
        found = decode(tally_of(metric, held, np.random.default_rng(seed)))
        assert found.best_guess.sum() == pytest.approx(1)
        shrunk += ((found.best_guess - truth) ** 2).sum()
        nearest += ((nearest_shares(found.estimate, found.std_error**2, exactly=True) - truth) ** 2).sum()
    assert shrunk < 0.93 * nearest


@pytest.mark.proof
def test_guesses_made_together_are_never_much_farther_from_the_truth(figure) -> None:
    for bits, cohorts, present, listed in (
        (128, 16, 200, 1000),
        (128, 16, 1000, 1000),
        (64, 128, 1000, 5000),
        (32, 8, 100, 400),
    ):
        shape = String(num_bits=bits, num_hashes=1 if bits == 64 else 2, num_cohorts=cohorts)
        together, alone = squared_errors(shape, present, listed, seeds=40).sum(axis=0)
        figure(
            f"squared error, together / one by one, {listed} strings in {bits * cohorts} cells",
            f"{together / alone:.3f}",
        )
        assert together < 1.02 * alone
