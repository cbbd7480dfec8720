"""Crosstabs: two answers at once, from a pair tally or a cross, for every kind that can be a side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import Crosstab, Options, Tally, crosstab, decode
from hubbub.analysis.render.crosstab_words import answer, cell_of, p_in_words, remarks, view
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Cross, Flag, Histogram, Mean, Range, Set, String
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair, PairTally
from hubbub.protocol.shape import Factor
from hubbub.protocol.tally import Counts
from hubbub.simulations import sample_tally
from hubbub.simulations.joint_tallies import sample_pair_tally
from tests.analysis.joint_worlds import drawn, masks_of, metric, pair_of

F = Fraction
OS = Choice(choices=("linux", "macos", "windows"))
INSTALLS = np.array([[20_000, 10_000, 40_000, 40], [15_000, 3_000, 12_000, 300]])


@pytest.fixture(scope="module")
def tally() -> PairTally:
    pair = Pair("theme_os", (metric("dark", Flag(), 2, 4), metric("os", OS, 2, 4)))
    return drawn(pair, INSTALLS, np.random.default_rng(1), (2950, 2951))


@pytest.fixture(scope="module")
def found(tally: PairTally) -> Crosstab:
    return decode(tally)


def test_everything_of_a_table_fits_together(found: Crosstab) -> None:
    truth = INSTALLS / INSTALLS.sum()
    assert found.cells.estimate.sum() == pytest.approx(1)
    assert found.cells.estimate == pytest.approx(truth, abs=0.006)  # four standard errors of 0.0015
    assert found.margins[0].estimate == pytest.approx(found.cells.estimate.sum(axis=1))
    assert found.margins[1].estimate == pytest.approx(found.cells.estimate.sum(axis=0))
    assert found.given[0].shares.estimate.sum(axis=1) == pytest.approx(1)
    assert found.given[1].shares.estimate.sum(axis=0) == pytest.approx(1)
    assert (found.cells.best_guess >= 0).all()
    assert found.cells.best_guess.sum() == pytest.approx(1)
    assert found.given[0].shares.best_guess.sum(axis=1) == pytest.approx(1)
    assert found.num_reports == 2 * INSTALLS.sum()
    assert found.installs == pytest.approx(INSTALLS.sum())
    assert found.epochs == ("2026-W29", "2026-W30")
    assert found.factors[0].values == ("no", "yes")
    assert found.factors[1].values == ("linux", "macos", "windows", "absent")


def test_a_test_that_rests_on_few_installs_says_so(tally: PairTally, found: Crosstab) -> None:
    assert not any("too easily" in note for note in found.notes)
    few = decode(drawn(tally.pair, np.array([[40, 20, 80, 1], [4, 1, 3, 1]]), np.random.default_rng(1)))
    assert any(note.startswith("If the answers were independent, a combination would have fewer") for note in few.notes)


def test_one_sentence_answers_the_question(found: Crosstab) -> None:
    said = answer(found)
    assert said.headline == "dark and os are related (p < 0.0001)."
    assert said.details.startswith("Of installs with dark yes, ")
    assert "have os linux" in said.details
    assert "times as many" in said.details
    clearest = found.given[0].clearest
    assert clearest is not None
    assert (clearest.outcome, clearest.more, clearest.less, clearest.chosen_from) == (0, 1, 0, 3)
    truth = INSTALLS / INSTALLS.sum(axis=1, keepdims=True)
    assert clearest.contrast.low < truth[1, 0] - truth[0, 0] < clearest.contrast.high
    assert clearest.contrast.ratio_low < truth[1, 0] / truth[0, 0] < clearest.contrast.ratio_high


def test_unrelated_answers_are_called_so_with_what_would_have_been_seen() -> None:
    found = decode(drawn(pair_of(2, 2, 1), np.array([[6_000, 2_000], [3_000, 1_000]]), np.random.default_rng(2)))
    said = answer(found)
    assert not found.related
    assert (
        said.headline == f"No relation between one and other was detected ({p_in_words(found.independence.p_value)})."
    )
    assert said.details.endswith("would be detected 9 times in 10.")
    few = decode(drawn(pair_of(2, 2, 1), np.full((2, 2), 10), np.random.default_rng(2)))
    assert answer(few).details == "Even the strongest relation would often be missed: more reports are needed."


def test_a_share_that_is_not_detected_is_written_as_what_it_is_below(found: Crosstab) -> None:
    seen = view(found, 0)
    cell = cell_of(seen.shares, (0, 3), seen.digits)
    assert (cell.figure[0], cell.interval, cell.detected) == ("<", "not detected", False)
    turned = view(found, 1)
    assert turned.rows.name == "os"
    assert turned.shares.estimate.shape == (4, 2)


def test_shares_of_those_that_answered_leave_silence_out(tally: PairTally) -> None:
    found = decode(tally, options=Options(exclude_absent=True))
    assert found.of == "answered"
    assert np.isnan(found.cells.estimate[:, 3]).all()
    assert np.nansum(found.cells.estimate) == pytest.approx(1)
    assert np.nansum(found.given[0].shares.estimate, axis=1) == pytest.approx(1)
    answered = INSTALLS[:, :3] / INSTALLS[:, :3].sum()
    assert found.cells.estimate[:, :3] == pytest.approx(answered, abs=0.006)
    assert 0.001 < found.absent < 0.02
    assert "as shares of those that answered both" in remarks(found)[0]


def cross_tally(installs: np.ndarray, rng: np.random.Generator) -> Tally:
    first, second = Factor(name="dark", shape=Flag()), Factor(name="os", shape=OS)
    shape = Cross(factors=(first, second))
    noise = shape.best_noise(F(2), F(4))
    asked = Definition(name="theme_os", every="week", shape=shape, noise=noise)
    reports = np.asarray(installs).ravel()
    return sample_tally(asked, [int(reports.sum())], [reports], rng, (2950,))


def test_a_cross_is_the_same_table_with_shorter_intervals(tally: PairTally) -> None:
    asked, paired = crosstab(cross_tally(INSTALLS, np.random.default_rng(3))), decode(tally.only(2950))
    assert asked.way == "cross"
    assert [factor.values for factor in asked.factors] == [factor.values for factor in paired.factors]
    assert asked.cells.estimate == pytest.approx(INSTALLS / INSTALLS.sum(), abs=0.012)
    assert asked.margins[1].estimate == pytest.approx(asked.cells.estimate.sum(axis=0))
    assert (asked.cells.std_error > 0).all()
    assert asked.related


def test_intervals_of_a_cross_hold_the_truth() -> None:
    """Of 8 cells in 60 populations, 480 intervals at 95 %: correlated, so that the bound is that of one cell."""
    rng, truth, held = np.random.default_rng(4), INSTALLS // 20 / (INSTALLS // 20).sum(), np.zeros((2, 4))
    for _ in range(60):
        found = crosstab(cross_tally(INSTALLS // 20, rng))
        held += (found.cells.low <= truth) & (truth <= found.cells.high)
    assert held.min() >= 44  # P(Binomial(60, 0.95) < 44) < 1e-7; one at 60 % would be noticed with 0.98


def histogram(asked: int) -> Definition:
    return metric("plugins", Histogram(edges=tuple(map(F, (0, 1, 6, 20, 100))), buckets_per_report=asked), 3, 4)


@pytest.mark.parametrize("asked", [4, 2])
def test_buckets_are_a_side_whether_all_or_some_of_them_are_asked(asked: int) -> None:
    pair = Pair("crashes", (histogram(asked), metric("crashed", Flag(), 3, 4)))
    installs = np.array([[9_000, 1_000], [5_000, 1_500], [2_000, 1_000], [500, 500], [300, 20]]) * 4
    found = decode(drawn(pair, installs, np.random.default_rng(5)))
    assert found.factors[0].values == ("0 to 1", "1 to 6", "6 to 20", "20 to 100", "absent")
    strays = (found.cells.estimate - installs / installs.sum()) / found.cells.std_error
    assert np.abs(strays).max() < 4.5  # ten cells: 7e-5
    assert found.cells.estimate.sum() == pytest.approx(1)
    assert found.related


def test_averages_of_a_number_are_given_by_category() -> None:
    """Of points to which numbers were rounded: 0, 5 and 10."""
    startup = Mean(low=F(0), high=F(10), absent=F(0), points=3, unit="s")
    pair = Pair("startup_os", (metric("os", OS, 2, 4), metric("startup", startup, 2, 4)))
    installs = np.array([[8_000, 4_000, 4_000], [2_000, 6_000, 6_000], [5_000, 5_000, 5_000], [10, 10, 10]])
    found = decode(drawn(pair, installs, np.random.default_rng(6)))
    means, other = found.given[0].means, found.given[1].means
    assert means is not None
    assert other is None
    truth = installs @ np.array([0, 5, 10]) / installs.sum(axis=1)
    assert np.abs((means.estimate - truth) / means.std_error)[:3].max() < 4.5
    assert ((means.low < truth) & (truth < means.high))[:3].all()
    assert answer(found).details.startswith("On average startup is ")
    assert " s (" in answer(found).details.replace("\N{NO-BREAK SPACE}", " ")


def test_a_set_is_crossed_one_item_at_a_time() -> None:
    features = Set(items=("export", "macros", "vim"), items_per_report=1)
    pair = Pair("features_os", (metric("features", features, 2, 4), metric("dark", Flag(), 2, 4)))
    assert len(pair.cohort_pairs) == 3
    installs = np.array([[30_000, 20_000], [5_000, 20_000]])
    masks = [np.array([[0.0], [1.0]])] + [np.array([[0.0], [0.0]])] * 2  # they use the first item and no other
    rng = np.random.default_rng(7)
    tally = sample_pair_tally(pair, installs, (masks, masks_of(Flag())), rng)
    found = decode(tally, ["export"])
    assert found.factors[0].name == "features: export"
    assert np.abs((found.cells.estimate - installs / installs.sum()) / found.cells.std_error).max() < 4.5
    none = decode(tally, {"features": ["vim"]})
    assert none.margins[0].estimate[1] < 0.05
    for wrong in (None, ["nothing"], ["export", "vim"]):
        with pytest.raises(Invalid, match="a crosstab of features takes one item, which must be one of export, macros"):
            decode(tally, wrong)


def test_of_a_range_the_installs_count_that_are_asked_for_few_cells() -> None:
    latency = Range(low=F(0), high=F(64), num_leaves=64, branching=4, unit="ms")
    pair = Pair("latency_dark", (metric("latency", latency, 2, 4), metric("dark", Flag(), 2, 4)))
    rng = np.random.default_rng(8)
    installs = np.zeros((65, 2), dtype=np.int64)
    installs[:4], installs[60:64] = [4_000, 1_000], [1_000, 4_000]
    masks = [np.vstack([np.repeat(np.eye(width), 64 // width, axis=0), np.zeros(width)]) for width in (4, 16, 64)]
    found = decode(sample_pair_tally(pair, installs, (masks, masks_of(Flag())), rng))
    assert found.shape == (17, 2)
    assert found.factors[0].values[0] == "0 to 4"
    assert found.num_reports == pytest.approx(installs.sum() / 3, rel=0.05)
    assert found.cells.estimate[0] == pytest.approx([0.4, 0.1], abs=0.05)
    assert found.cells.estimate[15] == pytest.approx([0.1, 0.4], abs=0.05)


@pytest.fixture(scope="module")
def strings() -> tuple[PairTally, np.ndarray]:
    """Three common pages and many rare ones that no list has."""
    page = String(num_bits=32, num_hashes=1, num_cohorts=16)
    pair = Pair("page_dark", (metric("page", page, 3, 4), metric("dark", Flag(), 3, 4)))
    names = ["a.example", "b.example", "c.example", *(f"rare {i}" for i in range(400))]
    installs = np.vstack([[[30_000, 10_000], [8_000, 16_000], [10_000, 10_000]], np.tile([40, 20], (400, 1))])
    masks = [
        np.array([[page.encode(name, cohort).mask >> bit & 1 for bit in range(32)] for name in names])
        for cohort in range(16)
    ]
    tally = sample_pair_tally(pair, installs, (masks, masks_of(Flag())), np.random.default_rng(9))
    return tally, installs


def test_strings_are_a_side_with_a_list_and_only_where_detected(strings: tuple[PairTally, np.ndarray]) -> None:
    tally, installs = strings
    found = decode(tally, ["a.example", "b.example", "c.example", "nobody.example"])
    assert found.factors[0].values == ("a.example", "b.example", "c.example", "other")
    whole = np.vstack([installs[:3], installs[3:].sum(axis=0)]) / installs.sum()
    assert np.abs((found.cells.estimate - whole) / found.cells.std_error).max() < 4.5
    assert found.related
    assert "3 strings of the list were detected" in found.notes[0]


def test_strings_without_a_list_are_refused_in_words(strings: tuple[PairTally, np.ndarray]) -> None:
    with pytest.raises(Invalid, match="a crosstab of page, a string, needs candidates: a list of strings to look for"):
        decode(strings[0])
    with pytest.raises(Invalid, match="no string of page was detected: there is nothing to put into a table"):
        decode(strings[0], ["nobody.example"])
    with pytest.raises(Invalid, match="candidates are for string and set metrics of page_dark, got some for 'dark'"):
        decode(strings[0], {"dark": ["x"]})


def test_what_makes_no_crosstab_is_said(tally: PairTally) -> None:
    flag = sample_tally(tally.pair.metrics[0], [10], [[3]], np.random.default_rng(1))
    with pytest.raises(Invalid, match="a crosstab is of a cross or of a pair, dark is a flag"):
        crosstab(flag)
    with pytest.raises(Invalid, match="a crosstab is of a pair or of a cross, got theme_os and dark"):
        crosstab([tally, flag])  # type: ignore[list-item]
    with pytest.raises(Invalid, match="a crosstab needs at least one tally, got none"):
        crosstab([])
    with pytest.raises(Invalid, match="candidates are for string and set metrics, theme_os has none"):
        decode(tally, ["x"])
    with pytest.raises(Invalid, match="candidates are for pairs with a string, dark is a cross"):
        crosstab(flag, ["x"])
    with pytest.raises(Invalid, match="a crosstab is made of one definition, got 2 of both, theme_os"):
        decode([tally, drawn(pair_of(2, 2, 1), np.ones((2, 2)), np.random.default_rng(1))])
    with pytest.raises(Invalid, match="no batch of theme_os with a report of both metrics was counted"):
        decode(PairTally(tally.pair, {}))
    large = pair_of(40, 40, 1)
    with pytest.raises(Invalid, match="a crosstab must have at most 1,024 cells, got 40 x 40 of both"):
        decode(drawn(large, np.ones((40, 40)), np.random.default_rng(1)))


def test_segments_are_added_up_and_named(tally: PairTally) -> None:
    parts = [tally.counted_as(tally.pair.in_segment((("platform", name),))) for name in ("linux", "windows")]
    assert decode(parts).num_reports == 2 * tally.num_batches
    assert decode(parts).segment == ()
    assert decode(parts[0]).title == "theme_os, platform linux"


def test_more_reports_of_fewer_people_tell_no_more_than_there_is(tally: PairTally) -> None:
    """The kept part of the noise does not average out: intervals of two epochs are longer than 1/sqrt(2) of one's."""
    one, both = decode(tally.only(2950)), decode(tally)
    ratio = both.cells.std_error / one.cells.std_error
    assert (ratio > np.sqrt(0.5) * 1.02).all()
    assert (ratio < 1).all()


