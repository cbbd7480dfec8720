"""A copy of a collector's directory, made while it runs, and a directory made from a copy.

First the checkpoint is copied, by SQLite's own means, then the log behind the position it names: together they hold
everything that had been acknowledged when the copying began. If a new checkpoint deletes a segment in between, both
are copied again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import Damaged, segments, sync_folder, whole_groups
from hubbub.collector.storage.store import Store
from hubbub.protocol.invalid import Invalid

_ATTEMPTS = 10


def backup(data: Path, out: Path) -> int:
    """Copy a directory to one that must not exist yet. Returns the number of reports in the copy."""
    if not (data / "store.sqlite").exists():
        raise Invalid([f"data must be the directory of a collector, got {data}, which has no store.sqlite"])
    if out.exists():
        raise Invalid([f"out must not exist yet, got {out}"])
    unfinished = out.with_name(out.name + ".part")
    for _ in range(_ATTEMPTS):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        for folder in (unfinished, unfinished / "log"):
            folder.mkdir(mode=0o700)  # each by itself: `parents` would make the first with the mode that umask gives
        try:
            _copy_checkpoint(data / "store.sqlite", unfinished / "store.sqlite")
            _copy_log(data / "log", unfinished / "log")
            reports = _verify(unfinished)
        except (FileNotFoundError, Damaged):  # a checkpoint came in between
            continue
        for name in ("tokens", "reports"):
            _copy(data / name, unfinished / name)
        _sync(unfinished)
        unfinished.replace(out)
        sync_folder(out.parent)
        return reports
    raise Invalid([f"{data}: checkpoints came too fast for {_ATTEMPTS} attempts at a copy; try again"])


def restore(source: Path, data: Path) -> int:
    """Make a directory from a backup. Returns the number of reports in it; raises `Invalid` if anything is damaged."""
    if not (source / "store.sqlite").exists():
        raise Invalid([f"backup must be a directory made by `hubbub backup`, got {source}"])
    if data.exists() and any(data.iterdir()):
        raise Invalid([f"data must not exist yet or be empty, got {data}"])
    unfinished = data.with_name(data.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(source, unfinished)
    try:
        reports = _verify(unfinished)
    except Damaged as error:
        raise Invalid([f"the backup is damaged: {error}"]) from None
    _sync(unfinished)
    if data.exists():
        data.rmdir()
    unfinished.replace(data)
    sync_folder(data.parent)
    return reports


def _copy_checkpoint(source: Path, out: Path) -> None:
    out.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=60)) as old,
        closing(sqlite3.connect(out)) as new,
    ):
        old.backup(new)


def _copy_log(source: Path, out: Path) -> None:
    """Only the segments that are there now: of these, all but the last are finished."""
    for number, path in segments(source):
        copy = out / path.name
        copy.touch(mode=0o600)
        copy.write_bytes(whole_groups(path, number))


def _copy(source: Path, out: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, out)
    elif source.exists():
        shutil.copy2(source, out)


def _verify(data: Path) -> int:
    """Open it as a collector would; the number of reports counted."""
    data_dir = DataDir(data, create=False)
    try:
        store = Store(data_dir, None, time.time)
        try:
            return sum(int(cells.num_reports.sum()) for cells in store.cells.values())
        finally:
            store.close()
    finally:
        data_dir.close()
        (data / "lock").unlink()


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
