"""Kept reports give the counts again, bit for bit, whoever counts them; a file that is not one is refused in words."""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from hubbub.analysis.engines.engine import engine_from
from hubbub.analysis.recounting import recount, report_files
from hubbub.collector.storage.kept_reports import write_closed
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally import Tally, count
from hubbub.protocol.tally_files import Wanted, read_tallies, write_tallies
from tests.analysis.engines.clusters import ROOT, dask, spark
from tests.analysis.engines.work import Killing
from tests.collector.kit import REGISTRY, random_report

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
METRICS = list(REGISTRY)
EPOCHS = (20_700, 20_701)


class Kept:
    """Reports as a collector has them until their epoch closes."""

    def __init__(self, reports):
        self.reports = reports

    def kept_epochs(self):
        return sorted({(report.metric.metric_hash, report.epoch) for report in self.reports})

    def kept_reports(self, key):
        chosen = [report for report in self.reports if (report.metric.metric_hash, report.epoch) == key]
        metric = chosen[0].metric
        return [
            (
                b"".join(report.cohort.to_bytes(metric.cohort_bytes, "little") for report in chosen),
                b"".join(report.bits.to_bytes(metric.vector_bytes(report.cohort), "little") for report in chosen),
            )
        ]

    def drop_kept(self, key):
        pass


@pytest.fixture(scope="module")
def made():
    """Reports of every kind, some of several databases of one store."""
    random = Random(1)
    return [
        [random_report(metric, epoch, random) for metric in METRICS for epoch in EPOCHS for _ in range(150)]
        for _ in range(2)
    ]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    place = tmp_path_factory.mktemp("kept") / "reports"
    definitions = {metric.metric_hash: metric for metric in METRICS}
    for number, reports in enumerate(made, 1):
        write_closed(Kept(reports), dict.fromkeys(definitions, 30_000), definitions, place / f"database-{number}")
    return place


def expected(made, epochs=EPOCHS):
    reports = [report for some in made for report in some if report.epoch in epochs]
    return {m.name: count(m, [report for report in reports if report.metric is m]).epochs for m in METRICS}


def as_epochs(tallies):
    return {tally.metric.name: tally.epochs for tally in tallies}


def test_kept_reports_of_every_kind_give_the_counts_again(made, folder):
    (found,) = recount([folder], engine_from("local:1"))
    assert as_epochs(found) == expected(made)
    (one,) = recount([folder], engine_from("local:1"), Wanted(start="2026-09-05", end="2026-09-05"))
    daily = [metric.name for metric in METRICS if metric.every == "day"]
    wanted = expected(made, [EPOCHS[1]])
    assert {name: epochs for name, epochs in as_epochs(one).items() if name in daily} == {n: wanted[n] for n in daily}


@pytest.mark.parametrize("parts", [2, 7])
def test_parts_are_samples_of_their_own_that_add_up(made, folder, parts):
    found = recount([folder], engine_from("local:1"), parts=parts)
    sums = found[0]
    for more in found[1:]:
        sums = [a + b for a, b in zip(sums, more, strict=True)]
    assert as_epochs(sums) == expected(made)
    sizes = [tally.num_reports for part in found for tally in part]
    assert max(sizes) - min(sizes) <= 2 * len(EPOCHS), "rows are dealt out evenly in each file"


def test_processes_of_which_one_is_killed_count_the_same(made, folder, tmp_path):
    """A cluster goes through the same door, which test_engines.py and test_long_lists.py open with one."""
    here = recount([folder], engine_from("local:1"), parts=3)
    told: list[float] = []
    local = engine_from("local:2")
    try:
        killing = Killing(local, tmp_path / "killed", at=1)
        assert recount([folder], killing, parts=3, progress=told.append) == here
    finally:
        local.close()
    assert (tmp_path / "killed").exists()
    assert told == [n / len(report_files([folder])) for n in range(1, 1 + len(report_files([folder])))]


@pytest.mark.proof
def test_a_cluster_that_loses_a_worker_counts_the_same(made, folder, tmp_path, figure):
    here = recount([folder], engine_from("local:1"), parts=3)
    with dask(tmp_path, workers=2) as address:
        cluster = engine_from(address)
        try:
            assert recount([folder], Killing(cluster, tmp_path / "killed", at=1), parts=3) == here
        finally:
            cluster.close()
    assert (tmp_path / "killed").exists()
    figure("recount on Dask, one of two workers killed", f"{len(report_files([folder]))} files, the same counts")


@pytest.mark.proof
def test_two_workers_of_spark_write_the_same_bytes(folder, tmp_path, monkeypatch, figure):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with spark(tmp_path, workers=2) as (address, _):
        for engine, out in (("local:1", "here"), (address, "there")):
            words = ["recount", str(folder), "--engine", engine, "--out", str(tmp_path / out)]
            subprocess.run([sys.executable, "-m", "hubbub.command", *words], check=True, cwd=ROOT)
    here, there = ({p.name: p.read_bytes() for p in (tmp_path / out).iterdir()} for out in ("here", "there"))
    assert here == there
    figure("recount on Spark, two workers", f"{len(report_files([folder]))} files, the same bytes as one process")


