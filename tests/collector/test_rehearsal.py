"""A collector for rehearsals: it shows counts at once, takes a whole crowd from one address and old epochs, only on
this machine, and never in a directory with people's reports. Refusals are summed up by reason, without addresses."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.refusal_log import RefusalLog
from hubbub.collector.settings import read_settings
from hubbub.collector.storage.data_dir import DataDir
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.refusal import IN_WORDS, STATUS, Refused
from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, Collector, random_batch

OLD = 50
"""Days: far beyond the grace of the registry."""


def test_a_rehearsal_raises_limits_unless_they_are_given() -> None:
    settings = read_settings({"metrics": "a.toml", "rehearsal": "yes"}, {}, None)
    assert (settings.min_reports, settings.sender_burst, str(settings.data)) == (0, 1_000_000, "hubbub-rehearsal")
    settings = read_settings({"metrics": "a.toml", "rehearsal": "yes", "min_reports": "5"}, {}, None)
    assert settings.min_reports == 5
    settings = read_settings({"metrics": "a.toml", "rehearsal": "no"}, {}, None)
    assert (settings.min_reports, settings.sender_burst, str(settings.data)) == (20, 200, "hubbub-data")


def test_a_rehearsal_is_on_this_machine_and_in_a_store_of_its_own() -> None:
    with pytest.raises(Invalid) as caught:
        read_settings({"metrics": "a.toml", "rehearsal": "yes", "host": "0.0.0.0", "store": "service=x"}, {}, None)
    assert caught.value.problems == (
        "host must be one of 127.0.0.1, ::1, localhost in a rehearsal, got '0.0.0.0'",
        "store must be embedded in a rehearsal, got 'service=x'",
    )


def test_made_up_reports_and_real_ones_are_never_in_one_directory(tmp_path: Path) -> None:
    real, rehearsed = DataDir(tmp_path / "real"), DataDir(tmp_path / "rehearsed")
    for folder, rehearsal in ((real, False), (rehearsed, True)):
        folder.keep_apart(rehearsal)
        folder.database.touch()
        folder.keep_apart(rehearsal)
    with pytest.raises(Invalid, match=r"data must be new or of a rehearsal, got .*real, which has counts of real"):
        real.keep_apart(True)
    with pytest.raises(Invalid, match=r"data must not be of a rehearsal, got .*rehearsed: give another, or --rehears"):
        rehearsed.keep_apart(False)


def test_old_epochs_are_open_in_a_rehearsal_alone() -> None:
    now = time.time()
    message = pack(random_batch(Random(1), [REGISTRY["dark_theme"]], now - OLD * 86_400))
    assert Intake(Catalog(REGISTRY, rehearsal=True), lambda: now, {}).read(message, MEDIA_TYPE, False)
    with pytest.raises(Refused, match="epoch-closed"):
        Intake(Catalog(REGISTRY), lambda: now, {}).read(message, MEDIA_TYPE, False)


def test_refusals_are_summed_up_by_reason_at_most_once_a_minute() -> None:
    stream, seconds, counts = io.StringIO(), [0.0], CollectorMetrics()
    log = RefusalLog(counts, OperatorLog(stream), lambda: seconds[-1])
    log.look()
    assert stream.getvalue() == ""
    counts.refused.update({"rate-limited": 593, "epoch-closed": 2, "unauthorized": 7})  # the last is no message
    log.look()
    counts.refused["rate-limited"] += 1
    seconds.append(59.0)
    log.look()
    seconds.append(60.0)
    log.look()
    log.tell()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["message"] == "595 messages refused, by reason"
    assert (first["rate-limited"], first["epoch-closed"], "unauthorized" in first) == (593, 2, False)
    assert (second["message"], second["rate-limited"]) == ("1 message refused, by reason", 1)


def test_every_reason_for_a_refusal_has_words() -> None:
    assert set(IN_WORDS) == set(STATUS)


def test_a_rehearsal_takes_what_a_real_collector_refuses_and_the_log_says_why(tmp_path: Path) -> None:
    random, now = Random(2), time.time()
    old = [pack(random_batch(random, [REGISTRY["dark_theme"]], now - OLD * 86_400)) for _ in range(3)]
    (tmp_path / "real").mkdir()
    (tmp_path / "rehearsal").mkdir()
    real = Collector(tmp_path / "real")
    rehearsal = Collector(tmp_path / "rehearsal", "--rehearsal")
    try:
        assert [real.post(body)[0] for body in old] == [410] * 3
        assert [rehearsal.post(body)[0] for body in old] == [200] * 3
        assert "A rehearsal: counts are shown at once" in rehearsal.printed
        assert "A rehearsal" not in real.printed
    finally:
        real.stop()
        rehearsal.stop()
    lines = [json.loads(line) for line in real.log_path.read_text().splitlines()]
    (said,) = [line for line in lines if "refused" in line["message"]]
    assert (said["message"], said["epoch-closed"]) == ("3 messages refused, by reason", 3)
    assert "127.0.0.1" not in json.dumps(said)
