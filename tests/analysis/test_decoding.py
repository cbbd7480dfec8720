"""The whole of `decode`: coverage for every kind and both estimands, any shape, words for what does not fit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.analysis.kinds import silence_counts_as
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag, Histogram, Mean, Range, String
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import Strings, define, tally_of, zipf
from tests.chance import assert_binomial, power

SHAPES = {
    "flag": Flag(),
    "choice, k-ary": Choice(choices=("a", "b", "c")),
    "choice, bits": Choice(choices=tuple("abcdefghijklmnop")),
    "histogram": Histogram(edges=tuple(map(Fraction, range(9))), buckets_per_report=2),
    "range": Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=4),
}
ANSWERS = {"flag": 2, "choice, k-ary": 4, "choice, bits": 17, "histogram": 9, "range": 17}


def coverage(name: str, estimand: str, populations: int, *, installs: int = 20_000, **options) -> tuple[int, int]:
    """How many intervals of how many held the truth. Shares fall like 1/rank, the last answer is `absent`."""
    shape, size = SHAPES[name], ANSWERS[name]
    metric = define(shape, "1", "3")
    rng = np.random.default_rng([len(name), size, len(estimand), *map(len, options)])
    probability = zipf(size)
    fixed = np.floor(probability * installs).astype(np.int64)
    hits = trials = 0
    for _ in range(populations):
        counts = fixed if estimand == "reporting" else rng.multinomial(installs, probability)
        found = decode(tally_of(metric, counts, rng), options=Options(estimand=estimand, **options))
        truth = fixed / fixed.sum() if estimand == "reporting" else probability
        truth = truth[1:] if name == "flag" else truth
        if options.get("exclude_absent"):
            truth = truth[:-1] / truth[:-1].sum()
        rows = slice(0, len(truth))
        hits += int(((found.low[rows] <= truth) & (truth <= found.high[rows])).sum())
        trials += len(truth)
    return hits, trials


@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("name", SHAPES)
def test_intervals_cover_for_every_kind_and_estimand(name, estimand):
    populations = {"flag": 1_500, "choice, k-ary": 500}.get(name, 150)
    hits, trials = coverage(name, estimand, populations, installs=2_000 if name == "flag" else 20_000)
    # Shares of one population covary a little: bounds are for a third of the trials.
    assert_binomial(round(hits / trials * (trials // 3)), trials // 3, 0.95)
    assert power(trials // 3, 0.95, 0.85) > 0.99


@pytest.mark.parametrize("name", ["choice, k-ary", "choice, bits", "histogram", "range"])
def test_shares_among_those_who_answered_cover_too(name):
    hits, trials = coverage(name, "reporting", 150, exclude_absent=True)
    assert_binomial(round(hits / trials * (trials // 3)), trials // 3, 0.95)


def test_the_wrong_estimand_would_be_noticed():
    """At little noise the sample itself is most of the uncertainty: `reporting` intervals are then far too narrow."""
    metric = define(Flag(), "4", "6")
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(500):
        yes = rng.binomial(2_000, 0.3)
        found = decode(tally_of(metric, [2_000 - yes, yes], rng), options=Options(estimand="reporting"))
        hits += bool(found.low[0] <= 0.3 <= found.high[0])
    assert hits < 0.80 * 500


@pytest.mark.parametrize("spread", ["constant", "two ends"])
def test_means_cover_at_least_as_often_as_they_say(spread):
    hits = mean_hits(spread, 600)
    assert hits >= 0.95 * 600 - 5 * np.sqrt(600 * 0.05 * 0.95)


def mean_hits(spread: str, populations: int) -> int:
    """All installs at 9 of [0, 30], or three of ten at 30 and the rest at 0; rounding is drawn per install."""
    metric = define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0)), "2", "4")
    rng = np.random.default_rng(len(spread))
    hits = 0
    for _ in range(populations):
        up = rng.binomial(5_000, 0.3) if spread == "constant" else 1_500
        found = decode(tally_of(metric, [5_000 - up, up], rng))
        hits += bool(found.low[0] <= 9 <= found.high[0])
    return hits


@pytest.mark.proof
@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("kind", ["flag", "choice", "histogram", "range"])
def test_intervals_cover_over_ten_thousand_populations(kind, estimand, figure):
    """Pooled over the kind's forms: 94.5 to 95.5 %."""
    names = [name for name in SHAPES if name.startswith(kind)]
    counts = [coverage(name, estimand, 10_000 // len(names)) for name in names]
    share = sum(hits for hits, _ in counts) / sum(trials for _, trials in counts)
    figure(f"coverage, {kind}, {estimand}", f"{share:.4f} of {sum(trials for _, trials in counts)} intervals")
    assert 0.945 <= share <= 0.955


@pytest.mark.proof
@pytest.mark.parametrize("spread", ["constant", "two ends"])
def test_means_cover_over_ten_thousand_populations(spread, figure):
    hits = mean_hits(spread, 10_000)
    figure(f"coverage, mean, {spread}", f"{hits / 10_000:.4f} of 10000 populations")
    assert hits >= 9_450


# --- any shape ----------------------------------------------------------------------------------------------------


def empty(shape) -> Counts:
    cohorts = range(shape.num_cohorts)
    return Counts((0,) * shape.num_cohorts, tuple((0,) * shape.width(c) for c in cohorts))


ALL = [
    *SHAPES.values(),
    Choice(choices=("a", "b"), absent="b"),
    Histogram(edges=(Fraction(0), Fraction(1), Fraction(9)), buckets_per_report=2),
    Range(low=Fraction(0), high=Fraction(1), num_leaves=2, branching=2),
    Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0)),
    String(num_bits=1, num_hashes=1, num_cohorts=1),
    String(num_bits=1, num_hashes=1, num_cohorts=64),
    String(num_bits=8, num_hashes=8, num_cohorts=2),
    String(num_bits=16, num_hashes=1, num_cohorts=1),
    String(num_bits=64, num_hashes=2, num_cohorts=16),
]


