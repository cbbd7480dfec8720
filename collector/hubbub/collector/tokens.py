"""Who may read tallies and who may relay. A token is 256 random bits; only its SHA-256 is kept.

(A slow password hash would add nothing: there is no guessing 256 bits.) The file has one token a line: what it allows,
its name, its hash. Blank lines are fine, and so is everything from a `#` on. A line that is none of these lets nobody
in, is reported once, and changes nothing for the others: a revocation never fails because of another line.

The file is read anew every second it is asked for, so that `hubbub token` works beside a running collector.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hubbub.collector.operator_files import locked, replace_file
from hubbub.collector.operator_log import OperatorLog
from hubbub.protocol.invalid import Invalid

Role = Literal["read", "relay"]
ROLES: tuple[Role, ...] = get_args(Role)
_LOOK_SECONDS = 1.0
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LINE = re.compile(rf"({'|'.join(ROLES)})\s+({_NAME.pattern})\s+([0-9a-f]{{64}})")
_FORM = "`read|relay NAME SHA256`, a comment after #, or blank"


@dataclass(frozen=True, slots=True)
class KnownToken:
    """One line of the file. `digest` is the SHA-256 of the token."""

    role: Role
    name: str
    digest: bytes


Read = Callable[[], tuple[list[KnownToken], dict[int, bytes]]]


class Tokens:
    """The tokens of a store, as it has them now."""

    def __init__(self, read: Read, operator_log: OperatorLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._operator_log = operator_log
        self._clock = clock
        self._reported: set[bytes] = set()
        self._unreadable = False
        self._known: list[KnownToken] = []
        self.reload()

    def allow(self, token: str, role: Role) -> bool:
        """Whether this token may do this. Takes the same time whichever token comes close."""
        if self._clock() - self._looked >= _LOOK_SECONDS:
            self.reload()
        given = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        matches = [hmac.compare_digest(given, known.digest) for known in self._known if known.role == role]
        return any(matches)

    def reload(self) -> None:
        """Read them now. What cannot be read changes nothing, and the operator is told."""
        self._looked = self._clock()
        try:
            self._known, bad_lines = self._read()
        except OSError as error:
            if not self._unreadable:
                self._operator_log.warning(
                    "the tokens file cannot be read; the tokens read last stay valid", error=error.strerror
                )
            self._unreadable = True
            return
        self._unreadable = False
        for number, line in bad_lines.items():
            digest = hashlib.sha256(line).digest()  # never the line: it may be a token in the clear
            if digest not in self._reported:
                self._reported.add(digest)
                self._operator_log.warning(f"tokens: line {number} is ignored; it must be {_FORM}")


def read_tokens(path: Path) -> tuple[list[KnownToken], dict[int, bytes]]:
    """The tokens in a file, and the lines that are none, by number. No file means no tokens."""
    tokens: list[KnownToken] = []
    bad_lines: dict[int, bytes] = {}
    for number, line in enumerate(_lines(path), 1):
        content = _content(line)
        if not content:
            continue
        found = _LINE.fullmatch(content)
        if found is None:
            bad_lines[number] = line
        else:
            tokens.append(KnownToken("read" if found[1] == "read" else "relay", found[2], bytes.fromhex(found[3])))
    return tokens, bad_lines


def draw_token(role: Role, name: str) -> tuple[str, KnownToken]:
    """A token, which nobody can see again, and what is kept of it."""
    if role not in ROLES:
        raise Invalid([f"role must be one of {', '.join(ROLES)}, got {role!r}"])
    if not _NAME.fullmatch(name):
        raise Invalid([f"name must match {_NAME.pattern}, got {name!r}"])
    token = secrets.token_urlsafe(32)
    while token.startswith("-"):  # `--token -x` would be read as another option
        token = secrets.token_urlsafe(32)
    return token, KnownToken(role, name, hashlib.sha256(token.encode()).digest())


def new_token(path: Path, role: Role, name: str) -> str:
    """Make a token, keep its hash, return it: the only time it can be seen."""
    token, known = draw_token(role, name)
    line = f"{role} {name} {known.digest.hex()}\n".encode()
    with locked(path.parent):
        lines = _lines(path)
        if lines and not lines[-1].endswith(b"\n"):  # written by hand: the new line must not run into the last one
            line = b"\n" + line
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
    return token


def revoke_tokens(path: Path, name: str) -> int:
    """Take away every token of this name; how many there were. All other lines stay as they are."""
    with locked(path.parent):
        tokens, _ = read_tokens(path)
        revoked = sum(token.name == name for token in tokens)
        if not revoked:
            raise no_such_token(name, tokens)
        kept = [line for line in _lines(path) if not _is_token_named(line, name)]
        replace_file(path.resolve(), b"".join(kept))
    return revoked


def no_such_token(name: str, tokens: list[KnownToken]) -> Invalid:
    known = ", ".join(sorted({token.name for token in tokens})) or "none"
    return Invalid([f"NAME must be a token's, got {name!r}; there are: {known}"])


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def _content(line: bytes) -> str:
    return line.partition(b"#")[0].decode("utf-8", "replace").strip()


def _is_token_named(line: bytes, name: str) -> bool:
    found = _LINE.fullmatch(_content(line))
    return found is not None and found[2] == name
