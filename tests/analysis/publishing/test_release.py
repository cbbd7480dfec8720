"""Published figures: made from noised counts alone, covering the truth as often as they say, on a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubbub.analysis.estimation.cells import pool_counts
from hubbub.analysis.kinds import kind_of
from hubbub.analysis.options import DEFAULTS
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.publishing.ledger import Budget, open_ledger
from hubbub.analysis.publishing.reader import reader_bound
from hubbub.analysis.publishing.release import News, news, publish, release
from hubbub.analysis.publishing.released_file import document, read, to_csv, to_json, verify
from hubbub.analysis.publishing.released_page import to_html
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Cross, Flag, Histogram, Mean, Range, Set
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Factor
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.kinds.test_set import tally_of_people
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

NOISE = CountNoise.parse("gaussian:40")
LITTLE_NOISE = CountNoise.parse("gaussian:3")
CROSS = Cross(
    factors=(
        Factor(name="os", shape=Choice(choices=("linux", "macos"), absent=None)),
        Factor(name="crashed", shape=Flag()),
    )
)
SIXTEENTHS = Range(low=Fraction(0), high=Fraction(16), num_leaves=16, branching=4)
CASES = {
    "flag": (define(Flag(), "1", "2"), [1000, 500], "yes", 1 / 3),
    "mean": (define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0)), "1", "2"), [1000, 500], "mean", 10.0),
    "mean of those who answered": (
        define(Mean(low=Fraction(0), high=Fraction(30), absent="apart", points=3), "2", "3"),
        [600, 300, 100, 500],
        "mean",
        7.5,
    ),
    "mean on a grid": (
        define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0), points=4), "3", "4"),
        [900, 300, 0, 300],
        "mean",
        8.0,
    ),
    "mean on a grid of few": (  # the law of few counts allows for noise on them, too
        define(Mean(low=Fraction(0), high=Fraction(30), absent=Fraction(0), points=4), "6", "8"),
        [90, 6, 0, 4],
        "mean",
        1.8,
    ),
    "set": (define(Set(items=("a", "b", "c"), items_per_report=2), "2", "3"), [1200, 600, 300], "b", 1 / 3),
    "cross": (define(CROSS, "2", "3"), [500, 300, 200, 300, 100, 100], "linux · yes", 0.2),
    "one of three": (define(Choice(choices=("a", "b")), "1", "2"), [600, 300, 600], "b", 0.2),
    "one of twelve": (define(Choice(choices=tuple("abcdefghijkl"), absent="a"), "2", "3"), [150] * 12, "c", 1 / 12),
    "buckets": (
        define(Histogram(edges=tuple(map(Fraction, range(4))), buckets_per_report=1), "1", "2"),
        [2000, 1000, 1000],
        "[1, 2)",
        0.25,
    ),
    "absent of buckets": (
        define(Histogram(edges=tuple(map(Fraction, range(4))), buckets_per_report=2), "1", "2"),
        [1000, 1000, 500, 1500],
        "absent",
        0.375,
    ),
    "range": (define(SIXTEENTHS, "1", "2"), [*range(100, 900, 50), 2000], "[6, 7)", 0.04),
    "absent of a range": (define(SIXTEENTHS, "1", "2"), [*range(100, 900, 50), 2000], "absent", 0.2),
}


FEW = "mean on a grid of few"  # intervals of few are on the careful side


def _drawn(case: str, rng: np.random.Generator) -> Tally:
    """Of flags over two weeks, pooled. Of a set the users of an item are among those of the one before."""
    metric, installs, _, _ = CASES[case]
    if case == "set":
        uses = np.arange(1_800)[:, np.newaxis] < np.array(installs)
        return tally_of_people(metric, uses, rng)
    return tally_of(metric, installs, rng, epochs=(0, 1) if case == "flag" else (0,))


def _covered(case: str, populations: int, seed: int) -> int:
    """How many intervals hold the truth, of as many populations."""
    _, _, value, truth = CASES[case]
    rng, noise = np.random.default_rng(seed), LITTLE_NOISE if case == FEW else NOISE
    source = NoiseSource(rng.bytes)
    hits = 0
    for _ in range(populations):
        published = publish(_drawn(case, rng), noise, source, DEFAULTS)
        figure = next(f for f in published.figures[::-1] if f.value == value)
        hits += figure.low <= truth <= figure.high
    return min(hits, round(0.95 * populations)) if case == FEW else hits


@pytest.mark.parametrize("case", [case for case in CASES if case != FEW])
def test_intervals_cover_the_truth_as_often_as_they_say(case: str) -> None:
    """Bounds at one in a million; the half that is left without the noise's variance would be noticed, and 70 %."""
    assert_binomial(_covered(case, 120, 1), 120, 0.95)
    assert power(120, 0.95, 0.7) > 0.99


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_the_truth_at_full_size(case: str, figure: Callable[[str, object], None]) -> None:
    hits = _covered(case, 3000, 2)
    figure(f"coverage of published 95 % intervals, {case}", f"{hits / 3000:.4f} of 3000 populations")
    assert_binomial(hits, 3000, 0.95)
    assert power(3000, 0.95, 0.91) > 0.999


