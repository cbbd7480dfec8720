"""Every link between pages leads somewhere: the file is there, and so is the heading. No network is asked."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs.blocks import ROOT, pages


def links(page: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8"))
    found = []
    for token in tokens:
        for child in token.children or []:
            target = child.attrs.get("href") or child.attrs.get("src")
            if target:
                found.append(str(target))
    return found


def anchors(path: Path) -> set[str]:
    """The headings of a page as a code host names them."""
    tokens = MarkdownIt("commonmark").parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))
            name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            number = sum(1 for other in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", other))
            found.add(f"{name}-{number}" if name in found else name)
    return found


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), f"{page}: {link} must be https"
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), f"{page}: {link}: there is no such file"
        assert target.is_relative_to(ROOT), f"{page}: {link}: leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{page}: {link}: no such heading; there are {sorted(anchors(target))}"


def test_every_page_that_code_and_pages_speak_of_exists() -> None:
    """`docs/estimation.md` in a docstring, a comment or a page: it must be there, and its section if one is named."""
    spoken = re.compile(r"\b((?:docs|tests|tools|examples|collector/deploy)/[\w/.-]*\w\.(?:md|py|toml|json|conf))\b")
    sources = [
        path for top in ("client", "collector", "analysis", "simulations") for path in (ROOT / top).rglob("*.py")
    ]
    for path in [*sources, *(ROOT / page for page in pages())]:
        for name in spoken.findall(path.read_text(encoding="utf-8")):
            assert "*" in name or (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"


def test_sections_that_are_named_by_number_exist() -> None:
    headings = re.findall(r"^## (\d+)\. ", (ROOT / "docs/privacy-model.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [str(number) for number in range(1, len(headings) + 1)]
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for number in re.findall(r"privacy-model\.md(?:\)|`)?,? section (\d+)", text):
            assert number in headings, f"{page}: section {number}"
