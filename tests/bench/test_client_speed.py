"""The client's cost, as its README states it. Times are asserted here and in no quick test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from tests.bench import client_speed
from tests.bench.client_speed import LIMITS


def test_the_speed_command_prints_every_figure_it_promises() -> None:
    """A quick form: the measuring code runs; no time is asserted."""
    figures = {**client_speed.respond_cost(number=10, repeat=1), **client_speed.import_cost(repeat=1)}
    assert {"report_memo_known_us", "report_memo_new_us", "import_ratio", "start_ratio"} <= set(figures)
    assert all(value > 0 for value in figures.values())


def test_an_idle_timer_wakes_four_times_an_hour() -> None:
    """Counted in virtual time; how long its thread takes to start is printed, and asserted nowhere."""
    figures = client_speed.timer_cost(repeat=2)
    assert figures["timer_wakes_an_hour"] == 4
    assert set(figures) == {"timer_start_median_us", "timer_wakes_an_hour", "timer_memory_kb"}


@pytest.mark.proof
def test_the_client_costs_its_host_no_more_than_promised(figure) -> None:
    command = [sys.executable, "tests/bench/client_speed.py", "--json"]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3)]
    best = {name: min(run[name] for run in runs) for name in runs[0]}
    for name, value in best.items():
        figure(name, f"{value:.2f}")
    for name, limit in LIMITS.items():
        if name.endswith("_instructions") and shutil.which("valgrind") is None:
            continue
        assert best[name] <= limit, f"{name} must be at most {limit}, got {best[name]:.2f} (best of 3 runs)"
