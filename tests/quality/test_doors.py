"""What each package hands out at its door. The lists are written out: a public name comes or goes on purpose, and with
a line in the changelog."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
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


def test_every_public_member_says_what_it_is_and_is_on_the_page_of_the_api() -> None:
    """Fields, attributes, properties and methods, inherited ones as well."""
    from hubbub.protocol.value import Value

    written = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    shown = 0
    for module, text in re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", written, re.MULTILINE | re.DOTALL):
        entries = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
        for name, entry in entries.items():
            cls = getattr(importlib.import_module(module), name)
            if not inspect.isclass(cls):
                continue
            entry += "".join(entries[base] for base in re.findall(r"and all of \[`(\w+)`", entry))
            for member in _public_members(cls) - _public_members(Value):
                assert explains(entry, member), f"{module}.{name}.{member} is not on the page, with what it means"
                shown += 1
    assert shown > 300


def explains(entry: str, member: str) -> bool:
    """Whether a row of the fields' table, or an item of the list below it, says what a member means; its type is not
    its meaning."""
    row = rf"^\| `{member}` \| `(?:[^|]|\\\|)*` \| [^|\n]*\w"
    item = rf"^\* `{member}\b[^`]*`: .*\w"
    return bool(re.search(f"{row}|{item}", entry, re.MULTILINE))


def test_a_member_without_a_meaning_is_noticed() -> None:
    entry = (
        "| `a` | `int \\| None` | how many |\n| `b` | `int \\| None` |  |\n* `c: float`: how much\n* `d(x) -> int`: \n"
    )
    assert [explains(entry, member) for member in "abcd"] == [True, False, True, False]


def test_whatever_a_public_name_raises_is_on_the_page_with_what_it_carries() -> None:
    written = (ROOT / "docs/python-api.md").read_text(encoding="utf-8")
    raised = set(re.findall(r"[Rr]aises\s+`(\w+)`", written))
    assert raised >= {"Invalid", "Refused", "WrongValue"}
    assert raised - set(re.findall(r"^### (\w+)$", written, re.MULTILINE)) == set()
    for line in ("problems: tuple[str, ...]", "reason: Reason", "detail: str", "status: int"):
        assert f"* `{line}`: " in written


def _public_members(cls: type) -> set[str]:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("hubbub")]
    named = {name for base in ours for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in named if not name.startswith("_")}


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
