"""What each package hands out at its door. The lists are written out: a public name comes or goes on purpose, and with
a line in the changelog."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOORS = {
    "hubbub.protocol": (
        "Batch Definition Invalid Metric Pair PairTally Registry Report Tally fetch_tallies read_pair_tallies "
        "read_tallies write_tallies"
    ),
    "hubbub.client": "Answer Client Decision Invalid Pending Registry Status Transport",
    "hubbub.analysis": (
        "ActiveInstalls Annotation Comparison Crosstab Decoding Diagnostics Distribution Engine Invalid Options Pair "
        "PairTally Point Tally active_installs by_segment compare crosstab decode decode_lists engine_from "
        "fetch_tallies read_annotations read_candidates read_pair_tallies read_tallies releases trend undivided within"
    ),
    "hubbub.dashboard": "Settings make_app",
    "hubbub.simulations": (
        "Audit Behaviour Distribution Scorecard Setting SimulationResult assign_cohorts audit_callable audit_registry "
        "default_population ones_of parse_population sample_tally simulate_clients simulate_metric weighted_values"
    ),
}
HEAVY = ("numpy", "scipy", "aiohttp", "altair", "jinja2", "dataclasses", "sqlite3")


def api_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "tools/api_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("door", DOORS)
def test_a_package_hands_out_these_names_and_no_others(door: str) -> None:
    package = importlib.import_module(door)
    assert sorted(package.__all__) == sorted(dir(package)) == sorted(DOORS[door].split())
    for name in package.__all__:
        assert getattr(package, name).__doc__, f"{door}.{name} says nothing about itself"
    assert (package.__doc__ or "").strip()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    page = api_page()
    assert set(page.DOORS) == set(DOORS)
    for door, names in DOORS.items():
        assert set(page.PUBLIC[door]) == set(names.split())


@pytest.mark.parametrize("door", DOORS)
def test_a_door_opens_without_loading_what_is_behind_it(door: str) -> None:
    """Of an app that imports the client, and of a command that only prints its help."""
    program = f"import sys, {door}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_line_reads_a_file_or_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector's address is read so in tests/test_flow.py."""
    from hubbub.analysis import Options, decode, read_tallies

    monkeypatch.chdir(ROOT)
    (language,) = read_tallies("examples/tallies/language.json")
    assert len(read_tallies("examples/tallies")) == len(list(Path("examples/tallies").glob("*.json")))
    assert decode(language, options=Options(confidence=0.9)).confidence == 0.9