def test_cohorts_of_one_metric_count_as_they_do_alone() -> None:
    """The margin of a factor is what decoding that metric by itself would say."""
    pair = Pair("crashes", (histogram(4), metric("crashed", Flag(), 3, 4)))
    rng, installs = np.random.default_rng(11), np.array([[900, 100], [500, 150], [200, 100], [50, 50], [30, 2]]) * 9
    found = decode(drawn(pair, installs, rng))
    counts = next(iter(drawn(pair, installs, np.random.default_rng(11)).epochs.values()))
    alone = decode(Tally(pair.metrics[0], {2950: Counts(counts.num_batches, counts.first)}))
    assert found.margins[0].estimate[:4] == pytest.approx(alone.estimate[:4], rel=1e-9)
    assert found.margins[0].std_error[:4] == pytest.approx(alone.std_error[:4], rel=0.02)


def test_a_table_is_tidy_for_programs(found: Crosstab) -> None:
    rows = list(found.rows())
    assert len(rows) == 3 * 8 + 2 + 4
    assert {row["share_of"] for row in rows} == {"all", "given", "margin"}
    given = [row for row in rows if row["share_of"] == "given" and row["given"] == "dark"]
    assert sum(row["estimate"] for row in given if row["first"] == "yes") == pytest.approx(1)
    assert (rows[0]["table"], rows[0]["first"], rows[0]["second"]) == ("theme_os", "no", "linux")
