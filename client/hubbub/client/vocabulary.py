"""The words that the client speaks with, as types: which facts, counts, modes and reasons there are, and what a
transport or a source of chance must do.

No module loads this when an app starts: type checkers read it, and tests hold it against what the code says. To make a
`Literal` costs as much as to read a metric from TOML.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from hubbub.client.upload import Answer
from hubbub.protocol.channel import SubsetChannel, Units
from hubbub.protocol.history import History
from hubbub.protocol.vocabulary import Cadence

Mode = Literal["off", "local", "on"]
"""What an install does: nothing; show what would be sent and keep nothing of it; report."""

Reason = Literal[
    "agreed",
    "declined",
    "not_asked",
    "asks_more",
    "do_not_track",
    "environment",
    "test_run",
    "no_endpoint",
    "wrong_endpoint",
    "no_place",
    "busy",
    "unusable",
]
"""Why the mode is what it is, as a word that programs may rely on: what the person said, or did not say yet; that the
app asks more now; a wish in the environment; a test run; where messages would go; or that no state can be kept."""

Said = Literal["yes", "no"]
"""What the person said."""

FactName = Literal[
    "home",
    "key",
    "number",
    "answer",
    "agreed",
    "agreed_to",
    "fingerprint",
    "answered_at",
    "reserved_for",
    "lifetime",
    "carried",
    "cohorts",
    "samples",
    "failures",
    "retry_at",
    "plain_in_log",
]
"""The facts of an install: `facts.Facts` says what each one is."""

Outcome = Literal["made", "gathered", "repeated", "ignored_later", "not_asked", "expired"]
"""What became of a record: a report was made; it will be part of one (`accumulate`); the epoch had one already; so it
had, and this one was another value; the epoch does not ask (that of the yes, one already sent, or no budget left); the
metric's end is past."""

Lost = Literal["unknown_metric", "wrong_value", "dropped_busy", "dropped_state"]
"""Why a record could not be looked at: the programmer's mistake, or what the disk did."""

Noted = Literal["absent", "clamped", "overflowed", "sent", "dropped_too_old", "dropped_outbox_full"]
"""What else is counted: reports that answered `absent`, were moved into their limits, or repeat an old answer because
no slot is free; reports that were sent, or given up because they grew too old or too many."""

CountName = Outcome | Lost | Noted
"""Names of counts, in `Status.counts`. Besides, a message that the collector refuses for good is counted, by its
reports, as `dropped_` and the reason, one of `protocol.refusal.STATUS`; an attempt after which it is kept, as `tried_`
and the reason, one of those, `status_` and a number, or the name of an error."""

Purpose = Literal["delay", "id", "pause"]
"""What chance apart from answers is for: when a message leaves after its epoch; what it is called; for how long nothing
is sent after a failed attempt."""

Random = Callable[[int], bytes]
"""From a number of bytes to as many random ones, like `os.urandom`."""

Delay = Callable[[Cadence, int, float], float]
"""From a cadence, an epoch and the length of the sending window in seconds to the delay within it."""


class Draws(Protocol):
    """Where the random numbers of an answer come from. Each draw is told what it will decide, so that a test can walk
    through every outcome that matters; in production nobody looks (`RandomDraws`)."""

    def number(self, units: Units, width: int) -> int:
        """A number of 24 bits, for one of `width` categories."""

    def digits(self, units: Units, width: int, sent: int) -> bytes:
        """A number of 24 bits for each of `width` positions, which hold `sent`: ceil(width / 8) bytes with a digit of
        every position, the least significant digits first."""

    def subset(self, channel: SubsetChannel, sent: int) -> int:
        """A number below the units of all subsets, each as likely."""

    def below(self, limit: int) -> int:
        """A number below this, each as likely."""

    def flags(self, history: History) -> int:
        """The truth flags of all answers, flag i at bit i."""

    def of_a_memo(self, random: Random) -> Draws:
        """The draws of one memo, from bytes that are the same whenever this memo is drawn."""


class Chance(Protocol):
    """From a purpose, a cadence, an epoch and the number of the attempt to 16 random bytes."""

    def __call__(self, purpose: Purpose, every: Cadence, epoch: int, attempt: int, /) -> bytes: ...


class Transport(Protocol):
    """How a message travels: give `Client(post=...)` another one to send through your app's own HTTP stack.

    Called with the client's endpoint (a base URL: the reports go to `/v1/reports` below it, as
    `application/vnd.hubbub.reports`), the body of the message, and how many seconds it may take. Whatever it raises is
    a failed attempt: the message is kept and tried again later.
    """

    def __call__(self, endpoint: str, body: bytes, timeout: float, /) -> Answer: ...


class Owner(Protocol):
    """A client, as its timer sees it. The names are private, because apps hold the same object."""

    def _is_on(self) -> bool | None:
        """Whether it may report; asks the state again where that was busy before. None: it still is."""

    def _told_by_timer(self, error: Exception) -> None:
        """Why the timer ended: the person's yes holds no longer, or the state cannot be used."""
