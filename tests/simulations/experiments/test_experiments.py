"""The experiments find what they predicted, in their quick form; planted defects are found out by them.

What they predict is checked apart from what they run: by brute force where that is small, against the real encoding,
and by the law of the ranges. The proof at the end runs all of them at full size.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import sys
from dataclasses import replace
from fractions import Fraction
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.render.plots import PlotRow, RowPlot, Scale
from hubbub.client.respond import respond
from hubbub.collector import intake
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.noise import one_bit_noise
from hubbub.simulations.experiments import bounds, command, run
from hubbub.simulations.experiments.experiment import Experiment, ExperimentResult, Prediction, StudyOutput
from hubbub.simulations.experiments.page import page
from hubbub.simulations.experiments.run import EXPERIMENTS, conduct
from hubbub.simulations.experiments.studies import (
    averaging,
    central_noise,
    dbitflip,
    one_bit_mean,
    poisoned_string,
    range_queries,
    tracking,
)
from tests.chance import binomial_bounds

NAMES = [experiment.name for experiment in EXPERIMENTS]
SEED = 20_261_116


@pytest.fixture(scope="module")
def results() -> dict[str, ExperimentResult]:
    """All experiments in their quick form."""
    return {experiment.name: conduct(experiment, quick=True, seed=SEED) for experiment in EXPERIMENTS}


def missed(result: ExperimentResult) -> list[str]:
    return [f"{f.prediction.what}: {f.found} not in {f.prediction.expected}" for f in result.findings if not f.met]


# --- what is right ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_found_where_theory_puts_it(results: dict[str, ExperimentResult], name: str) -> None:
    assert missed(results[name]) == []


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
def test_a_prediction_knows_the_setting_and_nothing_else(experiment: Experiment) -> None:
    assert experiment.predict(experiment.quick) == experiment.predict(experiment.quick)
    assert set(inspect.signature(experiment.predict).parameters) == {"setting"}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
def test_setting_source_and_expectation_are_written_down_in_its_file(experiment: Experiment) -> None:
    words = inspect.getdoc(sys.modules[experiment.run.__module__]) or ""
    assert all(part in words for part in ("Source:", "Setting:", "Expected, and why"))


def test_the_same_seed_gives_the_same_figures_whatever_ran_before(results: dict[str, ExperimentResult]) -> None:
    again = conduct(central_noise.EXPERIMENT, quick=True, seed=SEED)
    assert [f.found for f in again.findings] == [f.found for f in results["central-noise"].findings]
    other = conduct(central_noise.EXPERIMENT, quick=True, seed=SEED + 1)
    assert [f.found for f in other.findings] != [f.found for f in again.findings]


def test_chance_may_alarm_once_in_ten_thousand_runs(results: dict[str, ExperimentResult]) -> None:
    assert sum(f.prediction.false_alarm for result in results.values() for f in result.findings) < 1e-4


# --- what is wrong ------------------------------------------------------------------------------------------------


def test_a_client_that_keeps_no_memo_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def afresh(metric, mask, cohort, random, memo=None):
        return respond(metric, mask, cohort, random, None)

    monkeypatch.setattr(averaging, "respond", afresh)
    result = conduct(averaging.EXPERIMENT, quick=True, seed=SEED)
    assert any("one memo for life" in words for words in missed(result))


def test_a_collector_that_counts_for_the_past_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "check_epoch", lambda *facts: None)
    small = replace(poisoned_string.EXPERIMENT, quick=poisoned_string.Setting(honest=50_000, fakes=500, repeats=2))
    result = conduct(small, quick=True, seed=SEED)
    assert any("closed epoch" in words for words in missed(result))


def test_noise_that_is_too_small_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = dbitflip.metric
    monkeypatch.setattr(dbitflip, "metric", lambda how, asked: _quieter(honest(how, asked)))
    assert len(missed(conduct(dbitflip.EXPERIMENT, quick=True, seed=SEED))) >= 6


def _quieter(metric):
    return metric.replace(noise=one_bit_noise(Fraction(2), Fraction(2)))


def test_a_figure_without_a_prediction_is_refused() -> None:
    with pytest.raises(Invalid, match=r"every prediction needs a figure and every figure a prediction, got \['b'\]"):
        conduct(an_experiment(low=0, figures={"a": 0.0, "b": 1.0}), quick=True, seed=0)


def test_a_range_must_be_one() -> None:
    with pytest.raises(Invalid, match="low must be at most high=1, got 2: x"):
        Prediction(what="x", low=2, high=1, why="")
    with pytest.raises(Invalid, match=r"false_alarm must be at least 0 and below 1, got 1\.0: x"):
        Prediction(what="x", low=0, high=1, why="", false_alarm=1.0)


# --- the theory, by other means -----------------------------------------------------------------------------------


def test_ranges_for_shares_are_those_of_the_binomial_law() -> None:
    for trials, p in ((50, 0.3), (1000, 0.95), (4000, 0.001)):
        low, high = bounds.share(trials, p)
        assert (round(low * trials), round(high * trials)) == binomial_bounds(trials, p, bounds.FALSE_ALARM)
    assert bounds.share(10, 0.0) == (0.0, 0.0)
    assert bounds.share(10, 1.0) == (1.0, 1.0)


def test_ranges_for_mean_squares_are_those_of_chi_square() -> None:
    low, high = bounds.mean_square(2.0, 30)
    assert stats.chi2.cdf(30 * low / 2, 30) == pytest.approx(5e-7)
    assert stats.chi2.sf(30 * high / 2, 30) == pytest.approx(5e-7)


def test_ranges_for_squares_of_whole_numbers_are_exact() -> None:
    """Against a convolution term by term, and the binomial law of a coin that is 0 or 1."""
    draws, law = 40, np.array([0.5, 0.3, 0.2])
    whole = np.ones(1)
    for _ in range(draws):
        whole = np.convolve(whole, [0.5, 0.3, 0, 0, 0.2])
    low, high = bounds.mean_square_of_whole_numbers(law, draws)
    assert whole[: round(low * draws)].sum() <= 5e-7 < whole[: round(low * draws) + 1].sum()
    assert whole[round(high * draws) :].sum() <= 5e-7 < whole[round(high * draws) - 2 :].sum()
    low, high = bounds.mean_square_of_whole_numbers(np.array([0.7, 0.3]), 500)
    assert (low, high) == pytest.approx(bounds.share(500, 0.3), abs=1.01 / 500)


@pytest.mark.parametrize("epsilon", central_noise.Setting().epsilons)
def test_central_and_local_noise_have_the_epsilon_that_is_compared(epsilon: float) -> None:
    """One report, and one release of the count: neither tells more than this, and hardly less."""
    asked = central_noise.metric(epsilon)
    assert 0.999 * epsilon <= float(asked.epsilon_one_report) <= epsilon
    laplace = central_noise.count_noise(central_noise.LAPLACE, epsilon)
    assert laplace.loss(1).epsilon(1e-12) == pytest.approx(epsilon)
    gaussian = central_noise.count_noise(central_noise.GAUSSIAN, epsilon)
    assert 0.98 * epsilon <= gaussian.loss(1).epsilon(central_noise.DELTA) <= epsilon
    for noise in (laplace, gaussian):
        law = central_noise.law(noise)
        assert law @ np.arange(len(law)) ** 2 == pytest.approx(noise.variance, rel=1e-6)


def test_a_curator_whose_noise_grows_with_the_crowd_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted defect: noise twice as wide as it should be."""
    right = central_noise.count_noise
    widened = {how: CountNoise("laplace", 2 * right(how, 1).width) for how in (central_noise.LAPLACE,)}
    predicted = central_noise.predict(central_noise.EXPERIMENT.quick)
    monkeypatch.setattr(central_noise, "count_noise", lambda how, epsilon: widened.get(how) or right(how, epsilon))
    found = central_noise.run(central_noise.EXPERIMENT.quick, np.random.default_rng(SEED), lambda done: None).figures
    key = f"{central_noise.LAPLACE} 1"
    assert found[key] > predicted[key].high


