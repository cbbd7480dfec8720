"""Wheels of what is installed here, so that a test can install it elsewhere and reach no index."""

from __future__ import annotations

import zipfile
from importlib.metadata import distribution
from pathlib import Path

LEFT_OUT = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")


def pack_again(name: str, folder: Path) -> None:
    """The wheel that an installed distribution came from, written into a folder for `pip --find-links`."""
    installed = distribution(name)
    tags = [line.split()[1] for line in (installed.read_text("WHEEL") or "").splitlines() if line.startswith("Tag:")]
    with zipfile.ZipFile(folder / f"{name}-{installed.version}-{tags[0]}.whl", "w") as archive:
        for file in installed.files or []:
            if file.name not in LEFT_OUT and file.suffix != ".pyc" and ".." not in file.parts:
                archive.write(file.locate(), str(file))
        archive.writestr(f"{name}-{installed.version}.dist-info/RECORD", "")
