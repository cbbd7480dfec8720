"""How long decoding takes and how much memory, on one core: each size in a process of its own.

Times are the processor's, not the wall's: other work on the machine does not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMITS = {1_000: 0.2, 10_000: 0.6, 1_000_000: 5.0}
MEMORY = 600  # MB

PROGRAM = """
import json, resource, sys, time
import numpy as np
from hubbub.analysis import decode
from hubbub.analysis.estimation.hashing import digests, positions
from tests.analysis.worlds import RAPPOR, define, tally_of, zipf
from hubbub.protocol.kinds import String

shape = String(num_bits=128, num_hashes=2, num_cohorts=64)
metric = define(shape, noise=RAPPOR)
texts = [f"https://example.org/{i}" for i in range(int(sys.argv[1]))]
where = positions(shape, digests(texts[:100]))
tally = tally_of(metric, np.floor(zipf(100) * 1e7).astype(int), np.random.default_rng(0), where)
decode(tally, texts[:1000])  # libraries are loaded once, not by every decode
times = []
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    decode(tally, texts)
    times.append(time.process_time() - start)
print(json.dumps([min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000]))
"""


def measure(candidates: int, repeats: int) -> tuple[float, float]:
    root = Path(__file__).resolve().parents[2]
    out = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(candidates), str(repeats)], cwd=root, capture_output=True, check=True
    )
    seconds, megabytes = json.loads(out.stdout)
    return seconds, megabytes


@pytest.mark.proof
@pytest.mark.parametrize("candidates", LIMITS)
def test_decoding_is_fast_on_one_core(candidates, figure):
    seconds, megabytes = measure(candidates, 1 if candidates > 100_000 else 3)
    figure(f"decode {candidates} candidates, 64 cohorts", f"{seconds:.2f} s, {megabytes:.0f} MB")
    assert seconds <= LIMITS[candidates]
    assert megabytes <= MEMORY


@pytest.mark.proof
def test_time_grows_in_proportion_from_a_hundred_thousand_on(figure):
    small, large = measure(100_000, 2)[0], measure(400_000, 2)[0]
    figure("time of 400,000 candidates / time of 100,000", f"{large / small:.2f}")
    assert large / small <= 5
