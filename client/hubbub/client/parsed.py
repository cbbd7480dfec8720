"""What the app's metrics.toml was parsed to, kept beside the state: parsing TOML is an eighth of an app's start.

Kept are the tables, as a parser of TOML gives them; what they mean is read from them at every start, by the same code
and with the same checks. A file that is not whole, or was made of another text, is as good as none. It is written once
somebody has agreed, holds nothing that the app does not ship, and goes with `forget`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from os.path import join

from hubbub.client.state_dir import state_directory
from hubbub.protocol.blake2 import blake2b
from hubbub.protocol.names import is_app
from hubbub.protocol.registry import tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "metrics.json"
_DIGEST = 32


class Parsed:
    """The tables of one app's metrics.toml: those that are kept, or parsed anew."""

    def __init__(self, environ: Mapping[str, str], given: str | os.PathLike[str] | None) -> None:
        self._environ, self._given = environ, given
        self._anew: tuple[str, dict[str, Any]] | None = None

    def tables(self, source: str) -> dict[str, Any]:
        """Of this text. Raises `Invalid` if it is not TOML."""
        found = self._kept(source)
        if found is None:
            found = tables_of(source)
            self._anew = source, found
        return found

    def keep(self, directory: str) -> None:
        """Write what was parsed anew, if it was, where the next start will look for it. That it cannot be written harms
        nobody, and it need not be put in its place whole: one that was cut off is parsed and written again."""
        if self._anew is None or self._place(self._anew[0]) != directory:
            return
        source, found = self._anew
        text = json.dumps(found, default=_marked, ensure_ascii=False, separators=(",", ":")).encode()
        with suppress(OSError):
            fd = os.open(join(directory, FILE), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(fd, "wb") as file:
                file.write(_digest(source, text) + text)

    def _kept(self, source: str) -> dict[str, Any] | None:
        try:
            with open(join(self._place(source), FILE), "rb") as file:
                held = file.read()
        except OSError:  # nothing was kept yet, or there is no home
            return None
        digest, text = held[:_DIGEST], held[_DIGEST:]
        return json.loads(text, object_hook=_unmarked) if digest == _digest(source, text) else None

    def _place(self, source: str) -> str:
        return state_directory(_app(source), self._environ, self._given)


def delete(directory: str) -> None:
    """Delete what is kept in this folder, if anything is."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(join(directory, FILE))


def _app(source: str) -> str:
    """The name of the app as nearly every file says it, on a line of its own before the first table. Of any other file
    nothing is kept."""
    for line in source.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "app":
            quoted = value.strip()
            name = quoted[1:].partition(quoted[0])[0] if quoted[:1] in ("'", '"') else ""
            return name if is_app(name) else ""
        if line.startswith("["):
            break
    return ""


def _digest(source: str, text: bytes) -> bytes:
    """Of what was parsed and what came of it: a flipped bit in either must not change how much noise is made."""
    whole = blake2b(text, digest_size=_DIGEST, person=b"hubbub parsed 1")
    whole.update(len(text).to_bytes(8, "big"))
    whole.update(source.encode())
    return whole.digest()


# What TOML has and JSON does not is an object under the empty key, which no registry has.


def _marked(value: object) -> dict[str, list[str]]:
    return {"": [type(value).__name__, str(value)]}


def _unmarked(table: dict[str, Any]) -> Any:
    if "" not in table:
        return table
    kind, text = table[""]
    return Decimal(text) if kind == "Decimal" else date.fromisoformat(text)
