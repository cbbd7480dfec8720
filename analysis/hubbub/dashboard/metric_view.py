"""All that a metric's page is made of, and the small forms that choose among it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from hubbub.dashboard.decode_jobs import Found
from hubbub.dashboard.html import Html, el
from hubbub.dashboard.query import CandidateList, View
from hubbub.dashboard.snapshot import Reading

MOST_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """All that a metric's page is made of. None stands for what is still being decoded."""

    name: str
    reading: Reading
    view: View
    epochs: list[str]
    found: Found | None
    series: list[tuple[str, Found | None]]
    pair: tuple[str, str] | None
    before: Found | None
    after: Found | None
    candidates: CandidateList | None
    counted: bytes
    """The fingerprint of all counts of the metric."""
    problem: str = ""

    @property
    def key(self) -> Hashable:
        """All that the page depends on."""
        candidates = self.candidates and (self.candidates.digest, self.candidates.origin)
        known = tuple(found and (found.content, found.fresh) for found in self._asked)
        return self.name, self.view, self.counted, candidates, self.reading.terms_of(self.name), self.problem, known

    @property
    def pending(self) -> bool:
        return bool(self.epochs) and any(found is None or not found.fresh for found in self._asked)

    @property
    def _asked(self) -> list[Found | None]:
        return [self.found, *(found for _, found in self.series), *((self.before, self.after) if self.pair else ())]


def select(name: str, label: str, choices: list[tuple[str, str]], chosen: str) -> Html:
    options = [el("option", words, value=value, selected=value == chosen) for value, words in choices]
    return el("label", el("span", label), el("select", options, name=name))


def hidden(view: View) -> list[Html]:
    """A form keeps the choices that it does not offer itself."""
    kept = {"confidence": view.confidence, "estimand": view.estimand, "correction": view.correction}
    if view.exclude_absent:
        kept["exclude_absent"] = "yes"
    return [el("input", type="hidden", name=name, value=value) for name, value in kept.items()]