def test_intervals_that_forget_the_noise_would_be_noticed() -> None:
    metric, installs, _, truth = CASES["flag"]
    rng = np.random.default_rng(3)
    source = NoiseSource(rng.bytes)
    hits = 0
    for _ in range(100):
        tally = tally_of(metric, installs, rng)
        noised = {
            epoch: type(counts)(
                tuple(n + NOISE.draw(source) for n in counts.num_reports),
                tuple(tuple(n + NOISE.draw(source) for n in row) for row in counts.bit_counts),
            )
            for epoch, counts in tally.epochs.items()
        }
        found = kind_of("flag").decode([pool_counts(metric, noised)], [], DEFAULTS)
        hits += found.low[0] <= truth <= found.high[0]
    with pytest.raises(AssertionError, match=r"expected p = 0\.95"):
        assert_binomial(hits, 100, 0.95)


@pytest.mark.parametrize("case", ["flag", "mean", "buckets", "absent of buckets", "range", "absent of a range"])
def test_errors_allow_for_noise_on_every_count_and_no_more(case: str) -> None:
    """How far each count moves an estimate, found by moving it: the squares add up to what the noise adds to the
    variance. Of single bits the noise on reports is taken at its largest along a line, at most a fifth more."""
    metric, installs, value, _ = CASES[case]
    ((epoch, counts),) = tally_of(metric, [10 * n for n in installs], np.random.default_rng(14)).epochs.items()

    def decoded(reports: Sequence[Sequence[float]], ones: Sequence[Sequence[float]], noise: float = 0.0) -> np.ndarray:
        moved = Counts(tuple(row[0] for row in reports), tuple(map(tuple, ones)))  # type: ignore[arg-type]
        found = kind_of(metric.kind).decode([pool_counts(metric, {epoch: moved}, noise)], [], DEFAULTS)
        row = found.values.index(value)
        return np.array([found.estimate[row], found.std_error[row]])

    reports, ones = [[n] for n in counts.num_reports], [list(row) for row in counts.bit_counts]
    slopes = []
    for rows in (reports, ones):
        for row in rows:
            for place, was in enumerate(row):
                ends = []
                for row[place] in (was + 5, was - 5):
                    ends.append(decoded(reports, ones)[0])
                row[place] = was
                slopes.append((ends[0] - ends[1]) / 10)
    variance = 3600.0
    added = decoded(reports, ones, variance)[1] ** 2 - decoded(reports, ones)[1] ** 2
    exact = variance * float(np.sum(np.square(slopes)))
    assert 0.97 * exact < added < 1.2 * exact


def test_a_tally_without_noise_decodes_as_before() -> None:
    metric, installs, _, _ = CASES["flag"]
    tally = tally_of(metric, installs, np.random.default_rng(4))
    plain, zero = (
        kind_of("flag").decode([pool_counts(metric, tally.epochs, variance)], [], DEFAULTS) for variance in (0.0, 1e-12)
    )
    assert plain.std_error[0] == pytest.approx(zero.std_error[0], rel=1e-9)