def test_the_command_audits_counts(made, folder, tmp_path, capsys):
    right = [Tally(m, epochs) for m, epochs in ((REGISTRY[n], e) for n, e in expected(made).items())]
    write_tallies(right, tmp_path / "right")
    assert main(["recount", str(folder), "--against", str(tmp_path / "right"), "--out", str(tmp_path / "out")]) == 0
    assert "agree, bit for bit, in 16 periods" in capsys.readouterr().out
    assert as_epochs(read_tallies(tmp_path / "out")) == expected(made)
    wrong = json.loads((tmp_path / "right" / "country.json").read_text())
    wrong["epochs"][0]["bit_counts"][0][3] -= 1
    wrong["epochs"][1]["num_reports"][0] += 1
    (tmp_path / "right" / "country.json").write_text(json.dumps(wrong))
    (tmp_path / "right" / "language.json").unlink()
    assert main(["recount", str(folder), "--against", str(tmp_path / "right")]) == 1
    said = capsys.readouterr().out
    assert "country 2026-09-04: as many reports, 300, but other bits\n" in said
    assert "country 2026-09-05: 300 reports kept, 301 counted\n" in said
    assert "language 2026-09-04: 300 reports kept, no counts there\n" in said
    assert "4 of 16 periods differ." in said


def test_the_command_deals_out_parts(folder, tmp_path, capsys):
    words = ["recount", str(folder), "--metric", "homepage", "--parts", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    assert capsys.readouterr().out.split("\n")[1].split() == [
        "homepage",
        "2026-09-04",
        "to",
        "2026-09-05",
        "300",
        "300",
    ]
    assert [len(read_tallies(tmp_path / f"part-{n}")) for n in (1, 2)] == [1, 1]
    assert main([*words, "--against", str(tmp_path)]) == 2
    assert "--parts must be 1, got 2" in capsys.readouterr().err


def rewritten(folder, tmp_path, change):
    """A file with one thing changed."""
    (source,) = (path for path in (folder / "database-1").rglob("2026-09-04.parquet") if "country" in str(path))
    table = change(pq.read_table(source))
    pq.write_table(table, tmp_path / "other.parquet")
    return tmp_path / "other.parquet"


def with_metadata(**changes):
    return lambda table: table.replace_schema_metadata(
        {**table.schema.metadata, **{key.encode(): text.encode() for key, text in changes.items()}}
    )


def with_row(cohort, bits):
    def change(table):
        cohorts, vectors = table.column("cohort").to_pylist(), table.column("bits").to_pylist()
        cohorts[7], vectors[7] = cohort, bits
        columns = {"cohort": pa.array(cohorts, pa.uint16()), "bits": pa.array(vectors, pa.binary())}
        return pa.table(columns).replace_schema_metadata(table.schema.metadata)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_metadata(metric_hash="0" * 32), "metric_hash must be .*, that of its metric, got '0000"),
        (with_metadata(epoch="soon"), "metric and epoch must be those of kept reports"),
        (with_metadata(metric="{}"), "metric and epoch must be those of kept reports"),
        (with_row(9, bytes(5)), "row 7 must be a report of country, got cohort 9 with 5 bytes"),
        (with_row(0, bytes(4)), "row 7 must be a report of country, got cohort 0 with 4 bytes"),
        (lambda table: table.drop(["cohort"]), "must be a collector's file of kept reports"),
        (lambda table: table.replace_schema_metadata(None), "must be a collector's file of kept reports"),
    ],
)
def test_a_file_that_no_collector_wrote_is_refused_by_its_name(folder, tmp_path, change, words):
    path = rewritten(folder, tmp_path, change)
    with pytest.raises(Invalid, match=words) as refused:
        recount([path], engine_from("local:1"))
    assert str(refused.value).startswith(str(path))


def test_bits_beyond_a_width_are_refused(folder, tmp_path):
    metric = REGISTRY["parity"]  # one bit, in a byte
    (source, *_) = (folder / "database-1").rglob(f"parity-{metric.metric_hash[:8]}/*.parquet")
    table = pq.read_table(source)
    columns = {"cohort": table.column("cohort"), "bits": pa.array([b"\x02"] * len(table), pa.binary())}
    pq.write_table(pa.table(columns).replace_schema_metadata(table.schema.metadata), tmp_path / "wide.parquet")
    with pytest.raises(Invalid, match="row 0 must be a report of parity"):
        recount([tmp_path / "wide.parquet"], engine_from("local:1"))


def test_what_is_no_file_of_reports_is_refused(folder, tmp_path):
    for place, words in (
        (tmp_path, "must hold kept reports, got no file that ends in .parquet"),
        (os.devnull, "must be Parquet"),
    ):
        with pytest.raises(Invalid, match=words):
            recount([place], engine_from("local:1"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        report_files([tmp_path / "nowhere"])
    with pytest.raises(Invalid, match="must be named once, or its reports would count twice"):
        report_files([folder, next(folder.rglob("*.parquet"))])
    with pytest.raises(Invalid, match=r"parts must be in \[1, 1000\], got 0"):
        recount([folder], engine_from("local:1"), parts=0)
