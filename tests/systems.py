"""Marks of tests that need what not every system has: the hosted workflow runs those of what apps embed on Windows too.

A test is skipped there with its reason, so that what stays red is a fault. On Linux and macOS none of these skips.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest

ON_POSIX = os.name == "posix"

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no os.fork")
needs_limits = pytest.mark.skipif(not ON_POSIX, reason="this system has no limits of a process (resource.setrlimit)")
needs_locks = pytest.mark.skipif(not ON_POSIX, reason="this system runs no collector, which locks files by fcntl")
needs_pipes = pytest.mark.skipif(not ON_POSIX, reason="this system has no POSIX pipes and signals")
needs_posix_errors = pytest.mark.skipif(not ON_POSIX, reason="this system words it otherwise that a file is none")
needs_posix_modes = pytest.mark.skipif(not ON_POSIX, reason="this system's files have no POSIX modes")
needs_posix_paths = pytest.mark.skipif(not ON_POSIX, reason="this system writes other paths than those expected")
needs_posix_users = pytest.mark.skipif(not ON_POSIX, reason="this system has no pwd, in which a home is looked up")
needs_timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no signal of a timer")
needs_zones = pytest.mark.skipif(sys.platform == "win32", reason="this system reads no zone from TZ (time.tzset)")
