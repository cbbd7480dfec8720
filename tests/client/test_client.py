"""The programmer's mistakes: raised under `strict`, otherwise logged once and counted; a value never reaches a log."""

from __future__ import annotations

import logging
from decimal import Decimal

import pytest

from tests.client.install import Install
from tests.client.registries import metric, registry

ASKS = registry(
    metric("theme"),
    metric("color", "choice"),
    metric("page", "string"),
    metric("time", "mean"),
    metric("size", "histogram"),
    metric("delay", "range"),
)

WRONG = [
    ("theme", "Kilimanjaro", "record('theme'): the value must be True or False, got str"),
    ("theme", 1, "record('theme'): the value must be True or False, got int"),
    ("theme", None, "record('theme'): the value must be True or False, got NoneType"),
    ("color", "Kilimanjaro", "record('color'): the value must be one of the 3 declared choices, got an undeclared str"),
    ("color", 5895, "record('color'): the value must be one of the 3 declared choices, got an undeclared int"),
    ("page", 5895.25, "record('page'): the value must be a string, got float"),
    ("page", b"Kilimanjaro", "record('page'): the value must be a string, got bytes"),
    ("page", "Kili\udc80", "record('page'): the value must be valid Unicode, got a lone surrogate at 4"),
    ("time", "5895", "record('time'): the value must be a number, got str"),
    ("time", True, "record('time'): the value must be a number, got bool"),
    ("time", float("nan"), "record('time'): the value must be a finite number, got NaN or an infinity"),
    ("size", Decimal("-Infinity"), "record('size'): the value must be a finite number, got NaN or an infinity"),
    ("delay", [5895], "record('delay'): the value must be a number, got list"),
]


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_value_raises_under_strict(install: Install, name: str, value: object, message: str) -> None:
    client = install.agreed(ASKS, strict=True)
    with pytest.raises(ValueError) as raised:
        client.record(name, value)
    assert str(raised.value) == message


@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_value_is_logged_once_and_counted_and_the_epoch_answers_absent(
    install: Install, caplog: pytest.LogCaptureFixture, name: str, value: object, message: str
) -> None:
    caplog.set_level(logging.DEBUG)
    client = install.agreed(ASKS)
    for _ in range(3):
        client.record(name, value)
    assert [record.getMessage() for record in caplog.records] == [message]
    assert client.status().counts["wrong_value"] == 3
    install.days(1)
    client.flush()
    assert client.status().counts["absent"] == len(install.arrived()) == len(ASKS)


def test_no_wrong_value_reaches_a_log(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = install.agreed(ASKS)
    for name, value, _ in WRONG:
        client.record(name, value)
    client.record("page", ["Kilimanjaro"])
    assert len(caplog.records) > 10
    assert not any(text in caplog.text for text in ("Kili", "5895"))


def test_a_right_value_after_a_wrong_one_counts(install: Install) -> None:
    client = install.agreed(ASKS)
    client.record("theme", "yes")
    client.record("theme", True)
    assert client.status().counts == {"made": 1, "wrong_value": 1}


def test_a_wrong_value_raises_under_strict_also_where_the_record_would_not_count(install: Install) -> None:
    client = install.agreed(ASKS, strict=True)
    client.record("theme", True)
    with pytest.raises(ValueError, match="must be True or False"):
        client.record("theme", "yes")


def test_a_wrong_value_raises_under_strict_in_mode_local(install: Install) -> None:
    with pytest.raises(ValueError, match="must be True or False"):
        install.client(ASKS, strict=True).record("theme", "yes")


def test_an_unknown_metric_is_logged_once_and_counted(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    client = install.agreed(ASKS)
    for _ in range(2):
        client.record("thema", "Kilimanjaro")
    (record,) = caplog.records
    assert record.getMessage() == "record('thema'): 'thema' is no metric of org.example.editor; did you mean theme?"
    assert client.status().counts == {"unknown_metric": 2}


def test_an_unknown_metric_raises_under_strict(install: Install) -> None:
    with pytest.raises(ValueError, match=r"record\('thema'\): 'thema' is no metric of"):
        install.client(ASKS, strict=True).record("thema", True)


@pytest.mark.parametrize("name", [None, 7, ["theme"], b"theme"])
def test_a_name_that_is_no_string_is_a_mistake_and_no_crash(install: Install, caplog, name: object) -> None:
    client = install.agreed(ASKS)
    client.record(name, True)
    assert caplog.records[0].getMessage() == f"record: the name must be a string, got {type(name).__name__}"
    assert client.status().counts == {"unknown_metric": 1}
    with pytest.raises(ValueError, match="record: the name must be a string"):
        install.client(ASKS, strict=True).record(name, True)


def test_a_loop_over_wrong_names_does_not_fill_the_log(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    client = install.agreed(ASKS)
    for i in range(300):
        client.record(f"metric_{i}", True)
    assert len(caplog.records) == 100
    assert client.status().counts == {"unknown_metric": 300}


def test_numbers_outside_the_range_are_clamped_and_counted(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = install.agreed(ASKS, strict=True)
    client.record("time", 31)
    client.record("size", -1)
    client.record("delay", 256)
    assert client.status().counts == {"made": 3, "clamped": 2}
    assert caplog.records == []


def test_wrong_construction_raises(install: Install, tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        install.client(endpoint=None, asks=str(tmp_path / "missing.toml"))
