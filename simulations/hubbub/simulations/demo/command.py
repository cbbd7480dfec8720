"""`hubbub demo`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from hubbub.protocol.arguments import whole
from hubbub.protocol.invalid import Invalid
from hubbub.simulations.demo.crowd_size import SECONDS
from hubbub.simulations.demo.run import run_demo as run


def add_demo(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub demo --once"
    parser.add_argument(
        "--installs",
        type=whole,
        help=f"how large the crowd is (default: what takes about {SECONDS:.0f} s here, at most 2000)",
    )
    parser.add_argument("--once", action="store_true", help="exit when all have reported: no dashboard, no going on")
    parser.add_argument("--seed", type=whole, default=2026, help="another crowd (their noise differs every time)")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")


def run_demo(arguments: Namespace) -> int:
    if arguments.installs is not None and not 20 <= arguments.installs <= 100_000:
        raise Invalid([f"--installs must be in [20, 100000], got {arguments.installs}"])
    if arguments.seed < 0:
        raise Invalid([f"--seed must not be negative, got {arguments.seed}"])
    processes = min(4, os.cpu_count() or 1)
    return run(arguments.installs, processes, arguments.seed, sys.stdout, arguments.once, not arguments.no_browser)
