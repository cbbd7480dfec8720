"""A copy of the tree with an environment of its own, in which one module at a time is made wrong.

The environment has nothing installed: it finds the copy's packages first, and then whatever the real one holds. So
also a process that a test starts, with whatever variables, runs the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.leftovers import command_of, living_descendants

KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"
FIRST_LIMIT = 120
"""Seconds that each file of tests may take. Where they are too few, it is found out how long the tests take as they
are; most mutants need not wait for that."""
LIMIT, MARGIN = 4, 60
"""A mutant may then take so many times as long as none, and so many seconds more: the machine may have other work."""
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".bench", ".mutants", ".proof", "build", "__pycache__", ".*_cache"
)
_SILENT = ("-q", "-x", "-rfE", "--no-header", "--tb=line")
_NOTICED_BY = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\w+)*)", re.MULTILINE)


class ThrowawayTree:
    """`folder` is made, and removed afterwards."""

    def __init__(self, root: Path, on_path: Iterable[str], folder: Path) -> None:
        self._root = root
        self._folder = folder
        self._tree = folder / "tree"
        self._python = folder / "environment" / "bin" / "python"
        self._writes = 0
        self._pass_unmutated: dict[tuple[str, ...], float] = {}
        shutil.copytree(root, self._tree, ignore=NOT_COPIED)
        (folder / "tmp").mkdir()
        self._make_environment(on_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_all()
        shutil.rmtree(self._folder, ignore_errors=True)

    def original(self, module: str) -> str:
        return (self._root / module).read_text(encoding="utf-8")

    def try_mutant(self, module: str, mutated: str, tests: Sequence[str]) -> str:
        status, output = self._pytest_mutated(module, mutated, tests, FIRST_LIMIT * len(tests))
        if status is None:
            patience = LIMIT * self._unmutated_seconds(tests) + MARGIN
            if patience > FIRST_LIMIT * len(tests):
                status, output = self._pytest_mutated(module, mutated, tests, patience)
        if status is None:
            return TIMED_OUT
        # 1: a test failed. 2: interrupted, as by a module that cannot even be imported. 3: an error of pytest's own
        # parts, which a mutant under a fixture can cause. 4 and 5 say that no test ran: they would prove nothing.
        assert status in (0, 1, 2, 3), output
        if status == 0:
            return SURVIVED
        self._unmutated_seconds(_NOTICED_BY.findall(output)[:1] or tests)
        return KILLED

    def _unmutated_seconds(self, tests: Sequence[str]) -> float:
        """How long these tests take as they are. They must pass: else nothing could be learnt from a failure."""
        key = tuple(tests)
        if key not in self._pass_unmutated:
            began = time.monotonic()
            status, output = self._pytest(tests, limit=3600)
            assert status == 0, f"without any mutant {' '.join(tests)} must pass, and do not:\n{output}"
            self._pass_unmutated[key] = time.monotonic() - began
        return self._pass_unmutated[key]

    def _pytest_mutated(self, module: str, mutated: str, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
        self._write(module, mutated)
        try:
            return self._pytest(tests, limit)
        finally:
            self._write(module, self.original(module))

    def _write(self, module: str, text: str) -> None:
        path = self._tree / module
        path.write_text(text, encoding="utf-8")
        # Python tells a cached module from its source by whole seconds and size, which two mutants may share.
        self._writes += 1
        os.utime(path, (self._writes, self._writes))

    def _pytest(self, tests: Sequence[str], limit: float) -> tuple[int | None, str]:
        environ = {**os.environ, "TMPDIR": str(self._folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [str(self._python), "-m", "pytest", *_SILENT, *tests],
            cwd=self._tree,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self._end_all()
            output, _ = process.communicate()
            return None, output

    def _end_all(self) -> None:
        """What the tests of a mutant have left behind: all of it runs in this folder's environment."""
        for pid in living_descendants():
            if str(self._folder) in command_of(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def _make_environment(self, on_path: Iterable[str]) -> None:
        environment = self._python.parents[1]
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        # Paths that a .pth file names are not searched for other .pth files, such as the one of the real checkout.
        real = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
        lines = [*(str(self._tree / name) for name in sorted(on_path)), *real]
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "tree.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        script = Path(sys.executable).with_name("hubbub")
        if script.exists():
            _, _, body = script.read_text(encoding="utf-8").partition("\n")
            mine = self._python.with_name("hubbub")
            mine.write_text(f"#!{self._python}\n{body}", encoding="utf-8")
            mine.chmod(0o755)
