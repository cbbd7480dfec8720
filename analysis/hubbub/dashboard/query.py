"""What viewers can choose, and the decodings that their choices ask for. Candidate lists live here, in memory only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from hubbub.analysis import decode
from hubbub.analysis.options import CORRECTIONS, ESTIMANDS, Correction, Estimand, Options
from hubbub.analysis.result import Decoding
from hubbub.dashboard.decode_jobs import Asked
from hubbub.dashboard.snapshot import Reading
from hubbub.protocol.invalid import Invalid, brief

CONFIDENCES = ("0.9", "0.95", "0.99")
MOST_EPOCHS = 30
"""The longest time series: its epochs are decoded one by one."""


@dataclass(frozen=True, slots=True)
class CandidateList:
    """Strings to look for, and where they came from, in words."""

    texts: tuple[str, ...] = field(repr=False)
    origin: str
    uploaded: bool = False
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        content = b"\0".join(text.encode("utf-8", "surrogatepass") for text in self.texts)
        object.__setattr__(self, "digest", hashlib.blake2b(content, digest_size=16).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The choices in a page's address, checked. An address says nothing else, and never who looks."""

    epoch: str | None = None
    confidence: str = "0.95"
    estimand: Estimand = "reporting"
    correction: Correction = "bonferroni"
    exclude_absent: bool = False
    series: str | None = None
    before: str | None = None
    after: str | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], epochs: list[str]) -> View:
        """Raises `Invalid` with field, rule and value."""
        chosen = {key: value for key, value in query.items() if value}
        allowed = {
            "epoch": epochs,
            "confidence": CONFIDENCES,
            "estimand": ESTIMANDS,
            "correction": CORRECTIONS,
            "exclude_absent": ("yes",),
            "before": epochs,
            "after": epochs,
        }
        for key, value in chosen.items():
            if key == "series":
                continue
            if key not in allowed:
                raise Invalid([f"the address may choose {', '.join(allowed)} and series, got {brief(key)}"])
            if value not in allowed[key]:
                known = ", ".join(allowed[key][-8:]) or "nothing, for nothing was counted"
                raise Invalid([f"{key} must be one of {known}, got {brief(value)}"])
        exclude_absent = chosen.pop("exclude_absent", "") == "yes"
        checked: dict[str, Any] = dict(chosen)
        return cls(exclude_absent=exclude_absent, **checked)

    @property
    def options(self) -> Options:
        return Options(
            confidence=float(self.confidence),
            estimand=self.estimand,
            correction=self.correction,
            exclude_absent=self.exclude_absent,
        )

    def query(self, *, with_epoch: bool = True) -> str:
        """The part of an address that leads to the same numbers again."""
        plain = View()
        chosen = {
            name: getattr(self, name)
            for name in ("epoch", "confidence", "estimand", "correction")
            if getattr(self, name) != getattr(plain, name) and (with_epoch or name != "epoch")
        }
        if self.exclude_absent:
            chosen["exclude_absent"] = "yes"
        return f"?{urlencode(chosen)}" if chosen else ""


class Board:
    """Candidate lists by metric: those the dashboard was started with, and those uploaded since."""

    def __init__(self, given: Mapping[str, CandidateList]) -> None:
        self._given = dict(given)
        self._uploaded: dict[str, CandidateList] = {}

    def candidates(self, name: str) -> CandidateList | None:
        return self._uploaded.get(name) or self._given.get(name) or self._given.get("")

    def upload(self, name: str, candidates: CandidateList) -> None:
        self._uploaded[name] = candidates

    def forget(self, name: str) -> None:
        """Back to what the dashboard was started with."""
        self._uploaded.pop(name, None)

    def asked(self, reading: Reading, name: str, epoch: str | None, options: Options) -> Asked:
        """A decoding exactly as `hubbub decode` makes it of the same tallies, candidates and options."""
        is_string = any(definition.kind == "string" for definition in reading.definitions(name))
        candidates = self.candidates(name) if is_string else None

        def work() -> Decoding:
            return decode(
                reading.select(name, epoch),
                None if candidates is None else candidates.texts,
                options,
            )

        question = name, epoch, options, b"" if candidates is None else candidates.digest
        return Asked(question, reading.fingerprint(name, epoch), work)
