"""Real processes that end as processes do: killed, forked, spawned, out of disk, in the middle of things."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.client.answering_server import HANG
from tests.client.install import Install, reports_in
from tests.client.processes import PATIENCE, run_file, run_python, start_python
from tests.client.registries import clear, clear_metric, metric, registry
from tests.systems import needs_fork, needs_limits

BEGIN = """
import json, os, sys, threading, time
from hubbub.client import Client
toml, state, endpoint, now = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
def make(**options):
    return Client(toml, state_dir=state, endpoint=endpoint, clock=lambda: now, send_delay=lambda span: 0, **options)
def insist(client, name):
    # Nobody waits for anybody: a record that met a lock is dropped and counted, on a slow machine more often.
    while name not in client._recorder._answered:
        client.record(name, True)
        time.sleep(0.001)  # or four of them keep two cores busy with asking
"""
MANY = 200
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""For tests of many clients, which are not about the disk."""
FLAGS = clear(*(clear_metric(f"flag_{i}", max_values=1, absent="false") for i in range(MANY)))


def arguments(install: Install) -> list[object]:
    toml = install.directory.parent / "metrics.toml"
    toml.write_text(install.registry.source)
    return [toml, install.directory, install.server.url, install.now]


def end_of_day(install: Install) -> list[int]:
    """What arrives of the day that ends: the bits of every report, in the order of the registry."""
    install.server.received.clear()
    install.days(1)
    with install.client() as client:
        client.flush(PATIENCE)
    return [report.bits for report in install.arrived()]


# --- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "os.abort()", "sys.exit(1)", "1 / 0"])
def test_a_record_that_returned_survives_the_end_of_its_process(install: Install, end: str) -> None:
    install.agreed(clear(clear_metric("theme"), clear_metric("beta"))).close()
    for day in range(3):
        script = BEGIN + f"client = make()\nclient.record('theme', {day % 2 == 0})\nprint('recorded')\n" + end
        process = start_python(script, *arguments(install))
        output, _ = process.communicate(timeout=PATIENCE)
        assert output.startswith("recorded\n")
        assert process.returncode != 0 or end == "os._exit(0)"
        assert end_of_day(install) == [day % 2 == 0, 0]


def test_a_process_killed_from_outside_right_after_record_loses_nothing(install: Install) -> None:
    install.agreed(clear(clear_metric("theme"))).close()
    script = BEGIN + "make().record('theme', True)\nprint('recorded')\nsys.stdin.read()"
    process = start_python(script, *arguments(install))
    assert process.stdout.readline() == "recorded\n"
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert end_of_day(install) == [1]


# --- forks ----------------------------------------------------------------------------------------------------------

FORK = """
client = make(background=False)
for fork in range(4):
    child = os.fork()
    for i in range({many}):
        if i % 8 == 2 * fork + (child == 0):
            insist(client, f"flag_{{i}}")
    if child == 0:
        os._exit(0) if fork % 2 else sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@needs_fork
def test_all_records_of_both_sides_of_a_fork_survive(install: Install) -> None:
    install.agreed(FLAGS).close()
    for round_ in range(3):
        run_python(BEGIN + FORK.format(many=MANY), *arguments(install))
        assert end_of_day(install) == [1] * MANY, round_
    counts = install.client().status().counts
    assert (counts["made"], counts["sent"]) == (3 * MANY, 3 * MANY)


@needs_fork
def test_parent_and_child_may_record_at_the_same_time(install: Install) -> None:
    install.agreed(FLAGS).close()
    script = """
client = make(background=False)
child = os.fork()
for i in range(200):
    if i % 2 == (child == 0):
        insist(client, f"flag_{i}")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.close()
"""
    run_python(BEGIN + script, *arguments(install))
    assert end_of_day(install) == [1] * MANY


@needs_fork
def test_threads_that_fork_at_once_neither_lose_records_nor_hang(install: Install) -> None:
    install.agreed(FLAGS).close()
    script = """
import warnings
warnings.simplefilter("ignore")
client = make(background=False)
def fork_and_record(first):
    for i in range(first, 200, 4):
        child = os.fork()
        if child == 0:
            insist(client, f"flag_{i}")
            os._exit(0)
        os.waitpid(child, 0)
        client.status()
