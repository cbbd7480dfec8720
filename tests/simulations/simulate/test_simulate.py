"""`hubbub simulate`: what it says is what an analyst would find, for any crowd, and again for the same seed."""

from __future__ import annotations

import json
import re
import resource
import time
from dataclasses import replace
from fractions import Fraction
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import default_population, parse_population
from hubbub.simulations.people.histories import draw_histories
from hubbub.simulations.simulate.clients import client_tallies
from hubbub.simulations.simulate.exact import exact_tally
from hubbub.simulations.simulate.reports import report_tally
from hubbub.simulations.simulate.run import Setting, simulate_clients, simulate_metric
from hubbub.simulations.simulate.theory import bound, predicted_error
from tests.analysis.worlds import define
from tests.chance import assert_binomial
from tests.registry_head import head
from tests.simulations.command import hubbub

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = str(ROOT / "examples" / "metrics.toml")
METRICS = Registry.load(EXAMPLE)
STEADY = Behaviour()


def result(name: str, behaviour: Behaviour = STEADY, installs: int = 200_000, epochs: int = 1, seed: int = 1, **more):
    metric = METRICS[name]
    people = more.pop("people", None) or default_population(metric.shape)
    way = more.pop("way", None)
    setting = Setting(metric=metric, people=people, behaviour=behaviour, installs=installs, epochs=epochs, **more)
    return simulate_metric(setting, seed, way)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The command as a newcomer would call it, with everything it can write."""
    directory = tmp_path_factory.mktemp("simulate")
    page, out = directory / "seen.html", directory / "tallies"
    options = ["--installs", "3e5", "--epochs", "3", "--change", "5%", "--absent", "language=20%", "--consent", "50%"]
    done = hubbub("simulate", EXAMPLE, *options, "--report", str(page), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), page.read_text(encoding="utf-8"), out


def test_decoding_the_written_tallies_gives_the_same_numbers(run):
    """Digit by digit: what is shown is what the analyst's own command would show."""
    facts, _, out = run
    assert [metric["metric"] for metric in facts["metrics"]] == list(METRICS.metrics)
    for metric in facts["metrics"]:
        name = metric["metric"]
        options = ["--candidates", f"{name}={out / name}.candidates.txt"] if metric["kind"] == "string" else []
        done = hubbub("decode", f"{out / name}.json", *options, "--json")
        (decoded,) = json.loads(done.stdout)
        assert [row["estimate"] for row in decoded["rows"]] == [row["estimate"] for row in metric["rows"]]
        assert [row["low"] for row in decoded["rows"]] == [row["low"] for row in metric["rows"]]


def test_the_page_needs_no_other_computer(run):
    _, page, _ = run
    assert re.findall(r"""(?:src|href|url|action)\s*[=(]\s*["']?([^"'\s>]{1,40})""", page) == []
    assert page.count('<figure><svg class="plot"') == 2 * len(METRICS)
    assert "<script" not in page
    assert "http" not in page


def test_the_page_says_every_sentence_and_shows_every_metric(run):
    facts, page, _ = run
    for metric in facts["metrics"]:
        _, _, rest = metric["sentence"].partition(":")
        assert rest in unescape(page)
        assert f"<h2>{metric['metric']}</h2>" in page


