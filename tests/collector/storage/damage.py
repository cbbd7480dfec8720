"""Bytes flipped one at a time in a copy of a data directory, and what a start makes of each: noticed or harmless."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random

from hubbub.collector.catalog import Catalog
from hubbub.collector.export import Wanted, select, tallies
from hubbub.collector.storage.backup import backup, restore
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import Damaged
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally_files import tallies_to_json
from hubbub.protocol.wire import pack
from tests.collector.kit import random_batch
from tests.collector.storage.kit import NOW, Place


def fill(place: Place, batches: int, clean: bool = True) -> None:
    """A directory with counts, ids and a log: two runs, the second stopped cleanly or, as by a crash, not at all."""
    random = Random(7)
    for save in (True, clean):
        with place.open(save, segment_bytes=1024) as (store, take, registry):
            for number in range(batches // 2):
                take(pack(random_batch(random, list(registry), NOW - number % 3 * 86_400)))
                if number == batches // 4:
                    place.save(store)


def start(path: Path, toml: str) -> tuple[str, LoggedCounts]:
    """Open a directory as a collector does: its tallies, as text, and the store, closed again."""
    data_dir = DataDir(path)
    try:
        store = LoggedCounts(data_dir, Catalog(Registry.parse(toml)), lambda: NOW)
        try:
            return tallies_to_json(tallies(select(store, Wanted()).cells)), store
        finally:
            store.close()
    finally:
        data_dir.close()


def flip(source: Path, work: Path, victim: Path, at: int, bits: int) -> Path:
    """A copy of a directory with one byte changed; where that byte is."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work)
    broken = work / victim.relative_to(source)
    data = bytearray(broken.read_bytes())
    data[at] ^= bits
    broken.write_bytes(data)
    return broken


def copied_anyway(work: Path, broken: Path) -> list[str]:
    """What is wrong with how a damaged directory is copied: backup and restore must refuse it, with file and place."""
    problems = []
    out = work.with_name("copy-of-damaged")
    for name, copy in (("backup", backup), ("restore", restore)):
        try:
            copy(work, out)
        except Invalid as error:
            place = r": offset \d+" if broken.suffix == ".log" else ""
            if not re.search(re.escape(str(broken)) + place, str(error)):
                problems.append(f"{name} does not say where: {error}")
        else:
            problems.append(f"{name} copied it")
        if out.exists():
            problems.append(f"{name} left something")
            shutil.rmtree(out)
    return problems


def judge(
    source: Path, victims: list[Path], flips: int, seed: int, work: Path, toml: str, copies: bool = False
) -> tuple[Counter, list[str]]:
    """Flip so many bytes, one at a time: how each ended, by file, and those that changed a count without a word.

    With `copies` each damaged directory is also backed up, and restored as if it were a backup: both must refuse.
    """
    shutil.copytree(source, work)
    truth, _ = start(work, toml)
    random, kinds, silent = Random(seed), Counter(), []
    for number in range(flips):
        victim = victims[number % len(victims)]
        at, bits = random.randrange(victim.stat().st_size), random.randrange(1, 256)
        broken = flip(source, work, victim, at, bits)
        depth = len(victim.relative_to(source).parts) - 1
        name = "log" if victim.suffix == ".log" else victim.name
        try:
            found, store = start(work, toml)
        except (Damaged, Invalid) as error:
            named = str(broken) in str(error) or str(broken.parent) in str(error)
            kinds[name, "noticed" if named else f"refused, the file not named: {error}"] += 1
            if copies and named and str(broken) in str(error):
                problems = copied_anyway(flip(source, work, victim, at, bits).parents[depth], broken)
                silent += [f"{victim.name}: byte {at} xor {bits}: {problem}" for problem in problems]
                kinds[name, "noticed, neither backed up nor restored"] += not problems
            continue
        if found == truth:
            kinds[name, "harmless"] += 1
        elif store.cut is not None and store.cut.path == broken and store.cut.offset <= at:
            kinds[name, "last group after a crash: dropped, and said"] += 1
        else:
            silent.append(f"{victim.name}: byte {at} xor {bits}")
    return kinds, silent
