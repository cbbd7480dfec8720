"""Rows of an SQLite file that cannot change unnoticed: each has a checksum, and each table the sum of them all.

SQLite checks none of the bytes it keeps: a flipped bit in a counter is a different counter. Here the last column of
every row is a CRC-32 of the table's name and of all other columns, so a changed value and a changed key are noticed;
`totals` has the number of rows of each table and the sum of their checksums, so a row that vanished is noticed too.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence

from hubbub.collector.storage.log import Damaged

TOTALS_SCHEMA = "create table totals (name text primary key, num_rows integer, crc_sum integer, crc integer) strict;"

StoredRow = tuple[object, ...]


def checksum(table: str, row: Sequence[object]) -> int:
    """Over the table's name and every column, each with its length, so that nothing can move from one to the next."""
    crc = zlib.crc32(table.encode())
    for value in row:
        data = value if isinstance(value, bytes) else repr(value).encode()
        crc = zlib.crc32(data, zlib.crc32(b"%d:" % len(data), crc))
    return crc


class CheckedRows:
    """The tables of one file. Changes belong inside a transaction of the caller's: totals and rows change together."""

    def __init__(self, db: sqlite3.Connection, place: str) -> None:
        self._db = db
        self._place = place

    def create(self, table: str) -> None:
        self._write_total(table, 0, 0)

    def insert(self, table: str, rows: Iterable[StoredRow]) -> None:
        """Add rows, given without their checksums."""
        num_rows = crc_sum = 0
        for row in rows:
            crc = checksum(table, row)
            places = ", ".join("?" * (len(row) + 1))
            self._db.execute(f"insert into {table} values ({places})", (*row, crc))  # noqa: S608  # a name of ours
            num_rows, crc_sum = num_rows + 1, crc_sum + crc
        if num_rows:
            self._add(table, num_rows, crc_sum)

    def delete(self, table: str, where: str, values: Sequence[object]) -> None:
        """Remove the rows that a condition names."""
        gone = self._db.execute(f"delete from {table} where {where} returning crc", values).fetchall()  # noqa: S608
        if gone:
            self._add(table, -len(gone), -sum(crc for (crc,) in gone))

    def rows(self, table: str) -> Iterator[StoredRow]:
        """All rows without their checksums. Raises `Damaged` at the first that is not as it was written."""
        num_rows = crc_sum = 0
        for *row, crc in self._db.execute(f"select * from {table}"):  # noqa: S608  # a name of ours
            if crc != checksum(table, row):
                raise Damaged(f"{self._place}: table {table}, row {_shown(row)}: damaged, its checksum does not fit")
            num_rows, crc_sum = num_rows + 1, crc_sum + crc
            yield tuple(row)
        total = self._total(table)
        if (num_rows, crc_sum) != total:
            raise Damaged(f"{self._place}: table {table}: must have {total[0]} rows, got {num_rows} or other ones")

    def _add(self, table: str, num_rows: int, crc_sum: int) -> None:
        before = self._total(table)
        self._write_total(table, before[0] + num_rows, before[1] + crc_sum)

    def _total(self, table: str) -> tuple[int, int]:
        found = self._db.execute("select * from totals where name = ?", [table]).fetchone()
        if found is None or found[3] != checksum("totals", found[:3]):
            raise Damaged(f"{self._place}: table totals, row {table}: damaged, its checksum does not fit")
        return found[1], found[2]

    def _write_total(self, table: str, num_rows: int, crc_sum: int) -> None:
        row = (table, num_rows, crc_sum)
        self._db.execute("insert or replace into totals values (?, ?, ?, ?)", [*row, checksum("totals", row)])


def _shown(row: Sequence[object]) -> str:
    """The short columns of a row, by which a person can find it."""
    return ", ".join(str(value)[:80] for value in row[:2] if not isinstance(value, bytes))
