"""The page for the people who are asked: what it says follows from the registry, in every language, and is escaped."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import KINDS
from hubbub.protocol.metric import Metric
from hubbub.protocol.privacy_page import LANGUAGES, _Words, guesses, privacy_page
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, SHAPES, registry

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = Registry.load(ROOT / "examples" / "metrics.toml")


def texts(language: str) -> dict[str, str]:
    """Every text of a language, by its key; those of tables as `per.week`."""
    words = tomllib.loads((files("hubbub.protocol") / "pages" / f"privacy.{language}.toml").read_text(encoding="utf-8"))
    found = {}
    for key, value in words.items():
        found |= {f"{key}.{name}": text for name, text in value.items()} if isinstance(value, dict) else {key: value}
    return found


def said(page: str) -> str:
    """What a reader sees, on one line."""
    body = re.sub(r"<(style)\b.*?</\1>", " ", page, flags=re.DOTALL).partition("<body")[2]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", body.replace("</", " </"))).split())


class Whole(HTMLParser):
    """Notes what is open, and what an element says of itself."""

    VOID = ("meta", "link", "line", "rect", "circle", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.headings += [tag] if re.fullmatch("h[1-6]", tag) else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"


def parsed(page: str) -> Whole:
    found = Whole()
    found.feed(page)
    assert found.open == []
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_texts_with_the_same_names_to_fill_in(language: str) -> None:
    ours, english = texts(language), texts("en")
    assert list(ours) == list(english)
    for key, text in ours.items():
        mine, theirs = (set(Template(each).get_identifiers()) for each in (text, english[key]))
        assert mine == theirs, key
        assert text.count("<") == english[key].count("<"), key


def test_every_kind_is_said_in_every_language() -> None:
    assert {key.removeprefix("kinds.") for key in texts("en") if key.startswith("kinds.")} == {*KINDS, "mean_apart"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", SHAPES)
def test_a_page_of_every_kind_is_whole(kind: str, language: str) -> None:
    page = parsed(privacy_page(registry(kind), language))
    assert page.headings[:2] == ["h1", "h2"]
    assert page.headings.count("h1") == 1
    assert len(page.ids) == len(set(page.ids))
    assert [value for tag, name, value in page.attributes if (tag, name) == ("html", "lang")] == [language]
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]


def test_the_numbers_are_those_of_the_registry() -> None:
    page = said(privacy_page(EXAMPLE))
    assert f"asks {len(EXAMPLE)} questions" in page
    theme = EXAMPLE["dark_theme"]
    one, every = guesses(theme.epsilon_one_report), guesses(theme.epsilon_permanent)
    assert f"{one} of 100 with one message {every} of 100 with all messages about this answer" in page
    truth = round(100 * theme.noise.q_star)
    assert f"In {truth} of 100 cases it sends the truth, in {100 - truth} the opposite." in page
    for metric in EXAMPLE:
        assert metric.name.replace("_", " ").capitalize() in page
        assert metric.why in page
        assert metric.owner in page
    assert "epsilon 59, never renewed" in page
    assert str(EXAMPLE.recipient) in page


@pytest.mark.parametrize(
    ("epsilon", "number"), [(0, 50), ("1/2", 62), (1, 73), (2, 88), (3, 95), (20, 100), (10_000, 100)]
)
def test_guesses_out_of_a_hundred(epsilon, number: int) -> None:
    assert guesses(Fraction(epsilon)) == number


def test_a_picture_has_as_many_full_dots_as_it_says() -> None:
    figures = re.findall(r'aria-label="(\d+) of 100 dots are filled">(.*?)</svg>', privacy_page(EXAMPLE))
    assert len(figures) == 3
    for number, circles in figures:
        assert circles.count('class="fill"') == int(number)
        assert circles.count("<circle") == 100


def test_what_is_not_protected_is_what_applies() -> None:
    plain = said(privacy_page(registry("flag", max_values="1")))
    for words in (
        "Facts about the program",
        "A group.",
        "come from one device",
        "That an answer changed",
        "for a while",
    ):
        assert words not in plain
    asked = registry("string", segments='{ release = ["2.0"] }', accumulate='"last"', keep_reports="true")
    page = said(privacy_page(asked))
    assert "release (2.0 or other)" in page
    assert "one of 128 groups" in page
    assert "the right one is picked about" in page
    assert "can become visible over time (It)" in page
    assert "until their period is over: It" in page
    assert "Every single message is kept for: It." in page


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "once in 13 weeks, 4 times in all, in weeks that your device picks at random"),
        ("de", "einmal in 13 Wochen, insgesamt 4-mal, in Wochen, die Ihr Gerät auslost"),
        ("fr", "une fois en 13 semaines, 4 fois en tout, des semaines que votre appareil tire au sort"),
    ],
)
def test_a_question_with_hold_says_how_often_it_is_asked_and_that_it_falls_silent(language: str, words: str) -> None:
    page = unescape(privacy_page(registry(**HISTORY), language))
    assert words in page
    silent = {"en": "fall silent", "de": "verstummen", "fr": "se taisent"}[language]
    assert silent in page
    assert silent not in unescape(privacy_page(registry(), language))


def test_one_question_is_one_and_once_has_no_second_message() -> None:
    page = said(privacy_page(registry("flag", every='"once"', max_values=None, epsilon_permanent="2.0")))
    assert "asks one question" in page
    assert "with all messages" not in page
    assert "After one message or all 73" in page
    several = said(privacy_page(registry("flag", epsilon_one_report="1.0", epsilon_permanent="2.0")))
    assert "After one message 73, after all 88" in several
    assert "After one message or all" not in several


HOSTILE = "<script>alert(1)</script>&'\"$why"


def test_whatever_a_registry_says_is_text() -> None:
    asked = registry("flag", why=f"'''{HOSTILE}'''", owner=f"'''{HOSTILE}'''", segments=f"{{ a = ['''{HOSTILE}'''] }}")
    page = privacy_page(asked)
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;&#x27;&quot;$why") == 3
    parsed(page)


class Renamed:
    """A registry whose app has a name that no registry takes: the page does not rely on who reads it in."""

    app = HOSTILE

    def __init__(self, whole: Registry) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> object:
        return getattr(self._whole, name)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


def test_names_and_addresses_are_escaped_though_a_registry_takes_only_harmless_ones(monkeypatch) -> None:
    monkeypatch.setattr("hubbub.protocol.privacy_page._title", lambda metric: HOSTILE)
    page = privacy_page(Renamed(registry()), style=HOSTILE, data=HOSTILE, others={"de": HOSTILE})
    assert "<script" not in page
    assert page.count("alert(1)") >= 9
    links = re.findall(r'(?:href)="([^"]*)"', page)
    assert [unescape(link) for link in links].count(HOSTILE) == 3


def test_a_kind_that_a_language_does_not_know_is_escaped(monkeypatch) -> None:
    it = registry()
    monkeypatch.setattr(type(it["it"].shape), "question", lambda shape: HOSTILE)
    monkeypatch.setattr("hubbub.protocol.privacy_page._words", cache(_WithoutKinds))
    page = privacy_page(it)
    assert "<script" not in page
    assert HOSTILE in unescape(page)


class _WithoutKinds(_Words):
    def __init__(self, language: str) -> None:
        super().__init__(language)
        self.words["kinds"] = {}


def test_an_address_takes_the_place_of_the_style_and_other_languages_are_linked() -> None:
    page = privacy_page(EXAMPLE, style="/privacy.css", data="/v1/metrics", others={"en": "/privacy", "de": "/d?a&b"})
    assert "<style" not in page
    assert '<link rel="stylesheet" href="/privacy.css">' in page
    assert 'href="/d?a&amp;b" hreflang="de" lang="de">Deutsch</a>' in page
    assert '<a href="/v1/metrics">the same facts as data</a>' in page


def test_a_language_that_there_is_not_is_refused() -> None:
    with pytest.raises(Invalid, match="the language must be one of en, de, fr, got 'xx'"):
        privacy_page(EXAMPLE, "xx")


def test_the_command_writes_one_file(tmp_path, capsys) -> None:
    path = tmp_path / "privacy.html"
    metrics = str(ROOT / "examples" / "metrics.toml")
    assert main(["label", metrics, "--html", str(path), "--language", "de"]) == 0
    page = path.read_text(encoding="utf-8")
    assert "Nichts wird gesendet" in page
    assert "<style>" in page
    assert not re.search(r"(src|href)=\"(?!#|http)", page)
    assert main(["label", metrics, "--language", "de"]) == 2
    assert "--language is for --html FILE, got it without: 'de'" in capsys.readouterr().err
    assert main(["label", metrics, "--html", str(path), "--json"]) == 2
    assert "--html writes a page of the registry alone, got --json, too" in capsys.readouterr().err
