"""What viewers can choose in a page's address, and the decodings that their choices ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from hubbub.analysis import decode
from hubbub.analysis.options import CORRECTIONS, ESTIMANDS, Correction, Estimand, Options
from hubbub.analysis.result import Decoding
from hubbub.dashboard.candidates import CandidateList
from hubbub.dashboard.decode_jobs import DecodeJob
from hubbub.dashboard.periods import ALL, LAST
from hubbub.dashboard.snapshot import Snapshot
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.segments import Segment

CONFIDENCES = ("0.9", "0.95", "0.99")
ONLY = "only."
"""In an address, before the key of a segment: no key of an app is taken for one of ours."""

MOST_EPOCHS = 30
"""The longest time series: its epochs are decoded one by one."""


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a form: its name in the address, its label, what can be chosen (value and words), what is."""

    name: str
    label: str
    choices: tuple[tuple[str, str], ...]
    chosen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The choices in a page's address, checked. An address says nothing else, and never who looks."""

    epoch: str = ""
    """Which day, week or month; `last-4`, `last-13`, `all`; empty: the newest."""
    confidence: str = "0.95"
    estimand: Estimand = "reporting"
    correction: Correction = "bonferroni"
    exclude_absent: bool = False
    series: str | None = None
    before: str | None = None
    after: str | None = None
    only: Segment = ()
    """The installs that are looked at; empty: all."""
    by: str | None = None
    """The key whose values stand side by side."""
    one: str | None = None
    other: str | None = None
    """Two of these values, to be compared."""
    each: str | None = None
    """`period`: of a file, rows of each day, week or month by itself, for programs that draw them over time."""

    @classmethod
    def of(cls, query: Mapping[str, str], epochs: list[str], segments: Mapping[str, Sequence[str]]) -> View:
        """Raises `Invalid` with field, rule and value."""
        by = query.get("by") or next((key for key, values in segments.items() if len(values) > 1), "")
        allowed: dict[str, Sequence[str]] = {
            "epoch": (*LAST, ALL, *epochs),
            "confidence": CONFIDENCES,
            "estimand": ESTIMANDS,
            "correction": CORRECTIONS,
            "exclude_absent": ("yes",),
            "before": epochs,
            "after": epochs,
            "by": tuple(segments),
            "one": segments.get(by, ()),
            "other": segments.get(by, ()),
            "each": ("period",),
            "series": (query.get("series", ""),),  # a row's name, whatever it is
            **{f"{ONLY}{key}": values for key, values in segments.items()},
        }
        chosen = chosen_of(query, allowed)
        exclude_absent = chosen.pop("exclude_absent", "") == "yes"
        only = tuple((key, chosen.pop(f"{ONLY}{key}")) for key in segments if f"{ONLY}{key}" in chosen)
        checked: dict[str, Any] = {**chosen, "by": by or None}
        return cls(exclude_absent=exclude_absent, only=only, **checked)

    @property
    def options(self) -> Options:
        return Options(
            confidence=float(self.confidence),
            estimand=self.estimand,
            correction=self.correction,
            exclude_absent=self.exclude_absent,
        )

    @property
    def kept(self) -> dict[str, str]:
        """What a form carries along, because it does not offer it itself."""
        kept = {"epoch": self.epoch} if self.epoch else {}
        kept |= {"confidence": self.confidence, "estimand": self.estimand, "correction": self.correction}
        kept |= {f"{ONLY}{key}": value for key, value in self.only} | ({"by": self.by} if self.by else {})
        return kept | {"exclude_absent": "yes"} if self.exclude_absent else kept

    def query(self) -> str:
        """The part of an address that leads to the same numbers again."""
        plain = View()
        chosen = {
            name: getattr(self, name)
            for name in ("epoch", "confidence", "estimand", "correction")
            if getattr(self, name) != getattr(plain, name)
        }
        chosen |= {f"{ONLY}{key}": value for key, value in self.only}
        if self.exclude_absent:
            chosen["exclude_absent"] = "yes"
        return f"?{urlencode(chosen)}" if chosen else ""


def chosen_of(query: Mapping[str, str], allowed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What an address chooses, by key. Raises `Invalid` with field, rule and value for what is not `allowed`."""
    chosen = {key: value for key, value in query.items() if value}
    for key, value in chosen.items():
        if key not in allowed:
            raise Invalid([f"the address may choose {', '.join(allowed)}, got {brief(key)}"])
        if value not in allowed[key]:
            known = ", ".join(allowed[key][-8:]) or "nothing, because nothing was counted"
            raise Invalid([f"{key} must be one of {known}, got {brief(value)}"])
    return chosen


def decode_job(
    snapshot: Snapshot,
    name: str,
    epochs: tuple[str, ...] | None,
    options: Options,
    candidates: CandidateList | None,
    only: Segment = (),
    asked: str | None = None,
) -> DecodeJob:
    """A decoding exactly as `hubbub decode` makes it of the same tallies, candidates and options. `asked` is what was
    chosen, where that stays while periods come and go: `the newest`."""
    needs_list = any(definition.shape.open_list for definition in snapshot.definitions(name))
    listed = candidates if needs_list else None

    def work() -> Decoding:
        return decode(
            snapshot.select(name, epochs, only),
            None if listed is None else listed.texts,
            options,
        )

    # As texts, which are hashed once: a page of a hundred metrics looks two thousand jobs up, again and again.
    of = repr((name, options, only, b"" if listed is None else listed.digest))
    question = f"{of} {epochs!r}" if asked is None else f"{of} asked {asked!r}"
    return DecodeJob(question, f"{of} {snapshot.fingerprint(name, epochs, only).hex()}", work)
