"""Sends what is due, and learns from the answer. No lock is held while the network is used.

A batch counts as delivered only if our collector says so, with our id. It is dropped only if our collector refuses it
for good. Everything else (a proxy's 404, a captive portal's 200, redirects, all of 5xx) means: keep it, back off.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from hubbub.client.respond import Random
from hubbub.client.state import INSISTENCE, State, add_counts, get, put
from hubbub.protocol.cadence import epoch_start
from hubbub.protocol.refusal import LATER, PROBLEM_PREFIX, STATUS
from hubbub.protocol.wire import MEDIA_TYPE

PATH = "/v1/reports"
TIMEOUT = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 6 * 3600.0
DAY = 86_400.0
CLAIM = 120.0
MAX_BATCHES, MAX_BYTES, MAX_AGE = 1000, 4 << 20, 28 * DAY
_ANSWER_BYTES = 64 * 1024


class Due(NamedTuple):
    batch_id: bytes
    every: str
    epoch: int
    reports: int
    body: bytes


class Outcome(NamedTuple):
    """`verdict` is delivered, refused, later or failed; the rest is what the answer said."""

    verdict: str
    reason: str = ""
    retry_after: float = 0.0
    server_time: float | None = None


def send_due(state: State, endpoint: str, clock: Callable[[], float], random: Random, deadline: float) -> bool:
    """Send batches until nothing is due, the deadline (monotonic) is near, or one attempt fails. True: none is due."""
    while True:
        with state.transaction(durable=True) as db:  # synced: what leaves is never drawn a second time
            due = claim(db, clock())
        if due is None:
            return True
        left = deadline - time.monotonic()
        outcome = post(endpoint, due.body, due.batch_id, min(TIMEOUT, left)) if left > 0 else None
        with state.transaction(patience=INSISTENCE) as db:
            settle(db, due, outcome, clock(), random)
        if outcome is None or outcome.verdict == "failed":
            return False


def claim(db: sqlite3.Connection, now: float) -> Due | None:
    """The next batch to send, kept from other processes for a while; None if there is none or it is not yet time."""
    prune(db, now)
    if get(db, "answer") != "yes" or get(db, "retry_at", 0.0) > now:
        return None
    row = db.execute(
        "SELECT batch_id, every, epoch, reports, body FROM outbox WHERE not_before <= ? AND claimed_until <= ? "
        "ORDER BY not_before, batch_id LIMIT 1",
        (now, now),
    ).fetchone()
    if row is None:
        return None
    db.execute("UPDATE outbox SET claimed_until = ? WHERE batch_id = ?", (now + CLAIM, row[0]))
    return Due(*row)


def next_due(db: sqlite3.Connection) -> float | None:
    """When the sender has something to do; None if nothing waits."""
    (soonest,) = db.execute("SELECT min(max(not_before, claimed_until)) FROM outbox").fetchone()
    return None if soonest is None else max(float(soonest), float(get(db, "retry_at", 0.0)))


def waiting_since(db: sqlite3.Connection, now: float) -> int:
    """How many batches have reached their sending time and are still here."""
    (waiting,) = db.execute("SELECT count(*) FROM outbox WHERE not_before <= ?", (now,)).fetchone()
    return int(waiting)


def prune(db: sqlite3.Connection, now: float) -> None:
    """Keep the outbox within its limits of age, number and size; the oldest go first. Pauses longer than any that is
    ever made come from a clock that was set back since: they end."""
    if get(db, "retry_at", 0.0) > now + DAY:
        put(db, "retry_at", 0.0)
    db.execute("UPDATE outbox SET claimed_until = 0 WHERE claimed_until > ?", (now + CLAIM,))
    total = kept = 0
    lost: Counter[str] = Counter()
    rows = db.execute("SELECT batch_id, every, epoch, reports, length(body) FROM outbox ORDER BY not_before DESC")
    for batch_id, every, epoch, reports, size in rows.fetchall():
        if now - epoch_start(every, epoch + 1) > MAX_AGE:
            reason = "too_old"
        elif kept >= MAX_BATCHES or total + size > MAX_BYTES:
            reason = "outbox_full"
        else:
            kept, total = kept + 1, total + size
            continue
        lost[f"dropped_{reason}"] += reports
        db.execute("DELETE FROM outbox WHERE batch_id = ?", (batch_id,))
    add_counts(db, lost)


def settle(db: sqlite3.Connection, due: Due, outcome: Outcome | None, now: float, random: Random) -> None:
    """Keep what became of a batch. Should this be lost, the worst that can happen is that it is sent again."""
    match outcome:
        case None:
            _postpone(db, due, 0.0)
        case Outcome("delivered"):
            _remove(db, due, "sent")
            _set_pause(db, 0, 0.0)
        case Outcome("refused", reason):
            _remove(db, due, f"dropped_{reason}")
            _set_pause(db, 0, 0.0)
        case Outcome("later", "metric-unknown"):
            _postpone(db, due, now + DAY)
            _set_pause(db, 0, 0.0)
        case Outcome("later", "epoch-in-future", _, server_time):
            # Our clock was ahead. Wait as long as the server's clock says that the epoch still lasts, but look every
            # day: by our clock, which may be set right meanwhile, that would be as much too late as it was ahead.
            lasts = epoch_start(due.every, due.epoch + 1) - server_time if server_time else DAY
            _postpone(db, due, now + min(DAY, max(3600.0, lasts)))
            _set_pause(db, 0, 0.0)
        case Outcome(_, _, retry_after):
            back_off(db, now, random, retry_after)
            _postpone(db, due, 0.0)


def back_off(db: sqlite3.Connection, now: float, random: Random, retry_after: float = 0.0) -> None:
    """An attempt has failed: none is made for a while, by nobody who shares this state."""
    failures = int(get(db, "failures", 0)) + 1
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
    jitter = longest * int.from_bytes(random(4), "little") / 2**32  # full jitter: no two installs in step
    _set_pause(db, failures, now + max(min(retry_after, DAY), jitter))


def _remove(db: sqlite3.Connection, due: Due, count: str) -> None:
    if db.execute("DELETE FROM outbox WHERE batch_id = ?", (due.batch_id,)).rowcount:
        add_counts(db, {count: due.reports})


def _postpone(db: sqlite3.Connection, due: Due, until: float) -> None:
    db.execute(
        "UPDATE outbox SET claimed_until = 0, not_before = max(not_before, ?) WHERE batch_id = ?", (until, due.batch_id)
    )


def _set_pause(db: sqlite3.Connection, failures: int, until: float) -> None:
    put(db, "failures", failures)
    put(db, "retry_at", until)


# --- the network --------------------------------------------------------------------------------------------------


def checked_endpoint(endpoint: str | None) -> str | None:
    """https, or http on this machine: reports are noisy, but who sends them is not."""
    if endpoint is None:
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(endpoint)
        secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
        if secure and parts.hostname and parts.port != 0 and not parts.query and not parts.fragment:
            return endpoint
    except ValueError:  # a port or an address that is none
        pass
    raise ValueError(f"endpoint must be an https URL, or http on this machine, got {endpoint!r}")


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name, whatever it begins with
        return False


def post(endpoint: str, body: bytes, batch_id: bytes, timeout: float) -> Outcome:
    """One attempt. Proxies and certificate settings of the environment are honoured; redirects are not followed."""
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    request = urllib.request.Request(  # noqa: S310  the scheme was checked when the client was made
        endpoint.rstrip("/") + PATH,
        data=body,
        headers={"Content-Type": MEDIA_TYPE, "Accept": "application/json", "User-Agent": "hubbub"},
    )
    try:
        try:
            answer = urllib.request.build_opener(NoRedirect).open(request, timeout=timeout)
        except urllib.error.HTTPError as error:  # an answer all the same, and it can break off like any other
            answer = error
        with answer:
            return read_answer(answer.status, answer.headers, answer.read(_ANSWER_BYTES), batch_id)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Outcome("failed", type(error).__name__)


def read_answer(status: int, headers: Any, body: bytes, batch_id: bytes) -> Outcome:
    """What an answer means for a batch."""
    retry_after = _retry_after(headers.get("Retry-After"), headers.get("Date"))
    server_time = _http_date(headers.get("Date"))
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return Outcome("failed", f"status_{status}", retry_after, server_time)
    if status == 200 and said.get("status") in ("stored", "duplicate") and said.get("batch_id") == batch_id.hex():
        return Outcome("delivered", "", 0.0, server_time)
    kind = said.get("type")
    reason = kind.removeprefix(PROBLEM_PREFIX) if isinstance(kind, str) and kind.startswith(PROBLEM_PREFIX) else ""
    if STATUS.get(reason) != status:
        return Outcome("failed", f"status_{status}", retry_after, server_time)
    if reason not in LATER:
        return Outcome("refused", reason, 0.0, server_time)
    if reason in ("metric-unknown", "epoch-in-future"):
        return Outcome("later", reason, 0.0, server_time)
    return Outcome("failed", reason, retry_after, server_time)


def _retry_after(text: str | None, date: str | None) -> float:
    """Seconds to wait: given as a number, or as a date, which is read on the server's own clock."""
    if text is None:
        return 0.0
    if text.strip().isdecimal():
        return float(text)
    until = _http_date(text)
    return max(0.0, until - (_http_date(date) or time.time())) if until else 0.0


def _http_date(text: str | None) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, OverflowError):
        return None
