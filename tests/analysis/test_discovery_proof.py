"""The promises about strings nobody listed, at full size: 10,000 names of packages with Zipf's law, and no list."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass, field
from functools import cache
from statistics import mean
from time import process_time

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.analysis import Options, decode
from hubbub.protocol.metric import Definition
from hubbub.simulations.experiments.studies.discovery import Setting as Experiment
from hubbub.simulations.experiments.studies.discovery import prefix_extending
from tests.analysis.discoveries import NAMES_UP_TO_18, SMALL, Crowd, asked, package_names
from tests.chance import assert_binomial, binomial_bounds, power

POPULATIONS = 150


@dataclass(frozen=True)
class Setting:
    installs: int
    epsilon: float
    permanent: float
    epochs: int = 1
    absent: float = 0.0


@dataclass
class Found:
    """Over several populations: texts found in each, populations with any false one, intervals of texts that were
    detected, and of the most common one."""

    texts: list[int] = field(default_factory=list)
    returned: int = 0
    false: int = 0
    false_beginnings: int = 0
    intervals: int = 0
    covered: int = 0
    heaviest_covered: int = 0

    def mean(self, populations: int) -> float:
        """Texts found, of the first so many populations."""
        return mean(self.texts[:populations])


@cache
def crowd(epsilon: float, permanent: float) -> Crowd:
    return Crowd(asked(NAMES_UP_TO_18, epsilon, permanent), package_names())


@cache
def score(setting: Setting, populations: int) -> Found:
    """Kept: what is found and whether it is true are two promises about the same populations."""
    people, found = crowd(setting.epsilon, setting.permanent), Found()
    for seed in range(populations):
        tally, truth = people.draw(setting.installs, seed, setting.epochs, setting.absent)
        decoding = decode(tally)
        rows = [i for i, role in enumerate(decoding.roles) if role == "answer"]
        true = [i for i in rows if decoding.values[i] in truth]
        found.texts.append(len(true))
        found.returned += len(rows)
        found.false += len(true) < len(rows)
        found.false_beginnings += any(
            beginning.too_long or not any(text.startswith(beginning.text) for text in truth)  # all can be told whole
            for beginning in decoding.beginnings
        )
        for i in true:
            share = truth[decoding.values[i]]
            found.intervals += 1
            found.covered += bool(decoding.low_selected[i] <= share <= decoding.high_selected[i])
        top = decoding.find(people.texts[0])
        share = truth[people.texts[0]]
        found.heaviest_covered += top is not None and bool(decoding.low[top] <= share <= decoding.high[top])
    return found


@pytest.mark.proof
@pytest.mark.parametrize(
    ("setting", "least"),
    [(Setting(10**6, 2, 2), 7.5), (Setting(10**6, 4, 4), 19.0), (Setting(10**5, 4, 4), 6.0)],
    ids=["1e6, epsilon 2", "1e6, epsilon 4", "1e5, epsilon 4"],
)
def test_so_many_texts_are_found(setting, least, figure):
    found = score(setting, POPULATIONS).mean(100)
    figure(f"discovery, {setting.installs:,} installs, epsilon {setting.epsilon}", f"{found:.2f} texts of 10,000")
    assert found >= least


@pytest.mark.proof
def test_a_quarter_of_weeks_finds_twice_as_much_as_one(figure):
    one, quarter = (score(Setting(10**6, 1, 3, epochs), 40).mean(40) for epochs in (1, 13))
    figure("discovery, a million installs, epsilons 1 and 3", f"{one:.2f} texts in a week, {quarter:.2f} in 13")
    assert quarter >= 2 * one


@pytest.mark.proof
def test_twice_the_bits_that_a_plan_proposes_find_a_tenth_more(figure):
    """The same people, hashed otherwise. The mean of 40 populations has a standard error of about 0.25."""
    populations, planned = 40, Crowd(asked(NAMES_UP_TO_18.replace(num_bits=256), 4), package_names())
    texts = []
    for seed in range(populations):
        tally, truth = planned.draw(10**6, seed)
        texts.append(sum(value in truth for value in decode(tally).values))
    figure("discovery, 1,000,000 installs, epsilon 4, 256 bits", f"{mean(texts):.2f} texts of 10,000")
    assert mean(texts) >= 22


class _PackageNames(Experiment):
    """The rival's setting, with the texts of these proofs."""

    @property
    def metric(self) -> Definition:
        return asked(NAMES_UP_TO_18, self.epsilon)

    @property
    def names(self) -> list[str]:
        return package_names()


