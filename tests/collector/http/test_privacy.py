"""GET /privacy: for everybody, in the browser's language, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collector.kit import REGISTRY, Collector


@pytest.fixture(scope="module")
def collector(tmp_path_factory) -> Iterator[Collector]:
    with Collector(tmp_path_factory.mktemp("privacy")) as running:
        yield running


def page(collector: Collector, path: str = "/privacy", **headers: str) -> tuple[dict[str, str], str]:
    status, found, body = collector.request("GET", path, **headers)
    assert status == 200
    return found, body.decode()


def test_the_page_is_for_everybody_and_under_a_strict_policy(collector) -> None:
    headers, text = page(collector)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "<script" not in text
    assert "style=" not in text
    for metric in REGISTRY:
        assert metric.why in text


def test_its_style_is_there(collector) -> None:
    _, text = page(collector)
    assert '<link rel="stylesheet" href="/privacy.css">' in text
    headers, style = page(collector, "/privacy.css")
    assert headers["Content-Type"].startswith("text/css")
    assert "prefers-color-scheme: dark" in style


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("ja, fr-CH;q=0.8, en;q=0.3", "fr"),
        ("en;q=0.2, fr;q=0.9", "fr"),
        ("de;q=0, fr;q=0.1", "fr"),
        ("de;q=lots, ;;,=", "en"),
        ("x" * 5000, "en"),
    ],
)
def test_the_language_is_the_browsers(collector, wanted: str, language: str) -> None:
    headers, text = page(collector, Accept_Language=wanted) if wanted else page(collector)
    assert headers["Content-Language"] == language
    assert f'<html lang="{language}">' in text


def test_the_address_may_choose_it(collector) -> None:
    assert page(collector, "/privacy?lang=fr", Accept_Language="de")[0]["Content-Language"] == "fr"
    assert page(collector, "/privacy?lang=xx", Accept_Language="de")[0]["Content-Language"] == "de"


def test_the_greeting_names_it(collector) -> None:
    assert f"privacy   http://127.0.0.1:{collector.port}/privacy" in collector.printed
