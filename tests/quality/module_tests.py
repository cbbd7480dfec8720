"""Which tests are a module's own: in the folder of its package's tests, those named after it and those that import it,
themselves or through what helps them. If there is none, those of the modules that import it, or the whole folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path


@cache
def tests_of(root: Path, module: str, folder: str) -> tuple[str, ...]:
    """Paths below the root; those that bear its name come first, because they will notice first."""
    files = [file for file in sorted((root / folder).rglob("test_*.py")) if not file.stem.endswith("_proof")]
    found, seen, nearest = _own(root, module, files), {module}, [module]
    while nearest and not found:  # it is somebody's helper
        nearest = [user for helper in nearest for user in _users(root, helper) if user not in seen]
        seen.update(nearest)
        found = {file: None for user in nearest for file in _own(root, user, files)}
    return tuple(file.relative_to(root).as_posix() for file in found or files)


def _own(root: Path, module: str, files: list[Path]) -> dict[Path, None]:
    path = Path(module)
    stem = path.parent.name if path.stem == "__init__" else path.stem
    named = [file for file in files if re.search(rf"_{stem}(_|$)", file.stem)]
    return dict.fromkeys([*named, *(file for file in files if _reaches(root, file, _dotted(module)))])


def _users(root: Path, module: str) -> list[str]:
    """The modules that import it."""
    dotted = _dotted(module)
    files = sorted(root.joinpath(*Path(module).parts[:2]).rglob("*.py"))
    return [file.relative_to(root).as_posix() for file in files if dotted in _imported(file)]


def _dotted(module: str) -> str:
    return ".".join(Path(module).with_suffix("").parts[1:]).removesuffix(".__init__")


def _reaches(root: Path, test: Path, dotted: str) -> bool:
    """Whether a test imports a module, or imports a helper of the tests that does."""
    names, package = _in_reach(root, test), dotted.rpartition(".")[0]
    return dotted in names or (package in names and _is_door_to(root, package, dotted))


@cache
def _in_reach(root: Path, test: Path) -> frozenset[str]:
    """All that a test imports, and what the helpers that it imports do. Asked of every module, found once."""
    names, seen, waiting = set[str](), {test}, [test]
    while waiting:
        imported = _imported(waiting.pop())
        names |= imported
        for name in imported:
            helper = root.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and helper not in seen and helper.is_file():
                seen.add(helper)
                waiting.append(helper)
    return frozenset(names)


@cache
def _imported(file: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


@cache
def _is_door_to(root: Path, package: str, dotted: str) -> bool:
    """Whether a package hands out what is in one of its modules: its `__init__` names it."""
    name = dotted.rpartition(".")[2]
    doors = root.glob("*/" + "/".join(package.split(".")) + "/__init__.py")
    return any(re.search(rf"\b{name}\b", door.read_text(encoding="utf-8")) for door in doors)
