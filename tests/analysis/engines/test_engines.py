"""Every engine keeps the one promise: results in item order, also where a worker is killed; words for what is amiss."""

from __future__ import annotations

import sys

import pytest

from hubbub.analysis.engines import engine
from hubbub.analysis.engines.engine import LostTooOften, engine_from
from hubbub.analysis.engines.local import MOST_DEATHS
from hubbub.protocol.invalid import Invalid
from tests.analysis.engines.clusters import dask
from tests.analysis.engines.work import Task, check_promise, die, fail, refuse, square


@pytest.mark.parametrize(
    "text",
    [
        "",
        "locale",
        "local:",
        "local:-1",
        "local:x",
        "tcp://",
        "tcp://host",
        "spark://host",
        "http://host:1",
        "local:2 ",
    ],
)
def test_an_engine_that_there_is_not_is_refused_with_the_forms_there_are(text):
    with pytest.raises(Invalid) as refused:
        engine_from(text)
    assert str(refused.value) == f"engine must be {engine.FORMS}, got {text!r}"


def test_no_process_at_all_is_refused():
    with pytest.raises(Invalid, match="engine local:N needs at least 1 process, got 'local:0'"):
        engine_from("local:0")


@pytest.mark.parametrize(
    ("text", "module", "extra"),
    [
        ("tcp://127.0.0.1:1", "distributed", "dask"),
        ("spark://127.0.0.1:1", "pyspark", "spark"),
        ("local-spark", "pyspark", "spark"),
    ],
)
def test_a_missing_library_is_named_with_what_to_install(monkeypatch, text, module, extra):
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name == module:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(Invalid) as refused:
        engine_from(text)
    assert str(refused.value) == f"needs {module}, which is not installed: pip install 'hubbub[{extra}]'"


def test_one_process_runs_here_and_one_item_at_a_time():
    here = engine_from("local:1")
    seen: list[int] = []
    found = here.map(lambda number: seen.append(number) or number, [3, 1, 2])
    assert (next(found), seen) == (3, [3])
    assert [*found] == [1, 2]
    here.close()


def test_processes_keep_the_order_and_survive_the_death_of_one(tmp_path):
    local = engine_from("local:2")
    try:
        check_promise(local, tmp_path)
        with pytest.raises(ZeroDivisionError):
            list(local.map(fail, [Task(1)]))
        assert list(local.map(square, [Task(4)])) == [16]  # an error of the function breaks nothing
    finally:
        local.close()


def test_an_item_that_kills_every_worker_ends_in_words():
    local = engine_from("local:2")
    try:
        with pytest.raises(LostTooOften) as lost:
            list(local.map(die, [Task(1)]))
    finally:
        local.close()
    assert str(lost.value).startswith(
        f"engine local:2: workers died {MOST_DEATHS + 1} times in a row, the last at item 1 of 1"
    )


def test_dask_keeps_the_order_and_survives_the_death_of_one_of_two_workers(tmp_path):
    with dask(tmp_path, workers=2) as address:
        cluster = engine_from(address)
        try:
            check_promise(cluster, tmp_path)
        finally:
            cluster.close()


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("hubbub.analysis.engines.dask._PATIENCE", "1s")
    with pytest.raises(Invalid, match=r"engine tcp://127\.0\.0\.1:1: no Dask scheduler answers there"):
        engine_from("tcp://127.0.0.1:1")


def test_this_process_refuses_in_its_own_words():
    with pytest.raises(Invalid, match="number must be even, got 3"):
        list(engine_from("local:1").map(refuse, [Task(3)]))
