"""Runs an app as if it were another moment, with chance from a seed: for tests of apps that offer neither.

    python tests/examples/on_a_day.py MOMENT SEED APP [ARGUMENTS ...]

Nothing of the app or the client is replaced: before either is imported, Python's own clock and source of chance are.
"""

import os
import random
import runpy
import sys
import time

moment, seed, *sys.argv = sys.argv[1:]
ahead = float(moment) - time.time()
_real = time.time
time.time = lambda: _real() + ahead
os.urandom = random.Random(f"{seed} {moment}").randbytes
sys.path.insert(0, os.path.dirname(sys.argv[0]))  # noqa: PTH120  nothing more is imported than needed
runpy.run_path(sys.argv[0], run_name="__main__")