def test_rounding_by_a_uniform_alpha_goes_up_with_the_chance_that_the_mean_assumes() -> None:
    """Over evenly spread dithers the share of upper ends is the number's place in the range, to one part in a
    thousand: exact for the code that clients run."""
    shape = one_bit_mean.metric(1).shape
    for place in (0.0, 0.1, 0.37, 0.5, 1.0):
        ends = [shape.encode(place * one_bit_mean.DAY, 0, dither=(2 * i + 1) << 53).mask for i in range(1024)]
        assert abs(sum(ends) / 1024 - place) <= 1 / 1024


def test_nodes_make_up_their_range_exactly() -> None:
    for low, high in itertools.combinations(range(65), 2):
        covered = [
            cell
            for level, node in range_queries.nodes_of(low, high, 64)
            for cell in range(node * 64 // 4**level, (node + 1) * 64 // 4**level)
        ]
        assert sorted(covered) == list(range(low, high))


def test_the_theory_of_the_tree_is_that_of_dense_least_squares() -> None:
    """On 16 cells: the covariance of the leaves from the normal equations, the total clamped, over all ranges."""
    cells, levels = 16, 2
    rows = [np.repeat(np.eye(4**level), cells // 4**level, axis=1) for level in (1, 2)]
    design = np.vstack(rows)
    inside = np.linalg.svd(np.ones((1, cells)))[2][1:].T  # directions in which the total stays
    covariance = inside @ np.linalg.inv(inside.T @ design.T @ design @ inside) @ inside.T * levels
    queries = np.array([[a <= i < b for i in range(cells)] for a, b in itertools.combinations(range(cells + 1), 2)])
    dense = np.mean(np.einsum("qi,ij,qj->q", queries, covariance, queries.astype(float)))
    settled = range_queries._spread(together(cells), range_queries.contrast_variances(levels))
    assert settled.trace() == pytest.approx(dense, rel=1e-5)


def together(cells: int) -> np.ndarray:
    """How often two cells lie in one range, counted."""
    found = np.zeros((cells, cells), dtype=np.float32)
    ranges = list(itertools.combinations(range(cells + 1), 2))
    for a, b in ranges:
        found[a:b, a:b] += 1
    return found / len(ranges)


def test_the_chance_to_be_found_again_is_that_of_enumeration() -> None:
    """One bit, three reports against three, a crowd of ten: over everything that can be seen."""
    metric, reports = tracking.CASES["1 bit, 3 against 3"]
    mask = metric.shape.encode(tracking.TEXT, 0).mask
    law, table = tracking.bit_laws(metric, reports)[mask], tracking.scores(metric, reports)[mask]
    first, later = law.sum(axis=1), law.sum(axis=0)
    total = 0.0
    for u in range(4):
        for v in range(4):
            worse = later[table[u] < table[u, v]].sum()
            ties = later[table[u] == table[u, v]].sum()
            won = sum(
                stats.binom.pmf(k, 9, ties) * stats.binom.pmf(9 - k, 9 - k, worse / (1 - ties)) / (k + 1)
                for k in range(10)
            )
            total += law[u, v] * won
    assert first.sum() == pytest.approx(1)
    # What is averaged over first sightings is exact for each: here four of them, weighted as they were drawn.
    found, error = tracking.picked("1 bit, 3 against 3", 1_000)
    assert abs(found[10] - total) < 5 * error[10]
    assert error[10] < 0.05 * total


# --- the command and its page -------------------------------------------------------------------------------------


def test_the_page_asks_nothing_of_anybody(results: dict[str, ExperimentResult]) -> None:
    text = page(list(results.values()), seed=SEED, quick=True, command="hubbub experiments --quick")
    seen = _Seen()
    seen.feed(text)
    assert set(re.findall(r"https?://[\w./-]+", text)) <= set()
    assert not seen.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}
    assert "@import" not in text
    assert all(name.startswith("#") for name in re.findall(r"url\(([^)]*)\)", text))
    assert seen.open == []
    assert seen.ids == sorted(set(seen.ids))


class _Seen(HTMLParser):
    """Tags, ids, and what was opened and never closed."""

    VOID = ("meta", "br", "path", "line", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.names += [value for key, value in attrs if key == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    @property
    def ids(self) -> list[str]:
        return sorted(self.names)


def test_the_page_explains_every_experiment(results: dict[str, ExperimentResult]) -> None:
    text = page(list(results.values()), seed=SEED, quick=True, command="hubbub experiments --quick")
    for result in results.values():
        assert f'<article id="{result.name}">' in text
        assert result.output.meaning
        assert result.output.rows
        assert result.output.published
    assert text.count('<figure><svg class="plot"') == text.count("</figure>") == len(results)
    for result in results.values():
        assert f'aria-label="{escape(result.output.caption)}"' in text
    assert "This is the quick form" in text


def test_what_came_out_wrong_is_not_hidden(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(run, "EXPERIMENTS", (an_experiment(low=1),))
    report = tmp_path / "page.html"
    assert main(["experiments", "--quick", "--report", str(report)]) == 1
    out = capsys.readouterr().out
    assert "0 of 1 figures as predicted" in out
    assert "not met: a figure: predicted 1 to 2, found 0 (because)" in out
    assert "✗ 1 of 1 figures were not found where they were predicted." in report.read_text(encoding="utf-8")


def test_the_command_gives_all_figures_as_json(capsys) -> None:
    assert main(["experiments", "dbitflip", "--quick", "--json", "--seed", "3"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["seed"], data["quick"], data["met"]) == (3, True, True)
    (found,) = data["experiments"]
    assert found["name"] == "dbitflip"
    assert all(finding["met"] for finding in found["findings"])


def test_the_command_lists_the_experiments(capsys) -> None:
    assert main(["experiments", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["traking"], "there is no experiment 'traking' (did you mean 'tracking'?)"),
        (["--seed", "-1"], "--seed must be at least 0, got -1"),
        (["--report", "no/such/place.html"], "--report must name a file in a directory that exists"),
    ],
)
def test_wrong_use_is_said_before_the_work_is_done(capsys, arguments: list[str], words: str) -> None:
    assert main(["experiments", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_every_experiment_is_described_in_the_guide() -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in guide for name in NAMES)


def an_experiment(low: float, figures: dict[str, float] | None = None) -> Experiment:
    return Experiment(
        name="an-experiment",
        title="t",
        question="q",
        source="s",
        full=None,
        quick=None,
        describe=lambda setting: {"people": "none"},
        predict=lambda setting: {"a": Prediction(what="a figure", low=low, high=2, why="because")},
        run=lambda setting, rng, progress: StudyOutput(
            figures={"a": 0.0} if figures is None else figures,
            columns=("x",),
            rows=(("1",),),
            chart=RowPlot(scale=Scale.linear(0, 1, str), rows=(PlotRow(name="<x>", dot=("blue", 0.5)),)),
            caption="c",
            meaning=("m",),
        ),
    )


def test_all_chance_comes_from_a_seed() -> None:
    for experiment in EXPERIMENTS:
        source = inspect.getsource(sys.modules[experiment.run.__module__])
        assert set(re.findall(r"np\.random\.(\w+)", source)) <= {"Generator", "default_rng"}
        assert "urandom" not in source


@pytest.mark.proof
def test_all_experiments_at_full_size(figure) -> None:
    seconds = 0.0
    failed = []
    for experiment in EXPERIMENTS:
        result = conduct(experiment, quick=False, seed=command.SEED)
        seconds += result.seconds
        failed += missed(result)
        met = sum(finding.met for finding in result.findings)
        figure(experiment.name, f"{met} of {len(result.findings)} figures as predicted, {result.seconds:.0f} CPU s")
    figure("all experiments", f"{seconds:.0f} CPU s of the 900 allowed")
    assert failed == []
    assert seconds < 900
