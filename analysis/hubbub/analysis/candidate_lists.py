"""Long lists of candidates in several files: text, one candidate a line, or Parquet, one column of strings.

They are cut into stretches, which are read in pieces: whatever the length of a list or of a file, no more than a piece
is ever in memory. Candidates stay the UTF-8 bytes that they are in the file: of a hundred million only a few are ever
needed as text. Files that cannot be read as lists are refused in words, by their name.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hubbub.analysis.candidates_file import MOST_CANDIDATES
from hubbub.analysis.optional import need
from hubbub.protocol.invalid import Invalid

_BLOCK = 1 << 20  # bytes of a text file at a time
_STRETCH = 1 << 26  # bytes of a file that are one worker's at a time: some millions of candidates


class Stretch(NamedTuple):
    """A part of one file: of a text the lines that begin at these bytes, of a Parquet file these groups of rows."""

    path: str
    begin: int
    end: int

    @property
    def is_parquet(self) -> bool:
        return self.path.endswith(".parquet")


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


def stretches(path: str) -> list[Stretch]:
    """A file in parts of about equal length, at least one."""
    if not path.endswith(".parquet"):
        cuts = [*range(0, max(Path(path).stat().st_size, 1), _STRETCH)]
        return [Stretch(path, begin, begin + _STRETCH) for begin in cuts]
    with _parquet_file(path) as file:
        sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)]
    found, begin, held = [], 0, 0
    for group, size in enumerate(sizes):
        if held and held + size > _STRETCH:
            found.append(Stretch(path, begin, group))
            begin, held = group, 0
        held += size
    return [*found, Stretch(path, begin, len(sizes))]


def most_candidates(stretch: Stretch) -> int:
    """So many candidates are in a stretch at most: what can be said without looking at each."""
    if stretch.is_parquet:
        with _parquet_file(stretch.path) as file:
            return sum(file.metadata.row_group(group).num_rows for group in range(stretch.begin, stretch.end))
    return sum(block.count(b"\n") + 1 for _, block in _whole_lines(stretch))  # the last line end is cut off


def pieces(stretch: Stretch, size: int) -> Iterator[list[bytes]]:
    """The candidates of a stretch in order, empty ones left out: `size` at a time, the last piece may be shorter."""
    some: list[bytes] = []
    for more in _parquet(stretch, size) if stretch.is_parquet else _text(stretch):
        some += more
        while len(some) >= size:
            yield some[:size]
            del some[:size]
    if some:
        yield some


def _text(stretch: Stretch) -> Iterator[list[bytes]]:
    for place, block in _whole_lines(stretch):
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as error:
                raise Invalid([f"{stretch.path}: must be UTF-8, got a wrong byte at {place + error.start}"]) from None
        lines = block.removeprefix(BOM_UTF8 if place == 0 else b"").split(b"\n")
        if b"\r" in block:
            lines = [line.removesuffix(b"\r") for line in lines]
        yield [*filter(None, lines)]


def _whole_lines(stretch: Stretch) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in a stretch, many at a time, and where in the file each block of them begins."""
    with Path(stretch.path).open("rb") as file:
        end = _next_line(file, stretch.end)
        place = _next_line(file, stretch.begin)
        file.seek(place)
        rest = b""
        while more := file.read(min(_BLOCK, end - place - len(rest))):
            whole, newline, after = (rest + more).rpartition(b"\n")
            if newline:
                yield place, whole
                place += len(whole) + 1
            rest = after
        yield place, rest


def _next_line(file: BinaryIO, place: int) -> int:
    """Where the first line begins that does not begin before this place."""
    if place == 0:
        return 0
    file.seek(place - 1)
    return place - 1 + len(file.readline())


def _parquet(stretch: Stretch, size: int) -> Iterator[list[bytes]]:
    with _parquet_file(stretch.path) as file:
        for batch in file.iter_batches(batch_size=size, row_groups=range(stretch.begin, stretch.end)):
            yield [text.encode() for text in batch.column(0).to_pylist() if text]


def _parquet_file(path: str) -> Any:
    pa, pq = need("pyarrow", "'hubbub[parquet]'"), need("pyarrow.parquet", "'hubbub[parquet]'")
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Invalid([f"{path}: must be Parquet, got {error}"]) from None
    schema = file.schema_arrow
    if len(schema) != 1 or not _is_text(pa, schema.field(0).type):
        file.close()
        columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise Invalid([f"{path}: must have one column of strings, got {columns or 'none'}"])
    return file


def _is_text(pa: Any, found: Any) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