@pytest.mark.parametrize("exclude_absent", [False, True])
@pytest.mark.parametrize("estimand", ["reporting", "population"])
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: f"{shape.kind}-{shape.num_cohorts}-{shape.num_masks}")
def test_any_shape_decodes_with_no_reports_few_or_extreme_ones(shape, estimand, exclude_absent):
    metric = define(shape)
    exclude_absent &= not silence_counts_as(metric)  # of others it cannot be asked
    full = Counts((7,) * shape.num_cohorts, tuple((7,) * shape.width(c) for c in range(shape.num_cohorts)))
    none = Counts((7,) * shape.num_cohorts, tuple((0,) * shape.width(c) for c in range(shape.num_cohorts)))
    one_hot = Counts((7,), ((7, *[0] * (shape.width(0) - 1)),))
    extremes = [one_hot] if metric.one_hot else [full, none]
    candidates = [None] if shape.kind != "string" else [[], ["a"], ["a", "b", "a", "c"], [f"{i}" for i in range(200)]]
    for epochs in ({}, {1: empty(shape)}, *({1: counts} for counts in extremes), {1: extremes[0], 2: empty(shape)}):
        for listed in candidates:
            found = decode(Tally(metric, epochs), listed, Options(estimand=estimand, exclude_absent=exclude_absent))
            assert len(list(found.rows())) == len(found)
            known = np.isfinite(found.estimate)
            assert (found.low[known] <= found.high[known]).all()
            assert (found.best_guess[np.isfinite(found.best_guess)] >= 0).all()
            assert not found.detected[~known].any()


def test_an_empty_cohort_is_left_out():
    strings = Strings.of(define(String(num_bits=32, num_hashes=1, num_cohorts=8)), 5)
    tally = tally_of(strings.metric, [8_000, 4_000, 0, 0, 0], np.random.default_rng(1), strings.where)
    counts = tally.epochs[0]
    holed = Counts((0, *counts.num_reports[1:]), ((0,) * 32, *counts.bit_counts[1:]))
    found = decode(Tally(strings.metric, {0: holed}), strings.texts.tolist())
    assert abs(found.estimate[0] - 2 / 3) < 5 * found.std_error[0]
    assert np.isnan(found.diagnostics.cohort_p[0])


def test_the_same_input_gives_the_same_digits():
    strings = Strings.of(define(String(num_bits=64, num_hashes=2, num_cohorts=32)), 2_000)
    tally = tally_of(strings.metric, [9_000, 5_000, 2_000] + [0] * 1997, np.random.default_rng(2), strings.where)
    first, again = (decode(Tally.from_json(tally.to_json()), strings.texts.tolist()) for _ in range(2))
    assert list(first.rows()) == list(again.rows())