def test_nothing_exact_and_no_cohort_is_in_a_file() -> None:
    """Only noised totals; the exact number of reports, and those of groups, do not occur."""
    metric, installs, _, _ = CASES["buckets"]
    tally = tally_of(metric, installs, np.random.default_rng(5))
    (published,) = [publish(tally, NOISE, NoiseSource(np.random.default_rng(6).bytes), DEFAULTS)]
    facts = document([published], NOISE, Budget(epsilon=9, delta=1e-9), 1.0, 0.95)
    text = to_json(facts)
    (counts,) = tally.epochs.values()
    assert "bit_counts" not in text
    assert "num_reports" not in text
    for exact in (sum(counts.num_reports), *counts.num_reports):
        assert f": {exact}" not in text
    assert list(published.reports.values()) != [sum(counts.num_reports)]


def test_cohorts_with_hardly_any_reports_are_left_out_and_empty_tallies_have_no_figures() -> None:
    metric = CASES["flag"][0]
    tally = tally_of(metric, [10, 10], np.random.default_rng(7))
    assert publish(tally, NOISE, NoiseSource(np.random.default_rng(8).bytes), DEFAULTS).figures == ()


# --- the file -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts() -> dict[str, object]:
    metric, _, _, _ = CASES["flag"]
    tally = tally_of(metric, [20_000, 10_000], np.random.default_rng(9), epochs=(2960, 2961))
    found = publish(tally, NOISE, NoiseSource(np.random.default_rng(10).bytes), DEFAULTS)
    return document([found], NOISE, Budget(epsilon=9, delta=1e-9), 1.25, 0.95)


def test_a_file_alone_reproduces_its_statements(facts: dict[str, object]) -> None:
    assert verify(to_json(facts)) == []
    assert verify(to_html(facts)) == []
    assert read(to_html(facts)) == json.loads(to_json(facts))
    said = "\n".join(facts["statements"])
    assert said.count("trusting the collector") == 2
    assert "(epsilon 1.25) from all that were ever published" in said


def test_a_changed_file_is_noticed(facts: dict[str, object]) -> None:
    quieter = {**facts, "count_noise": "gaussian:400"}
    assert any("the checksum" in problem for problem in verify(json.dumps(quieter)))
    assert any("the statements must be those that follow" in problem for problem in verify(json.dumps(quieter)))
    assert verify(json.dumps({**facts, "metrics": [{}]})) != []


@pytest.mark.parametrize("text", ["", "[]", "{}", "<html>", '{"format": "hubbub.tally"}'])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a released file"):
        verify(text)