@pytest.mark.proof
def test_beside_pem_as_much_is_found_and_hardly_anything_is_made_up(figure):
    """The rule of Wang, Li and Jha (2018) on the same people, in its best case: estimates without collisions. It
    returns as many texts as it is told to. Found are at least nine tenths of the true ones among any of these."""
    populations, most = 100, (10, 20, 50)
    ours, people = score(Setting(10**6, 2, 2), POPULATIONS), crowd(2, 2)
    rival = _PackageNames(installs=10**6, epsilon=2)
    true: dict[int, int] = dict.fromkeys(most, 0)
    for seed in range(populations):
        _, truth = people.draw(10**6, seed)
        held = np.rint(np.array(list(truth.values())) * 10**6).astype(np.int64)
        returned = prefix_extending(rival, held, max(most), np.random.default_rng([seed, 1]))
        for k in most:
            true[k] += sum(truth.get(text, 0) > 0 for text in returned[:k])
    precision = sum(ours.texts) / ours.returned
    figure(
        "discovery beside PEM, a million installs, epsilon 2",
        f"{ours.mean(populations):.2f} true texts, precision {precision:.3f}; PEM "
        + ", ".join(f"{true[k] / populations:.2f} of its first {k}" for k in most),
    )
    assert precision >= 0.98
    for k in most:
        assert ours.mean(populations) >= 0.9 * true[k] / populations
        assert true[k] / populations / k < 0.98


@pytest.mark.proof
@pytest.mark.parametrize(
    "setting",
    [
        Setting(10**6, 2, 2),
        Setting(10**6, 4, 4),
        Setting(10**5, 4, 4),
        Setting(3 * 10**5, 3, 3, absent=0.3),
        Setting(10**6, 1, 3, epochs=4),
    ],
    ids=str,
)
def test_nothing_is_made_up_and_intervals_hold_the_truth(setting, figure):
    """Search and test together, 150 populations: at most 5 % have a false text, and at most 5 % a false beginning;
    95 % of intervals hold the truth given detection, and those of the most common text. Not refuted at 1e-6; a rule of
    25 % false ones would be, and intervals that cover 80 %."""
    populations = POPULATIONS
    found = score(setting, populations)
    figure(
        f"discovery, {setting}",
        f"false in {found.false}, false beginnings in {found.false_beginnings} of {populations}; covered "
        f"{found.covered} of {found.intervals}, heaviest {found.heaviest_covered} of {populations}",
    )
    most = binomial_bounds(populations, 0.05)[1]
    assert found.false <= most
    assert found.false_beginnings <= most
    assert binom.sf(most, populations, 0.25) > 0.99
    assert_binomial(found.covered, found.intervals, 0.95)
    assert_binomial(found.heaviest_covered, populations, 0.95)
    assert power(found.intervals, 0.95, 0.8) > 0.99
    assert power(populations, 0.95, 0.75) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize(
    ("texts", "installs"),
    [
        (["abcd", "abcde"], 20_000),  # one of two is longer than asked
        (["ab", "abcd", "x", "zz9", "long-name", "q1", "q2", "q3", "q4", "q5"], 20_000),
        ([f"{i * 7919 % 1296:04d}" for i in range(1296)], 100_000),  # hardly one stands out, and all collide
    ],
    ids=["two", "ten", "many"],
)
def test_one_search_of_twenty_at_most_shows_a_false_beginning(texts, installs, figure):
    """400 populations each, at two levels of a search. Not refuted at 1e-6; 16 % would be."""
    populations, people, false = 400, Crowd(asked(SMALL, 4), texts), 0
    for seed in range(populations):
        found = decode(people.draw(installs, seed)[0], None, Options(beam=30)).beginnings
        false += any(
            not any(
                text.startswith(one.text) and (len(text) > SMALL.max_length or not one.too_long)
                for text in people.texts
            )
            for one in found
        )
    figure(f"false beginnings, {len(texts)} texts, {installs:,} installs", f"in {false} of {populations} searches")
    most = binomial_bounds(populations, 0.05)[1]
    assert false <= most
    assert binom.sf(most, populations, 0.16) > 0.99


@pytest.mark.proof
def test_a_search_of_18_letters_takes_5_seconds_and_500_mb_at_most(figure):
    tally, _ = crowd(4, 4).draw(10**6, seed=1)
    started = process_time()
    decode(tally)
    seconds = process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 << 20 if sys.platform == "darwin" else 1 << 10)
    figure("search of 18 letters", f"{seconds:.1f} CPU s, {peak} MB of memory in all")
    assert seconds <= 5
    assert peak <= 500
