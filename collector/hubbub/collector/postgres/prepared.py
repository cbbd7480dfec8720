"""A statement that is run for every group of batches, by libpq itself: with psycopg's cursors the collector's part of
it took twice as long, whatever was in the group."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from hubbub.collector.postgres.session import Connection


class Prepared:
    """A statement with parameters of these types. All values go and come in binary form."""

    def __init__(self, name: str, text: str, types: Sequence[int]) -> None:
        self._name = name.encode()
        self._text = text.encode()
        self._types = types
        self._formats = [Format.BINARY] * len(types)
        self._known: WeakSet[Connection] = WeakSet()

    def run(self, connection: Connection, values: Sequence[bytes]) -> list[tuple[bytes | None, ...]]:
        """The rows of its answer. Raises `psycopg.Error`."""
        if connection not in self._known:
            _checked(connection.pgconn.prepare(self._name, self._text, self._types))
            self._known.add(connection)
        found = _checked(connection.pgconn.exec_prepared(self._name, values, self._formats, Format.BINARY))
        columns = range(found.nfields)
        return [tuple(found.get_value(row, column) for column in columns) for row in range(found.ntuples)]


def _checked(result: PGresult) -> PGresult:
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise error_from_result(result)
    return result
