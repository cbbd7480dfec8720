"""Do the tests bite? Plants random mistakes in the code, one at a time, and sees whether the module's tests notice.

    make mutants
    python -m tests.quality.mutants --count 20 --only protocol/channel --seed 7

The choice is random and seeded, and as many in each area as in another; it depends on each place by itself, so that a
change elsewhere leaves it nearly as it was. Every mutant runs in a copy of the tree that is thrown away. A mutant that
survives is listed in harmless_mutants.toml with the reason why it does no harm, or fails the run; and so does an entry
there that no longer applies. What was found on this exact source tree is kept in .mutants, and a run that was
interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from tests.leftovers import adopt_orphans
from tests.quality.module_tests import tests_of
from tests.quality.mutations import Mutation, mutations
from tests.quality.throwaway_tree import KILLED, SURVIVED, TIMED_OUT, ThrowawayTree

ROOT = Path(__file__).resolve().parents[2]
HARMLESS = Path(__file__).with_name("harmless_mutants.toml")
SEED = 2026


@dataclass(frozen=True, slots=True)
class Area:
    """A package whose modules are mutated, and the folder of its tests."""

    package: str
    tests: str


AREAS = (
    Area("client/hubbub/protocol", "tests/protocol"),
    Area("client/hubbub/client", "tests/client"),
    Area("collector/hubbub/collector/storage", "tests/collector"),
    Area("analysis/hubbub/analysis/estimation", "tests/analysis"),
)


class Entry(TypedDict):
    """A survivor that does no harm. `which`: of several that read the same, 0 for the first."""

    module: str
    line: str
    mutation: str
    reason: str
    which: NotRequired[int]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of one module. `which` tells it from others that read the same."""

    area: Area
    module: str
    mutation: Mutation
    which: int

    @property
    def words(self) -> str:
        return f"{self.module}:{self.mutation.line}: {self.mutation.change}"

    def rank(self, seed: int) -> str:
        """Its place in the order in which they are drawn: random, and nobody else's business."""
        parts = (seed, self.module, self.mutation.text, self.mutation.change, self.which)
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def is_meant_by(self, entry: Entry) -> bool:
        told = (entry["module"], entry["line"], entry["mutation"], entry.get("which", 0))
        return told == (self.module, self.mutation.text, self.mutation.change, self.which)