def test_the_number_of_threads_changes_no_digit(tmp_path):
    """Three interpreters, told to use one, two and four threads for linear algebra."""
    import os
    import subprocess
    import sys

    strings = Strings.of(define(String(num_bits=128, num_hashes=2, num_cohorts=64)), 600)
    tally = tally_of(strings.metric, [3_000] * 300 + [0] * 300, np.random.default_rng(5), strings.where)
    (tmp_path / "tally.json").write_text(tally.to_json())
    (tmp_path / "candidates.txt").write_text("\n".join(strings.texts.tolist()))
    code = (
        "from pathlib import Path; from hubbub.analysis import decode; from hubbub.protocol.tally import Tally;"
        "d = decode(Tally.from_json(Path('tally.json').read_bytes()), Path('candidates.txt').read_text().split('\\n'));"
        "print(d.estimate.tobytes().hex(), d.std_error.tobytes().hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(seen) == 1


# --- what does not fit --------------------------------------------------------------------------------------------


def test_options_and_tallies_that_do_not_fit_are_refused_in_words():
    flag = Tally(define(Flag()), {})
    for options, words in (
        ({"confidence": 1.0}, "confidence must be at least 0.5 and below 1, got 1.0"),
        ({"estimand": "everyone"}, "estimand must be one of reporting, population, got 'everyone'"),
        ({"correction": "none"}, "correction must be one of bonferroni, benjamini-hochberg, got 'none'"),
        ({"fake_share": 1.5}, "fake_share must be at least 0 and below 1, got 1.5"),
    ):
        with pytest.raises(Invalid, match=words):
            Options(**options)
    with pytest.raises(Invalid, match="candidates are for string metrics, asked is a flag"):
        decode(flag, ["a"])
    with pytest.raises(Invalid, match="decode needs at least one tally, got none"):
        decode([])
    with pytest.raises(Invalid, match="each definition must come once; merge the tallies of asked"):
        decode([flag, flag])
    mean = Mean(low=Fraction(0), high=Fraction(1), absent=Fraction(0))
    with pytest.raises(Invalid, match=r"must be of one metric, got asked \(flag\) and asked \(mean\)"):
        decode([flag, Tally(define(mean), {})])
    wider = Mean(low=Fraction(0), high=Fraction(2), absent=Fraction(0))
    with pytest.raises(Invalid, match="definitions of a mean decoded together must ask the same"):
        decode([Tally(define(mean), {}), Tally(define(wider), {})])


# --- several definitions, corrections -----------------------------------------------------------------------------


def test_ranges_of_two_definitions_are_decoded_together():
    """A release that changed its epsilons: intervals of both crowds together cover the truth of both."""
    shape = Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=4)
    metrics = [define(shape, "1", "3"), define(shape, "2", "4")]
    crowds = [np.append((zipf(16) * 9_000).astype(int), 1_000), np.append((zipf(16) * 18_000).astype(int), 2_000)]
    truth = sum(crowds)[:16] / sum(crowds).sum()
    rng = np.random.default_rng(14)
    hits = 0
    for population in range(450):
        found = decode([tally_of(metric, crowd, rng) for metric, crowd in zip(metrics, crowds, strict=True)])
        leaf = population % 16  # one interval of each population: those of one share their reports
        hits += bool(found.low[leaf] <= truth[leaf] <= found.high[leaf])
    assert_binomial(hits, 450, 0.95)
    assert power(450, 0.95, 0.85) > 0.99
    other = define(Range(low=Fraction(0), high=Fraction(8), num_leaves=16, branching=4))
    with pytest.raises(Invalid, match="definitions of a range decoded together must ask the same"):
        decode([tally_of(metrics[0], crowds[0], rng), tally_of(other, crowds[0], rng)])


def test_definitions_with_different_choices_are_stacked_by_name():
    rng = np.random.default_rng(4)
    old = tally_of(define(Choice(choices=("a", "b"), absent="a")), [60_000, 40_000], rng)
    new = tally_of(define(Choice(choices=("b", "c", "a"), absent="a")), [20_000, 20_000, 60_000], rng)
    found = decode([old, new])
    assert found.values == ("a", "b", "c")
    assert abs(found.estimate[0] - 0.6) < 5 * found.std_error[0]
    assert found.std_error[0] < min(decode(old).std_error[0], decode(new).std_error[2])


