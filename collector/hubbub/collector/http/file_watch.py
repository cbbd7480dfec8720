"""Whether there are files left to open. A process that has none left can accept no connection.

An event loop does not always say so (uvloop closes what it cannot accept without a word), so a file is opened every
second to see. The operator is told at most once a minute.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import Callable

from hubbub.collector.operator_log import OperatorLog

NO_FILES = (errno.EMFILE, errno.ENFILE)
_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 60.0


class FileWatch:
    """Tells the operator when the process or the machine has run out of files."""

    def __init__(self, operator_log: OperatorLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._operator_log = operator_log
        self._clock = clock
        self._quiet_until = clock()

    async def run(self) -> None:
        """For as long as the process lives."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in NO_FILES:
                self.report()

    def report(self) -> None:
        """Note that no file could be opened just now."""
        if self._clock() >= self._quiet_until:
            self._quiet_until = self._clock() + _QUIET_SECONDS
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            self._operator_log.warning(
                "no files left to open, so no connections can be accepted; raise the limit (LimitNOFILE, ulimit -n) "
                "or lower --max-connections",
                limit=limit,
            )
