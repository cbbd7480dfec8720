"""What is counted and what is refused: the quick way in says what `unpack` says, and epochs are kept."""

import gzip
import json
import tracemalloc
import zlib
from random import Random

import pytest

from hubbub.collector.catalog import Catalog, check_epoch, closing_day
from hubbub.collector.intake import Intake, inflate
from hubbub.collector.message_layout import crc_of
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.refusal import Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON, pack, to_json, unpack
from tests.collector.kit import REGISTRY, REGISTRY_TOML, random_batch, random_report
from tests.registry_head import head

NOW = 1_795_000_000.0
CATALOG = Catalog(REGISTRY)
KNOWN = CATALOG.by_short_hash


def intake() -> Intake:
    return Intake(CATALOG, lambda: NOW, {})


def with_right_crc(message: bytes) -> bytes:
    return message[:28] + crc_of(message).to_bytes(4, "little") + message[32:]


def refusal(take, *arguments) -> str | None:
    try:
        take(*arguments)
    except Refused as refused:
        return str(refused)
    return None


def asked_once(size: int) -> str:
    choices = [f"c{i}" for i in range(size)]
    return (
        f'[metrics.of_{size}]\nkind = "choice"\nevery = "once"\nchoices = {choices}\nabsent = "c0"\n'
        'epsilon_one_report = 1\nepsilon_permanent = 1\nwhy = "w"\nowner = "o"\nexpires = 2099-01-01\n'
    )


@pytest.mark.parametrize("reports", [1, 60, 500])
def test_a_subset_with_another_number_of_bits_is_refused_in_words(reports):
    """One at a time or in bulk, in one byte or in two; and the quick way in agrees with unpack."""
    registry, random = Registry.parse(head("org.example.once", 10) + asked_once(8) + asked_once(12)), Random(reports)
    catalog = Catalog(registry)
    taking = Intake(catalog, lambda: NOW, {})
    for metric in registry:
        good = pack(random_batch(random, [metric], NOW, reports))
        for _ in range(2):  # the second time the message's layout is known
            assert refusal(taking.read, good, MEDIA_TYPE, True) is None
        for vector in (0, 1, (1 << metric.weight - 1) - 1, (2 << metric.weight) - 1):
            size = metric.vector_bytes(0)
            message = with_right_crc(good[:-size] + vector.to_bytes(size, "little"))
            wrong = refusal(unpack, message, catalog.by_short_hash)
            assert f"bits must have exactly {metric.weight} positions set, got {vector.bit_count()}" in wrong
            assert refusal(taking.read, message, MEDIA_TYPE, True) == wrong


@pytest.mark.parametrize(("reports", "epochs"), [(1, 1), (1, 7), (60, 1), (500, 1)])
def test_the_quick_way_in_agrees_with_unpack_on_every_mutation(reports, epochs):
    random = Random(reports)
    taking = intake()
    outcomes = {"accepted": 0, "refused": 0}
    for _ in range(40 if reports < 500 else 10):
        good = pack(random_batch(random, list(REGISTRY), NOW, reports, epochs))
        assert refusal(taking.read, good, MEDIA_TYPE, True) is None
        for _ in range(25):
            bad = bytearray(good)
            for _ in range(random.choice([1, 1, 2, 8])):
                bad[random.randrange(32 + 16 * len(REGISTRY) * epochs, len(bad))] ^= 1 << random.randrange(8)
            message = with_right_crc(bytes(bad))
            wrong = refusal(unpack, message, KNOWN)
            assert refusal(taking.read, message, MEDIA_TYPE, True) == wrong
            outcomes["accepted" if wrong is None else "refused"] += 1
    assert min(outcomes.values()) > 50, outcomes


def test_any_cut_or_flip_without_a_new_crc_is_refused_in_the_words_of_unpack():
    random = Random(2)
    taking = intake()
    good = pack(random_batch(random, list(REGISTRY), NOW))
    taking.read(good, MEDIA_TYPE, False)
    for cut in range(len(good)):
        assert refusal(taking.read, good[:cut], MEDIA_TYPE, False) == refusal(unpack, good[:cut], KNOWN) is not None
    for at in range(len(good)):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        assert refusal(taking.read, bad, MEDIA_TYPE, False) == refusal(unpack, bad, KNOWN) is not None


def test_an_epoch_is_open_from_grace_epochs_ago_to_now():
    metric = REGISTRY["dark_theme"]
    current = epoch_of("day", NOW)
    for epoch in range(current - metric.grace, current + 1):
        check_epoch(metric, epoch, NOW, {})
    with pytest.raises(
        Refused, match=r"epoch-closed: metric dark_theme: epoch must be at least \d+ \(2026-11-12\), got"
    ):
        check_epoch(metric, current - metric.grace - 1, NOW, {})
    with pytest.raises(Refused, match="epoch-in-future: metric dark_theme: epoch must be at most"):
        check_epoch(metric, current + 1, NOW, {})
    with pytest.raises(Refused, match="epoch-closed"):
        check_epoch(metric, current - 2, NOW, {metric.metric_hash: current - 2})


def test_an_expired_metric_is_not_counted_after_its_last_epoch():
    metric = Registry.parse(REGISTRY_TOML.replace("2099-01-01", "2026-11-17"))["dark_theme"]
    last = epoch_of("day", 1_794_873_600)
    check_epoch(metric, last, NOW, {})
    with pytest.raises(Refused, match="because it expired on 2026-11-17, got"):
        check_epoch(metric, last + 1, NOW, {})


