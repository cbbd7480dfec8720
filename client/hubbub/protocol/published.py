"""The fingerprints that a release page or a package shows, to compare with the registry on a device.

What is read here was written by anybody: it is searched, never run or unpacked to a disk.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry

LARGEST = 64 << 20
"""Bytes that a page or a package may have, and a registry within it a hundredth of that."""

_FINGERPRINT = re.compile(r"(?<![0-9a-f])[0-9a-f]{4}(?: ?[0-9a-f]{4}){7}(?![0-9a-f])")


def fingerprints_in(source: str, registry: Registry) -> set[str]:
    """All fingerprints of a page, a metrics.toml or a package (wheel, zip, tar), by file name or https address.

    The collector's own address is refused: it could show every person another registry.
    """
    name, data = (source, _fetched(source, registry)) if "://" in source else (source, _read(source))
    found = set()
    for path, text in _texts(name, data):
        if path.endswith(".toml"):
            try:
                found.add(Registry.parse(text).fingerprint)
            except Invalid:
                continue  # another TOML file of the package
        found |= {match.replace(" ", "") for match in _FINGERPRINT.findall(text)}
    return found


def _texts(name: str, data: bytes) -> list[tuple[str, str]]:
    """The page itself, or every metrics.toml in a package."""
    packed: list[tuple[str, bytes]] = []
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            packed = [(i.filename, archive.read(i)) for i in archive.infolist() if _wanted(i.filename, i.file_size)]
    else:
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    file = archive.extractfile(member) if _wanted(member.name, member.size) else None
                    packed += [(member.name, file.read())] if file else []
        except tarfile.TarError:
            packed = [(name, data)]
    return [(path, content.decode("utf-8", "replace")) for path, content in packed]


def _wanted(name: str, size: int) -> bool:
    return name.endswith(".toml") and size <= LARGEST // 100


def _read(source: str) -> bytes:
    path = Path(source)
    if not path.is_file():
        raise Invalid([f"SOURCE must be a file or an https address, got {source!r}"])
    return path.read_bytes()[:LARGEST]


def _fetched(source: str, registry: Registry) -> bytes:
    from urllib.request import Request, urlopen

    parts = urlsplit(source)
    if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost"):
        raise Invalid([f"SOURCE must be a file or an https address, got {source!r}"])
    if parts.hostname == urlsplit(registry.recipient.url).hostname:
        raise Invalid(
            [
                f"SOURCE must not be the collector's own address, {parts.hostname}: it could show every person another "
                "registry. Take the app's release page or package"
            ]
        )
    try:
        with urlopen(Request(source, headers={"User-Agent": "hubbub"}), timeout=30) as answer:  # noqa: S310  checked
            data: bytes = answer.read(LARGEST)
    except OSError as error:
        raise Invalid([f"SOURCE could not be read: {error}"]) from None
    return data
