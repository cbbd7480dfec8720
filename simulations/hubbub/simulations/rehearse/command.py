"""`hubbub rehearse`."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from hubbub.protocol.arguments import whole
from hubbub.protocol.invalid import Invalid, require
from hubbub.simulations.rehearse.app_file import FUNCTION, find_app
from hubbub.simulations.rehearse.installs import Plan
from hubbub.simulations.rehearse.run import Show, run_rehearsal

MOST_DAYS = 28
"""With the month that may lie between them and today, these are the 60 days that a rehearsal collector has open."""


def add_rehearse(parser: ArgumentParser) -> None:
    parser.epilog = f"""\
The app's own code runs, once a day for each install, with the real client; a collector on this machine counts, and a
dashboard shows the estimates. Nothing leaves the machine, and nothing is left on it.

What users do is yours to say, in a function of the file:

  def {FUNCTION}(user):
      start(dark=user.habits.random() < 0.6)   # habits: the same chance every day; today: another each day

Without one the file is run as a script, each time with the same --arguments.

examples:
  hubbub rehearse app.py --installs 500 --days 14
  hubbub rehearse app.py --call one_day --once
  hubbub rehearse count_words.py --arguments "README.md --unit lines" --no-browser
"""
    parser.add_argument("app", metavar="APP.py", type=Path, help="the Python file to run, with its metrics.toml")
    parser.add_argument("--call", metavar="FUNCTION", help=f"the function to call (default {FUNCTION}, if it has one)")
    parser.add_argument("--arguments", metavar="WORDS", default="", help="its command line, where it is a script")
    parser.add_argument("--installs", type=whole, default=500, help="how large the crowd is (default 500)")
    parser.add_argument("--days", type=whole, default=14, help="how many days each install is used (default 14)")
    parser.add_argument("--seed", type=whole, help="the same users and the same noise each time")
    parser.add_argument("--processes", type=whole, help="how many work at once (default: one for each core, at most 8)")
    parser.add_argument("--once", action="store_true", help="exit when the estimates are printed: no dashboard")
    parser.add_argument("--no-browser", action="store_true", help="open no browser; say where the dashboard is")


def run_rehearse(arguments: Namespace) -> int:
    processes = arguments.processes or min(8, os.cpu_count() or 1)
    require(
        f"--{name} must be in [{low}, {high}], got {value}"
        for name, value, low, high in (
            ("installs", arguments.installs, 1, 100_000),
            ("days", arguments.days, 1, MOST_DAYS),
            ("processes", processes, 1, 64),
        )
        if not low <= value <= high
    )
    if arguments.seed is not None and arguments.seed < 0:
        raise Invalid([f"--seed must not be negative, got {arguments.seed}"])
    app = find_app(arguments.app, arguments.call, tuple(shlex.split(arguments.arguments)))
    plan = Plan(app=app, days=arguments.days, seed=arguments.seed or 0, repeatable=arguments.seed is not None)
    show = Show(out=sys.stdout, once=arguments.once, browser=not arguments.no_browser)
    return run_rehearsal(plan, arguments.installs, processes, show)
