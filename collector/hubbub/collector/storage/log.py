"""The segment log: what has been appended and synced survives; a batch is acknowledged only then.

A segment is a file of groups, a group what one sync made durable: a header of its own, then packed messages, each with
the length and the crc it came with. The crc of a group's header begins with a random salt of the segment: nobody who
sends messages can put something into one that looks like a header. Segments are filled with zeros ahead of use:
overwriting is cheaper to sync than growing. All zeros therefore means that nothing has been written there.

Reading back, the first thing that is no whole group ends the last segment: a crash cut it short, and nothing of it
had been acknowledged. Unless a later group follows: a group is only begun when the one before is durable, so then
something durable has been damaged, and that, like any damage in an earlier segment, is an error naming the place.
A segment's header also says where the one before it ended, so that no group can vanish from the end of a finished one.
What this cannot see: whether the very last group, after a crash, was cut short by it or damaged since it was synced.
Either way it is dropped, and the number of bytes is told.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.wire import is_whole, message_end

_FILE_HEADER = struct.Struct("<8sQ8sQ")  # magic, number, salt, where the segment before this one ended; then a crc
_HEADER_BYTES = _FILE_HEADER.size + 4
_LOG_VERSION = b"2"
_FILE_MAGIC = b"HUBBLOG" + _LOG_VERSION
_GROUP_MAGIC = b"HUBG"
_GROUP_BYTES = 12  # magic, length u32, crc u32
_FILL_AHEAD_BYTES = 1 << 20
_LARGE_GROUP_BYTES = 64 << 10  # a group so large that writing its place twice would cost more than growing the file
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Damaged(Exception):
    """Durable bytes that are not what was written. The message names file and offset."""


class DiskFull(Exception):
    """The disk took no more; the log is as it was before."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log: everything before it is counted in the checkpoint that holds it."""

    segment: int
    offset: int


START = Position(0, 0)


class Log:
    """The open end of the log. One thread appends; an OSError other than a full disk leaves it unusable."""

    def __init__(self, folder: Path, segment: int, segment_bytes: int, previous_end: int = 0) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._end = self._filled = previous_end
        self._begin(segment)

    @property
    def position(self) -> Position:
        return Position(self._segment, self._end)

    def append(self, messages: Sequence[bytes]) -> None:
        """Write a group. It is not durable before `sync`."""
        length = sum(map(len, messages))
        if self._end + _GROUP_BYTES + length > self._segment_bytes and self._end > _HEADER_BYTES:
            full = self._file
            self._begin(self._segment + 1)
            os.close(full)
        group = b"".join([_group_header(length, self._salt), *messages])
        try:
            if len(group) < _LARGE_GROUP_BYTES:
                self._fill_ahead(self._end + len(group))
            _write(self._file, group, self._end)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._undo()
            raise DiskFull(str(error)) from error
        self._end += len(group)
        self._filled = max(self._filled, self._end)

    def sync(self) -> None:
        sync(self._file)

    def drop_before(self, position: Position) -> None:
        """Delete the segments that a checkpoint has made needless."""
        for number, path in segments(self._folder):
            if number < position.segment:
                path.unlink()

    def close(self) -> None:
        os.close(self._file)

    def _begin(self, segment: int) -> None:
        path = self._folder / _name(segment)
        salt = os.urandom(8)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write(file, _file_header(segment, salt, previous_end=self._end), 0)
            except OSError:
                os.close(file)
                path.unlink()
                raise
        except OSError as error:
            if error.errno in DISK_FULL:
                raise DiskFull(str(error)) from error
            raise
        os.fsync(file)
        sync_folder(self._folder)
        self._file, self._segment, self._salt = file, segment, zlib.crc32(salt)
        self._end = self._filled = _HEADER_BYTES

    def _fill_ahead(self, end: int) -> None:
        if end <= self._filled:
            return
        size = min(max(_FILL_AHEAD_BYTES, end - self._filled), max(self._segment_bytes, end) - self._filled)
        _write(self._file, bytes(size), self._filled)
        self._filled += size

    def _undo(self) -> None:
        """Zeros again behind the last good group, by giving the space back. A failure here is an OSError: stop."""
        os.ftruncate(self._file, self._end)
        self._filled = self._end
        os.fsync(self._file)


def _name(segment: int) -> str:
    return f"{segment:010d}.log"


def segments(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in folder.glob("*.log"))


def _file_header(segment: int, salt: bytes, previous_end: int) -> bytes:
    header = _FILE_HEADER.pack(_FILE_MAGIC, segment, salt, previous_end)
    return header + zlib.crc32(header).to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Group:
    """A group read back: its messages, and the place behind it."""

    messages: tuple[bytes, ...]
    end: Position


@dataclass(frozen=True, slots=True)
class Cut:
    """What was found behind the last whole group and dropped."""

    path: Path
    offset: int
    num_bytes: int


