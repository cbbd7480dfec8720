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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hubbub.collector.storage.counting import sum_of_reports
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.log import Damaged, segments, sync_folder, whole_groups
from hubbub.collector.storage.logged_counts import LoggedCounts
from hubbub.protocol.invalid import Invalid

_ATTEMPTS = 10


def backup(data: Path, out: Path) -> int:
    """Copy a directory to one that must not exist yet. Returns the number of reports in the copy.

    Raises `Invalid` for everything that a collector would refuse to start with, naming the file and the place in it.
    """
    if not (data / "store.sqlite").exists():
        raise Invalid([f"data must be the directory of a collector, got {data}, which has no store.sqlite"])
    with new_directory(out) as unfinished:
        reports = _copy_until_whole(data, unfinished)
        copy_operator_files(data, unfinished)
    return reports


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """The name under which a directory is made that must not exist yet. When it is whole it gets its own, and is on the
    disk; if anything is raised, nothing is left of it."""
    if out.exists():
        raise Invalid([f"out must not exist yet, got {out}"])
    unfinished = out.with_name(out.name + ".part")
    try:
        yield unfinished
        sync_all(unfinished)
        unfinished.replace(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync_folder(out.parent)


def copy_operator_files(data: Path, to: Path) -> None:
    """What lies beside counts and log: tokens, metrics that were stopped, kept reports."""
    for name in ("tokens", "stopped", "reports"):
        copy_if_there(data / name, to / name)


def _copy_until_whole(data: Path, unfinished: Path) -> int:
    """Copy checkpoint and log until they fit together; the number of reports in them.

    A collector at work may delete a segment between the two, or write while it is read. That looks like damage, but
    the next attempt finds it gone or elsewhere; the same words twice in a row are damage.
    """
    before = ""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        for folder in (unfinished, unfinished / "log"):
            folder.mkdir(mode=0o700)  # each by itself: `parents` would make the first with the mode that umask gives
        try:
            _copy_checkpoint(data / "store.sqlite", unfinished / "store.sqlite")
            _copy_log(data / "log", unfinished / "log")
            return count_reports(unfinished)
        except FileNotFoundError:  # a checkpoint came in between
            continue
        except sqlite3.DatabaseError as error:
            raise Invalid([f"{data / 'store.sqlite'}: damaged: {error}"]) from None
        except Damaged as error:
            words = str(error).replace(str(unfinished), str(data))
            if words == before:
                raise Invalid([f"the data directory is damaged, nothing was copied. {words}"]) from None
            before = words
        except Invalid as error:
            raise Invalid([problem.replace(str(unfinished), str(data)) for problem in error.problems]) from None
    raise Invalid([f"{data}: checkpoints came too fast for {_ATTEMPTS} attempts at a copy; try again"])


def restore(source: Path, data: Path) -> int:
    """Make a directory from a backup. Returns the number of reports in it; raises `Invalid` if anything is damaged.

    A directory that is there already and empty is filled: it may be a mount point or the target of a symbolic link,
    which cannot be replaced. A file system's own `lost+found` does not count.
    """
    if not (source / "store.sqlite").exists():
        raise Invalid([f"backup must be a directory made by `hubbub backup`, got {source}"])
    if data.exists() and (not data.is_dir() or {path.name for path in data.iterdir()} - {"lost+found"}):
        raise Invalid([f"data must not exist yet or be empty, got {data}"])
    there = data.resolve()
    fill = there.exists()
    unfinished = there / ".part" if fill else there.with_name(there.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        shutil.copytree(source, unfinished, ignore=shutil.ignore_patterns("lock", "lost+found"))
        _close_to_others(unfinished)
        try:
            reports = count_reports(unfinished)
        except Damaged as error:
            words = str(error).replace(str(unfinished), str(source))
            raise Invalid([f"the backup is damaged: {words}"]) from None
        except Invalid as error:
            raise Invalid([problem.replace(str(unfinished), str(source)) for problem in error.problems]) from None
        sync_all(unfinished)
        if fill:
            _move_up(unfinished, there)
        else:
            unfinished.replace(there)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync_folder(there.parent)
    return reports


def _close_to_others(folder: Path) -> None:
    """Directories 0700, files 0600, whatever the copy was kept as."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def _move_up(unfinished: Path, there: Path) -> None:
    """Everything one level up, the checkpoint first: with it alone, a collector says that the log is missing."""
    there.chmod(0o700)
    for path in sorted(unfinished.iterdir(), key=lambda path: path.name != "store.sqlite"):
        path.replace(there / path.name)
        sync_folder(there)


def _copy_checkpoint(source: Path, out: Path) -> None:
    out.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=60)) as old,
        closing(sqlite3.connect(out)) as new,
    ):
        old.backup(new)


def _copy_log(source: Path, out: Path) -> None:
    """Only the segments that are there now: of these, all but the last are finished."""
    found = segments(source)
    for number, path in found:
        copy = out / path.name
        copy.touch(mode=0o600)
        copy.write_bytes(whole_groups(path, number, last=number == found[-1][0]))


def copy_if_there(source: Path, out: Path) -> None:
    """A file or a folder, with its modes."""
    if source.is_dir():
        shutil.copytree(source, out)
    elif source.exists():
        shutil.copy2(source, out)


def count_reports(data: Path) -> int:
    """Open it as a collector would; the number of reports counted."""
    data_dir = DataDir(data, create=False)
    try:
        store = LoggedCounts(data_dir, None, time.time)
        try:
            return sum_of_reports(store.cells.values())
        finally:
            store.close()
    finally:
        data_dir.close()
        (data / "lock").unlink()


def sync_all(folder: Path) -> None:
    """Make a folder and everything in it durable."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
