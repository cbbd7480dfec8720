"""Texts that nobody listed, by platform, over pooled weeks, and published: each as a list of texts would be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hubbub.analysis import by_segment, decode
from hubbub.analysis.options import DEFAULTS, Options
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.publishing.ledger import Budget
from hubbub.analysis.publishing.release import publish
from hubbub.analysis.publishing.released_file import document, verify
from hubbub.analysis.publishing.released_page import to_html
from hubbub.command.main import main
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import write_tallies
from tests.analysis.discoveries import SMALL, Crowd, asked
from tests.chance import assert_binomial, binomial_bounds, power

BOTH, LINUX, MACOS = ["both"], ["lx1", "lx2"], ["mac", "m.2"]
METRIC = asked(SMALL, 2, 4)
NARROW = Options(beam=30)


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    """Two platforms with one text in common, two weeks each."""
    found = []
    for seed, (platform, texts) in enumerate({"linux": BOTH + LINUX, "macos": BOTH + MACOS}.items()):
        metric = METRIC.in_segment((("platform", platform),))
        found.append(Crowd(metric, texts).draw(30_000, seed=seed, epochs=2)[0])
    return found


def test_each_platform_finds_its_own_texts_and_all_together_find_all(tallies: list[Tally]) -> None:
    found = {value: decode(some, None, NARROW) for value, some in by_segment(tallies, "platform").items()}
    for platform, texts in (("linux", BOTH + LINUX), ("macos", BOTH + MACOS)):
        assert set(found[platform].values) - {"absent", "other"} == set(texts)
        assert found[platform].segment == (("platform", platform),)
        assert len(found[platform].epochs) == 2
        assert {beginning.text[:2] for beginning in found[platform].beginnings} <= {text[:2] for text in texts}
    whole = decode(tallies, None, NARROW)
    assert set(whole.values) - {"absent", "other"} == {*BOTH, *LINUX, *MACOS}
    assert whole.num_reports == 120_000
    shares = [one.estimate[one.index("both")] for one in (*found.values(), whole)]
    assert whole.std_error[whole.index("both")] < found["linux"].std_error[found["linux"].index("both")]
    assert min(shares[:2]) - 0.05 < shares[2] < max(shares[:2]) + 0.05


def test_a_table_by_platform_says_what_an_empty_cell_is(tallies: list[Tally], tmp_path: Path, capsys) -> None:
    write_tallies(tallies, tmp_path / "tallies")
    assert main(["decode", str(tmp_path / "tallies"), "--by", "platform", "--beam", "30"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("plugin (string), 1970-W01..1970-W02 (2)")
    assert [line.split()[0] for line in out.splitlines()[3:8]] == ["both", "lx1", "lx2", "absent", "other"]
    assert "An empty cell: not found in that segment" in out
    assert main(["decode", str(tmp_path / "tallies"), "--by", "platform", "--by-epoch", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)
    assert [(part["segment"]["platform"], part["epochs"]) for part in parts] == [
        (platform, [week]) for platform in ("linux", "macos") for week in ("1970-W01", "1970-W02")
    ]
    assert all(part["beginnings"] for part in parts)


def test_two_platforms_are_compared_with_a_list_alone(tallies: list[Tally], tmp_path: Path, capsys) -> None:
    """What each side found depends on its own counts: a text without a row on one side has no difference."""
    write_tallies(tallies, tmp_path / "tallies")
    sides = ["--only", "platform=linux", "--against-only", "platform=macos"]
    assert main(["decode", str(tmp_path / "tallies"), *sides]) == 2
    assert "must have a row for each candidate" in capsys.readouterr().err


# --- published ----------------------------------------------------------------------------------------------------


def test_texts_are_published_from_noised_counts_and_their_intervals_hold() -> None:
    """Given that they were found; noise on counts is a good part of all noise here. Nothing is made up."""
    crowd, source = Crowd(METRIC, [*BOTH, *LINUX, *MACOS]), NoiseSource(np.random.default_rng(7).bytes)
    found, covered, wrongly, populations = 0, 0, 0, 15
    for seed in range(populations):
        tally, truth = crowd.draw(60_000, seed)
        figures = publish(tally, CountNoise.parse("gaussian:20"), source, NARROW).figures
        wrongly += any(figure.value not in truth for figure in figures)
        true = [figure for figure in figures if figure.value in truth]
        found += len(true)
        covered += sum(figure.low <= truth[figure.value] <= figure.high for figure in true)
    assert_binomial(covered, found, 0.95)
    assert power(found, 0.95, 0.6) > 0.99
    assert wrongly <= binomial_bounds(populations, 0.05)[1]


def test_a_published_page_says_that_nobody_listed_them(tallies: list[Tally], tmp_path: Path) -> None:
    noise, budget = CountNoise.parse("gaussian:20"), Budget(epsilon=99, delta=1e-9)
    source = NoiseSource(np.random.default_rng(1).bytes)
    facts = document([publish(tallies[0], noise, source, NARROW)], noise, budget, 9.0, 0.95)
    page = to_html(facts)
    assert "Texts that enough installs share, found without a list" in page
    assert {figure["value"] for figure in facts["metrics"][0]["figures"]} == {*BOTH, *LINUX}
    assert {figure["epochs"] for figure in facts["metrics"][0]["figures"]} == {
        "1970-W01",
        "1970-W02",
        "1970-W01..1970-W02 (2)",
    }
    assert verify(page) == []
    nobody, _ = Crowd(METRIC, ["rare"]).draw(20_000, seed=3, absent=1.0)
    facts = document([publish(nobody, noise, source, DEFAULTS)], noise, budget, 9.0, 0.95)
    assert "No text was found that enough installs share." in to_html(facts)


def test_the_command_publishes_without_a_list(tallies: list[Tally], tmp_path: Path, capsys) -> None:
    """The command's noise comes from the operating system: one decoding in twenty may name a text that is not there."""
    write_tallies(tallies, tmp_path / "tallies")
    out = tmp_path / "figures.json"
    assert main(["release", str(tmp_path / "tallies"), "--out", str(out), "--budget", "9,1e-9"]) == 0
    figures = json.loads(out.read_text())["metrics"][0]["figures"]
    assert {figure["value"] for figure in figures} >= {*BOTH, *LINUX, *MACOS}
    assert main(["release", "--verify", str(out)]) == 0
