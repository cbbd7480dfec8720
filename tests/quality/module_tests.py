"""Which tests are a module's own: in the folder of its package's tests, those named after it and those that import it,
themselves or through what helps them. If there is none, the whole folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path


@cache
def tests_of(root: Path, module: str, folder: str) -> tuple[str, ...]:
    """Paths below the root; those that bear its name come first, because they will notice first."""
    path = Path(module)
    dotted = ".".join(path.with_suffix("").parts[1:])
    stem = path.parent.name if path.stem == "__init__" else path.stem
    files = [file for file in sorted((root / folder).rglob("test_*.py")) if not file.stem.endswith("_proof")]
    named = [file for file in files if re.search(rf"_{stem}(_|$)", file.stem)]
    importing = [file for file in files if file not in named and _reaches(root, file, dotted.removesuffix(".__init__"))]
    found = [*named, *importing] or files
    return tuple(file.relative_to(root).as_posix() for file in found)


def _reaches(root: Path, test: Path, dotted: str) -> bool:
    """Whether a test imports a module, or imports a helper of the tests that does."""
    seen, waiting = set[Path](), [test]
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for name in _imported(file):
            if name == dotted or _is_door_to(root, name, dotted):
                return True
            helper = root.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and helper.is_file() and helper not in seen:
                waiting.append(helper)
    return False


@cache
def _imported(file: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _is_door_to(root: Path, package: str, dotted: str) -> bool:
    """Whether a package hands out what is in the module: its `__init__` names it."""
    if dotted.rpartition(".")[0] != package:
        return False
    name = dotted.rpartition(".")[2]
    doors = root.glob("*/" + "/".join(package.split(".")) + "/__init__.py")
    return any(re.search(rf"\b{name}\b", door.read_text(encoding="utf-8")) for door in doors)
