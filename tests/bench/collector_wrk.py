"""The same measurement as `collector_throughput`, with wrk (Debian's package) instead of our own load generator.

    python -m tests.bench.collector_wrk

Each body is a batch with an id of its own (collector_wrk.lua). The server has one core, wrk the other; the servers take
turns; compared are requests per CPU-second of the whole server process.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from random import Random

from tests.bench.collector_load import Load, cpu_seconds
from tests.bench.collector_throughput import Running, Shape, Trio, print_table, take_turns

SCRIPT = Path(__file__).with_suffix(".lua")
CONNECTIONS = 64


def is_there() -> bool:
    return shutil.which("wrk") is not None


def load(server: Running, shape: Shape, seconds: int, seed: int) -> Load:
    """Let wrk send for so long; raises if any answer is not a 200."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(shape.message)
        file.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(SCRIPT)]
        command += [
            f"http://127.0.0.1:{server.port}",
            "--",
            file.name,
            shape.path,
            server.authorization or "-",
            str(seed),
        ]
        cpu = cpu_seconds(server.pid)
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cpu = cpu_seconds(server.pid) - cpu
    answered, failed, p99 = (
        int(number) for number in re.search(r"answered (\d+) failed (\d+) p99 (\d+)", said).groups()
    )
    if failed:
        raise AssertionError(f"wrk says: {said}")
    return Load(answered, cpu, float(seconds), (p99 / 1e6,))


def measure(folder: Path, seconds: int, rounds: int = 3, only: str = "") -> dict[str, list[Trio]]:
    """For each shape and round, what the servers took."""
    seeds = Random(5)
    return take_turns(folder, rounds, only, lambda server, shape: load(server, shape, seconds, seeds.getrandbits(30)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="shapes whose name begins so")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_table(measure(Path(folder), arguments.seconds, arguments.rounds, arguments.only))


if __name__ == "__main__":
    main()
