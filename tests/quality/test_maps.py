"""Whoever opens a folder finds the way: its README has a line for every module in it, and no line is about many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.conftest import LONG_FILES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
FLAT = ("tests", "tools")
"""Their README names what lies in them directly; the folders within mirror those above."""


def lines_of(readme: str) -> list[list[str]]:
    """What each line names: in the first cell of a table's row, or at the beginning of a list's item."""
    heads = re.findall(r"^(?:\| (.*?) \||\* ((?:`[^`]+`[, ]*)+))", readme, re.MULTILINE)
    words = [[word for quoted in re.findall(r"`([^`]+)`", "".join(head)) for word in quoted.split()] for head in heads]
    return [[word.rpartition("/")[2].removesuffix(".py") for word in line] for line in words]


def named_in(readme: str) -> Counter[str]:
    """The modules that have a line, and how many have it under that name."""
    return Counter(name for line in lines_of(readme) for name in line)


def test_every_module_has_a_line_in_the_readme_of_its_folder() -> None:
    """Modules that share a name, such as run.py, have one each."""
    missing = []
    for folder in (*FOLDERS, *FLAT):
        named = named_in((ROOT / folder / "README.md").read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).glob("*.py" if folder in FLAT else "**/*.py")):
            if not path.stem.startswith("__"):
                named[path.stem] -= 1
                if named[path.stem] < 0:
                    missing.append(path.relative_to(ROOT).as_posix())
    assert not missing, "give these a line in the README.md of their top-level folder:\n" + "\n".join(missing)


def rows_about_files(readme: str) -> Iterator[tuple[list[str], str]]:
    """Of the tables that map a folder, each row: what its first cell names, and what the other says of it."""
    table = re.compile(r"^\| (?:module|file|template) \|.*\n\|[-|]+\n((?:\|.*\n?)+)", re.MULTILINE)
    for rows in table.findall(readme):
        for row in rows.splitlines():
            names, _, said = row.strip("|").partition(" | ")
            yield (
                [word for quoted in re.findall(r"`([^`]+)`|\*\*([a-z]+/)\*\*", names) for word in quoted if word],
                said,
            )


def stale_rows(readme: str, files: Collection[str]) -> list[str]:
    """What the map of a folder names that is not there, or names more often than there are; and rows without a word."""
    found, named = [], Counter[str]()
    for names, said in rows_about_files(readme):
        if not re.search(r"\w", said):
            found.append(f"nothing is said of {' '.join(names)}")
        named.update(name.replace(".", "/") if name.startswith("hubbub.") else name for name in names)
    for name, times in named.items():
        ending = re.compile(rf"(^|/){re.escape(name.rstrip('/'))}(\.py)?$")
        if sum(bool(ending.search(file)) for file in files) < times:
            found.append(f"{name} has a row and no file")
    return found


def test_no_row_is_about_a_module_that_is_gone_or_says_nothing() -> None:
    mapped = 0
    for folder in (*FOLDERS, *FLAT):
        readme = (ROOT / folder / "README.md").read_text(encoding="utf-8")
        paths = (ROOT / folder).glob("*" if folder in FLAT else "**/*")
        files = [path.relative_to(ROOT / folder).as_posix() for path in paths if "__pycache__" not in path.parts]
        mapped += len(list(rows_about_files(readme)))
        assert stale_rows(readme, files) == [], f"{folder}/README.md"
    assert mapped > 350, "the maps are read"


def test_a_stale_row_is_noticed() -> None:
    head, files = "| module | knows |\n|---|---|\n", ["hubbub/here.py", "hubbub/room", "hubbub/room/run.py"]
    assert stale_rows(f"{head}| `here` | a |\n| `room/run.py` | b |\n| **room/** | c |\n", files) == []
    assert stale_rows(f"{head}| `gone` | a |", files) == ["gone has a row and no file"]
    assert stale_rows(f"{head}| `run` | a |\n| `run` | b |", files) == ["run has a row and no file"]
    assert stale_rows(f"{head}| `here` |  |", files) == ["nothing is said of here"]


def test_no_line_is_about_more_than_two_modules() -> None:
    """Or it says of none of them what it knows."""
    crowded = []
    for folder in (*FOLDERS, *FLAT):
        modules = {path.stem for path in (ROOT / folder).glob("*.py" if folder in FLAT else "**/*.py")}
        for line in lines_of((ROOT / folder / "README.md").read_text(encoding="utf-8")):
            if len(modules.intersection(line)) > 2:
                crowded.append(f"{folder}/README.md: {' '.join(line)}")
    assert crowded == []


def test_a_module_that_no_readme_names_is_noticed() -> None:
    named = named_in(
        "| `cells.py` `estimation/fit` | shares of `bits` |\n* `wire.py`: bytes of `report.py`\n\n`tally.py`"
    )
    assert named == Counter(["cells", "fit", "wire"]), "what is only mentioned has no line of its own"
    assert named_in("cells is a word of prose")["cells"] == 0


def test_the_files_that_are_tested_first_are_there() -> None:
    assert [name for name in LONG_FILES if not (ROOT / "tests" / f"{name}.py").exists()] == []
