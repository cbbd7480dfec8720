"""HTML that cannot be injected into: text is escaped unless it was made here.

`el("p", "a < b", class_="note")` is an element; children that are plain strings are text, and so are attribute values.
There is no other way to make `Html`, but for constants of the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "rect", "line", "circle", "path"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Html | None | Iterable["Child"]


def el(tag: str, *children: Child, **attributes: Any) -> Html:
    """An element. `class_` and `for_` are class and for, other underscores are hyphens; True has no value, None and
    False are left out."""
    shown = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{shown}>" if tag not in ("rect", "line", "circle", "path") else f"<{tag}{shown}/>")
    return Html(f"<{tag}{shown}>{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Children one after the other."""
    return Html("".join(_child(child) for child in children))


def data(value: object, **attributes: Any) -> Html:
    """JSON for a script to read: a block that no browser runs, and that no text in it can end."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return el("script", Html(text), type="application/json", **attributes)


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(printable(child), quote=False)
    return "".join(map(_child, child))


def printable(text: str) -> str:
    """A value may hold anything; what is no character for people to read is shown as missing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
