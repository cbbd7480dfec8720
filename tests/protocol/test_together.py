"""`[together]` in metrics.toml: read and refused in words, in the fingerprint, on the label, and asked for anew."""

from __future__ import annotations

import pytest

from hubbub.protocol.changes import asks_more, changes
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import facts, words
from hubbub.protocol.pair import Pair
from hubbub.protocol.privacy_page import LANGUAGES, privacy_page
from hubbub.protocol.registry import Registry
from tests.protocol.pairs import REGISTRY, text_with
from tests.protocol.toml import problems_of

ONE = 'theme_os = ["theme", "os"]'
WITH = Registry.parse(text_with(ONE))


def test_a_pair_is_read() -> None:
    assert list(WITH.together) == ["theme_os"]
    assert WITH.together["theme_os"] == Pair("theme_os", (REGISTRY["theme"], REGISTRY["os"]))
    assert WITH.pairs_by_name == {"theme_os": ["theme", "os"]}
    assert (WITH.counted_with("os"), WITH.counted_with("page")) == (["theme"], [])


@pytest.mark.parametrize(
    ("together", "sentence"),
    [
        ('both = ["theme"]', "[together.both] metrics must be the names of two metrics, got 1"),
        ('both = "theme"', "[together.both] metrics must be a list, got 'theme'"),
        ('both = ["theme", 3]', "[together.both] metrics item 1 must be a text, got 3"),
        (
            'both = ["theme", "so"]',
            "[together.both] metrics must be names of metrics in this file, got 'so'",
        ),
        (
            'both = ["theme", "edito"]',
            "[together.both] metrics must be names of metrics in this file, got 'edito'; did you mean editor?",
        ),
        ('both = ["theme", "os"]\ncolour = 1', "[together.both] colour is not a key that is known here"),
        ('both = ["theme", "theme"]', "[together.both] metrics must be two different ones, got theme twice"),
        ('theme = ["page", "os"]', "[together.theme] must have a name of its own, got that of a metric"),
        ('Both = ["theme", "os"]', "[together.Both] a pair's name must match [a-z][a-z0-9_]{0,63}, got 'Both'"),
        (
            'both = ["theme", "os"]\n[together.again]\nmetrics = ["os", "theme"]',
            "[together.again] metrics must not be counted together twice, got those of both",
        ),
        (
            'both = ["sizes", "minutes"]',
            "[together.both] metrics must have at most one of which an install is asked a part",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(together: str, sentence: str) -> None:
    assert any(problem.startswith(sentence) for problem in problems_of(text_with(together)))


def test_what_is_no_table_is_refused() -> None:
    for extra, got in (("together = 3", "3"), ('together = { both = "x" }', "'x'")):
        sentence = f"together must hold tables such as [together.theme_os] and nothing else, got {got}"
        assert problems_of(text_with(extra=extra)) == [sentence]


def test_a_metric_with_mistakes_is_said_once() -> None:
    text = text_with(ONE, changes={"os": {"grace": "99"}})
    assert problems_of(text) == ["[metrics.os] grace must be in [0, 60] epochs, got 99"]


def test_too_many_pairs_are_refused() -> None:
    names = [f"m{i}" for i in range(13)]
    head, _, rest = text_with().partition("[metrics.theme]\n")
    flag = rest.partition("[metrics")[0]
    metrics = "".join(f"[metrics.{name}]\n{flag}" for name in names)
    pairs = [(a, b) for a in names for b in names if a < b][:65]
    together = "".join(f'[together.p{i}]\nmetrics = ["{a}", "{b}"]\n' for i, (a, b) in enumerate(pairs))
    assert problems_of(head + metrics + together) == ["together must hold at most 64 pairs, got 65"]


def test_a_registry_made_in_code_keeps_the_rules() -> None:
    pair = WITH.together["theme_os"]
    same = WITH.replace(together={"theme_os": pair})
    assert same == WITH
    with pytest.raises(Invalid, match=r"\[together.other\] must be the pair of that name, got theme_os"):
        WITH.replace(together={"other": pair})
    another = Registry.parse(text_with(changes={"os": {"choices": '["x", "y"]'}}))
    with pytest.raises(Invalid, match="metrics must be those of this registry, got os and theme"):
        another.replace(together={"theme_os": pair})


def test_the_fingerprint_has_pairs_and_is_as_before_without() -> None:
    assert WITH.fingerprint != REGISTRY.fingerprint
    assert '"together":{"theme_os":["theme","os"]}' in WITH.canonical()
    assert "together" not in REGISTRY.canonical()


def test_a_new_pair_asks_anew_and_a_new_name_does_not() -> None:
    assert [str(change) for change in asks_more(REGISTRY, WITH)] == [
        "theme_os: new: theme and os are also counted in pairs"
    ]
    renamed = Registry.parse(text_with('os_theme = ["os", "theme"]'))
    assert changes(WITH, renamed) == ()
    (gone,) = changes(WITH, REGISTRY)
    assert (str(gone), gone.asks_more) == ("theme_os: theme and os are no longer counted in pairs", False)


def test_the_label_says_so_for_both_metrics_and_for_all() -> None:
    text = " ".join(words(WITH).split())
    assert text.count("Also counts of pairs: how often which answers come together with those to os.") == 1
    assert text.count("Also counts of pairs: how often which answers come together with those to theme.") == 1
    assert "Also counts of pairs are made (theme with os)" in text
    assert "what one message tells is what is said above" in text
    assert "pairs" not in words(REGISTRY)
    assert facts(WITH)["together"] == {"theme_os": ["theme", "os"]}


def test_what_a_message_tells_is_the_same_with_pairs() -> None:
    """The statement about one message covers all that can be read in it, so also which answers came together."""
    assert WITH.epsilon_one_epoch("week") == REGISTRY.epsilon_one_epoch("week")
    both = WITH.together["theme_os"].metrics
    assert sum(metric.epsilon_one_report for metric in both) <= WITH.epsilon_one_epoch("week")


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "Counts of pairs are made as well, which show which answers come together: Theme with Os."),
        ("de", "Gezählt wird auch paarweise, also welche Antworten zusammen vorkommen: Theme mit Os."),
        ("fr", "On compte aussi par paires, c’est-à-dire quelles réponses vont ensemble : Theme avec Os."),
    ],
)
def test_the_privacy_page_says_so_in_each_language(language: str, sentence: str) -> None:
    assert language in LANGUAGES
    assert sentence in privacy_page(WITH, language)
    assert sentence[:20] not in privacy_page(REGISTRY, language)