@dataclass(slots=True)
class Project:
    """Where the code and its tests are, and what is said of survivors."""

    root: Path = ROOT
    areas: Sequence[Area] = AREAS
    on_path: Sequence[str] = ("client", "collector", "analysis", "simulations")
    harmless: Path = HARMLESS

    def mutants(self) -> list[Mutant]:
        found = []
        for area in self.areas:
            for path in sorted((self.root / area.package).rglob("*.py")):
                seen: Counter[tuple[str, str]] = Counter()
                for mutation in mutations(path.read_text(encoding="utf-8")):
                    key = (mutation.text, mutation.change)
                    found.append(Mutant(area, path.relative_to(self.root).as_posix(), mutation, seen[key]))
                    seen[key] += 1
        return found

    def entries(self) -> list[Entry]:
        found: list[Entry] = tomllib.loads(self.harmless.read_text(encoding="utf-8")).get("harmless", [])
        for entry in found:
            assert set(entry) - {"which"} == {"module", "line", "mutation", "reason"}, f"{self.harmless}: {entry}"
            assert entry["reason"].strip(), f"{self.harmless}: {entry} needs a reason"
        return found

    def source_hash(self) -> str:
        """Of all that decides what becomes of a mutant."""
        digest = hashlib.blake2b(digest_size=16)
        for path in sorted(path for top in (*self.on_path, "tests") for path in (self.root / top).rglob("*.py")):
            digest.update(f"{path.relative_to(self.root)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    def record(self) -> Path:
        return self.root / ".mutants" / f"{self.source_hash()}.jsonl"


def drawn(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """The same number of each area, as far as it goes, in an order that takes the areas in turn."""
    areas = {mutant.area: None for mutant in mutants}
    ranked = [
        sorted((mutant for mutant in mutants if mutant.area == area), key=lambda mutant: mutant.rank(seed))
        for area in areas
    ]
    turns = (mutant for turn in range(len(mutants)) for area in ranked for mutant in area[turn : turn + 1])
    return [mutant for mutant, _ in zip(turns, range(count), strict=False)]


def run(project: Project, chosen: Sequence[Mutant], workers: int) -> dict[Mutant, str]:
    """What became of each. Those that were tried before on this source tree are not tried again."""
    record = project.record()
    record.parent.mkdir(exist_ok=True)
    known = dict(_known(record))
    results = {mutant: known[mutant.rank(0)] for mutant in chosen if mutant.rank(0) in known}
    todo: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in chosen:
        if mutant not in results:
            todo.put(mutant)
    lock = threading.Lock()

    def work(folder: Path) -> None:
        try:
            with ThrowawayTree(project.root, project.on_path, folder) as tree:
                for mutant in _taken(todo):
                    began = time.monotonic()
                    verdict = _try(project, tree, mutant)
                    with lock:
                        results[mutant] = verdict
                        with record.open("a", encoding="utf-8") as file:
                            file.write("\n" + json.dumps({"mutant": mutant.rank(0), "verdict": verdict}))
                        seconds = f"{time.monotonic() - began:.0f} s"
                        print(f"[{len(results)}/{len(chosen)}] {verdict}: {mutant.words} ({seconds})", flush=True)
        finally:  # if something went wrong here, the others need not go on
            list(_taken(todo))

    with tempfile.TemporaryDirectory(prefix="hubbub-mutants-") as scratch, ThreadPoolExecutor(workers) as pool:
        try:
            list(pool.map(work, [Path(scratch) / str(number) for number in range(min(workers, todo.qsize()))]))
        finally:
            list(_taken(todo))
    return results


def _taken(todo: queue.SimpleQueue[Mutant]) -> Iterator[Mutant]:
    with suppress(queue.Empty):
        while True:
            yield todo.get_nowait()


def _known(record: Path) -> Iterator[tuple[str, str]]:
    for line in record.read_text(encoding="utf-8").splitlines() if record.exists() else []:
        try:
            found = json.loads(line)
        except ValueError:
            continue  # torn when a run was interrupted
        yield found["mutant"], found["verdict"]


def _try(project: Project, tree: ThrowawayTree, mutant: Mutant) -> str:
    mutated = mutant.mutation.apply(tree.original(mutant.module))
    compile(mutated, mutant.module, "exec")  # else it would be noticed by everybody, and say nothing
    return tree.try_mutant(mutant.module, mutated, tests_of(project.root, mutant.module, mutant.area.tests))


def complaints(project: Project, mutants: Sequence[Mutant], results: dict[Mutant, str]) -> list[str]:
    """Why the run fails, one line each."""
    entries = project.entries()
    found = [
        f"nobody noticed, and nobody says why it is harmless: {mutant.words}\n    {mutant.mutation.text}"
        for mutant, verdict in results.items()
        if verdict == SURVIVED and not any(mutant.is_meant_by(entry) for entry in entries)
    ]
    for entry in entries:
        meant = [mutant for mutant in mutants if mutant.is_meant_by(entry)]
        told = f"{entry['module']}: {entry['line']}: {entry['mutation']}"
        if not meant:
            found.append(f"listed as harmless, and no longer there: {told}")
        elif any(results.get(mutant, SURVIVED) != SURVIVED for mutant in meant):
            found.append(f"listed as harmless, and noticed by the tests: {told}")
    return found


def table(results: dict[Mutant, str]) -> Iterator[str]:
    verdicts = (KILLED, TIMED_OUT, SURVIVED)
    yield f"{'':40}" + "".join(f"{verdict:>12}" for verdict in verdicts)
    for package in [*dict.fromkeys(mutant.area.package for mutant in results), ""]:
        counts = Counter(verdict for mutant, verdict in results.items() if package in ("", mutant.area.package))
        yield f"{package or 'all':40}" + "".join(f"{counts[verdict]:12}" for verdict in verdicts)


def main(arguments: Sequence[str] | None = None, project: Project | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plants random mistakes in the code: do its tests notice?")
    parser.add_argument("--count", type=int, default=100, help="how many mutants (default: 100)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"which ones (default: {SEED})")
    parser.add_argument("--only", default="", help="only in modules whose path contains this")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time (default: 2)")
    asked = parser.parse_args(arguments)
    adopt_orphans()
    project = project or Project()
    mutants = project.mutants()
    chosen = drawn([mutant for mutant in mutants if asked.only in mutant.module], asked.count, asked.seed)
    print(f"{len(chosen)} of {len(mutants)} mutants, seed {asked.seed}", flush=True)
    results = run(project, chosen, asked.workers)
    print("\n".join(table(results)))
    wrong = complaints(project, mutants, results)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
