"""What the client costs its host, on one core: prints a table, or JSON with --json.

    python tests/bench/client_speed.py

Reports are of a 128-bit string. "record() returns" is a call that makes a report: one SQLite transaction on the real
state file. A look is the timer's: the first of an epoch opens it and seals the one before, the others find nothing to
do. The timer's start is that of its thread; its wake-ups are counted in virtual time, over an hour in which nothing is
due; its memory is what Python allocates for timer and thread (the system adds the pages of a stack that it touches).
Import and start are those of fresh interpreters, less an empty one, against `import sqlite3, json, tomllib`; a start is
the import and a client of examples/metrics.toml for somebody who agreed, in an app that was started before. The first
start is that where nobody was asked yet, so that nothing is kept and the file is parsed, and no release is named. All
are told in CPU time, best of 20, which varies by a tenth with what else the machine does, and in instructions, counted
where valgrind is installed: that is the same number on a busy machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

from hubbub.client import Client, Registry, timers
from hubbub.client.respond import draw_bits, respond
from hubbub.protocol.bloom import string_mask

DAY = 86_400
LIMITS = {
    "report_memo_known_us": 10.0,
    "report_memo_new_us": 40.0,
    "record_median_us": 200.0,
    "import_ratio": 2.0,
    "start_ratio": 2.0,
    "import_ratio_instructions": 2.0,
    "start_ratio_instructions": 2.0,
    "first_start_ratio_instructions": 2.0,
}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "metrics.toml"


def registry(metrics: int) -> Registry:
    terms = (
        'why = "w"\nowner = "o"\nexpires = 2999-01-01\nevery = "day"\nepsilon_one_report = 1\nepsilon_permanent = 4\n'
    )
    shape = 'kind = "string"\nnum_bits = 128\nnum_hashes = 1\nnum_cohorts = 64\nmax_values = 2\n'
    tables = "".join(f"[metrics.page{i}]\n{shape}{terms}" for i in range(metrics))
    head = 'app = "speed"\nrecipient = { name = "Example", url = "https://telemetry.example.org" }\n'
    return Registry.parse(f"{head}lifetime_epsilon = {8 * metrics}\n{tables}")


def best(call: Callable[[], object], number: int, repeat: int) -> float:
    """Microseconds of CPU a call: the best of many, because this machine is shared."""
    return min(timeit.repeat(call, number=number, repeat=repeat, timer=time.process_time)) / number * 1e6


def respond_cost(number: int = 2000, repeat: int = 20) -> dict[str, float]:
    metric = registry(1)["page0"]
    mask = string_mask("https://example.org/", 7, 128, 1)
    memo = respond(metric, mask, 7, os.urandom).memo
    return {
        "report_memo_known_us": best(lambda: draw_bits(metric, memo, 7, os.urandom), number, repeat),
        "report_memo_new_us": best(lambda: respond(metric, mask, 7, os.urandom), number, repeat),
    }


def record_cost(epochs: int = 400, metrics: int = 6) -> dict[str, float]:
    now = [20_000.0 * DAY]
    looks, idle, later, repeated = [], [], [], []
    with tempfile.TemporaryDirectory() as directory:
        client = Client(
            registry(metrics),
            endpoint="http://127.0.0.1:9",
            state_dir=directory,
            background=False,
            environ={"HUBBUB_MODE": "on"},
            clock=lambda: now[0],
        )
        client.consent(True)
        for epoch in range(epochs):
            now[0] += DAY
            looks.append(_timed(client._timer.look))
            idle.append(_timed(client._timer.look))
            for i in range(metrics):
                spent = _timed(lambda i=i, epoch=epoch: client.record(f"page{i}", f"https://example.org/{epoch % 2}"))
                later.append(spent)
            repeated.append(_timed(lambda: client.record("page0", "https://example.org/")))
        client.forget()
        client.close()
    return {
        "record_median_us": statistics.median(later),
        "record_p99_us": statistics.quantiles(later, n=100)[98],
        "look_first_of_epoch_median_us": statistics.median(looks),
        "look_median_us": statistics.median(idle),
        "record_again_median_us": statistics.median(repeated),
    }


def timer_cost(repeat: int = 200) -> dict[str, float]:
    now = [20_000.0 * DAY + 100]
    with tempfile.TemporaryDirectory() as directory:
        arguments = {"endpoint": "http://127.0.0.1:9", "state_dir": directory, "environ": {"HUBBUB_MODE": "on"}}
        with Client(registry(6), background=False, clock=lambda: now[0], **arguments) as client:
            client.consent(True)
            timer = client._timer
            begin, wakes = now[0], 0
            while now[0] < begin + 3600:
                now[0] = timer.step()
                wakes += 1
            starts = []
            for _ in range(repeat):
                starts.append(_timed(lambda: timers.run(timer)))
                timers.end(timer)
            tracemalloc.start()
            timers.run(timer)
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            timers.end(timer)
    return {
        "timer_start_median_us": statistics.median(starts),
        "timer_wakes_an_hour": wakes,
        "timer_memory_kb": kept / 1000,
    }


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def import_cost(repeat: int = 20) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        statements, environ = _statements(cache)
        fastest = dict.fromkeys(statements, float("inf"))
        for turn in range(repeat + 1):
            for name, statement in statements.items():  # interleaved: a slow minute hits all alike
                spent = _cpu_seconds([sys.executable, "-c", statement], environ)
                if turn:  # the first turn compiles
                    fastest[name] = min(fastest[name], spent)
    stdlib, imported, started, first = _beyond_nothing(fastest)
    return {
        "import_ms": imported * 1e3,
        "start_ms": started * 1e3,
        "import_stdlib_ms": stdlib * 1e3,
        "import_ratio": imported / stdlib,
        "start_ratio": started / stdlib,
        "first_start_ratio": first / stdlib,
    }


def _beyond_nothing(spent: Mapping[str, float]) -> list[float]:
    return [spent[name] - spent["nothing"] for name in ("stdlib", "client", "start", "first start")]


def counted_import_cost() -> dict[str, float]:
    if shutil.which("valgrind") is None:
        return {}
    with tempfile.TemporaryDirectory() as cache:
        statements, environ = _statements(cache)
        spent = {}
        for name, statement in statements.items():
            _cpu_seconds([sys.executable, "-c", statement], environ)  # compiles
            spent[name] = _instructions([sys.executable, "-c", statement], environ)
    stdlib, imported, started, first = _beyond_nothing(spent)
    return {
        "import_ratio_instructions": imported / stdlib,
        "start_ratio_instructions": started / stdlib,
        "first_start_ratio_instructions": first / stdlib,
    }


def _statements(cache: str) -> tuple[dict[str, str], dict[str, str]]:
    """What is run, and in which environment; with a state in this folder, of somebody who agreed."""
    state = {
        "endpoint": "http://127.0.0.1:9",
        "state_dir": f"{cache}/state",
        "environ": {"HUBBUB_MODE": "on"},
        "segments": {"release": "2.1"},
    }
    unasked = {"endpoint": "http://127.0.0.1:9", "state_dir": f"{cache}/unasked", "environ": {"HUBBUB_MODE": "on"}}
    for _ in range(2):  # what the file was parsed to is kept from the second start on
        with Client(EXAMPLE, **state) as client:
            client.consent(True)
    statements = {
        "nothing": "pass",
        "stdlib": "import sqlite3, json, tomllib",
        "client": "from hubbub.client import Client",
        "start": f"from hubbub.client import Client; Client({str(EXAMPLE)!r}, **{state})",
        "first start": f"from hubbub.client import Client; Client({str(EXAMPLE)!r}, **{unasked})",
    }
    # Compiled files as an installed package has them, whatever this environment says of writing them.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": cache}
    return statements, environ


def _instructions(command: list[str], environ: Mapping[str, str]) -> int:
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    same_order = {**environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run([*counting, *command], env=same_order, capture_output=True, text=True, check=True)
    found = re.search(r"I +refs: +([0-9,]+)", run.stderr)
    assert found, run.stderr
    return int(found[1].replace(",", ""))


def _cpu_seconds(command: list[str], environ: dict[str, str]) -> float:
    """What a child process spends, not how long it waits: this machine is shared."""
    quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]  # a first start warns that no release is named
    pid = os.posix_spawn(command[0], command, environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, f"{command} failed"
    return usage.ru_utime + usage.ru_stime


def measure() -> dict[str, float]:
    return {**respond_cost(), **record_cost(), **timer_cost(), **import_cost(), **counted_import_cost()}


def main() -> None:
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        limit = f"   (at most {LIMITS[name]:g})" if name in LIMITS else ""
        print(f"{name:<34}{value:10.2f}{limit}")


if __name__ == "__main__":
    main()
