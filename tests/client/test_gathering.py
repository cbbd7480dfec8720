"""Metrics that accumulate: what the records of an epoch come to, and that the plain value is gone when it is over."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hubbub.client import Registry, state
from hubbub.client.epochs import discard_unsent
from hubbub.client.state import Busy, State
from hubbub.protocol.label import words
from tests.client.install import Install
from tests.client.processes import hubbub, run_python, start_python
from tests.client.registries import clear, clear_metric, metric, registry

BUCKETS = {"edges": "[0, 10, 100, 1000]", "buckets_per_report": 3}
EXPORTS = registry(metric("exports", "histogram", accumulate='"sum"', max_values=3, **BUCKETS))
TRACE = 987_654_321.125
"""A number whose digits turn up nowhere by chance."""
WRITTEN = str(Fraction(TRACE)).encode()


def accumulating(how: str, kind: str = "histogram", **keys: object) -> Registry:
    more = BUCKETS if kind == "histogram" else {}
    return clear(clear_metric("asked", kind, accumulate=f'"{how}"', **{**more, **keys}))


def bits_after(install: Install, asks: Registry, values: list[object]) -> int:
    """The report of a day on which these were recorded, all but without noise."""
    client = install.agreed(asks)
    for value in values:
        client.record("asked", value)
    install.days(1)
    client.flush()
    (report,) = install.arrived()
    return report.bits


# --- what counts ----------------------------------------------------------------------------------------------------

NOTHING, LOW, MIDDLE, HIGH = 0, 0b001, 0b010, 0b100


@pytest.mark.parametrize(
    ("how", "values", "bits"),
    [
        ("sum", [5, 4.5], LOW),
        ("sum", [5, 4.5, 0.5], MIDDLE),
        ("sum", [0.1] * 10 + [9], MIDDLE),
        ("sum", [np.float64(99.5), np.int64(1)], HIGH),
        ("sum", [], LOW),  # nothing added is 0
        ("max", [50, 3, 20], MIDDLE),
        ("max", [50, 200, 3], HIGH),
        ("max", [], NOTHING),
        ("last", [500, 50, 5], LOW),
        ("last", [5, 500], HIGH),
        ("last", [], NOTHING),
        ("first", [5, 500], LOW),
    ],
)
def test_of_several_numbers_their_sum_the_largest_or_the_last_counts(install, how, values, bits) -> None:
    assert bits_after(install, accumulating(how), values) == bits


@pytest.mark.parametrize(
    ("how", "values", "bits"),
    [
        ("any", [False, True, False], 1),
        ("any", [np.False_, np.True_], 1),
        ("any", [False, False], 0),
        ("any", [], 0),
        ("last", [True, False], 0),
        ("last", [False, True], 1),
    ],
)
def test_of_several_flags_any_yes_or_the_last_counts(install, how, values, bits) -> None:
    assert bits_after(install, accumulating(how, "flag"), values) == bits


def test_of_several_choices_the_last_counts(install: Install) -> None:
    asks = accumulating("last", "choice", max_values=4)
    assert bits_after(install, asks, ["blue", "red", "green"]) == 0b0010


def test_a_sum_beyond_the_limits_counts_as_their_end(install: Install) -> None:
    assert bits_after(install, accumulating("sum"), [900, 900]) == HIGH
    assert install.client().status().counts["clamped"] == 1


def test_every_epoch_begins_with_nothing(install: Install) -> None:
    client = install.agreed(accumulating("sum"))
    for amount in (50, 5, 0):
        client.add("asked", amount)
        install.days(1)
    client.flush()
    assert [report.bits for report in install.arrived()] == [MIDDLE, LOW, LOW]


def test_records_and_reports_are_counted_each_by_its_name(install: Install) -> None:
    client = install.agreed(EXPORTS)
    client.add("exports")
    client.add("exports", 3)
    assert client.status().counts == {"gathered": 2}
    install.days(1)
    assert client.status().counts == {"gathered": 2, "made": 1}
    install.days(1)
    assert client.status().counts == {"gathered": 2, "made": 2}  # nothing added is an answer, and not absent


def test_what_comes_before_the_epoch_is_opened_is_added_up_as_well(install: Install) -> None:
    client = install.agreed(accumulating("sum"))
    install.now = (install.now // 86_400 + 1) * 86_400 + 1  # nobody has looked since midnight
    for _ in range(11):
        client.add("asked")
    install.look()
    client.add("asked", 0)
    assert client.status().gathered == {"asked": "11"}
    assert client.status().counts["gathered"] == 12


def test_a_metric_that_an_upgrade_redefines_takes_nothing_over(install: Install) -> None:
    client = install.agreed(accumulating("sum"))
    client.add("asked", 50)
    client.close()
    changed = accumulating("max")
    client = install.client(changed)
    client.consent(True)
    install.days(1)
    install.days(1)
    client.flush()
    assert install.client().status().gathered == {}
    assert [report.bits for report in install.arrived()] == [NOTHING]


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "amount", "sentence"),
    [
        ("exports", -1, 'the value must be at least 0 where accumulate = "sum", got a negative number'),
        ("exports", "many", "the value must be a number, got str"),
        ("exports", float("nan"), "the value must be a finite number, got NaN or an infinity"),
        ("dark_theme", 1, 'needs a metric with accumulate = "sum", got "first"'),
    ],
)
def test_a_wrong_amount_is_refused_in_words_and_counted(install: Install, name, amount, sentence, caplog) -> None:
    asks = registry(metric("exports", "histogram", accumulate='"sum"', max_values=3), metric("dark_theme"))
    client = install.agreed(asks)
    client.add(name, amount)
    assert [record.message for record in caplog.records] == [f"add({name!r}): {sentence}"]
    assert client.status().counts == {"wrong_value": 1}
    with pytest.raises(ValueError, match="add"):
        install.client(strict=True).add(name, amount)


def test_a_second_value_where_the_first_counts_is_said_once(install: Install, caplog) -> None:
    client = install.agreed()
    for value in (True, True, False, False, True):
        client.record("dark_theme", value)
    assert client.status().counts == {"made": 1, "repeated": 2, "ignored_later": 2}
    (said,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == (
        "record('dark_theme'): only the first value of an epoch counts, and this is another one; the registry's key "
        "accumulate (last, any) would use it"
    )


# --- threads and processes ------------------------------------------------------------------------------------------

AN_APP_THAT_COUNTS = """
import sys
from hubbub.client import Client
from hubbub.client.state import Busy
registry, state, now = sys.argv[1:]
environ = {"HUBBUB_MODE": "on"}
client = Client(registry, state_dir=state, endpoint="http://127.0.0.1:9", clock=lambda: float(now), environ=environ)
print("ready", flush=True)
while True:
    try:
        print(client._recorder.record(client.registry["exports"], 1, float(now)), flush=True)
    except Busy:
        pass
