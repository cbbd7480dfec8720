"""The data directory: what lies where, whose it is, and that only one process writes to it.

    lock             held while a process works here
    tokens           hashes of the tokens that may read or relay
    stopped          names of stopped metrics
    store.sqlite     the checkpoint: counters, batch ids, log position
    log/             segments not yet in the checkpoint
    reports/         Parquet files of the metrics with keep_reports = true
    clock-accepted   there for a moment, after `hubbub clock accept`
    rehearsal        there if the reports are of installs that were made up (`hubbub collect --rehearsal`)

Directories are 0700, files 0600.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hubbub.collector.storage.log import sync_folder
from hubbub.protocol.invalid import Invalid


class DataDir:
    """A data directory that this process has to itself until `close`."""

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = path
        if not create and not (path / "store.sqlite").exists():
            raise Invalid([f"data must be the directory of a collector, got {path}, which has no store.sqlite"])
        for folder in (path, self.log):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Invalid([f"data must not be in use by another process, got {path}, which is locked"]) from None

    @property
    def database(self) -> Path:
        return self.path / "store.sqlite"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def stopped(self) -> Path:
        return self.path / "stopped"

    @property
    def reports(self) -> Path:
        return self.path / "reports"

    @property
    def clock_accepted(self) -> Path:
        return self.path / "clock-accepted"

    def keep_apart(self, rehearsal: bool) -> None:
        """Made-up reports and people's are never in one directory; raises `Invalid` where they would be."""
        mark, begun = self.path / "rehearsal", self.database.exists()
        if rehearsal and begun and not mark.exists():
            raise Invalid([f"data must be new or of a rehearsal, got {self.path}, which has counts of real reports"])
        if not rehearsal and mark.exists():
            raise Invalid([f"data must not be of a rehearsal, got {self.path}: give another, or --rehearsal"])
        if rehearsal:
            mark.touch(mode=0o600)

    def free_bytes(self) -> int:
        stats = os.statvfs(self.path)
        return stats.f_bavail * stats.f_frsize

    def close(self) -> None:
        os.close(self._lock)
