"""Ten million candidates in twenty files: one process, two, two workers of Dask and two of Spark, one of which is
killed: the same bytes, and under a gigabyte. Spark needs Java 17 and pyspark; where they are missing it says so.
A hundred million in one file, which takes 2.2 GB of disk: one process, under a gigabyte, in half an hour of one core.

What one process finds is kept for as long as the code that finds it is the same, so that a proof that was interrupted
goes on with the next engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.analysis.engines.clusters import ROOT, dask, kill_worker, spark
from tests.analysis.long_lists import tally_with, text, write_text

TOTAL, FILES = 10_000_000, 20
MORE = 100_000_000
GIGABYTE = 10**6  # kilobytes, as the kernel counts them


def held(total: int) -> list[int]:
    """Fifty strings, all over a list."""
    return [total * place // 50 + place for place in range(50)]


CODE = """
import sys
from pathlib import Path
from hubbub.analysis import decode_lists, engine_from, read_tallies
from hubbub.analysis.render.export import to_json
from tests.analysis.engines.work import Killing
address, folder, mark, out, itself = sys.argv[1:]
engine = Killing(engine_from(address), Path(mark), 4, itself == "itself")
(tally,) = read_tallies(f"{folder}/tally.json")
Path(out).write_text(to_json([decode_lists(tally, f"{folder}/lists", engine=engine)]), encoding="utf-8")
engine.close()
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "tally.json").write_text(tally_with(held(TOTAL), 3_000_000, num_cohorts=128, seed=9).to_json())
    (folder / "lists").mkdir()
    size = TOTAL // FILES
    for place in range(FILES):
        write_text(folder / "lists" / f"{place:02}.txt", range(place * size, (place + 1) * size))
    return folder


@pytest.fixture(scope="module")
def alone(world, pytestconfig):
    """The bytes of one process, what it took and how much memory."""
    kept = Path(pytestconfig.cache.mkdir("long-lists")) / source_digest()
    if not kept.exists():
        found, seconds, memory = decoded(world, "local:1")
        unfinished = kept.with_suffix(".part")
        unfinished.write_text(json.dumps([found.decode(), seconds, memory]), encoding="utf-8")
        unfinished.replace(kept)
    found, seconds, memory = json.loads(kept.read_text(encoding="utf-8"))
    return found.encode(), seconds, memory


def source_digest() -> str:
    """Of the code that decodes, and of what makes the lists."""
    digest = hashlib.sha256()
    for folder in ("client/hubbub/protocol", "analysis/hubbub/analysis"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    for path in (Path(__file__), ROOT / "tests/analysis/long_lists.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def decoded(folder: Path, engine: str) -> tuple[bytes, float, int]:
    """What was found, the processor time and the most memory of any process."""
    out = folder / "found.json"
    command = ["-m", "hubbub.command", "decode", folder / "tally.json", "--candidates", folder / "lists"]
    process = subprocess.Popen([sys.executable, *map(str, command), "--engine", engine, "--out", str(out)], cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return out.read_bytes(), used.ru_utime + used.ru_stime, used.ru_maxrss


@pytest.mark.proof
def test_one_process_needs_less_than_a_gigabyte_and_ninety_seconds(alone, figure):
    _, seconds, memory = alone
    figure("10^7 candidates in 20 files, one process", f"{seconds:.0f} CPU s, at most {memory / 1000:.0f} MB")
    assert memory < GIGABYTE
    assert seconds <= 90


@pytest.mark.proof
def test_a_hundred_million_in_one_file_need_less_than_a_gigabyte_and_half_an_hour(tmp_path, figure):
    (tmp_path / "tally.json").write_text(tally_with(held(MORE), 3_000_000, num_cohorts=128, seed=9).to_json())
    (tmp_path / "lists").mkdir()
    write_text(tmp_path / "lists" / "all.txt", range(MORE))
    found, seconds, memory = decoded(tmp_path, "local:1")
    (tmp_path / "lists" / "all.txt").unlink()
    (decoding,) = json.loads(found)
    right = [row["value"] in {text(number) for number in held(MORE)} for row in decoding["rows"] if row["detected"]]
    figure("10^8 candidates in one file, one process", f"{seconds:.0f} CPU s, at most {memory / 1000:.0f} MB")
    figure("of 50 strings held, detected", f"{sum(right)}, and {len(right) - sum(right)} that nobody holds")
    assert len(right) >= 20
    assert all(right)
    assert memory < GIGABYTE
    assert seconds <= 1800


@pytest.mark.proof
def test_two_processes_give_the_same_bytes(world, alone, figure):
    found, seconds, memory = decoded(world, "local:2")
    figure("two processes", f"{seconds:.0f} CPU s, at most {memory / 1000:.0f} MB in any")
    assert found == alone[0]
    assert memory < GIGABYTE


@pytest.mark.proof
def test_two_workers_of_dask_of_which_one_is_killed_give_the_same_bytes(world, alone, tmp_path, figure):
    start = time.monotonic()
    with dask(tmp_path, workers=2) as address:
        arguments = [address, world, tmp_path / "mark", tmp_path / "found.json", "itself"]
        subprocess.run([sys.executable, "-c", CODE, *map(str, arguments)], check=True, cwd=ROOT)
    assert (tmp_path / "mark").exists()
    figure("Dask, two workers, one killed in pass 4", f"{time.monotonic() - start:.0f} s")
    assert (tmp_path / "found.json").read_bytes() == alone[0]


@pytest.mark.proof
def test_two_workers_of_spark_of_which_one_is_killed_give_the_same_bytes(world, alone, tmp_path, monkeypatch, figure):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    start = time.monotonic()
    with spark(tmp_path, workers=2) as (address, workers):
        arguments = [address, world, tmp_path / "mark", tmp_path / "found.json", "others"]
        driver = subprocess.Popen([sys.executable, "-c", CODE, *map(str, arguments)], cwd=ROOT)
        while not (tmp_path / "mark").exists():
            assert driver.poll() is None, "the driver ended before a worker could be killed"
            time.sleep(0.05)
        kill_worker(workers[0])
        assert driver.wait() == 0
    figure("Spark, two workers, one killed in pass 4", f"{time.monotonic() - start:.0f} s")
    assert (tmp_path / "found.json").read_bytes() == alone[0]
