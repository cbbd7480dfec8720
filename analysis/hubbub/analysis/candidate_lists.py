"""Long lists of candidates in several files: text, one candidate a line, or Parquet, one column of strings.

They are read in pieces: whatever their length, no more than a piece of one file is ever in memory. Files that cannot
be read as lists are refused in words, by their name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hubbub.analysis.candidates_file import MOST_CANDIDATES
from hubbub.analysis.optional import need
from hubbub.protocol.invalid import Invalid

_BLOCK = 1 << 20  # bytes of a text file at a time


def list_files(path: str | Path) -> list[str]:
    """A list's file, or those of a folder in the order of their names: as absolute paths, which mean the same to every
    worker. Names that begin with a dot or an underscore are no lists: other programs leave such marks."""
    path = Path(path).resolve()
    if not path.is_dir():
        return [str(path)]
    found = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith((".", "_")))
    if not found:
        raise Invalid([f"{path}: must hold lists of candidates, text or .parquet, got no file"])
    return [str(each) for each in found]


def is_long(path: str | Path) -> bool:
    """Whether a list is to be read in pieces: a folder, a Parquet file, or a text of more lines than memory is used
    for."""
    path = Path(path)
    if path.is_dir() or path.suffix == ".parquet":
        return True
    if not path.exists() or path.stat().st_size <= 2 * MOST_CANDIDATES:  # a line has a character and its end
        return False
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b"")) > MOST_CANDIDATES


def pieces(path: str, size: int) -> Iterator[list[str]]:
    """The candidates of one file in order, empty ones left out: `size` at a time, the last piece may be shorter."""
    some: list[str] = []
    for more in _parquet(path, size) if path.endswith(".parquet") else _text(path):
        some += more
        while len(some) >= size:
            yield some[:size]
            del some[:size]
    if some:
        yield some


def _text(path: str) -> Iterator[list[str]]:
    done, rest = 0, b""
    with Path(path).open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            whole, newline, after = (rest + block).rpartition(b"\n") if block else (rest, b"", b"")
            try:
                text = whole.decode("utf-8-sig" if not done else "utf-8")
            except UnicodeDecodeError as error:
                raise Invalid([f"{path}: must be UTF-8, got a wrong byte at {done + error.start}"]) from None
            yield [line for line in (line.removesuffix("\r") for line in text.split("\n")) if line]
            if not block:
                return
            done += len(whole) + len(newline)
            rest = after


def _parquet(path: str, size: int) -> Iterator[list[str]]:
    pa, pq = need("pyarrow", "'hubbub[parquet]'"), need("pyarrow.parquet", "'hubbub[parquet]'")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Invalid([f"{path}: must be Parquet, got {error}"]) from None
    with file:
        schema = file.schema_arrow
        if len(schema) != 1 or not _is_text(pa, schema.field(0).type):
            columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
            raise Invalid([f"{path}: must have one column of strings, got {columns or 'none'}"])
        for batch in file.iter_batches(batch_size=size):
            yield [text for text in batch.column(0).to_pylist() if text]


def _is_text(pa: Any, found: Any) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
