"""How simulating grows with the crowd: 1e4 to 1e9 installs of one string metric, exact tallies, one core."""

from __future__ import annotations

import resource
import time

import numpy as np

from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.protocol.kinds import String
from tests.analysis.worlds import RAPPOR, define, tally_of, zipf
from tests.bench.environments import Say
from tests.bench.growth import exponents
from tests.bench.rows import US, Row, times

SIZES = (10**4, 10**5, 10**6, 10**7, 10**8, 10**9)


def measure(quick: bool, say: Say) -> list[Row]:
    shape = String(num_bits=128, num_hashes=2, num_cohorts=64)
    metric = define(shape, noise=RAPPOR)
    texts = [f"https://example.org/{i}" for i in range(1000)]
    where = positions(shape, digests(texts))
    spent: dict[int, list[float]] = {size: [] for size in SIZES}
    memory: dict[int, float] = {}
    rng = np.random.default_rng(5)
    for turn in range(6 if quick else 21):
        for size in SIZES:  # interleaved, and from small to large, so that what is resident grows with the size alone
            held = np.floor(zipf(1000) * size).astype(int)
            start = time.process_time()
            tally_of(metric, held, rng, where)
            if turn:
                spent[size].append(1e3 * (time.process_time() - start))
            memory.setdefault(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
    say("simulate: 1e4 to 1e9 installs")
    rows = [
        Row(
            part="simulate",
            table="Time of a simulated epoch",
            case=f"{size:.0e} installs",
            who=US,
            unit="milliseconds of CPU; 1,000 strings, 64 cohorts of 128 bits",
            **times(found),
        )
        for size, found in spent.items()
    ]
    rows += exponents("simulate", "Time of a simulated epoch", {size: times(f)["value"] for size, f in spent.items()})
    rows += [
        Row(
            part="simulate",
            table="Memory of a simulated epoch",
            case=f"{size:.0e} installs",
            who=US,
            unit="MB, whole process at its largest",
            **times([found]),
        )
        for size, found in memory.items()
    ]
    return rows
