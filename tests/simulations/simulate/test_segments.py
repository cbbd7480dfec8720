"""Segments that differ, simulated: each has its own people, and the tallies add up to the crowd."""

from __future__ import annotations

import json
from time import process_time

import pytest

from hubbub.analysis import by_segment, decode, undivided
from hubbub.command.main import main
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally_files import read_tallies
from hubbub.simulations import Setting, default_population, simulate_metric
from hubbub.simulations.people.behaviour import Behaviour
from tests.client.registries import metric, source

SEGMENTS = 'platform = ["linux", "macos", "win/dows"]'


@pytest.fixture
def registry(tmp_path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(source(metric("dark_theme", every="week"), segments=SEGMENTS), encoding="utf-8")
    return str(path)


def test_each_segment_has_its_installs_and_its_people(registry, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    split = ("--by", "platform", "--split", "linux:6,win/dows:3,other:1")
    population = ("--population", "share:20%", "--population", "dark_theme@linux=share:70%")
    assert main(["simulate", registry, "--installs", "100000", *split, *population, "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["metric"] for row in told["metrics"]] == [
        f"dark_theme, platform {value}" for value in ("linux", "win/dows", "other")
    ]
    tallies = read_tallies(*(path for path in out.glob("*[a-z].json") if "truth" not in path.name))
    apart = by_segment(tallies, "platform")
    assert {value: sum(t.num_reports for t in some) for value, some in apart.items()} == {
        "linux": 60_000,
        "win/dows": 30_000,
        "other": 10_000,
    }
    shares = {value: decode(some) for value, some in apart.items()}
    assert shares["linux"].low[0] <= 0.7 <= shares["linux"].high[0]
    assert shares["other"].low[0] <= 0.2 <= shares["other"].high[0]
    (whole,) = undivided(tallies)
    assert whole.num_reports == 100_000


def test_segments_are_drawn_by_chance_of_their_own(registry, capsys) -> None:
    assert main(["simulate", registry, "--installs", "90000", "--by", "platform", "--json"]) == 0
    estimates = [row["rows"][0]["estimate"] for row in json.loads(capsys.readouterr().out)["metrics"]]
    assert len(set(estimates)) == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--by", "colour"], "--by must be a key of segments: platform, got 'colour'"),
        (["--split", "linux:1"], "--split divides what --by tells apart, got it without"),
        (["--by", "platform", "--split", "linux:0"], "and a weight above 0, got 'linux:0'"),
        (["--by", "platform", "--split", "linux:1,linux:2"], "each once, and a weight above 0, got 'linux:2'"),
        (["--by", "platform", "--split", "amiga:1"], "with a value of linux, macos, win/dows, other, each once"),
        (["--by", "platform", "--way", "clients"], "--by is for tallies and reports, not for --way clients"),
        (["--by", "platform", "--population", "dark_theme@amiga=share:1%"], "must name one of dark_theme, dark_theme@"),
    ],
)
def test_wrong_segments_are_refused(registry, capsys, arguments: list[str], sentence: str) -> None:
    assert main(["simulate", registry, "--installs", "1000", *arguments]) == 2
    assert sentence in capsys.readouterr().err


SIXTY_FOUR = "a = " + json.dumps([str(i) for i in range(15)]) + "\nb = " + json.dumps(list("xyz"))


@pytest.mark.proof
def test_a_billion_installs_in_64_segments_are_simulated_and_decoded_in_five_seconds(figure) -> None:
    asked = Registry.parse(source(metric("language", "choice", every="week"), segments=SIXTY_FOUR))
    began = process_time()
    tallies = [
        simulate_metric(
            Setting(
                metric=each,
                people=default_population(each.shape),
                behaviour=Behaviour(),
                installs=10**9 // 64,
                epochs=1,
            ),
            seed=1,
        ).tally
        for each in asked.in_all_segments()
    ]
    found = [decode(some) for some in by_segment(tallies, "a").values()] + [decode(tallies)]
    seconds = process_time() - began
    figure("a billion installs in 64 segments, simulated and decoded, s of CPU", f"{seconds:.2f}")
    assert found[-1].num_reports == 10**9 // 64 * 64
    assert len(found) == 17
    assert seconds < 5


def test_tallies_of_segments_are_read_from_a_folder(registry, tmp_path, capsys) -> None:
    """As `hubbub export` writes it; the truth beside it is for people."""
    out = tmp_path / "out"
    assert main(["simulate", registry, "--installs", "3000", "--by", "platform", "--out", str(out)]) == 0
    assert list(out.glob("*.truth.json"))
    capsys.readouterr()
    assert main(["decode", str(out), "--by", "platform"]) == 0
    assert "platform win/dows" in capsys.readouterr().out
    assert len(read_tallies(out)) == 3
