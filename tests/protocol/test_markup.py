"""HTML from the standard library's templates: what is filled in cannot become markup by mistake."""

from __future__ import annotations

import pytest

from hubbub.protocol.markup import Markup, escaped, fill, join

HOSTILE = """<b onclick='x' id="y">&"""


def test_what_is_filled_in_is_escaped_and_markup_is_not() -> None:
    said = fill('<a title="$title">$words</a>', title=HOSTILE, words=Markup("<i>so</i>"))
    assert said == '<a title="&lt;b onclick=&#x27;x&#x27; id=&quot;y&quot;&gt;&amp;"><i>so</i></a>'
    assert fill("<p>$said</p>", said=said) == f"<p>{said}</p>"
    assert fill("<p>$number</p>", number=3) == "<p>3</p>"


def test_parts_are_escaped_one_by_one() -> None:
    assert join(["a & b", Markup("<br>"), escaped("<")], "; ") == "a &amp; b; <br>; &lt;"


def test_text_that_was_put_together_with_markup_is_text_again() -> None:
    assert fill("$it", it=Markup("<br>") + "<b>") == "&lt;br&gt;&lt;b&gt;"


def test_a_name_that_nobody_gives_is_an_error() -> None:
    with pytest.raises(KeyError, match="missing"):
        fill("<p>$missing</p>", given=1)