class Replay:
    """The groups after a position, read once. `end` and `cut` are known when all have been.

    With `mend`, what a crash left behind the last group is removed from the file. With `may_be_missing`, a checkpoint
    was made when nothing was left to count: no log is needed. Raises `Damaged` where durable bytes have changed or a
    segment is missing, `Invalid` if one is of another version.
    """

    def __init__(self, folder: Path, start: Position, mend: bool, may_be_missing: bool = False) -> None:
        self._folder = folder
        self._start = start
        self._mend = mend
        self._may_be_missing = may_be_missing
        self.end = start
        self.cut: Cut | None = None

    def __iter__(self) -> Iterator[Group]:
        start = self._start
        found = [(number, path) for number, path in segments(self._folder) if number >= start.segment]
        self._check_first(found)
        for number, path in found:
            last = number == found[-1][0]
            if not last and not (self._folder / _name(number + 1)).exists():
                raise Damaged(f"{self._folder}: segment {_name(number + 1)} must be there, between its neighbours")
            yield from self._read_segment(path, number, last)

    def _check_first(self, found: list[tuple[int, Path]]) -> None:
        """Whether the log begins where the checkpoint ends."""
        start = self._start
        first = found[0][0] if found else None
        if start == START:
            if first not in (None, 1):
                raise Damaged(
                    f"{self._folder}: begins with segment {first}, so there was a checkpoint: store.sqlite is missing, "
                    "or an empty one was put in its place, and with it all counts up to this segment"
                )
            return
        if first is None:
            there = self._may_be_missing
        elif first == start.segment + 1:  # it says where the missing one ended
            header = _read_header(found[0][1].read_bytes(), first)
            there = header is not None and header.previous_end == start.offset
        else:
            there = first == start.segment
        if not there:
            raise Damaged(f"{self._folder}: segment {_name(start.segment)} must be there, the checkpoint ends in it")

    def _read_segment(self, path: Path, number: int, last: bool) -> Iterator[Group]:
        data = path.read_bytes()
        _check_version(path, data[:8])
        header = _read_header(data, number)
        if header is None:
            if not last or len(data) > _HEADER_BYTES:  # more than the header is written only once that is durable
                raise Damaged(f"{path}: offset 0: not the header of segment {number}")
            if self._mend:
                path.unlink()
            return
        if self.end.segment == number - 1 and self.end != START and self.end.offset != header.previous_end:
            before = path.with_name(_name(number - 1))
            raise Damaged(
                f"{before}: offset {self.end.offset}: groups up to offset {header.previous_end} are missing, though "
                "they had been acknowledged"
            )
        offset = max(self._start.offset if number == self._start.segment else 0, _HEADER_BYTES)
        while group := _read_group(data, offset, number, header.salt_crc):
            offset = group.end.offset
            yield group
        self.end = Position(number, offset)
        rest = _check_end(path, data, offset, last, header.salt_crc)
        if rest:
            self.cut = Cut(path, offset, rest)
        if rest and self._mend:
            with path.open("r+b") as file:
                file.truncate(offset)
                os.fsync(file.fileno())


class Salvage:
    """The whole batches after a position, whatever lies between them. `lost` says what does, once all are read."""

    def __init__(self, folder: Path, start: Position, needed: bool) -> None:
        self._folder = folder
        self._start = start
        self._needed = needed
        self.lost: list[str] = []

    def __iter__(self) -> Iterator[bytes]:
        found = {number: path for number, path in segments(self._folder) if number >= self._start.segment}
        first = self._start.segment if self._start != START else 1
        if self._needed or found:
            missing = [number for number in range(first, max(found, default=first) + 1) if number not in found]
            if self._start == START and not found:
                missing = []
            self.lost += [f"log: segment {_name(number)} is missing" for number in missing]
        end = self._start
        for number, path in found.items():
            data = path.read_bytes()
            self._check_header(path, number, data, end)
            offset = self._start.offset if number == self._start.segment else 0
            salt_crc = zlib.crc32(data[16:24])  # of a damaged header, the salt may be whole
            end = yield from self._batches(path, number, data, max(offset, _HEADER_BYTES), salt_crc)

    def _check_header(self, path: Path, number: int, data: bytes, end: Position) -> None:
        header = _read_header(data, number)
        if header is None:
            if len(data) >= _HEADER_BYTES:
                self.lost.append(f"log: {path.name}: offset 0: its header is damaged")
        elif end != START and end.segment == number - 1 and end.offset != header.previous_end:
            words = f"groups between offset {end.offset} and {header.previous_end} are missing"
            self.lost.append(f"log: {_name(number - 1)}: {words}")

    def _batches(
        self, path: Path, number: int, data: bytes, offset: int, salt_crc: int
    ) -> Generator[bytes, None, Position]:
        """The whole batches of a segment from an offset on; where the last whole group ends."""
        while True:
            while group := _read_group(data, offset, number, salt_crc):
                offset = group.end.offset
                yield from group.messages
            if not data[offset:].rstrip(b"\0"):
                return Position(number, offset)
            whole = _whole_messages(data, offset) if _is_group_header(data, offset, salt_crc) else []
            yield from whole
            following = _next_group(data, offset, salt_crc)
            upto = len(data.rstrip(b"\0")) if following is None else following
            self.lost.append(
                f"log: {path.name}: offset {offset}: a damaged group or several, {upto - offset} bytes, of which "
                f"{len(whole)} whole batches were saved"
            )
            if following is None:
                return Position(number, upto)
            offset = following