threads = [threading.Thread(target=fork_and_record, args=(first,)) for first in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
client.close()
print(json.dumps(client.mode))
"""
    assert run_python(BEGIN + script, *arguments(install)) == "on"
    assert end_of_day(install) == [1] * MANY


@needs_fork
def test_both_sides_of_a_fork_have_a_timer_of_their_own(install: Install) -> None:
    client = install.agreed()
    client.close()
    install.days(1)
    script = """
client = make()
client.flush(30)
def timers():
    return sum(thread.name == "hubbub-timer" and thread.is_alive() for thread in threading.enumerate())
child = os.fork()
if child == 0:
    alone = timers() == 1
    now += 86_400
    done = client.flush(30) and client.status().counts["sent"] == 2
    os._exit(0 if alone and done else 1)
print(json.dumps([os.waitpid(child, 0)[1], timers()]))
"""
    # A fork waits a quarter of a second for the timer; on a busy machine that is too short, and newer Pythons warn.
    quiet = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}
    assert run_python(BEGIN + script, *arguments(install), **quiet) == [0, 1]
    assert len(install.server.bodies) == 2


@needs_fork
def test_a_fork_finds_no_thread_of_ours_so_python_does_not_warn(install: Install) -> None:
    install.agreed().close()
    script = """
import warnings
warnings.simplefilter("error")
client = make()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(json.dumps(client.mode))
"""
    assert run_python(BEGIN + script, *arguments(install)) == "on"


@needs_fork
def test_a_forked_child_drops_what_its_parent_claimed_and_what_waits_in_it(install: Install) -> None:
    install.agreed().close()
    script = """
client = make(background=False)
now += 86_400
client.record("dark_theme", True)
client._timer._held = ["claimed by the parent"]
child = os.fork()
if child == 0:
    timer = client._timer
    os._exit(0 if timer._held == [] and timer.recorder._waiting == {} and timer.step() == now + 1 else 1)
client._timer._held.clear()
print(json.dumps([os.waitpid(child, 0)[1], len(client._recorder._waiting)]))
"""
    assert run_python(BEGIN + script, *arguments(install)) == [0, 1]


@needs_fork
def test_a_child_forked_while_the_sender_waits_for_an_answer_is_not_stuck(install: Install) -> None:
    install.agreed().close()
    install.days(1)
    install.server.answer = lambda body: HANG
    script = """
client = make()
while not client._timer.is_sending():
    time.sleep(0.001)
child = os.fork()
if child == 0:
    client.record("dark_theme", True)
    os._exit(0 if client.status().mode == "on" else 1)
print(json.dumps(os.waitpid(child, 0)[1]))
sys.stdout.flush()
os._exit(0)
"""
    # Since 3.12 Python warns of every fork beside a thread; that ours comes through it is what is shown here.
    assert run_python(BEGIN + script, *arguments(install), PYTHONWARNINGS="ignore::DeprecationWarning") == 0


# --- many at once ---------------------------------------------------------------------------------------------------


def test_spawned_workers_share_the_state(install: Install, tmp_path: Path) -> None:
    install.agreed(FLAGS).close()
    app = tmp_path / "app.py"
    app.write_text(
        BEGIN
        + """
import multiprocessing
def work(first):
    with make() as client:
        for i in range(first, 200, 4):
            insist(client, f"flag_{i}")
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.map(work, range(4))
"""
    )
    run_file(app, *arguments(install))
    assert end_of_day(install) == [1] * MANY


def test_processes_that_meet_at_the_very_first_start_make_one_install(install: Install) -> None:
    install.registry = clear(clear_metric("page", "string", num_cohorts=64), clear_metric("theme"))
    script = BEGIN + "client = make()\nclient.consent(True)\nnow += 86_400\n"
    script += "while client._timer._looked_at != now: client.flush()\ninsist(client, 'theme')"
    told = arguments(install)  # once: it writes the registry that they read
    processes = [start_python(script, *told) for _ in range(6)]
    for process in processes:
        output, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, output) == (0, "")
    # Where two of them end at the same moment, each leaves SQLite's log to the other. What was parsed is kept by those
    # that began when somebody had agreed.
    left = {path.name for path in install.directory.iterdir()} - {"state.db-wal", "state.db-shm", "metrics.json"}
    assert left == {"state.db"}
    install.days(1)
    assert end_of_day(install) == [0, 1]
    assert install.client().status().counts["made"] == 2


def test_eight_threads_of_one_client_make_one_report_for_each_metric(install: Install) -> None:
    client = install.agreed(FLAGS)
    finished = []

    def record_all() -> None:
        recorder = client._recorder
        for asked in FLAGS:
            while asked.name not in recorder._answered:  # dropped where threads met: once more
                client.record(asked.name, True)
        finished.append(True)

    threads = [threading.Thread(target=record_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert finished == [True] * 8
    assert client.status().counts["made"] == MANY
    assert end_of_day(install) == [1] * MANY


COUNTS_FILES = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")


def run_clients(install: Install, number: int) -> int:
    """So many installs in one process, all alive at once: a day, its end, delivery. Returns the files left open."""
    asks = registry(metric("theme"), metric("page", "string"))
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        before = len(list(Path("/proc/self/fd").iterdir()))
        clients = [install.client(asks, state_dir=Path(directory, str(i))) for i in range(number)]
        for client in clients:
            client.consent(True)
        install.days(1)
        for i, client in enumerate(clients):
            client.record("page", f"page {i % 7}")
        install.days(1)
        for client in clients:
            assert client.flush()
        assert all(client.mode == "on" for client in clients)
        assert threading.active_count() < 20
        for client in clients:
            client.close()
        install.clients.clear()
        return len(list(Path("/proc/self/fd").iterdir())) - before


def assert_all_arrived(install: Install, number: int) -> None:
    ids = {body[8:24] for body in install.server.bodies}
    assert len(ids) == len(install.server.bodies) == number
    counted = Counter(report.metric.name for report in reports_in(install.server.bodies, install.registry))
    assert counted == {"theme": number, "page": number}


@COUNTS_FILES
def test_three_hundred_clients_in_one_process_deliver_and_leave_no_file_open(install: Install) -> None:
    assert run_clients(install, 300) <= 5  # connections that the server has not yet closed
    assert_all_arrived(install, 300)


@COUNTS_FILES
@pytest.mark.proof
def test_five_thousand_clients_in_one_process_deliver_and_leave_no_file_open(install: Install, figure) -> None:
    left = run_clients(install, 5000)
    assert left <= 5
    assert_all_arrived(install, 5000)
    figure("clients in one process, all alive at once", f"5000, {len(install.server.bodies)} messages delivered")


@needs_limits
def test_clients_need_few_files_whatever_the_limit_is(install: Install) -> None:
    script = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
def one(i):
    return Client(toml, state_dir=f"{state}/{i}", endpoint=endpoint, background=False, clock=lambda: now)
clients = [one(i) for i in range(120)]  # three files each, if all were kept open
for client in clients: client.consent(True)
now += 86_400
for client in clients: client.flush()
for client in clients: client.record("dark_theme", True)
print(json.dumps([sum(client.status().counts["made"] for client in clients), *{client.mode for client in clients}]))
"""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        install.directory = Path(directory, "state")
        assert run_python(BEGIN + script, *arguments(install)) == [120, "on"]


@needs_limits
def test_an_app_without_a_file_to_spare_is_not_hurt(install: Install) -> None:
    install.agreed().close()
    install.days(1)
    script = """
import io, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
client = make(background=False)
client._state.close()
sys.stderr = io.StringIO()
taken = []
try:
    while True:
        taken.append(open(os.devnull))
except OSError:
    pass
now += 86_400
client.record("dark_theme", True)
client.record("dark_theme", True)
client.flush()
client.preview()
client.consent(True)
told = client.status()
taken.clear()
client.close()
print(json.dumps([told.mode, told.counts, sys.stderr.getvalue()]))
"""
    mode, counts, warned = run_python(BEGIN + script, *arguments(install))
    assert (mode, counts["dropped_state"]) == ("off", 2)
    assert "Too many open files" in warned  # `logging` could not be loaded now, and need not be
