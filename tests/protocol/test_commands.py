"""`hubbub label`, `diff` and `merge`, run as a person runs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hubbub.protocol.pair import PairTally, count_pairs
from hubbub.protocol.report import Report
from hubbub.protocol.tally import Tally, count
from tests.client.processes import HUBBUB
from tests.protocol.pairs import pair
from tests.protocol.test_pair import batches_of
from tests.protocol.toml import registry, source

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples" / "metrics.toml"


def hubbub(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HUBBUB, *map(str, arguments)], capture_output=True, text=True, timeout=300, encoding="utf-8")


@pytest.fixture
def write(tmp_path: Path):
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def tally(*bits: int, epoch: int = 2968) -> Tally:
    metric = registry()["it"]
    return count(metric, [Report(metric, epoch, 0, bit) for bit in bits])


def test_label_prints_the_words() -> None:
    done = hubbub("label", EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (HERE / "label_of_the_example.txt").read_text(encoding="utf-8")


def test_label_prints_the_facts_as_json() -> None:
    done = hubbub("label", EXAMPLE, "--json")
    assert json.loads(done.stdout) == json.loads((HERE / "label_of_the_example.json").read_text(encoding="utf-8"))


def test_label_names_every_mistake_of_a_file(write) -> None:
    path = write("metrics.toml", source("flag", {"why": None, "grace": "99"}))
    done = hubbub("label", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"hubbub label: {path}: [metrics.it] why is missing",
        f"hubbub label: {path}: [metrics.it] grace must be in [0, 60] epochs, got 99",
    ]


def test_label_says_that_a_file_is_missing(tmp_path: Path) -> None:
    done = hubbub("label", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stderr == f"hubbub label: {tmp_path / 'none.toml'}: No such file or directory\n"


def test_diff_tells_what_asks_more_from_what_does_not(write) -> None:
    old, new = (
        write("old.toml", source()),
        write("new.toml", source("flag", {"every": '"day"', "expires": "2027-01-01"})),
    )
    done = hubbub("diff", old, new)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "Asks more, so people will be asked again:\n"
        "  it: asked anew and differently, on top of earlier answers: every day, before week\n"
        "Asks no more:\n"
        "  it: asked until 2027-01-01, before until 2028-01-01\n"
    )


def test_diff_as_json_says_the_same(write) -> None:
    old, new = write("old.toml", source()), write("new.toml", source("flag", {"max_values": "1"}))
    done = hubbub("diff", old, new, "--json")
    assert done.returncode == 0
    text = "at most one answer in a lifetime, before 2"
    assert json.loads(done.stdout) == {
        "asks_more": False,
        "changes": [{"metric": "it", "change": text, "asks_more": False}],
    }


def test_diff_of_a_file_with_itself_finds_nothing() -> None:
    done = hubbub("diff", EXAMPLE, EXAMPLE)
    assert (done.returncode, done.stdout) == (0, "The two registries ask the same.\n")


def test_merge_adds_tallies(write, tmp_path: Path) -> None:
    eu, us = (
        write("eu.json", tally(1, 1, 0).to_json()),
        write("us.json", (tally(0, 1) + tally(1, epoch=2969)).to_json()),
    )
    out = tmp_path / "all.json"
    done = hubbub("merge", eu, us, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: it, 2 epochs, 6 reports\n"
    assert Tally.from_json(out.read_bytes()) == Tally.from_json((tally(1, 1, 0, 0, 1) + tally(1, epoch=2969)).to_json())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.json", "eu.json", "us.json"]


def test_merge_adds_pair_tallies_and_no_others_to_them(write, tmp_path: Path) -> None:
    theme_os = pair("theme", "os", name="theme_os")
    parts = [count_pairs(theme_os, batches_of(theme_os, number, seed=number)) for number in (4, 6)]
    eu, us = (write(f"{number}.json", part.to_json()) for number, part in enumerate(parts))
    out = tmp_path / "all.json"
    done = hubbub("merge", eu, us, "--out", out)
    assert (done.returncode, done.stdout) == (0, f"{out}: theme_os, 2 epochs, 10 messages\n")
    assert PairTally.from_json(out.read_bytes()) == parts[0] + parts[1]
    done = hubbub("merge", eu, write("it.json", tally(1).to_json()), "--out", tmp_path / "none.json")
    assert done.returncode == 2
    assert "tallies must be of one definition to be merged" in done.stderr


def test_merge_refuses_tallies_of_different_definitions(write, tmp_path: Path) -> None:
    other = registry(every='"day"')["it"]
    paths = write("a.json", tally(1).to_json()), write("b.json", count(other, [Report(other, 1, 0, 1)]).to_json())
    done = hubbub("merge", *paths, "--out", tmp_path / "out.json")
    assert done.returncode == 2
    assert done.stderr.startswith("hubbub merge: tallies must be of one definition to be merged, got it ")
    assert not (tmp_path / "out.json").exists()


def test_merge_names_the_file_that_is_no_tally(write, tmp_path: Path) -> None:
    good, bad = write("good.json", tally(1).to_json()), write("bad.json", "[]")
    done = hubbub("merge", good, bad, "--out", tmp_path / "out.json")
    assert (done.returncode, done.stderr) == (
        2,
        f"hubbub merge: {bad}: not a tally: format must be 'hubbub.tally', got a list of 0\n",
    )
