"""`make bench`: hubbub, what one would pick instead, and the limit, in one run on the same data.

Writes `tests/bench/results/quick.json` or `full.json`, and a Markdown table beside it (one part only: into `.bench/`);
a full run of all parts also rewrites the tables in docs/benchmarks.md, as does a quick one while there is no full one.
With `--keep` the figures of one part take the place of those kept; only accuracy can, which no other work on a machine
changes: times of two runs are not to be compared.
CPU time throughout, medians of interleaved repeats, one thread.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.environments import ONE_THREAD, PEERS, PLACE, ROOT, close_peers
from tests.bench.page import lines_of, page, replaced
from tests.bench.rows import Row, compare

RESULTS = Path(__file__).resolve().with_name("results")
DOCUMENT = ROOT / "docs" / "benchmarks.md"
PARTS = {
    "client": ["tests.bench.client"],
    "accuracy": ["tests.bench.accuracy", "tests.bench.accuracy_strings", "tests.bench.accuracy_means"],
    "collector": ["tests.bench.collector"],
    "decode": ["tests.bench.growth_decode"],
    "simulate": ["tests.bench.growth_simulate"],
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small form: under three minutes")
    parser.add_argument("--only", choices=[*PARTS, ""], default="", help="one part")
    parser.add_argument("--keep", action="store_true", help="with --only accuracy: in place of the figures kept")
    parser.add_argument("--pages", action="store_true", help="measure nothing: write the pages again from the figures")
    arguments = parser.parse_args()
    if arguments.keep and arguments.only != "accuracy":
        parser.error("--keep is for --only accuracy: times of two runs are not to be compared")
    if arguments.pages:
        return rewrite()
    began = time.perf_counter()

    def say(line: str) -> None:
        print(f"[{time.perf_counter() - began:6.1f} s] {line}", flush=True)

    parts = [arguments.only] if arguments.only else list(PARTS)
    rows = []
    try:
        for name in (name for part in parts for name in PARTS[part]):
            found = importlib.import_module(name).measure(arguments.quick, say)
            print(lines_of(found), flush=True)
            rows += found
    finally:
        close_peers()
    made = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "quick": arguments.quick,
        "parts": parts,
        "seconds": round(time.perf_counter() - began),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "hubbub": version("hubbub"),
        "versions": _pins(),
    }
    stem = "quick" if arguments.quick else "full"
    if arguments.keep:
        made, rows = beside_kept(RESULTS / f"{stem}.json", made, rows)
    elif arguments.only:
        stem += f"-{arguments.only}"
    folder = PLACE if arguments.only and not arguments.keep else RESULTS  # else parts of a run are only for looking
    folder.mkdir(exist_ok=True)
    write(folder, stem, made, rows)
    verdicts = [one.verdict for one in compare(rows) if one.verdict != "limit"]
    behind = f"behind in {verdicts.count('behind')} of {len(verdicts)} comparisons"
    say(f"written to {(folder / stem).relative_to(ROOT)}.json and .md; {behind}")
    return 0


def beside_kept(path: Path, made: dict[str, Any], rows: list[Row]) -> tuple[dict[str, Any], list[Row]]:
    """A kept run with the rows of this one's parts in the place of its own, and when these were measured."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    parts = set(made["parts"])
    others = [row for row in map(Row.of_json, kept["rows"]) if row.part not in parts]
    before = [row for row in others if list(PARTS).index(row.part) < min(map(list(PARTS).index, parts))]
    again = {**kept["made"].get("again", {}), **dict.fromkeys(made["parts"], made["when"])}
    return {**kept["made"], "again": again}, [*before, *rows, *others[len(before) :]]


def write(folder: Path, stem: str, made: dict[str, Any], rows: list[Row]) -> None:
    """The JSON, the tables, and the page that quotes them."""
    rows = [Row.of_json(row.as_json()) for row in rows]  # as they are kept: rounding twice is not rounding once
    compared = [
        {
            "table": one.row.table,
            "case": one.row.case,
            "who": one.row.who,
            "ratio": float(f"{one.ratio:.4g}"),
            "error": float(f"{one.error:.2g}"),
            "verdict": one.verdict,
        }
        for one in compare(rows)
    ]
    text = ",\n".join(
        [
            f'{{"made": {json.dumps(made)}',
            f'"rows": [\n{_lines(row.as_json() for row in rows)}\n]',
            f'"compared": [\n{_lines(compared)}\n]}}\n',
        ]
    )
    (folder / f"{stem}.json").write_text(text, encoding="utf-8")
    shown = page(made, rows)
    (folder / f"{stem}.md").write_text(shown, encoding="utf-8")
    if stem == "full" or (stem == "quick" and not (RESULTS / "full.json").exists()):
        DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8"), shown), encoding="utf-8")


def _lines(items: Iterable[object]) -> str:
    """One to a line, so that a run's changes can be read."""
    return ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)


def rewrite() -> int:
    """The pages again from the kept figures: for a change of their form alone."""
    for path in sorted(RESULTS.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        write(RESULTS, path.stem, kept["made"], [Row.of_json(row) for row in kept["rows"]])
    return 0


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _pins() -> dict[str, str]:
    """The peers and the libraries under them, as pinned."""
    found = {}
    for name in ("pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib", "scikit-learn", "scipy", "numpy", "numba"):
        pins = {
            line.split("==")[1].strip()
            for path in PEERS.glob("*.txt")
            for line in path.read_text().splitlines()
            if line.startswith(f"{name}==")
        }
        found[name] = " and ".join(sorted(pins))
    return {**found, "aiohttp": version("aiohttp"), "uvloop": version("uvloop")}


if __name__ == "__main__":
    if not ONE_THREAD.items() <= os.environ.items():  # read when numpy is loaded: start again with them set
        again = [sys.executable, "-m", "tests.bench.run", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD})
    sys.exit(main())