def _whole_messages(data: bytes, offset: int) -> list[bytes]:
    """The whole messages of a group that is not whole itself."""
    at = offset + _GROUP_BYTES
    end = min(at + int.from_bytes(data[offset + 4 : offset + 8], "little"), len(data))
    messages = []
    while at < end:
        after = message_end(data, at)
        if not at < after <= end:
            break
        if is_whole(data[at:after]):
            messages.append(data[at:after])
        at = after
    return messages


def whole_groups(path: Path, number: int, last: bool) -> bytes:
    """A segment as far as it has been written: all that was durable before the reading began, and maybe more.

    Raises `Damaged` where something is broken that is not just being written.
    """
    data = path.read_bytes()
    header = _read_header(data, number)
    if header is None:
        return data  # for the reader to judge: it may be of another version
    offset = _HEADER_BYTES
    while group := _read_group(data, offset, number, header.salt_crc):
        offset = group.end.offset
    _check_end(path, data, offset, last, header.salt_crc)
    return data[:offset]


def _check_end(path: Path, data: bytes, offset: int, last: bool, salt_crc: int) -> int:
    """How many bytes follow the last whole group; raises `Damaged` if a crash cannot have left them so."""
    rest = len(data[offset:].rstrip(b"\0"))
    if rest and (not last or _has_group_after(data, offset, salt_crc)):
        raise Damaged(f"{path}: offset {offset}: damaged, though it had been acknowledged")
    return rest


@dataclass(frozen=True, slots=True)
class _Header:
    salt_crc: int
    previous_end: int


def _read_header(data: bytes, number: int) -> _Header | None:
    """The header of segment `number`, or None if the file does not begin with it."""
    if len(data) < _HEADER_BYTES:
        return None
    _, _, salt, previous_end = _FILE_HEADER.unpack_from(data)
    if data[:_HEADER_BYTES] != _file_header(number, salt, previous_end):
        return None
    return _Header(zlib.crc32(salt), previous_end)


def _check_version(path: Path, magic: bytes) -> None:
    """Refuse a segment of another version, which is neither damaged nor torn. (A zero is a header cut short.)"""
    version = magic[-1:]
    if magic[:-1] == _FILE_MAGIC[:-1] and version not in (_LOG_VERSION, b"\0"):
        found = version.decode("ascii", "backslashreplace")
        raise Invalid([f"{path}: log version must be {_LOG_VERSION.decode()}, {other_version(found)}"])


def other_version(found: object) -> str:
    """What a version is instead of the one this program reads, and what can be done about it."""
    return (
        f"the one this hubbub reads, got {found}; run the hubbub that wrote the directory, or export its tallies with "
        "that one (`hubbub export --data`) and give this one a new directory"
    )


def _read_group(data: bytes, offset: int, number: int, salt_crc: int) -> Group | None:
    if not _is_group_header(data, offset, salt_crc):
        return None
    at = offset + _GROUP_BYTES
    end = at + int.from_bytes(data[offset + 4 : offset + 8], "little")
    messages = []
    while at < end:
        after = message_end(data, at)
        message = data[at:after]
        if after > end or not is_whole(message):
            return None
        messages.append(message)
        at = after
    return Group(tuple(messages), Position(number, end))


def _group_header(length: int, salt_crc: int) -> bytes:
    start = _GROUP_MAGIC + length.to_bytes(4, "little")
    return start + zlib.crc32(start, salt_crc).to_bytes(4, "little")


def _is_group_header(data: bytes, offset: int, salt_crc: int) -> bool:
    found = data[offset : offset + _GROUP_BYTES]
    return len(found) == _GROUP_BYTES and found == _group_header(int.from_bytes(found[4:8], "little"), salt_crc)


def _has_group_after(data: bytes, offset: int, salt_crc: int) -> bool:
    """Whether a later group follows what is broken at `offset`: proof that the broken one had been synced."""
    return _next_group(data, offset, salt_crc) is not None


def _next_group(data: bytes, offset: int, salt_crc: int) -> int | None:
    at = data.find(_GROUP_MAGIC, offset + 1)
    while at >= 0:
        if _is_group_header(data, at, salt_crc):
            return at
        at = data.find(_GROUP_MAGIC, at + 1)
    return None


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


if sys.platform == "darwin":
    import fcntl

    def sync(file: int) -> None:
        fcntl.fcntl(file, fcntl.FFULLFSYNC)  # fsync on macOS stops at the drive's cache
else:
    sync = os.fdatasync


def sync_folder(folder: Path) -> None:
    """Make names durable that were created or removed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
