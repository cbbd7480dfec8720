"""How decoding grows with the candidate list: 1e3 to 1e6 candidates, each size in a process of its own, one core."""

from __future__ import annotations

from tests.analysis.test_speed_proof import measure as decode_once
from tests.bench.environments import Say
from tests.bench.growth import exponents
from tests.bench.rows import US, Row, times


def measure(quick: bool, say: Say) -> list[Row]:
    sizes = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    samples: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for turn in range(2):
        for size in sizes:
            say(f"decode: {size:,} candidates, turn {turn + 1}")
            samples[size].append(decode_once(size, 1))
    rows = []
    for side, table, unit in ((0, "Time of a decode", "CPU-seconds"), (1, "Memory of a decode", "MB, whole process")):
        found = {size: times([one[side] for one in taken]) for size, taken in samples.items()}
        rows += [
            Row(part="decode", table=table, case=f"{size:,} candidates", who=US, unit=unit, **figures)
            for size, figures in found.items()
        ]
        rows += exponents("decode", table, {size: figures["value"] for size, figures in found.items()})
    return rows