def test_the_truth_is_written_beside(run):
    facts, _, out = run
    truth = json.loads((out / "dark_theme.truth.json").read_text(encoding="utf-8"))
    assert truth["rows"] == facts["metrics"][0]["rows"]
    assert_binomial(facts["metrics"][0]["reports"] // 3, 300_000, 0.5)


def test_the_same_seed_gives_the_same_and_other_metrics_change_nothing():
    alone = hubbub("simulate", EXAMPLE, "--metric", "language", "--installs", "1e5", "--json").stdout
    again = hubbub("simulate", EXAMPLE, "--metric", "flag", "--installs", "1e5", "--json")
    assert again.returncode == 2
    both = hubbub(
        "simulate", EXAMPLE, "--metric", "dark_theme", "--metric", "language", "--installs", "1e5", "--json"
    ).stdout
    assert json.loads(alone)["metrics"][0] == json.loads(both)["metrics"][1]
    other = hubbub("simulate", EXAMPLE, "--metric", "language", "--installs", "1e5", "--seed", "2", "--json").stdout
    assert json.loads(alone)["metrics"] != json.loads(other)["metrics"]


def test_a_billion_installs_are_no_trouble():
    found = result("homepage", installs=10**9)
    assert found.card.reports == 10**9
    assert found.card.found > 200
    found = result("language", Behaviour(change=0.05, churn=0.02), installs=10**9, epochs=8)
    assert found.card.reports == 8 * 10**9


def test_both_ways_agree_on_the_truth_and_on_staleness():
    """The histories are the same; of 18,000 reports a tenth is stale by both, within what chance allows."""
    behaviour = Behaviour(change=0.5)
    exact, drawn = (result("language", behaviour, installs=3000, epochs=6, way=way) for way in ("tallies", "reports"))
    assert np.allclose(exact.truth, drawn.truth)
    assert exact.card.stale == pytest.approx(drawn.card.stale)
    assert exact.way == "tallies"
    assert drawn.way == "reports"


def test_where_groups_part_too_often_every_report_is_drawn_or_fewer_installs_asked_for():
    """Twelve different pages in twelve months, three slots: 3**9 ways for each history."""
    behaviour, people = Behaviour(change=1.0), parse_population(METRICS["homepage"].shape, "uniform:3000")
    small = {"behaviour": behaviour, "people": people, "epochs": 12}
    with pytest.raises(Invalid) as refusal:
        result("homepage", installs=10**9, **small)
    assert re.search(
        r"homepage: max_values = 3 is used up .* one by one, --installs must be at most [\d,]+ here, got 1,000,000,000",
        str(refusal.value),
    )


def test_used_up_slots_make_answers_stale_and_the_scorecard_says_so():
    """Eight answers are kept: of those that change in each of 40 weeks, many repeat one of the first eight. (Of four
    installs one is asked about four parts of the range, and never runs out.)"""
    found = result("latency", Behaviour(change=1.0), installs=2_000, epochs=40)
    assert 0.25 < found.card.stale < 0.75
    assert "of the reports repeat an older answer" in found.sentence
    assert result("latency", installs=50_000).card.stale == 0


def test_a_metric_asked_once_is_reported_once():
    source = Path(EXAMPLE).read_text(encoding="utf-8").replace('every = "month"', 'every = "once"')
    metric = Registry.parse(source.replace("max_values = 3\nnum_bits", "max_values = 1\nnum_bits"))["homepage"]
    people = parse_population(metric.shape, "uniform:5")
    setting = Setting(metric=metric, people=people, behaviour=Behaviour(churn=0.1), installs=10_000, epochs=4)
    found = simulate_metric(setting, 1)
    reports = [sum(counts.num_reports) for counts in found.tally.epochs.values()]
    assert reports[0] == 10_000
    assert sum(reports) == found.histories.installs.sum()


def test_epochs_after_the_end_of_a_metric_are_not_asked():
    end = METRICS["homepage"].expires  # 2027-07-01
    start = 1_767_571_200  # 2026-01
    found = result(
        "homepage",
        installs=1000,
        epochs=24,
        start=start,
        people=parse_population(METRICS["homepage"].shape, "uniform:5"),
    )
    assert len(found.tally.epochs) == 18
    assert end.isoformat() == "2027-07-01"
    with pytest.raises(Invalid, match="homepage: expires must be after the simulation begins, got 2027-07-01"):
        result("homepage", installs=1000, start=2 * start)


@pytest.mark.parametrize(
    ("name", "epochs", "rows"),
    [("dark_theme", 1, 1), ("dark_theme", 4, 1), ("language", 4, 8), ("homepage", 4, 2000), ("latency", 1, 256)],
)
def test_errors_are_those_the_formulas_predict(name, epochs, rows):
    """Twelve populations: the mean square of the errors over the predicted is 1 within six of its own deviations. It
    has at least as many degrees of freedom as there are populations; of many rows a quarter is a careful guess."""
    cards = [result(name, installs=100_000, epochs=epochs, seed=seed).card for seed in range(12)]
    ratio = np.mean([card.error**2 for card in cards]) / np.mean([card.theory**2 for card in cards])
    reach = 6 * np.sqrt(2 / (12 * max(1, rows // 4)))
    assert 1 - reach < ratio < 1 + reach
    assert sum(card.covered for card in cards) / sum(card.intervals for card in cards) > 0.75


@pytest.mark.parametrize(
    "shape",
    [
        Flag(),
        Choice(choices=tuple("abcdefghijkl"), absent="a"),
        String(num_bits=64, num_hashes=1, num_cohorts=16),
        Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)),
        Histogram(edges=tuple(map(Fraction, range(9))), buckets_per_report=8),
        Range(low=Fraction(0), high=Fraction(1), num_leaves=64, branching=4),
    ],
    ids=lambda shape: shape.kind,
)
def test_no_prediction_is_below_the_bound(shape):
    for one, permanent in (("0.5", "1"), ("1", "3"), ("3", "6")):
        metric = define(shape, one, permanent)
        share = 1 / (shape.categories or getattr(shape, "num_buckets", getattr(shape, "num_leaves", 1e9)))
        for epochs in (1, 5):
            assert predicted_error(metric, share, 1e6, epochs) > 0.9999 * bound(metric, 1e6, epochs)


def test_a_flag_meets_the_bound_of_one_report():
    metric = define(Flag(), "1", "3")
    assert predicted_error(metric, 0.0, 1e6) == pytest.approx(bound(metric, 1e6), rel=1e-3)


@pytest.mark.parametrize("options", [["--installs", "1", "--consent", "1%"], ["--installs", "5", "--way", "reports"]])
def test_nobody_and_next_to_nobody_are_told_so(options, tmp_path):
    """No crowd is too small to be simulated and drawn; figures that do not exist are null in JSON and never NaN."""
    done = hubbub("simulate", EXAMPLE, *options, "--report", str(tmp_path / "seen.html"))
    assert done.returncode == 0
    assert "nobody would report" in done.stdout or "so few reports show nothing" in done.stdout
    assert "nan" not in done.stdout
    assert "NaN" not in hubbub("simulate", EXAMPLE, *options, "--json").stdout


def test_the_tally_is_whole():
    found = result("file_size", Behaviour(absent=0.3, away=0.2), installs=20_000, epochs=3)
    copy = Tally.from_json(found.tally.to_json())
    assert copy.num_reports == sum(found.histories.counts().values())
    assert decode(copy).estimate.tolist() == found.decoding.estimate.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--installs", "0"], "--installs must be in [1, 1,000,000,000,000], got 0"),
        (["--epochs", "1000"], "--epochs must be in [1, 400], got 1,000"),
        (["--population", "zipf:1"], "--population must be METRIC=POPULATION, one of dark_theme, language"),
        (["--population", "page=zipf:1"], "--population 'page=zipf:1': must name one of dark_theme, language"),
        (["--population", "language=zap"], "--population 'language=zap': the population of a choice must be one of"),
        (["--change", "often"], "--change 'often': must be a number or percentage"),
        (["--change", "2"], "change must be in [0, 1], got 2"),
        (["--season", "7"], "--season '7': must be PERIOD,SHARE, such as 7,20%, got '7'"),
        (["--report", "seen.pdf"], "--report must end in .html, got 'seen.pdf'"),
        (["--candidates", "homepage=/dev/null"], "/dev/null: at least one candidate is needed, got none"),
        (["--metric", "page"], "--metric must be one of dark_theme, language, homepage"),
        (["--way", "clients"], "--installs must be at most 20,000 for --way clients, got 1,000,000"),
        (["--way", "clients", "--installs", "100"], "real clients are run for metrics of one cadence, got several"),
    ],
)
def test_wrong_use_is_refused_in_words(options, words):
    done = hubbub("simulate", EXAMPLE, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_real_clients_must_have_lives_of_their_own():
    people, rng = default_population(Flag()), np.random.default_rng(1)
    terms = 'kind = "flag"\nwhy = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nmax_values = 2\n'
    source = f"{head('t', 9)}[metrics.m]\n{terms}epsilon_one_report = 1\nepsilon_permanent = 2\n"
    with pytest.raises(Invalid, match="every real client needs a life of its own"):
        client_tallies(source, {"m": draw_histories(people, Behaviour(), 100, 1, rng)})
    with pytest.raises(Invalid, match=r"m: epochs must be at most grace \+ 1 = 4, got 9"):
        client_tallies(source, {"m": draw_histories(people, Behaviour(), 50, 9, rng).split()})


def test_a_small_crowd_can_be_real_clients(tmp_path):
    """Fifteen installs, two days, the real collector: every report arrives, and what is stale is not known."""
    metrics = tmp_path / "metrics.toml"
    terms = 'kind = "flag"\nwhy = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\nmax_values = 2\n'
    noise = "epsilon_one_report = 1\nepsilon_permanent = 2\n"
    metrics.write_text(f"{head('t', 9)}[metrics.m]\n{terms}{noise}", encoding="utf-8")
    registry = Registry.load(metrics)
    setting = Setting(
        metric=registry["m"], people=default_population(Flag()), behaviour=Behaviour(away=0.3), installs=15, epochs=2
    )
    (found,) = simulate_clients(registry, [setting], 1)
    assert found.card.reports == sum(found.histories.counts().values())
    assert found.card.to_json()["stale"] is None
    assert found.setting.epoch_numbers == list(found.tally.epochs)


@pytest.mark.proof
def test_a_billion_installs_are_simulated_and_decoded_in_five_seconds(figure):
    """64 cohorts of 128 bits, a thousand strings and as many that nobody holds; the processor's time, on one core."""
    shape = String(num_bits=128, num_hashes=1, num_cohorts=64)
    metric = METRICS["homepage"].replace(shape=shape, noise=shape.best_noise(Fraction(1), Fraction(3)))
    setting = Setting(metric=metric, people=default_population(shape), behaviour=Behaviour(), installs=10**9, epochs=1)
    simulate_metric(replace(setting, installs=1000), 1)  # libraries are loaded once
    times = {}
    for epochs in (1, 12):
        begun = time.process_time()
        found = simulate_metric(replace(setting, epochs=epochs), 1)
        times[epochs] = time.process_time() - begun
        assert found.card.reports == epochs * 10**9
    figure(
        "10**9 installs, 64 x 128 cells, simulated and decoded", f"{times[1]:.2f} s, {found.card.found} strings found"
    )
    figure("the same over 12 epochs of one memo", f"{times[12]:.2f} s")
    begun = time.process_time()
    exact_tally(metric, found.histories, found.setting.epoch_numbers, np.random.default_rng(1))
    alone = time.process_time() - begun
    figure("the exact tallies of it alone", f"{alone:.2f} s")
    assert max(times.values()) < 5
    assert alone < 1


@pytest.mark.proof
def test_a_million_and_a_half_reports_a_second_on_one_core(figure):
    """128 bits each, memo and report drawn bit by bit; the processor's time. Memory stays that of a block."""
    shape = String(num_bits=128, num_hashes=1, num_cohorts=64)
    metric = METRICS["homepage"].replace(shape=shape, noise=shape.best_noise(Fraction(1), Fraction(3)))
    rng = np.random.default_rng(1)
    histories = draw_histories(default_population(shape), Behaviour(), 4_000_000, 1, rng)
    report_tally(metric, draw_histories(default_population(shape), Behaviour(), 10_000, 1, rng), [700], rng)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    report_tally(metric, histories, [700], rng)
    rate = 4_000_000 / (time.process_time() - begun)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    figure(
        "reports of 128 bits drawn and counted on one core", f"{rate / 1e6:.2f} million a second, {grown:.0f} MB more"
    )
    assert rate > 1.5e6
    assert grown < 200


def test_nobody_is_absent_from_a_sum() -> None:
    source = Registry.load(EXAMPLE).source.replace('kind = "histogram"', 'kind = "histogram"\naccumulate = "sum"', 1)
    metric = next(metric for metric in Registry.parse(source) if metric.accumulate == "sum")
    with pytest.raises(Invalid, match=f"absent must be 0 for {metric.name}, where nothing added is a sum of 0: .* 0.1"):
        Setting(
            metric=metric,
            people=default_population(metric.shape),
            behaviour=Behaviour(absent=0.1),
            installs=10,
            epochs=1,
        )
