"""Where the time of a request goes: a collector whose parts are timed, CPU-seconds of the thread each runs on.

`BREAKDOWN=FILE python collector_breakdown.py collect ...` serves as usual and writes a JSON table when it stops. The
timing itself costs about a microsecond a call, so shares are to be trusted, totals less.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path

from hubbub.collector import commit, intake
from hubbub.collector.http import limits
from hubbub.collector.storage import log, logged_counts
from hubbub.command.main import main as hubbub

SPENT: dict[str, float] = {}
CALLS: dict[str, int] = {}
PARTS = {
    "rate limit": (limits.Limits, "allows"),
    "parse and check": (intake.Intake, "read"),
    "hand-over: to the committer": (commit.Committer, "submit"),
    "hand-over: back": (commit.Committer, "_acknowledge"),
    "committer: waiting for work": (commit.Committer, "_take"),
    "log: write": (log.Log, "append"),
    "log: sync": (log.Log, "sync"),
    "ids: look up": (logged_counts.LoggedCounts, "_judge"),
    "ids: keep": (logged_counts.LoggedCounts, "_count"),
    "fold": (logged_counts.LoggedCounts, "fold"),
    "seal": (logged_counts.LoggedCounts, "seal"),
}


def timed(name, function):
    @functools.wraps(function)
    def wrapper(*arguments, **keywords):
        started = time.thread_time()
        try:
            return function(*arguments, **keywords)
        finally:
            SPENT[name] = SPENT.get(name, 0.0) + time.thread_time() - started
            CALLS[name] = CALLS.get(name, 0) + 1

    return wrapper


def timed_thread(name, function):
    def wrapper(*arguments):
        try:
            return function(*arguments)
        finally:
            SPENT[name] = time.thread_time()

    return wrapper


def main() -> int:
    for name, (owner, attribute) in PARTS.items():
        setattr(owner, attribute, timed(name, getattr(owner, attribute)))
    commit.Committer._run = timed_thread("thread: committer", commit.Committer._run)
    try:
        return hubbub()
    finally:
        SPENT["thread: event loop"] = time.thread_time()
        SPENT["process"] = time.process_time()
        Path(os.environ["BREAKDOWN"]).write_text(json.dumps({"spent": SPENT, "calls": CALLS}))


if __name__ == "__main__":
    sys.exit(main())
