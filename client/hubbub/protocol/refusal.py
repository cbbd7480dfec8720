"""Why a collector may refuse a batch: one list that both ends know, with the HTTP status of each.

Answers are problem documents (RFC 9457) whose `type` is "urn:hubbub:problem:" and the reason. A client believes only
those: a proxy's 404 or a captive portal's 200 says nothing about a batch.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "malformed",
    "version-unsupported",
    "id-reused",
    "epoch-closed",
    "too-large",
    "media-type-unsupported",
    "report-impossible",
    "epoch-in-future",
    "metric-unknown",
    "rate-limited",
    "queue-full",
    "draining",
    "clock-not-believed",
    "storage-full",
    "too-many-ids",
    "store-unreachable",
]
"""Why a batch is refused; docs/http.md says of each whether it may be accepted later."""

PROBLEM_PREFIX = "urn:hubbub:problem:"
PROBLEM_MEDIA_TYPE = "application/problem+json"

_FOR_GOOD: dict[Reason, int] = {
    "malformed": 400,
    "version-unsupported": 400,
    "id-reused": 409,
    "epoch-closed": 410,
    "too-large": 413,
    "media-type-unsupported": 415,
    "report-impossible": 422,
}
"""The batch will never be accepted: a client drops it."""

_FOR_NOW: dict[Reason, int] = {
    "epoch-in-future": 422,
    "metric-unknown": 404,
    "rate-limited": 429,
    "queue-full": 429,
    "draining": 503,
    "clock-not-believed": 503,
    "storage-full": 507,
    "too-many-ids": 503,
    "store-unreachable": 503,
}
"""It may be accepted later: a client keeps it."""

STATUS: dict[Reason, int] = {**_FOR_GOOD, **_FOR_NOW}

LATER: frozenset[Reason] = frozenset(_FOR_NOW)
"""Reasons to keep a batch and try again."""


IN_WORDS: dict[Reason, str] = {
    "malformed": "the collector could not read it",
    "version-unsupported": "the collector does not know this version of messages",
    "id-reused": "the collector has another message with the same id",
    "epoch-closed": "its day, week or month is no longer counted",
    "too-large": "it is larger than the collector takes",
    "media-type-unsupported": "the collector does not take this form of message",
    "report-impossible": "no install could have made such a report",
    "epoch-in-future": "by the collector's clock its day, week or month is still to come",
    "metric-unknown": "the collector does not count this metric",
    "rate-limited": "too many messages came from this network address at once",
    "queue-full": "the collector has too much to do",
    "draining": "the collector was stopping",
    "clock-not-believed": "the collector's clock had jumped",
    "storage-full": "the collector's disk is full",
    "too-many-ids": "the collector remembers as many messages as it can",
    "store-unreachable": "the collector could not reach its database",
}
"""What each reason means, for people who are not told the rest: ends a sentence that begins with a message."""


class Refused(Exception):
    """A batch that is not counted."""

    reason: Reason  # which kind of refusal
    detail: str  # the field, the rule and the value, in a sentence

    def __init__(self, reason: Reason, detail: str) -> None:
        assert reason in STATUS, reason
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")

    @property
    def status(self) -> int:
        """The HTTP status of its reason."""
        return STATUS[self.reason]

    def to_json(self) -> dict[str, object]:
        """The problem document."""
        title = self.reason.replace("-", " ").capitalize()
        return {"type": PROBLEM_PREFIX + self.reason, "title": title, "status": self.status, "detail": self.detail}
