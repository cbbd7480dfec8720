"""HTML pages from templates: everything is escaped unless it says otherwise, and a name that is missing is an error.

A page is made by a template in the `templates/` of the package that shows it, with the style sheet of all pictures and
that of the same name from its `static/` inside it: it asks no other file and no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files

from hubbub.analysis.optional import need

ToHtml = Callable[[str], str]
"""Turns plain text into HTML that is safe to show."""


def require_page_packages() -> None:
    """Said before the work is done, not after it: which of the packages that a page needs is missing."""
    need("jinja2", "'hubbub[dashboard]'")


def picture_style() -> str:
    """The style sheet of all pictures."""
    return files("hubbub.simulations").joinpath("static", "plots.css").read_text(encoding="utf-8")


def html_page(package: str, name: str, values: Mapping[str, object], **filters: ToHtml) -> str:
    """The page `name` of a package, `style` being its style sheet. `filters` turn text into HTML, and escape it."""
    jinja2 = need("jinja2", "'hubbub[dashboard]'")
    safe = need("markupsafe", "'hubbub[dashboard]'").Markup
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for filter_name, markup in filters.items():
        environment.filters[filter_name] = lambda text, markup=markup: safe(markup(text))
    style = picture_style() + files(package).joinpath("static", f"{name}.css").read_text(encoding="utf-8")
    page: str = environment.get_template(f"{name}.html").render(values, style=safe(style))
    return page