"""


def test_threads_and_processes_add_to_one_sum_and_a_kill_loses_nothing_that_was_taken(
    install: Install, tmp_path: Path
) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(EXPORTS.source)
    client = install.agreed(EXPORTS)
    apps = [start_python(AN_APP_THAT_COUNTS, toml, install.directory, install.now) for _ in range(2)]
    taken: list[str] = []
    for app in apps:
        assert app.stdout is not None
        assert app.stdout.readline() == "ready\n"

    def add() -> None:
        for _ in range(50):
            with suppress(Busy):
                taken.append(client._recorder.record(EXPORTS["exports"], 1, install.now))

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for app in apps:
        assert app.stdout is not None
        lines = [app.stdout.readline() for _ in range(50)]
        app.kill()
        lines += app.stdout.readlines()
        app.communicate()
        taken += [line.strip() for line in lines if line.endswith("\n")]
    assert set(taken) == {"gathered"}
    # Each of the two may have been killed after its last amount was taken and before it could say so.
    assert len(taken) <= int(client.status().gathered["exports"]) <= len(taken) + 2


# --- the plain value ------------------------------------------------------------------------------------------------


def files_of(install: Install) -> bytes:
    """As another process finds them: to open the files here would end SQLite's locks."""
    script = (
        "import sys, pathlib\nprint(repr(b''.join(p.read_bytes() for p in pathlib.Path(sys.argv[1]).iterdir()).hex()))"
    )
    return bytes.fromhex(run_python(script.replace("repr(", "__import__('json').dumps("), install.directory))


def test_it_lies_in_the_state_until_the_epoch_is_over_and_nowhere_after(install: Install) -> None:
    client = install.agreed(EXPORTS)
    client.add("exports", TRACE)
    assert WRITTEN in files_of(install)
    install.days(1)
    assert client.status().gathered == {}
    assert WRITTEN not in files_of(install)  # the client is still open: neither in the file nor in its log


@pytest.mark.parametrize("way", ["no", "forget", "environment"])
def test_it_is_gone_after_a_no_and_after_forget(install: Install, environment, way: str) -> None:
    client = install.agreed(EXPORTS)
    client.add("exports", TRACE)
    assert WRITTEN in files_of(install)
    if way == "no":
        client.consent(False)
    elif way == "forget":
        client.forget()
    else:
        environment.setenv("DO_NOT_TRACK", "1")
        install.client()
    assert WRITTEN not in files_of(install)


