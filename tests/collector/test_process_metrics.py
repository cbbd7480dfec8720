"""The figures of the process are those that Linux gives, and are left out where it gives none."""

import platform
import resource
import sys
import time
from importlib.metadata import version

import pytest

from hubbub.collector.process_metrics import ProcessMetrics
from tests.collector.test_metrics import samples

BUILD = f'hubbub_build_info{{version="{version("hubbub")}",python="{platform.python_version()}"}}'
TICKS, PAGE = 100, resource.getpagesize()


def test_each_figure_is_its_field_of_proc_also_when_the_name_of_the_program_is_odd(tmp_path):
    fields = [str(number) for number in range(1, 53)]
    fields[1] = "(a) b (c)"
    (tmp_path / "stat").write_text(" ".join(fields))
    (tmp_path / "fd").mkdir()
    for number in range(8):
        (tmp_path / "fd" / str(number)).touch()
    found = samples(ProcessMetrics(tmp_path, wall=lambda: 1e9).text())
    age = 1e9 - found.pop("process_start_time_seconds")
    assert age == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME) - 22 / TICKS, abs=600)
    assert found == {
        BUILD: 1,
        "process_cpu_seconds_total": (14 + 15) / TICKS,
        "process_virtual_memory_bytes": 23,
        "process_resident_memory_bytes": 24 * PAGE,
        "process_open_fds": 7,
        "process_max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_they_are_true_of_this_process(tmp_path):
    metrics = ProcessMetrics()
    before = samples(metrics.text())
    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        after = samples(metrics.text())
    assert after["process_open_fds"] == before["process_open_fds"] + 2
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"] < time.time()
    assert 0 < before["process_cpu_seconds_total"] <= after["process_cpu_seconds_total"] <= time.process_time() + 0.02
    assert PAGE < after["process_resident_memory_bytes"] <= after["process_virtual_memory_bytes"]


def test_where_there_is_no_proc_only_the_program_is_told(tmp_path):
    assert samples(ProcessMetrics(tmp_path / "nothing").text()) == {BUILD: 1}
