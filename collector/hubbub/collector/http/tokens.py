"""Who may read tallies and who may relay. A token is 256 random bits; only its SHA-256 is kept.

(A slow password hash would add nothing: there is no guessing 256 bits.) The file has one token a line: what it allows,
its name, its hash. It is read anew every second it is asked for, so that `hubbub token new`, or removing a line, works
beside a running collector.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from hubbub.protocol.invalid import Invalid

Role = Literal["read", "relay"]
ROLES: tuple[Role, ...] = get_args(Role)
_LOOK_SECONDS = 1.0
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LINE = re.compile(rf"({'|'.join(ROLES)}) ({_NAME.pattern}) ([0-9a-f]{{64}})")


class Tokens:
    """The tokens of a data directory. Raises `Invalid` at birth if the file is broken; later such a file is ignored."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._hashes = _read(path)
        self._looked = clock()

    def allow(self, token: str, role: Role) -> bool:
        """Whether this token may do this. Takes the same time whichever token comes close."""
        if self._clock() - self._looked >= _LOOK_SECONDS:
            self._looked = self._clock()
            with suppress(Invalid, OSError):
                self._hashes = _read(self._path)
        given = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        matches = [hmac.compare_digest(given, known) for known in self._hashes[role]]
        return any(matches)


def _read(path: Path) -> dict[Role, list[bytes]]:
    hashes: dict[Role, list[bytes]] = {role: [] for role in ROLES}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if not found:
            raise Invalid([f"{path}: line {number} must be `read|relay NAME SHA256`"])
        role: Role = "read" if found[1] == "read" else "relay"
        hashes[role].append(bytes.fromhex(found[3]))
    return hashes


def new_token(path: Path, role: Role, name: str) -> str:
    """Make a token, keep its hash, return it: the only time it can be seen."""
    if role not in ROLES:
        raise Invalid([f"role must be one of {', '.join(ROLES)}, got {role!r}"])
    if not _NAME.fullmatch(name):
        raise Invalid([f"name must match {_NAME.pattern}, got {name!r}"])
    token = secrets.token_urlsafe(32)
    line = f"{role} {name} {hashlib.sha256(token.encode()).hexdigest()}\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)
    return token