def test_where_somebody_reads_the_log_is_emptied_later(install: Install) -> None:
    client = install.agreed(EXPORTS)
    client.add("exports", TRACE)
    with State(install.directory).glance() as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM gathered").fetchone() == (1,)
        install.days(1)
        assert client.status().gathered == {}
        assert WRITTEN in files_of(install)
        reader.execute("ROLLBACK")
    install.look()
    assert WRITTEN not in files_of(install)


def test_a_copy_has_nothing_of_it(install: Install, tmp_path: Path) -> None:
    client = install.agreed(EXPORTS)
    client.add("exports", TRACE)
    client.close()
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    (copy / "state.db").write_bytes((install.directory / "state.db").read_bytes())
    assert WRITTEN in (copy / "state.db").read_bytes()
    install.directory = copy
    install.client().close()
    assert WRITTEN not in files_of(install)


def test_without_deleting_securely_it_would_be_found(install: Install) -> None:
    """The planted defect: that the value is searched for in a way that finds it."""
    client = install.agreed(EXPORTS)
    client.add("exports", TRACE)
    client.close()
    db = sqlite3.connect(install.directory / "state.db")
    db.execute("PRAGMA secure_delete = OFF")
    db.execute("DELETE FROM gathered")
    db.commit()
    db.close()
    assert WRITTEN in files_of(install)


# --- what others can see --------------------------------------------------------------------------------------------


def test_the_message_and_its_time_are_the_same_whatever_was_added(install: Install, tmp_path: Path) -> None:
    seen = []
    for amounts in ([], [1], [5] * 30):
        other = Install(tmp_path / f"with {len(amounts)}", install.server)
        client = other.agreed(EXPORTS)
        for amount in amounts:
            client.add("exports", amount)
        other.days(1)
        (pending, *_) = client.preview()
        seen.append((pending.not_before, len(pending.body), len(pending.reports)))
        client.close()
    assert len(set(seen)) == 1


def test_the_person_sees_what_is_kept(install: Install) -> None:
    asks = registry(
        metric("exports", "histogram", accumulate='"sum"', max_values=3),
        metric("crashed", accumulate='"any"'),
        metric("colour", "choice", accumulate='"last"'),
    )
    client = install.agreed(asks)
    client.add("exports", 2.5)
    client.record("crashed", True)
    client.record("colour", "blue")
    assert client.status().gathered == {"exports": "2.5", "crashed": "yes", "colour": "blue"}
    client.close()
    shown = hubbub("status", "--state", install.directory).stdout
    assert "  kept as it is   exports: 2.5, until its period is over" in shown


def test_the_label_says_what_the_device_keeps() -> None:
    text = " ".join(words(EXPORTS).split())
    assert "meanwhile The answer is the sum of all that is recorded in a day." in text
    assert "without noise, in the app's files until the app next runs after that day; then it is deleted there" in text
    assert "meanwhile" not in words(registry(metric("dark_theme")))


def test_it_goes_even_if_an_upgrade_asks_nothing_of_its_cadence_any_more(install: Install) -> None:
    """The last weekly metric is taken away in mid-week: the week is sealed all the same, without a message."""
    weekly = metric("weekly", "histogram", every="week", accumulate='"sum"', max_values=3, **BUCKETS)
    client = install.client(registry(weekly, metric("daily")))
    client.consent(True)
    install.days(8)
    client.add("weekly", TRACE)
    client.close()
    assert WRITTEN in files_of(install)
    upgraded = install.client(registry(metric("daily")))
    assert upgraded.mode == "on"
    install.days(7)
    assert upgraded.status().gathered == {}
    assert WRITTEN not in files_of(install)
    upgraded.flush()
    assert {report.metric.name for report in install.arrived(registry(weekly, metric("daily")))} == {"daily"}


def test_what_another_process_deletes_while_the_log_is_emptied_is_emptied_too(install: Install, monkeypatch) -> None:
    """Between emptying it and noting that, another process adds and deletes: its own turn finds something to do."""
    client, other = install.agreed(EXPORTS), State(install.directory)
    empty = state._empty_log

    def interrupted(db: sqlite3.Connection) -> None:
        empty(db)
        monkeypatch.setattr(state, "_empty_log", empty)
        with other.transaction() as its:
            its.execute("INSERT INTO gathered VALUES ('any', 0, 'day', ?)", (WRITTEN.decode(),))
        with other.transaction() as its:
            discard_unsent(its)

    client.add("exports", 1)
    with other.transaction() as db:
        discard_unsent(db)
    monkeypatch.setattr(state, "_empty_log", interrupted)
    client._state.empty_log()
    assert WRITTEN in files_of(install)
    other.empty_log()
    assert WRITTEN not in files_of(install)
    other.close()
