"""How the pages become a site: `make docs`. The pages themselves are plain Markdown and hold nothing of Sphinx.

The source directory is the top of the repository, so that a relative link is the same link on a code host and in the
site. The navigation is made of the lists in docs/index.md: each heading there is a caption, each link an entry. Pages
that index.md does not name yet are put under the caption of `PLACES`, or under the last one; none is lost.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/index"
PLACES = {
    "docs/dashboard": "Do",
    "docs/simulating": "Do",
    "docs/experiments": "Understand",
    "docs/benchmarks": "Understand",
}

project = "hubbub"
author = "The hubbub maintainers"
extensions = ["myst_parser"]
root_doc = INDEX
include_patterns = ["docs/*.md", "*.md", "[a-z]*/README.md", "tests/vectors/README.md"]
exclude_patterns = [".*", "build", "dist", "**/__pycache__", "docs/_*", "**/hubbub"]
myst_heading_anchors = 4
myst_enable_extensions = ["strikethrough"]
suppress_warnings = ["myst.strikethrough"]

html_theme = "furo"
html_title = "hubbub"
html_short_title = "hubbub"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False}
highlight_language = "text"


def setup(app):
    app.connect("source-read", add_navigation)
    app.connect("source-read", mark_output)
    app.connect("build-finished", lead_in)


def add_navigation(app, name, source):
    """Hidden tables of contents behind the home page, from its own lists."""
    if name != INDEX:
        return
    sections = listed(source[0])
    known = {entry for entries in sections.values() for entry in entries}
    for page in sorted(app.env.found_docs - known - {INDEX, "README"}):
        sections.setdefault(PLACES.get(page, list(sections)[-1]), []).append(page)
    source[0] += "\n```{toctree}\n:hidden:\n\nAt a glance </README>\n```\n"
    for caption, entries in sections.items():
        lines = "\n".join(f"/{entry}" for entry in entries)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def listed(text):
    """The captions of index.md and the pages listed under each, by their path from the top without the ending."""
    sections = {}
    for part in text.split("\n## ")[1:]:
        caption, _, body = part.partition("\n")
        targets = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.md\)", body, re.MULTILINE)
        sections[caption] = [(ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix() for target in targets]
    return sections


def mark_output(app, name, source):
    """A shell session is coloured as one; without a `$` it is plain text."""
    source[0] = re.sub(r"^( *)```console$(?!\n *\$ )", r"\1```text", source[0], flags=re.MULTILINE)


def lead_in(app, error):
    """The site's own front door: the home page lies a folder deeper."""
    if error is None and app.builder.name == "html":
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={INDEX}.html">'
        link = f'<link rel="icon" href="_static/icon.svg"><title>hubbub</title><a href="{INDEX}.html">hubbub</a>\n'
        (Path(app.outdir) / "index.html").write_text(page + link, encoding="utf-8")
