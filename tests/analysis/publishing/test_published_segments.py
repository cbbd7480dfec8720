"""Figures by platform or release: from public lists of values, chosen with noise, at the cost of one segment."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import exp
from pathlib import Path

import numpy as np
import pytest

from hubbub.analysis.options import DEFAULTS
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.publishing.ledger import Budget, epsilon_of, open_ledger
from hubbub.analysis.publishing.published_segments import Division, choose, divided, reports_of_an_install, scores_of
from hubbub.analysis.publishing.release import items_of, release
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Flag
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.worlds import define, tally_of

NOISE = CountNoise.parse("gaussian:20")
QUESTION = define(Flag(), "1", "2")
PLATFORMS = Division.of({"platform": ("linux", "macos", "windows")}, "platform", None, "0.1")
REGISTRY = """
app = "org.example.editor"
lifetime_epsilon = 9
recipient = { name = "Example", url = "https://telemetry.example.org" }
[segments]
platform = ["linux", "macos", "windows"]
[metrics.asked]
kind = "flag"
why = "w"
owner = "o@example.org"
expires = 2030-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 2
"""


def of(platform: str | None, installs: int, *epochs: int, seed: int = 1) -> Tally:
    metric = QUESTION if platform is None else QUESTION.in_segment((("platform", platform),))
    return tally_of(metric, [installs, installs // 2], np.random.default_rng(seed), epochs=epochs)


def test_every_declared_value_has_every_epoch_and_the_rest_is_other() -> None:
    tallies = [of("linux", 100, 1, 2), of("windows", 200, 2), of("haiku", 30, 1), of(None, 10, 2)]
    found = {dict(tally.metric.segment)["platform"]: tally for tally in divided(tallies, "platform", PLATFORMS.values)}
    assert list(found) == ["linux", "macos", "windows", "other"]
    assert all(list(tally.epochs) == [1, 2] for tally in found.values())
    assert found["macos"].num_reports == 0
    assert found["windows"].epochs[1] == Counts((0,), ((0,),))
    assert found["linux"].epochs == tallies[0].epochs
    assert found["other"].num_reports == tallies[2].num_reports + tallies[3].num_reports
    assert scores_of(list(found.values()), PLATFORMS) == {"linux": 300, "macos": 0, "windows": 300, "other": 60}
    assert reports_of_an_install(list(found.values())) == 2


def test_the_choice_follows_its_law_and_one_install_changes_it_by_no_more_than_epsilon() -> None:
    """Two of three, in turn: the law of the pair, enumerated; beside it the same with one install more anywhere."""
    epsilon, reach = 0.5, 3

    def law(scores: dict[str, int]) -> dict[frozenset[str], float]:
        found: Counter[frozenset[str]] = Counter()
        for first in scores:
            rest = {name: score for name, score in scores.items() if name != first}
            for second in rest:
                one = exp(epsilon * scores[first] / reach) / sum(exp(epsilon * s / reach) for s in scores.values())
                two = exp(epsilon * rest[second] / reach) / sum(exp(epsilon * s / reach) for s in rest.values())
                found[frozenset((first, second))] += one * two
        return found

    scores = {"a": 4, "b": 9, "c": 0}
    division = Division(key="platform", values=tuple(scores), top=2, epsilon=Fraction(1, 2))
    source = NoiseSource(np.random.default_rng(3).bytes)
    drawn = Counter(frozenset(choose(scores, division, reach, source)) for _ in range(3000))
    for pair, chance in law(scores).items():
        assert abs(drawn[pair] - 3000 * chance) < 5 * (3000 * chance * (1 - chance)) ** 0.5
    for more in ({"a": 3}, {"b": 1, "c": 2}, {"a": 1, "b": 1, "c": 1}, {"c": 3}):
        other = law({name: score + more.get(name, 0) for name, score in scores.items()})
        for pair, chance in law(scores).items():
            assert abs(np.log(chance / other[pair])) <= 2 * epsilon + 1e-12


def test_segments_cost_as_much_as_one_and_a_choice_is_charged_before_it_is_made(tmp_path: Path) -> None:
    parts = divided([of("linux", 3000, 1), of("windows", 2000, 1)], "platform", PLATFORMS.values)
    with open_ledger(tmp_path / "all", Budget(epsilon=9, delta=1e-9)) as ledger:
        found = release(parts, NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS, division=PLATFORMS)
        assert ledger.spent == epsilon_of(items_of(parts[0], NOISE), 1e-9)
        assert [len(one.figures) > 0 for one in found] == [True, False, True, False]
        assert all(1 in one.reports for one in found)  # of everyone a number, with noise
    top = replace(PLATFORMS, top=1, epsilon=Fraction(1, 10))
    with open_ledger(tmp_path / "top", Budget(epsilon=9, delta=1e-9)) as ledger:
        (only,) = release(parts, NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS, division=top)
        assert only.metric.segment == (("platform", "linux"),)
        assert [item.metric for item in ledger.items] == ["the choice of platform", "asked, platform linux"]
        assert ledger.spent > epsilon_of(items_of(parts[0], NOISE), 1e-9)
    with open_ledger(tmp_path / "little", Budget(epsilon=0.2, delta=1e-9)) as ledger:
        with pytest.raises(Invalid, match=r"must not be exceeded: 0\.000 is spent"):  # not even the choice
            release(parts, NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS, division=top)
        assert ledger.items == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--top", "1"], "--top K needs --by KEY"),
        (["--by", "platform"], "--by KEY needs --metrics FILE: which values there are must not come from the counts"),
        (["--by", "colour", "--metrics", "R"], "--by must be one of platform, got 'colour'"),
        (["--by", "platform", "--metrics", "R", "--top", "4"], "--top must be at least 1 and below 4, the values of"),
        (["--by", "platform", "--metrics", "R", "--top", "0"], "--top must be at least 1 and below 4"),
        (["--by", "platform", "--metrics", "R", "--top", "1", "--again"], "--top K and --again do not go together"),
        (["--by", "platform", "--metrics", "R", "--choice-epsilon", "1e999"], "--choice-epsilon must be a number from"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, capsys, more: list[str], message: str) -> None:
    (tmp_path / "R").write_text(REGISTRY, encoding="utf-8")
    (tmp_path / "a.json").write_text(of("linux", 3000, 2960).to_json(), encoding="utf-8")
    given = [str(tmp_path / "R") if word == "R" else word for word in more]
    out = str(tmp_path / "figures.json")
    assert main(["release", str(tmp_path / "a.json"), "--out", out, "--budget", "3,1e-9", *given]) == 2
    assert message in capsys.readouterr().err
    assert not Path(out).exists()


def test_weeks_by_platform_as_people_publish_them(tmp_path: Path, capsys) -> None:
    (tmp_path / "metrics.toml").write_text(REGISTRY, encoding="utf-8")
    folder = tmp_path / "tallies"
    folder.mkdir()
    out = tmp_path / "figures.json"
    by = ["--by", "platform", "--metrics", str(tmp_path / "metrics.toml"), "--top", "2", "--out", str(out)]
    both = {name: of(name, 3000 if name == "linux" else 900, 2960, 2961) for name in ("linux", "windows")}
    for name, tally in both.items():
        only = Tally(tally.metric, {2960: tally.epochs[2960]})
        (folder / f"{name}.json").write_text(only.to_json(), encoding="utf-8")
    assert main(["release", str(folder), *by, "--budget", "9,1e-9"]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert {one["metric"]["segment"]["platform"] for one in found["metrics"]} == {"linux", "windows"}
    assert found["choice"] == {"by": "platform", "top": 2, "among": 4, "epsilon": "0.1"}
    assert main(["release", "--verify", str(out)]) == 0
    for name, tally in both.items():
        (folder / f"{name}.json").write_text(tally.to_json(), encoding="utf-8")
    page = tmp_path / "figures.html"
    assert main(["release", str(folder), *by, "--out", str(page)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert all(list(one["reports"]) == ["2026-W40"] for one in found["metrics"])
    assert "<h2>asked, platform linux</h2>" in page.read_text(encoding="utf-8")
    assert "The 2 of 4 with the most reports by platform" in page.read_text(encoding="utf-8")
    said = capsys.readouterr().err
    assert "2026-W39 of asked, platform linux was published before; left out" in said
    assert main(["release", str(folder), "--out", str(out), "--same-collector"]) == 0  # all together: another release