def _leaves(facts: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(facts, dict | list):
        for key in list(facts) if isinstance(facts, dict) else range(len(facts)):
            yield from _leaves(facts[key], (*path, key))


def test_a_hostile_file_is_told_in_words_whatever_stands_in_it(
    facts: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field, and every object and list, in turn replaced by what nobody expects there, or missing."""
    bounds: dict[object, object] = {}  # most files have the same crowds, whose bound need not be found again

    def bound(metric: Definition, crowds: Mapping[int, int], delta: float) -> object:
        key = metric, tuple(sorted(crowds.items())), delta
        if key not in bounds:
            bounds[key] = reader_bound(metric, crowds, delta)
        return bounds[key]

    monkeypatch.setattr("hubbub.analysis.publishing.released_file.reader_bound", bound)
    strange = [None, True, -1, 0.5, 10**400, float("nan"), "", "1e999999999", "\u0662", [], {}, [[]], "x" * 10_000]
    metric = {**facts, "metrics": [{**facts["metrics"][0], "figures": []}]}  # type: ignore[index]
    tried = refused = 0
    for path in list(_leaves(metric))[1:]:
        for thing in [*strange, KeyError]:
            tried += 1
            changed = json.loads(json.dumps(metric))
            place = changed
            for key in path[:-1]:
                place = place[key]
            if thing is KeyError:
                del place[path[-1]]
            else:
                place[path[-1]] = thing
            try:
                refused += bool(verify(json.dumps(changed)))
            except Invalid:
                refused += 1
    assert refused == tried > 400
    for text in ("[" * 100_000, '{"format": ' + "9" * 5000 + "}", '<html><script id="release">'):
        with pytest.raises(Invalid, match="not a released file"):
            verify(text)


def test_values_are_harmless_in_a_page_and_in_a_spreadsheet() -> None:
    shape = Choice(choices=("</script><b>x", "=1+1", "c"), absent="c")
    metric = Definition(name="asked", every="week", shape=shape, noise=shape.best_noise(Fraction(1), Fraction(2)))
    tally = tally_of(metric, [500, 500, 1000], np.random.default_rng(11))
    found = publish(tally, NOISE, NoiseSource(np.random.default_rng(12).bytes), DEFAULTS)
    facts = document([found], NOISE, Budget(epsilon=9, delta=1e-9), 1.0, 0.95)
    page = to_html(facts)
    assert "<b>x" not in page.replace("<\\/script><b>x", "")
    assert page.count("</script>") == 1
    assert ",'=1+1," in to_csv(facts)
    assert verify(page) == []


# --- week after week ----------------------------------------------------------------------------------------------


def _weeks(*epochs: int, installs: int = 3000, seed: int = 18) -> Tally:
    return tally_of(CASES["flag"][0], [installs, installs // 2], np.random.default_rng(seed), epochs=epochs)


def test_a_folder_of_all_weeks_publishes_the_new_one_and_names_the_others(tmp_path: Path) -> None:
    both = _weeks(2960, 2961)
    first = Tally(both.metric, {2960: both.epochs[2960]})
    with open_ledger(tmp_path / "ledger", Budget(epsilon=9, delta=1e-6)) as ledger:
        assert news([first], NOISE, ledger) == News(tallies=[first], left_out=[])
        release([first], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        found = news([both], NOISE, ledger)
        assert found.left_out == ["2026-W39 of asked was published before"]
        (new,) = found.tallies
        assert list(new.epochs) == [2961]
        release([new], CountNoise.parse("laplace:0.1"), ledger, np.random.default_rng(0).bytes, DEFAULTS)
        with pytest.raises(
            Invalid, match=r"W39 of asked was published before, with gaussian:40\n(.|\n)*nothing is new"
        ):
            news([both], CountNoise.parse("laplace:0.1"), ledger)
        grown = both + _weeks(2960, installs=30, seed=19)
        with pytest.raises(Invalid, match=r"W39 of asked was published before and has grown since \(--again"):
            news([grown], NOISE, ledger)
        (again,) = news([grown], NOISE, ledger, again=True).tallies
        assert list(again.epochs) == [2960]


def test_tallies_of_another_collector_or_of_a_store_that_went_back_are_refused(tmp_path: Path) -> None:
    before = _weeks(2960)
    after = before + _weeks(2960, installs=300, seed=19)
    with open_ledger(tmp_path / "ledger", Budget(epsilon=9, delta=1e-6)) as ledger:
        release([after], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        spent = ledger.spent
        restored = Tally(before.metric, {**before.epochs, 2961: before.epochs[2960]})
        with pytest.raises(Invalid, match="must not have gone back, as those of a restored backup have: 2026-W39"):
            news([restored], NOISE, ledger, same_collector=True)
        elsewhere = _weeks(2960, 2961, installs=3400, seed=20)
        with pytest.raises(Invalid, match="and counts that cannot have grown from those"):
            news([elsewhere], NOISE, ledger)
        alone = Tally(before.metric, {2961: before.epochs[2960]})
        with pytest.raises(Invalid, match="nothing shows it: also give a tally that has an epoch published before"):
            news([alone], NOISE, ledger)
        assert news([alone], NOISE, ledger, same_collector=True).tallies == [alone]
        assert ledger.spent == spent


@pytest.mark.parametrize("delta", ["1/4500", "1e-3", "0.5"])
def test_a_delta_that_one_install_could_fall_into_is_refused_before_anything_is_charged(
    tmp_path: Path, delta: str
) -> None:
    with open_ledger(tmp_path / "ledger", Budget(epsilon=9, delta=float(Fraction(delta)))) as ledger:
        with pytest.raises(Invalid, match="the budget's delta must be below 1/4500, or everything about one of the"):
            release([_weeks(2960)], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        assert ledger.spent == 0
    assert (tmp_path / "ledger").read_bytes() == b""


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def tally_file(tmp_path: Path) -> Path:
    metric, _, _, _ = CASES["flag"]
    path = tmp_path / "asked.json"
    path.write_text(
        tally_of(metric, [20_000, 10_000], np.random.default_rng(13), epochs=(2960,)).to_json(), encoding="utf-8"
    )
    return path


def test_a_release_and_its_check_as_people_call_them(tally_file: Path, tmp_path: Path, capsys) -> None:
    outputs = [str(tmp_path / f"figures.{ending}") for ending in ("json", "csv", "html")]
    out = [word for path in outputs for word in ("--out", path)]
    assert main(["release", str(tally_file), *out, "--budget", "3,1e-9"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[:3] == outputs
    assert "of 3 is spent" in said
    for path in (outputs[0], outputs[2]):
        assert main(["release", "--verify", path]) == 0
        assert "every statement follows" in capsys.readouterr().out
    changed = Path(outputs[0]).read_text(encoding="utf-8").replace("gaussian:20", "gaussian:90")
    Path(outputs[0]).write_text(changed, encoding="utf-8")
    assert main(["release", "--verify", outputs[0]]) == 1
    renamed = str(tally_file.rename(tmp_path / "another-name.json"))
    for tally, more in ((renamed, []), (renamed, ["--count-noise", "laplace:0.1"])):
        assert main(["release", tally, *out, *more]) == 2
        said = capsys.readouterr().err
        assert f"2026-W39 of asked was published before{', with gaussian:20' if more else ''}" in said
        assert "nothing is new" in said
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--budget", "0.1,1e-9"], "the budget of epsilon 0.1 at delta 1e-09 must not be exceeded: 0.000 is spent"),
        (["--budget", "3"], "--budget must be EPSILON,DELTA such as 3,1e-9, got '3'"),
        (["--budget", "inf,1e-9"], "--budget must be EPSILON,DELTA such as 3,1e-9, got 'inf,1e-9'"),
        (["--budget", "3,nan"], "--budget must be EPSILON,DELTA"),
        (["--budget", "1_0,1e-9"], "--budget must be EPSILON,DELTA"),
        (["--budget", "\u0663,1e-9"], "--budget must be EPSILON,DELTA"),
        (["--budget", "3;1e-9"], "--budget must be EPSILON,DELTA"),
        (["--budget", "3,1e-9,"], "--budget must be EPSILON,DELTA"),
        (["--budget=-3,1e-9"], "--budget must be EPSILON,DELTA"),
        (["--budget", "1e9,1e-9"], "the budget's epsilon must be above 0 and at most 100, beyond which it promises no"),
        (["--budget", "3,1e-99"], "the budget of epsilon 3 at delta 1e-99 must not be exceeded"),
        (["--budget", "3,1"], "the budget's delta must be above 0 and below 1, got 1"),
        (["--budget", "3,4e-5"], "the budget's delta must be below 1/30000"),
        ([], "a new ledger needs a budget"),
        (["--budget", "3,1e-9", "--out", "figures.pdf"], "--out must end in .json, .csv or .html, got 'figures.pdf'"),
        (["--budget", "3,1e-9", "--out", "no/such/figures.csv"], "--out must be in a folder that is there"),
        (["--budget", "3,1e-9", "--count-noise", "none"], "count noise must be gaussian:DEVIATION"),
        (["--budget", "3,1e-9", "--confidence", "2"], "confidence must be at least 0.5 and below 1, got 2"),
        (["--verify", "x.json"], "--verify FILE takes neither TALLY nor --out"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    tally_file: Path, tmp_path: Path, capsys, more: list[str], message: str
) -> None:
    out = tmp_path / "figures.csv"
    assert main(["release", str(tally_file), "--out", str(out), *more]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
    ledger = tmp_path / "release.ledger"
    assert not ledger.exists() or ledger.read_bytes() == b""


def test_what_cannot_be_published_yet_is_refused_before_it_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unready = replace(kind_of("flag"), released=None)
    monkeypatch.setattr("hubbub.analysis.publishing.release.kind_of", lambda kind: unready)
    with open_ledger(tmp_path / "ledger", Budget(epsilon=3, delta=1e-9)) as ledger:
        with pytest.raises(
            Invalid,
            match=r"asked is a flag, whose errors do not yet allow for noise on counts\n.*must have at least one epoch",
        ):
            release([Tally(define(Flag()), {})], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        with pytest.raises(Invalid, match="at least one tally must be given, got none"):
            release([], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        assert ledger.spent == 0
