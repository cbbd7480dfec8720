"""HTML from templates of the standard library, for pages that a bare install makes: what is filled in is escaped unless
it is markup already, and a name that a template has and nobody gives is an error. Other pages are made by Jinja2."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template


class Markup(str):
    """Text that is HTML already: written in a template, or escaped."""

    __slots__ = ()


def fill(template: str, /, **values: object) -> Markup:
    """The template with `$name` replaced by the value of that name."""
    return Markup(Template(template).substitute({name: escaped(value) for name, value in values.items()}))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """All parts, one after the other."""
    return Markup(between.join(map(escaped, parts)))


def escaped(value: object) -> Markup:
    """This as text of a page or in the quotes of an attribute; markup as it is."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))