def test_the_closing_day_is_the_first_on_which_the_epoch_is_refused():
    for name in ("dark_theme", "parity"):
        metric = REGISTRY[name]
        epoch = epoch_of(metric.every, NOW)
        closes = closing_day(metric, epoch)
        check_epoch(metric, epoch, 86_400 * closes - 1, {})
        with pytest.raises(Refused, match="epoch-closed"):
            check_epoch(metric, epoch, 86_400 * closes, {})


def test_a_batch_with_one_closed_epoch_is_refused_whole():
    metric = REGISTRY["dark_theme"]
    current = epoch_of("day", NOW)
    batch = Batch.of(bytes(16), [Report(metric, current, 0, 1), Report(metric, current - 30, 0, 1)])
    assert refusal(intake().read, pack(batch), MEDIA_TYPE, False).startswith("epoch-closed")


def test_json_is_read_and_an_install_may_not_send_two_reports_of_one_epoch():
    random = Random(4)
    one = random_batch(random, list(REGISTRY), NOW)
    arrival = intake().read(json.dumps(to_json(one)).encode(), "Application/JSON; charset=utf-8", False)
    assert arrival.message == pack(one)
    two = random_batch(random, [REGISTRY["dark_theme"]], NOW, reports=2)
    body = json.dumps(to_json(two)).encode()
    assert "at most one report an epoch, got 2" in refusal(intake().read, body, MEDIA_TYPE_JSON, False)
    assert refusal(intake().read, body, MEDIA_TYPE_JSON, True) is None


def test_a_table_that_a_relay_may_send_is_still_refused_from_an_install():
    taking, random = intake(), Random(5)
    metrics = [metric for metric in REGISTRY if metric.kind != "range"]
    relayed, sent = (pack(random_batch(random, metrics, NOW, reports=2)) for _ in range(2))
    assert refusal(taking.read, relayed, MEDIA_TYPE, True) is None
    assert "at most one report an epoch, got 2" in refusal(taking.read, sent, MEDIA_TYPE, False)


def test_a_batch_is_too_old_as_soon_as_one_of_its_reports_is():
    daily, weekly = REGISTRY["dark_theme"], REGISTRY["parity"]
    days = [closing_day(metric, epoch_of(metric.every, NOW)) for metric in (daily, weekly)]
    assert days[0] < days[1]
    arrival = intake().read(pack(random_batch(Random(6), [daily, weekly], NOW)), MEDIA_TYPE, False)
    assert arrival.layout.closes == days[0]
    assert arrival.id_record[-2:] == days[0].to_bytes(2, "little")


def test_a_sender_of_ever_new_tables_or_of_large_ones_does_not_fill_the_memory():
    taking, random = intake(), Random(7)
    current = epoch_of("day", NOW)
    metric = REGISTRY["dark_theme"]
    for number in range(600):  # each of these tables has another number of reports, or another epoch
        made = [random_report(metric, current - number % 7, random) for _ in range(1 + number // 7)]
        taking.read(pack(Batch.of(random.randbytes(16), made)), MEDIA_TYPE, True)
        assert len(taking._layouts._known) == (number + 1 if number < 512 else number - 511)
    large = pack(random_batch(random, [REGISTRY["homepage"]], NOW, reports=8000))
    assert len(large) > 1 << 16
    taking.read(large, MEDIA_TYPE, True)
    assert taking._layouts.find(large) is None


def test_a_bomb_is_not_inflated_beyond_the_limit():
    bomb = gzip.compress(bytes(20_000_000))
    tracemalloc.start()
    try:
        assert refusal(inflate, bomb, "gzip", 1000).startswith("too-large")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_another_media_type_is_refused_by_name():
    assert refusal(intake().read, b"", "text/plain", False) == (
        "media-type-unsupported: Content-Type must be application/vnd.hubbub.reports or application/json, "
        "got 'text/plain'"
    )


def test_inflating_stops_at_the_limit_and_wants_one_whole_stream():
    assert inflate(gzip.compress(b"x" * 100), "gzip", 100) == b"x" * 100
    assert inflate(zlib.compress(b"x" * 100), "deflate", 100) == b"x" * 100
    assert inflate(b"plain", "identity", 100) == b"plain"
    assert refusal(inflate, gzip.compress(b"x" * 101), "gzip", 100).startswith(
        "too-large: a body must have at most 100"
    )
    assert (
        refusal(inflate, gzip.compress(b"x")[:-1], "gzip", 100) == "malformed: the body must be one whole gzip stream"
    )
    assert (
        refusal(inflate, gzip.compress(b"x") + b"y", "gzip", 100) == "malformed: the body must be one whole gzip stream"
    )
    assert refusal(inflate, b"not", "deflate", 100) == "malformed: the body must be deflate as Content-Encoding says"
    assert refusal(inflate, b"x", "br", 100).startswith(
        "media-type-unsupported: Content-Encoding must be gzip, deflate"
    )


def test_older_registries_are_counted_under_their_own_definition(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    older = tmp_path / "older"
    older.mkdir()
    (older / "2025.toml").write_text(REGISTRY_TOML.replace("num_bits = 64", "num_bits = 32"))
    catalog = Catalog.load(tmp_path / "metrics.toml", older)
    assert len(catalog.metrics) == len(REGISTRY) + 1
    assert [m.shape.num_bits for m in catalog.metrics if m.name == "homepage"] == [64, 32]
