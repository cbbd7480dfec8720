"""The p-values that tables are judged by, each derived again from the counts and from the definitions."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom

from hubbub.analysis import Decoding, Options, compare, decode
from hubbub.analysis.estimation.cells import TwoStageNoise
from hubbub.analysis.estimation.intervals import RowVariances
from hubbub.analysis.render.export import to_csv
from hubbub.analysis.render.text import remarks
from hubbub.protocol.kinds import Choice, Mean
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of, zipf

CHOICES = tuple(f"choice {i}" for i in range(30))
METRIC = define(Choice(choices=CHOICES), "1", "3")


def crowd(seed: int, installs: int = 60_000, answering: float = 0.9) -> Tally:
    held = np.floor(zipf(30, 1.5) * installs * answering).astype(int).tolist()
    return tally_of(METRIC, [*held, installs - sum(held)], np.random.default_rng(seed))


def tails(tally: Tally) -> list[float]:
    """P(so many ones or more) of each answer where nobody holds it: binomial with p*, which is a fraction."""
    (counts,) = tally.epochs.values()
    (reports,), (ones,) = counts.num_reports, counts.bit_counts
    p_star: Fraction = METRIC.noise.p_star
    return [float(binom.sf(count - 1, reports, float(p_star))) for count in ones]


def benjamini_hochberg(p: list[float]) -> list[float]:
    """Of the tests in order of p, the i-th of m gets the least of m p / j over all j from i on (their 1995 paper)."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    stepped = [len(p) * p[i] / (rank + 1) for rank, i in enumerate(order)]
    least = list(accumulate(reversed(stepped), min))[::-1]
    adjusted = [0.0] * len(p)
    for i, value in zip(order, least, strict=True):
        adjusted[i] = min(value, 1.0)
    return adjusted


@pytest.mark.parametrize("correction", ["bonferroni", "benjamini-hochberg"])
def test_adjusted_p_values_follow_from_the_counts(correction) -> None:
    """Answers are corrected for each other, `absent` for being one of two questions apart; and `detected` follows."""
    tally = crowd(1, answering=0.98)
    *answers, absent = tails(tally)
    assert 1e-9 < absent < 0.4, "a p-value that twice itself can be told from"
    found = decode(tally, options=Options(correction=correction))
    if correction == "bonferroni":
        expected = [min(1.0, p * len(answers)) for p in answers]
    else:
        expected = benjamini_hochberg(answers)
    expected.append(min(1.0, 2 * absent))
    assert found.p_value == pytest.approx([*answers, absent], rel=1e-9, abs=0)
    assert found.p_adjusted == pytest.approx(expected, rel=1e-9, abs=0)
    assert found.detected.tolist() == [p <= 0.05 for p in expected]
    assert 3 < found.detected.sum() < 25, "a table with both verdicts"
    rows = list(csv.DictReader(io.StringIO(to_csv([found]))))
    assert [float(row["p_adjusted"]) for row in rows] == pytest.approx(expected, rel=1e-9, abs=0)
    assert [row["detected"] == "true" for row in rows] == found.detected.tolist()


def test_adjusted_p_values_of_changes_follow_from_each_row() -> None:
    found = compare(decode(crowd(1)), decode(crowd(2)))
    *answers, absent = found.p_value.tolist()
    assert 1e-9 < absent < 0.4, "a p-value that twice itself can be told from"
    assert found.p_adjusted == pytest.approx(
        [*(min(1.0, 30 * p) for p in answers), min(1.0, 2 * absent)], rel=1e-9, abs=0
    )
    by_share = Options(correction="benjamini-hochberg")
    found = compare(decode(crowd(1), options=by_share), decode(crowd(2), options=by_share))
    assert found.p_adjusted[:-1] == pytest.approx(benjamini_hochberg(answers), rel=1e-9, abs=0)


def test_the_note_says_how_many_more_benjamini_and_hochberg_would_detect() -> None:
    tally = crowd(1)
    by_any, by_share = (decode(tally, options=Options(correction=c)) for c in ("bonferroni", "benjamini-hochberg"))
    more = int(by_share.detected[:30].sum() - by_any.detected[:30].sum())
    assert more > 0
    (note,) = (line for line in remarks(by_any) if line.startswith("Noise floor"))
    assert note.endswith(
        f"is not statistically different from zero (5 %, Bonferroni; Benjamini-Hochberg would detect {more} more)."
    )
    (note,) = (line for line in remarks(by_share) if line.startswith("Noise floor"))
    assert note.endswith("(5 % of detections, Benjamini-Hochberg).")
    everybody = tally_of(METRIC, [6_000] * 30 + [0], np.random.default_rng(3))
    assert any("would detect no more" in line for line in remarks(decode(everybody)))


# --- far out, where many rows and many looks are judged ---------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """So many installs that report in each of some epochs."""

    installs: int
    epochs: int = 1

    def law(self, noise: TwoStageNoise, share: float) -> np.ndarray:
        """P(so many ones) of an answer with this share: what an install says, its kept answer being the same in every
        epoch, convolved as often as there are installs."""
        ones, kept = np.arange(self.epochs + 1), noise.a0 + (noise.a1 - noise.a0) * share
        of_one = kept * binom.pmf(ones, self.epochs, noise.q) + (1 - kept) * binom.pmf(ones, self.epochs, noise.p)
        size = next_fast_len(self.installs * self.epochs + 1, real=True)
        return np.asarray(irfft(rfft(of_one, size) ** self.installs, size)[: self.installs * self.epochs + 1])

    def decoded(self, metric: Definition, ones: np.ndarray) -> Decoding:
        counts = np.zeros(metric.shape.width(0), dtype=int)
        counts[: len(ones)] = ones
        epochs = {}
        for epoch in range(self.epochs):  # as evenly as can be: only the sum enters
            mine = (counts + epoch) // self.epochs
            epochs[epoch] = Counts((self.installs,), (tuple(mine.tolist()),))
        return decode(Tally(metric, epochs), options=Options(estimand="population"))


