"""Clusters on loopback, of processes of their own: a Dask scheduler with workers, Spark's master with workers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def dask(folder: Path, workers: int) -> Iterator[str]:
    """The address of a scheduler with so many workers, each a process without a keeper: what is killed stays dead."""
    distributed = pytest.importorskip("distributed")
    command = [sys.executable, "-m", "dask"]
    quiet = ["--no-dashboard", "--host", "127.0.0.1"]
    # Workers import the functions of tests, too.
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    # Who asks a worker that has just died for a result tries to reach it for as long as this; else 30 seconds.
    environ["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "5s"
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "dask.log").open("wb") as log:
        where = {"env": environ, "cwd": folder, "stdout": log, "stderr": log}
        try:
            scheduler = subprocess.Popen(
                [*command, "scheduler", *quiet, "--port", "0", "--scheduler-file", "dask.json"],
                **where,  # type: ignore[call-overload]
            )
            started.append(scheduler)
            for place in range(workers):
                one = ["--scheduler-file", "dask.json", "--no-nanny", "--nthreads", "1"]
                one += ["--local-directory", str(folder / f"worker{place}")]
                started.append(subprocess.Popen([*command, "worker", *quiet, *one], **where))  # type: ignore[call-overload]
            with distributed.Client(scheduler_file=str(folder / "dask.json"), set_as_default=False) as client:
                client.wait_for_workers(workers, timeout="120s")
                address = client.scheduler.address
            yield address
        finally:
            for process in started:
                process.kill()
            for process in started:
                process.wait()


@contextmanager
def spark(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of Spark's own master with so many workers of one core, and the workers: each a process group with
    the executors it starts, so that `kill_worker` ends all of it."""
    pyspark = pytest.importorskip("pyspark", reason="needs pyspark (pip install 'hubbub[spark]')")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17, and there is no java on the path")
    launch = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    environ |= {"OPENBLAS_NUM_THREADS": "1", "SPARK_NO_DAEMONIZE": "1"}
    started: list[subprocess.Popen[bytes]] = []

    def run(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [*launch, *arguments], env=environ, cwd=folder, stdout=log, stderr=log, start_new_session=True
                )
            )

    try:
        deploy = "org.apache.spark.deploy"
        run("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = _said(folder / "master.log", r"Starting Spark master at (spark://\S+)")
        for place in range(workers):
            one = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            run(f"worker{place}", f"{deploy}.worker.Worker", *one, "--work-dir", str(folder / f"work{place}"), address)
            _said(folder / f"worker{place}.log", r"(Successfully registered with master)")
        yield address, started[1:]
    finally:
        for process in started:
            kill_worker(process)


def kill_worker(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a worker and all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _said(log: Path, pattern: str) -> str:
    """What a server writes once it is ready, as soon as it does."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"{log} does not say {pattern}: {log.read_text(encoding='utf-8', errors='replace')}")
