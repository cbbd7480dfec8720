"""What a picture tells: the labels it shows and the values behind its marks, however a renderer draws them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tests.docs.blocks import ROOT


def pictures(page: str) -> list[Path]:
    """The pictures a page shows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(ROOT / page).parent / found for found in re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", text)]


def marks(path: Path) -> list[str]:
    """Every text of an SVG in its order, and what each bar and point stands for."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    found = []
    for element in root.iter():
        if element.get("aria-label"):
            found.append(str(element.get("aria-label")))
        if element.text and element.text.strip() and element.tag.endswith("text"):
            found.append(element.text.strip())
    assert found, f"{path}: a picture without words"
    return found