def test_benjamini_hochberg_finds_more_than_bonferroni():
    strings = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=64)), 1_000)
    counts = np.concatenate([np.full(60, 3_400), np.zeros(940), [100_000]]).astype(int)
    tally = tally_of(strings.metric, counts, np.random.default_rng(3), strings.where)
    texts = strings.texts.tolist()
    few, more = (
        decode(tally, texts, Options(correction=c)).detected[:1_000] for c in ("bonferroni", "benjamini-hochberg")
    )
    assert more.sum() > few.sum() > 2
    assert (few <= more).all()


def test_the_attack_radius_is_that_of_the_literature():
    """Many-bit noise: 2E/(E - 1) for each share of fake reports; one bit of a mean: (E + 1)/(E - 1) of the range."""
    e = np.e
    choice = define(Choice(choices=tuple(f"choice {i}" for i in range(100)), absent="choice 0"), "1", "3")
    found = decode(tally_of(choice, [100] * 100, np.random.default_rng(1)), options=Options(fake_share=0.02))
    assert found.diagnostics.attack_radius == pytest.approx(0.02 * 2 * e / (e - 1), rel=1e-3)
    mean = define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0)), "1", "3")
    found = decode(tally_of(mean, [500, 500], np.random.default_rng(1)), options=Options(fake_share=0.02))
    assert found.diagnostics.attack_radius == pytest.approx(0.02 * 30 * (e + 1) / (e - 1), rel=1e-3)


def poisoned(tally: Tally, fakes: dict[int, tuple[int, set[int]]]) -> Tally:
    """The tally with reports more: for a cohort, so many that set these bits and no others."""
    (counts,) = tally.epochs.values()
    reports, rows = list(counts.num_reports), [list(row) for row in counts.bit_counts]
    for cohort, (number, bits) in fakes.items():
        reports[cohort] += number
        for bit in bits:
            rows[cohort][bit] += number
    return Tally(tally.metric, {0: Counts(tuple(reports), tuple(map(tuple, rows)))})


def most_moved(tally: Tally, attack: dict[int, tuple[int, set[int]]], candidates=None) -> tuple[float, float]:
    """How far the attack moves the first row, and the radius printed for its share of reports."""
    share = sum(number for number, _ in attack.values()) / sum(tally.epochs[0].num_reports)
    before = decode(tally, candidates, Options(fake_share=share))
    after = decode(poisoned(tally, attack), candidates)
    return float(after.estimate[0] - before.estimate[0]), before.diagnostics.attack_radius


def test_no_attack_goes_beyond_the_radius_and_the_best_one_nearly_reaches_it():
    """The best fakes known: the target's bits and no others; in the cohorts that ask about the target."""
    rng = np.random.default_rng(2)
    strings = Strings.of(define(String(num_bits=64, num_hashes=1, num_cohorts=64), "1", "3"), 3)
    tally = tally_of(strings.metric, [0, 150_000, 150_000], rng, strings.where)
    bits = {cohort: (40, {int(strings.where[cohort, 0])}) for cohort in range(64)}
    moved, radius = most_moved(tally, bits, strings.texts.tolist())
    assert 0.95 * radius < moved <= radius

    shape = Histogram(edges=tuple(Fraction(i) for i in range(9)), buckets_per_report=2)
    tally = tally_of(define(shape), [40_000] * 9, rng)
    asking = {c: (1_000, {i for i in (0, 1) if shape.bucket(c, i) == 0}) for c in range(8)}
    moved, radius = most_moved(tally, {c: fakes for c, fakes in asking.items() if fakes[1]})
    assert 0.9 * radius < moved <= radius

    shape = Range(low=Fraction(0), high=Fraction(64), num_leaves=64, branching=4)
    tally = tally_of(define(shape), [5_000] * 65, rng)
    moved, radius = most_moved(tally, {2: (500, {0})})
    assert 0.8 * radius < moved <= radius
    assert most_moved(tally, {1: (500, {0})})[0] < moved
