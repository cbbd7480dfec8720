"""A client on a full disk: nothing reaches the app, and nothing that was kept is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.install import Install
from tests.client.processes import run_python
from tests.client.registries import clear, clear_metric, metric, source
from tests.client.test_processes import BEGIN, MANY, arguments, end_of_day
from tests.systems import needs_limits

FULL = """
import logging
logging.disable()
client = make(background=False)
FILL
for i in range(200):
    client.record(f"flag_{i}", True)
    client.record("page", "x" * 1000)
client.flush()
client.close()
print(json.dumps([client.mode, client.status().rule, client.status().counts["dropped_state"]]))
"""
LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
"""
FILL = """
import errno
with open(os.path.join(os.path.dirname(state), "ballast"), "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one state and little more."""
    if sys.platform != "linux":
        pytest.skip("only Linux mounts a small file system for the asking")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def a_full_disk_hurts_nobody(install: Install, script: str) -> tuple[str, str]:
    """Mode and rule of an app whose records found no room."""
    asks = clear(*(clear_metric(f"flag_{i}", max_values=1) for i in range(MANY)), clear_metric("page", "string"))
    with install.agreed(asks) as client:
        client.record("flag_7", True)
    mode, rule, dropped = run_python(BEGIN + FULL.replace("FILL", script), *arguments(install))
    assert dropped > 0
    return mode, rule


def test_a_full_disk_never_reaches_the_app_and_loses_nothing_that_was_kept(install: Install, small_disk: Path) -> None:
    install.directory = small_disk / "state"
    mode, rule = a_full_disk_hurts_nobody(install, FILL)
    assert mode == "off"  # the look of the flush found it so; no record decides
    assert "disk" in rule
    (small_disk / "ballast").unlink()
    made = install.client().status().counts["made"]
    bits = end_of_day(install)
    assert (bits[7], len(bits)) == (1, MANY + 1)
    assert sum(bits[:MANY]) in (made, made - 1)  # one of those made may be the page
    install.close()


@needs_limits
def test_a_file_that_may_not_grow_is_a_full_disk_too(install: Install) -> None:
    a_full_disk_hurts_nobody(install, LIMIT)
    bits = end_of_day(install)
    assert (bits[7], len(bits)) == (1, MANY + 1)


def test_a_disk_that_is_full_from_the_start_means_off(install: Install, small_disk: Path) -> None:
    install.directory = small_disk / "state"
    toml = small_disk.parent / "metrics.toml"
    toml.write_text(source(metric("dark_theme")))
    script = BEGIN + "import logging; logging.disable()\n" + FILL
    script += "client = make()\nclient.consent(True)\nclient.record('dark_theme', True)\nprint(json.dumps(client.mode))"
    assert run_python(script, toml, install.directory, install.server.url, install.now) == "off"
    assert list(install.directory.glob("*")) == []
