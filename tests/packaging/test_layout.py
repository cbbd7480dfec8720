"""Four folders, one import name that none of them owns."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")
PACKAGES = [path for folder in FOLDERS for path in sorted((ROOT / folder / "hubbub").iterdir()) if path.is_dir()]


def test_the_packages_are_found():
    assert {path.name for path in PACKAGES} - {"__pycache__"} >= {
        "protocol",
        "client",
        "command",
        "collector",
        "analysis",
        "simulations",
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_folder_owns_the_namespace(folder):
    """An __init__.py here would hide the other folders' parts of `hubbub`, or install a package called `client`."""
    assert not (ROOT / folder / "__init__.py").exists()
    assert not (ROOT / folder / "hubbub" / "__init__.py").exists()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_holds_nothing_but_its_part_and_a_word_about_it(folder):
    assert {path.name for path in (ROOT / folder).iterdir()} <= {"hubbub", "README.md", "deploy"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_says_that_it_is_typed(package):
    assert (package / "py.typed").exists()


def test_no_name_is_taken_twice():
    names = [path.name for path in PACKAGES]
    assert len(names) == len(set(names))
