"""Pages and files that are made from the code are what the code makes; tables that repeat it repeat it rightly."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hubbub.analysis import by_segment, decode, read_tallies, undivided
from hubbub.collector.http.openapi import document
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import LATER, STATUS
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally import Tally
from tests.docs.blocks import ROOT

EXAMPLES = ROOT / "examples"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_python_api_is_what_the_docstrings_say(capsys: pytest.CaptureFixture[str]) -> None:
    written = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    runpy.run_path(str(ROOT / "tools/api_page.py"), run_name="__main__")
    assert written == capsys.readouterr().out, "run: python tools/api_page.py > docs/python-api.md"


def test_the_page_of_http_has_every_path_and_every_refusal() -> None:
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8")
    paths = [f"{method.upper()} {path}" for path, methods in document()["paths"].items() for method in methods]
    assert sorted(re.findall(r"^\| `((?:GET|POST) [^`]+)`", page, re.MULTILINE)) == sorted(paths)
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \| (.*) \|$", page, re.MULTILINE)
    words = {False: "drops the batch", True: "keeps it and comes back"}
    assert rows == [(reason, str(status), words[reason in LATER]) for reason, status in STATUS.items()]


# --- the example's tallies ----------------------------------------------------------------------------------------


def read(name: str, folder: str = "tallies") -> Tally:
    return Tally.from_json((EXAMPLES / folder / f"{name}.json").read_bytes())


def test_the_examples_tallies_are_of_the_examples_registry() -> None:
    registry = Registry.load(EXAMPLES / "metrics.toml")
    found = {path.stem for path in (EXAMPLES / "tallies").glob("*.json")}
    assert found == set(registry.metrics)
    for name in found:
        assert read(name).metric.metric_hash == registry[name].metric_hash, (
            "run: python tools/example_tallies.py examples"
        )


def test_the_examples_tallies_tell_what_is_true_of_the_people_behind_them() -> None:
    """Each within five standard errors, and one install in ten thousand for the draw of the people: over some sixty
    numbers, a right program fails at most once in a thousand seeds."""
    people = tool("example_tallies")
    truth = people.TRUTH
    for week, share in truth["dark_theme"].items():
        near(decode(read("dark_theme").only(week)), "yes", share)
    language = decode(read("language"))
    for value, share in truth["language"].items():
        near(language, value, share, role="absent" if value == "absent" else "answer")
    homepage = decode(read("homepage"), people.PAGES)
    for value, share in people.homepage_shares().items():
        near(homepage, value, share)
    for folder, mean in truth["startup_time"].items():
        near(decode(read("startup_time", folder)), "mean", mean, role="number", slack=30e-3)
    for item, share in people.BY_SEGMENT["features"].items():
        near(decode(read("features")), item, share)


def test_the_examples_segments_tell_what_is_true_of_each_and_add_up_to_the_examples_tallies() -> None:
    people = tool("example_tallies")
    apart = read_tallies(EXAMPLES / "by_segment")
    for tally in undivided(apart):
        assert tally.to_json() == read(tally.metric.name).to_json()
    starts = [tally for tally in apart if tally.metric.name == "startup_time"]
    for platform, (tally,) in by_segment(starts, "platform").items():
        near(decode(tally), "mean", people.BY_SEGMENT["startup_time"][platform], role="number", slack=30e-3)
    exports = [tally for tally in apart if tally.metric.name == "exports"]
    for release, (tally,) in by_segment(exports, "release").items():
        found = decode(tally)
        *shares, absent = people.BY_SEGMENT["exports"][release]
        assert absent == 0, "nothing exported is 0, which is in a bucket"
        for value, share in zip(found.values, shares, strict=True):
            near(found, value, share)


def near(decoding, value: str, truth: float, role: str = "answer", slack: float = 5e-3) -> None:
    i = decoding.index(value, role)
    assert abs(decoding.estimate[i] - truth) < 5 * decoding.std_error[i] + slack, (decoding.metric, value)


def test_the_examples_tallies_are_made_by_their_tool(tmp_path: Path) -> None:
    """With the same numpy they are the same to the last count; a later one may draw differently."""
    (tmp_path / "metrics.toml").write_text((EXAMPLES / "metrics.toml").read_text())
    tool("example_tallies").main(tmp_path)
    assert (tmp_path / "homepages.txt").read_text() == (EXAMPLES / "homepages.txt").read_text()
    for folder in ("tallies", "by_segment", "before"):
        for path in (EXAMPLES / folder).glob("*.json"):
            made, kept = (
                Tally.from_json((tmp_path / folder / path.name).read_bytes()),
                Tally.from_json(path.read_bytes()),
            )
            assert made.num_reports == kept.num_reports
            assert list(made.epochs) == list(kept.epochs)
            for epoch, counts in kept.epochs.items():
                ours, theirs = (
                    np.concatenate([np.ravel(row) for row in c.bit_counts]) for c in (made.epochs[epoch], counts)
                )
                # Two draws of the same law: each cell is binomial, so they differ by a few square roots.
                assert np.all(np.abs(ours - theirs) <= 8 * np.sqrt(ours + theirs + 1) + 0.02 * theirs), (
                    path.name,
                    epoch,
                )


def test_epochs_of_a_tally_can_be_taken_apart() -> None:
    tally = read("dark_theme")
    parts = [tally.only(week) for week in ("2026-W43", "2026-W44", "2026-W45", "2026-W46")]
    assert parts[0] + parts[1] + parts[2] + parts[3] == tally
    assert tally.only("2026-W46", "2026-W43") == parts[0] + parts[3]
    with pytest.raises(Invalid, match="epoch 2026-W42 of dark_theme must be one that was counted"):
        tally.only("2026-W42")
    with pytest.raises(ValueError, match="an epoch of cadence 'week' must be a real YYYY-Www"):
        tally.only("2026-11-01")
