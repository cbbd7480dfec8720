"""An Apache Spark cluster that is already running (`spark://HOST:PORT`), or Spark inside this machine (`local-spark`).

Spark itself runs the tasks of a lost worker again, each up to four times. Needs Java 17 on the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from hubbub.analysis.engines.engine import Engine, R, T, answer, opened
from hubbub.analysis.optional import need
from hubbub.protocol.invalid import Invalid


def start(master: str) -> Engine:
    sql = need("pyspark.sql", "'hubbub[spark]'")
    errors, protocol = need("pyspark.errors", "'hubbub[spark]'"), need("py4j.protocol", "'hubbub[spark]'")
    # Workers of another Python could not read what this one sends.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master(master).appName("hubbub")
    options = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    for name, value in options.items():
        builder = builder.config(name, value)
    ours = sql.SparkSession.getActiveSession() is None  # a notebook may have one, which is then used and stays
    try:
        return _Spark(builder.getOrCreate(), ours)
    except errors.PySparkRuntimeError as error:
        raise Invalid([f"engine {master}: Spark does not start, is Java 17 installed? ({error})"]) from None
    except protocol.Py4JError as error:
        said = " ".join(str(error).split("\n")[:2])
        raise Invalid([f"engine {master}: no Spark master answers there ({said})"]) from None


class _Spark:
    def __init__(self, session: Any, ours: bool) -> None:
        self._session = session
        self._ours = ours

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        context = self._session.sparkContext
        # Collected, because Spark's own iterator would wait for each item before it starts the next.
        found = context.parallelize(items, max(len(items), 1)).map(partial(answer, function)).collect()
        yield from map(opened, found)

    def close(self) -> None:
        """Leaves the cluster. The Java process beside this one ends with it: pyspark keeps it for the next session."""
        if self._ours:
            self._session.stop()
