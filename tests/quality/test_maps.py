"""Whoever opens a folder finds the way: its README names every module in it, by its file name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("client", "collector", "analysis", "simulations")


def test_every_module_is_named_in_the_readme_of_its_folder():
    """Modules that share a file name, such as `run.py`, are named once each."""
    missing = []
    for folder in FOLDERS:
        named = Counter(re.findall(r"\w+\.py\b", (ROOT / folder / "README.md").read_text(encoding="utf-8")))
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.stem.startswith("__"):
                named[path.name] -= 1
                if named[path.name] < 0:
                    missing.append(path.relative_to(ROOT).as_posix())
    assert not missing, "name these in the README.md of their top-level folder:\n" + "\n".join(missing)
