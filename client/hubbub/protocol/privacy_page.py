"""The page for the people who are asked, in HTML, from the registry alone: the label in other words, with pictures.

A bare install can make it. Words lie in `pages/privacy.*.toml`, one file for each language, the page in
`pages/privacy.html` and its parts below; everything filled in is escaped. The page needs no script, nothing from
elsewhere and no style of its own but the one stylesheet.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from math import exp
from typing import Any

from hubbub.protocol.asked_parts import as_sentence
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import found_again_in, in_fours, resembles_itself
from hubbub.protocol.linking import num_groups
from hubbub.protocol.markup import Markup, escaped, fill, join
from hubbub.protocol.metric import Definition, Metric
from hubbub.protocol.registry import Registry

LANGUAGES = ("en", "de", "fr")
_PAGES = files("hubbub.protocol") / "pages"
_SPANS = {"d": "days", "w": "weeks", "m": "months", "y": "years"}

_STYLE = "<style>\n$style</style>"
_STYLE_ELSEWHERE = '<link rel="stylesheet" href="$address">'
_LINKS = "<nav>$links</nav>"
_LINK = '<a href="$address" hreflang="$code" lang="$code">$language</a>'
_ITEM = "<li>$sentence</li>"
_COMMAND = "<div><dt>$purpose</dt><dd><code>hubbub $command --app $app</code></dd></div>"
_DOT = '<circle class="$css" cx="$x" cy="$y" r="$radius"/>'
_DOTS = (
    '<figure><svg viewBox="0 0 100 100" role="img" aria-label="$aloud">$circles'
    '</svg><figcaption class="small"><b>$number</b>$words</figcaption></figure>'
)
_QUESTION = (
    '<div class="ask"><div><h3>$title</h3><p class="small quiet">$asked, $how_often$sampled. $why</p></div>'
    '<div class="small"><svg height="18" role="img" aria-label="$aloud">'
    '<line class="rail" x1="0" x2="100%" y1="9" y2="9"/>'
    '<rect class="soft" x="0" y="6" height="6" width="$every%" rx="1"/>'
    '<rect class="fill" x="0" y="6" height="6" width="$one%" rx="1"/>'
    '<line class="start" x1="0" x2="0" y1="3" y2="15"/></svg><span>$said</span></div></div>'
)


class _Words:
    """The words of one language, which are HTML."""

    def __init__(self, language: str) -> None:
        if language not in LANGUAGES:
            raise Invalid([f"the language must be one of {', '.join(LANGUAGES)}, got {language!r}"])
        self.words: dict[str, Any] = tomllib.loads((_PAGES / f"privacy.{language}.toml").read_text(encoding="utf-8"))

    def __call__(self, key: str, /, **given: object) -> Markup:
        part: Any = self.words
        for name in key.split("."):
            part = part[name]
        return fill(part, **given)


@cache
def _words(language: str) -> _Words:
    return _Words(language)


def stylesheet() -> str:
    """What the page looks like."""
    return (_PAGES / "privacy.css").read_text(encoding="utf-8")


def privacy_page(
    registry: Registry,
    language: str = "en",
    *,
    style: str | None = None,
    data: str | None = None,
    others: Mapping[str, str] | None = None,
) -> str:
    """The whole page. `style` is the address of the stylesheet (None: it stands in the page, which is then a file by
    itself), `data` that of the same facts as data, `others` the addresses of the page in other languages."""
    words = _words(language)
    example = next((metric for metric in registry if _how_key(metric) in words.words), next(iter(registry)))
    parts = {
        "code": language,
        "app": registry.app,
        "style": _style(style),
        "languages": _languages(others or {}, language),
        "heading": words("heading", app=registry.app, questions=_questions_in_words(words, len(registry))),
        "how": _how(words, example),
        "sure": words("sure", name=_title(example)),
        "dots": join(_dots(words, example), "\n"),
        "questions": join((_question(words, metric) for metric in registry), "\n"),
        "lifetime": words("lifetime", limit=show(registry.lifetime_epsilon)),
        "unprotected": join((fill(_ITEM, sentence=each) for each in _unprotected(words, registry)), "\n"),
        "commands": join(_commands(words, registry.app), "\n"),
        "called_back": join([words("called_back", kept=""), _kept(words, registry)]),
        "contact": words(
            "contact", recipient=registry.recipient, owners=", ".join(dict.fromkeys(m.owner for m in registry))
        ),
        "footer": join(
            [
                words("footer", fingerprint=in_fours(registry.fingerprint)),
                words("footer_data", address=data) if data else "",
            ]
        ),
    }
    headings = [f"{part}_heading" for part in ("how", "sure", "asked", "not", "no")]
    plain = ["page", "skip", "lead", "consent", "kept_noise", "asked", *headings]
    template = (_PAGES / "privacy.html").read_text(encoding="utf-8")
    return str(fill(template, **parts, **{key: words(key) for key in plain}))


def guesses(epsilon: Any) -> int:
    """Of 100 guesses between two answers, about this many can be right at most: e**epsilon / (1 + e**epsilon)."""
    return 100 if epsilon > 40 else round(100 / (1 + exp(-float(epsilon))))


def _title(metric: Definition) -> str:
    """`dark_theme` as a person reads it."""
    return metric.name.replace("_", " ").capitalize()


def _questions_in_words(words: _Words, number: int) -> Markup:
    return words("one_question") if number == 1 else words("many_questions", number=number)


def _languages(others: Mapping[str, str], language: str) -> Markup:
    links = (
        fill(_LINK, address=address, code=code, language=_words(code).words["language"])
        for code, address in others.items()
        if code != language
    )
    return fill(_LINKS, links=join(links)) if others else Markup()


def _how(words: _Words, metric: Metric) -> Markup:
    if _how_key(metric) not in words.words:
        return words("how_any")
    truth = round(100 * metric.noise.q_star)
    return words(_how_key(metric), name=_title(metric), truth=truth, lie=100 - truth)


def _how_key(metric: Metric) -> str:
    """Kinds whose noise can be explained in a sentence have one of their own."""
    return f"how_{metric.kind}"


def _style(address: str | None) -> Markup:
    if address is None:
        return fill(_STYLE, style=Markup(stylesheet()))
    return fill(_STYLE_ELSEWHERE, address=address)


def _dots(words: _Words, metric: Metric) -> Iterator[Markup]:
    steps = [("coin", 50), ("after_one", guesses(metric.epsilon_one_report))]
    if metric.every != "once":
        steps.append(("after_all", guesses(metric.epsilon_same_answer)))
    for key, number in steps:
        yield fill(
            _DOTS,
            aloud=words("of_100_aloud", number=number),
            circles=join(_dot(i, filled=i < number) for i in range(100)),
            number=words("of_100", number=number),
            words=words(key),
        )


def _dot(i: int, *, filled: bool) -> Markup:
    css, radius = ("fill", 3.7) if filled else ("wrong", 3.2)
    return fill(_DOT, css=css, x=5 + 10 * (i % 10), y=5 + 10 * (i // 10), radius=radius)


def _question(words: _Words, metric: Metric) -> Markup:
    one = guesses(metric.epsilon_one_report)
    every = one if metric.every == "once" else guesses(metric.epsilon_same_answer)  # once, all messages are one
    return fill(
        _QUESTION,
        title=_title(metric),
        asked=_asked(words, metric),
        how_often=_how_often(words, metric),
        sampled=_sampled(words, metric),
        why=as_sentence(metric.why),
        aloud=words("bar_aloud", one=one, all=every),
        every=_along(every),
        one=_along(one),
        said=words("bar_once", all=every) if one == every else words("bar", one=one, all=every),
    )


def _how_often(words: _Words, metric: Metric) -> Markup:
    history = metric.noise.history
    if history is None or history.hold == 1:
        return words(f"per.{metric.every}")
    return words(f"turn.{metric.every}", hold=history.hold, answers=history.answers)


def _sampled(words: _Words, metric: Metric) -> Markup:
    part, of = metric.sample.numerator, metric.sample.denominator
    return words("sampled", part=f"{part:,}", of=f"{of:,}") if metric.sample < 1 else Markup()


def _along(number: int) -> int:
    """From a coin toss, 50, to certainty, in per cent of the way."""
    return 2 * (number - 50)


def _asked(words: _Words, metric: Metric) -> Markup:
    """What sort of answer it is; a kind that the language does not know is said in English."""
    shape = metric.shape
    known = words.words["kinds"].get(shape.form, words.words["kinds"].get(metric.kind))
    if known is None:
        return escaped(shape.question())
    asked = max(shape.width(cohort) for cohort in range(shape.num_cohorts))
    room = words("spare", number=shape.spare) if shape.spare else Markup()
    return join([fill(known, answers=len(shape.answers), asked=asked), room])


def _unprotected(words: _Words, registry: Registry) -> Iterator[Markup]:
    yield words("runs")
    if registry.segments:
        each = (words("segment_values", key=key, values=", ".join(values)) for key, values in registry.segments.items())
        yield words("segments", segments=join(each, "; "))
    yield words("address")
    groups = num_groups(registry.cohorts)
    if groups > 1:
        yield words("groups", number=f"{groups:,}")
    if any(resembles_itself(metric) for metric in registry):
        yield words("alike", number=round(100 * found_again_in(registry)))
    changing = [_title(metric) for metric in registry if not metric.whole_history]
    if changing:
        yield words("changes", names=", ".join(changing))
    silent = [_title(metric) for metric in registry if metric.hold is not None]
    if silent:
        yield words("silent", names=", ".join(silent))
    for metric in registry:
        if metric.shape.discovers:
            installs = registry.expected_installs
            shared_by = f"{metric.shape.shared_by(metric.noise, installs):,}"
            yield words(
                "discovered", name=_title(metric), number=shared_by, among=f"{installs:,}", until=metric.expires
            )
    yield words("device")
    for name in registry.crosses:
        crosses = ", ".join(_title(cross) for cross in registry.crosses[name])
        number = guesses(registry.epsilon_same_answer(registry[name]))
        yield words("crossed", name=_title(registry[name]), crosses=crosses, number=number)
    plain = [_title(metric) for metric in registry if metric.accumulate != "first" or metric.name in registry.crosses]
    if plain:
        yield words("plain", names=", ".join(plain))
    yield words("devices")


def _commands(words: _Words, app: str) -> Iterator[Markup]:
    for key, command in (("look", "preview"), ("off", "off"), ("forget", "forget")):
        yield fill(_COMMAND, purpose=words(key), command=command, app=app)


def _kept(words: _Words, registry: Registry) -> Markup:
    longest = max(registry, key=lambda metric: metric.retention_days).retention
    sentences = [words("only_totals", span=words(_SPANS[longest[-1]], number=longest[:-1]))]
    kept = [_title(metric) for metric in registry if metric.keep_reports]
    if kept:
        sentences.append(words("messages_kept", names=", ".join(kept)))
    if registry.together:
        pairs = [
            words("two", first=_title(a), second=_title(b)) for a, b in (p.metrics for p in registry.together.values())
        ]
        sentences.append(words("counted_in_pairs", pairs=join(pairs, "; ")))
    return join(sentences, " ")
