"""Strings to look for: the lists a dashboard was started with, and those uploaded since. In memory only: what an
analyst guesses need not touch a disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from hubbub.analysis.candidates_file import parse_candidates


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


class CandidateLists:
    """Lists by metric. One that was uploaded takes precedence until it is forgotten."""

    def __init__(self, given: Mapping[str, CandidateList]) -> None:
        """`given` is by metric, "" for all metrics."""
        self._given = dict(given)
        self._uploaded: dict[str, CandidateList] = {}

    def of(self, metric: str) -> CandidateList | None:
        return self._uploaded.get(metric) or self._given.get(metric) or self._given.get("")

    def upload(self, metric: str, candidates: CandidateList) -> None:
        self._uploaded[metric] = candidates

    def forget(self, metric: str) -> None:
        """Back to what the dashboard was started with."""
        self._uploaded.pop(metric, None)


CANDIDATES = web.AppKey("candidates", CandidateLists)


def uploaded_list(content: bytes, file_name: str) -> CandidateList:
    """The list in an uploaded file. Raises `Invalid`, calling the file by its name."""
    texts = tuple(parse_candidates(content, file_name))
    return CandidateList(texts, f"from {file_name}, uploaded here", uploaded=True)