def exact_false_alarms(
    epsilons: tuple[str, str], before: Side, after: Side, share: float, levels: list[float]
) -> list[float]:
    """P(p-value <= level) of one row of `compare` where nothing changed, over every pair of counts that has a chance of
    1e-9 or more: each pair is a row of a choice whose bits are noised one by one."""
    metric = define(Choice(choices=tuple(f"choice {i}" for i in range(10_000))), *epsilons)
    laws = [side.law(TwoStageNoise.of(metric.noise), share) for side in (before, after)]
    pairs = np.stack(np.meshgrid(*(np.flatnonzero(law > 1e-9) for law in laws), indexing="ij"), axis=-1).reshape(-1, 2)
    chance = laws[0][pairs[:, 0]] * laws[1][pairs[:, 1]]
    found = np.zeros(len(levels))
    for start in range(0, len(pairs), 10_000):
        rows = pairs[start : start + 10_000]
        row = compare(*(side.decoded(metric, rows[:, i]) for i, side in enumerate((before, after))))
        for i, level in enumerate(levels):
            found[i] += chance[start : start + 10_000][row.p_value[: len(rows)] <= level].sum()
    return found.tolist()


LEVELS = [0.05, 1e-3, 1e-4, 1e-5]


@pytest.mark.parametrize(
    ("epsilon", "before", "after", "share"),
    [("8", 28_000, 1_000, 0.0), ("8", 1_000, 28_000, 0.01), ("6", 28_000, 1_000, 0.0), ("4", 500, 500, 0.02)],
)
def test_no_change_is_as_rare_as_its_p_value_says_also_far_out(epsilon, before, after, share) -> None:
    """Enumerated. With a normal tail, one in 100,000 was one in 2,000 at epsilon 8 for a day against four weeks."""
    found = exact_false_alarms((epsilon, epsilon), Side(before), Side(after), share, LEVELS)
    for level, chance in zip(LEVELS, found, strict=True):
        assert chance <= level


@pytest.mark.parametrize(
    ("epsilons", "before", "after", "share"),
    [
        (("1", "1.5"), Side(100, 28), Side(100), 0.0),
        (("4", "6"), Side(1_000, 28), Side(1_000), 0.01),
        (("4", "6"), Side(1_000, 4), Side(1_000, 4), 0.02),
    ],
)
def test_of_pooled_epochs_it_is_as_rare_and_hardly_rarer(epsilons, before, after, share) -> None:
    """What one install does to all epochs is one step. With a step for each of 28 epochs, a difference of 4.7 standard
    errors had a p-value of one in five hundred: no daily look would have seen it."""
    found = exact_false_alarms(epsilons, before, after, share, LEVELS)
    for level, chance in zip(LEVELS, found, strict=True):
        assert level / 10 <= chance <= level


def in_rows(found: list[Decoding], which: np.ndarray) -> Decoding:
    """The means of these decodings, in rows of one."""
    columns = {
        name: np.array([getattr(one, name)[0] for one in found])[which]
        for name in ("estimate", "std_error", "low", "high")
    }
    of = [one.variance for one in found if isinstance(one.variance, RowVariances)]
    if of:
        start, span = (np.array([getattr(one, name)[0] for one in of]) for name in ("start", "span"))
        columns["variance"] = RowVariances(tuple(one.places[0] for one in of), start, span).of(which)
    values = tuple(map(str, range(len(which))))
    return replace(found[0], values=values, roles=found[0].roles[:1] * len(which), **columns)


def exact_false_alarms_of_means(
    epsilon: str, before: Side, after: Side, mean: float, levels: list[float]
) -> list[float]:
    """The same of a mean of two points, which is so far up its range: over every pair of counts that has a chance of
    1e-7 or more on each side. What is left out is taken as false alarms."""
    metric = define(Mean(low=Fraction(-10), high=Fraction(30), absent=Fraction(0)), epsilon, epsilon)
    found, chances = [], []
    for side in (before, after):
        law = side.law(TwoStageNoise.of(metric.noise), mean)
        counts = np.flatnonzero(law > 1e-7)
        found.append([side.decoded(metric, np.array([count])) for count in counts])
        chances.append(law[counts])
    pairs = [each.ravel() for each in np.indices([len(chance) for chance in chances])]
    chance = chances[0][pairs[0]] * chances[1][pairs[1]]
    p_value = compare(*(in_rows(one, which) for one, which in zip(found, pairs, strict=True))).p_value
    return [float(chance[p_value <= level].sum() + 1 - chance.sum()) for level in levels]


@pytest.mark.parametrize(
    ("epsilon", "before", "after", "mean"),
    [
        ("8", 28_000, 1_000, 0.002),
        ("8", 500, 20_000, 0.002),
        ("8", 28_000, 1_000, 0.99),
        ("6", 28_000, 1_000, 0.002),
        ("4", 5_600, 200, 0.02),
    ],
)
def test_that_a_mean_did_not_change_is_as_rare_as_its_p_value_says_also_far_out(epsilon, before, after, mean) -> None:
    """Enumerated. By a normal law at each side's own estimate, one in 20 was one in 3 of 500 installs at epsilon 8, and
    one in 100,000 was one in 30."""
    found = exact_false_alarms_of_means(epsilon, Side(before), Side(after), mean, LEVELS)
    for level, chance in zip(LEVELS, found, strict=True):
        assert chance <= level
