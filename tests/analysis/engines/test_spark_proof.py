"""Spark keeps the promise of every engine, with a cluster of two workers. Needs Java 17 and pyspark; says so if not."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.analysis.engines.clusters import ROOT, spark

# In a process of its own, because pyspark's Java process lives as long as the one that started it.
CODE = """
import sys
from pathlib import Path
from hubbub.analysis.engines.engine import engine_from
from tests.analysis.engines.work import check_promise
engine = engine_from(sys.argv[1])
check_promise(engine, Path(sys.argv[2]))
engine.close()
"""


@pytest.mark.proof
def test_spark_keeps_the_order_and_survives_a_death(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with spark(tmp_path, workers=2) as (address, _):
        subprocess.run([sys.executable, "-c", CODE, address, str(tmp_path)], check=True, cwd=ROOT)


@pytest.mark.proof
def test_a_master_that_is_not_there_is_named(monkeypatch):
    """After a minute: so long Spark itself tries."""
    pytest.importorskip("pyspark", reason="needs pyspark (pip install 'hubbub[spark]')")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17, and there is no java on the path")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    code = "from hubbub.analysis.engines.engine import engine_from; engine_from('spark://127.0.0.1:1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "Invalid: engine spark://127.0.0.1:1: no Spark master answers there" in done.stderr
