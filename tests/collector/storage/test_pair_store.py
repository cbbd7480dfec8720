"""Counts of pairs are kept as those of metrics: saved, replayed, purged and had back, copied, repaired, moved, read."""

import sqlite3
from contextlib import closing
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.collector.export import from_data, of_pairs, pair_tallies
from hubbub.collector.storage.backup import backup, restore
from hubbub.collector.storage.counting import Cells
from hubbub.collector.storage.pair_counting import counts_of
from hubbub.collector.storage.purge import Purged, list_purged, restore_purged
from hubbub.collector.storage.repair import repair
from hubbub.collector.tally_text import EncodedEpochs, pieces
from hubbub.protocol.cadence import epoch_of, epoch_text
from hubbub.protocol.pair import PairTally, count_pairs
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally_files import Wanted, pair_answer_from_json
from hubbub.protocol.wire import pack
from tests.collector.kit import PAIRED_TOML, PAIRS, REGISTRY, REGISTRY_TOML, random_batch
from tests.collector.storage.kit import DAY, NOW, Place
from tests.protocol.pairs import pair

METRICS = [REGISTRY[name] for name in ("dark_theme", "language", "homepage", "minutes")]


def make(number, seed=1, now=NOW):
    random = Random(seed)
    return [random_batch(random, METRICS, now) for _ in range(number)]


def filled(path, batches, toml=PAIRED_TOML, now=NOW, **options):
    place = Place(path, toml)
    place.now = now
    with place.open(**options) as (_, take, _):
        for batch in batches:
            take(pack(batch))
    return place


def exported(path):
    return {tally.pair.name: tally for tally in from_data(path, Wanted(), lambda: NOW).pairs}


def expected(batches):
    found = [count_pairs(one, batches) for one in PAIRS]
    return {tally.pair.name: tally for tally in found if tally.epochs}


@pytest.mark.parametrize("save", [True, False], ids=["stopped", "crashed"])
def test_what_was_counted_or_only_logged_is_found_again_exported_backed_up_and_repaired(tmp_path, save):
    batches = make(30)
    place = filled(tmp_path / "data", batches, save=save)
    assert exported(place.path) == expected(batches)
    assert backup(place.path, tmp_path / "copy") == 30 * len(METRICS), "a pair's batches are no more reports"
    assert restore(tmp_path / "copy", tmp_path / "back") == 30 * len(METRICS)
    assert exported(tmp_path / "back") == expected(batches)
    assert repair(place.path, tmp_path / "repaired") == []
    assert exported(tmp_path / "repaired") == expected(batches)
    with place.open() as (_, take, _):
        for batch in make(5, seed=2) + batches[:3]:  # the last three again
            take(pack(batch))
    assert exported(place.path) == expected(batches + make(5, seed=2))


def test_a_damaged_pair_is_named_and_the_rest_is_saved(tmp_path):
    place = filled(tmp_path / "data", make(10))
    with closing(sqlite3.connect(place.path / "store.sqlite")) as db, db:
        (key,) = [p.metric_hash for p in PAIRS if p.name == "theme_language"]
        db.execute("update counts set bit_counts = x'00' where metric_hash = ?", [key])
    lost = repair(place.path, tmp_path / "repaired")
    assert lost == [f"counts of theme_language, {epoch_text('day', epoch_of('day', NOW))}: damaged"]
    left = expected(make(10))
    del left["theme_language"]
    assert exported(tmp_path / "repaired") == left


def test_a_pair_goes_with_the_shorter_retention_of_its_metrics_and_can_be_had_back(tmp_path):
    """homepage is kept for ten days, language for two years: their pair goes with homepage."""
    short = PAIRED_TOML.replace("num_cohorts = 128\n", 'num_cohorts = 128\nretention = "10d"\n')
    assert short != PAIRED_TOML
    terms = {one.name: (one.grace, one.retention_days) for one in Catalog(Registry.parse(short)).pairs}
    assert terms == {"theme_language": (6, 732), "language_homepage": (6, 10), "theme_minutes": (6, 732)}
    place = filled(tmp_path, make(3), short)
    place.now += 11 * DAY
    with place.open() as (store, _, _):
        gone = {cells.metric.name for cells in store.cells.values()}
    assert gone == {"dark_theme", "language", "minutes", "theme_language", "theme_minutes"}
    day = epoch_text("day", epoch_of("day", NOW))
    assert list_purged(tmp_path) == [Purged("homepage", day, 3, 7), Purged("language_homepage", day, 3, 7)]
    restore_purged(tmp_path, "language_homepage")
    assert exported(tmp_path) == expected(make(3))


def test_the_smaller_grace_is_the_pairs():
    registry = Registry.parse(PAIRED_TOML)
    changed = registry.replace(
        metrics={name: m.replace(grace=2) if name == "language" else m for name, m in registry.metrics.items()}
    )
    assert {one.name: one.grace for one in Catalog(changed).pairs} == {
        "theme_language": 2,
        "language_homepage": 2,
        "theme_minutes": 6,
    }


def test_each_segment_of_a_pair_is_counted_by_itself(tmp_path):
    divided = PAIRED_TOML.replace(
        "[metrics.dark_theme]", '[segments]\nrelease = ["2.0", "2.1"]\n\n[metrics.dark_theme]', 1
    )
    registry = Registry.parse(divided)
    catalog = Catalog(registry)
    assert len(catalog.pairs) == 3 * len(PAIRS)
    place, sent = Place(tmp_path, divided), {}
    with place.open() as (_, take, _):
        for seed, release in enumerate(("2.0", "2.1", "other")):
            here = [registry[m.name].in_segment((("release", release),)) for m in METRICS]
            random = Random(seed)
            sent[release] = [random_batch(random, here, NOW) for _ in range(2 + seed)]
            for batch in sent[release]:
                take(pack(batch))
    found = from_data(tmp_path, Wanted(metric="theme_language"), lambda: NOW).pairs
    assert {t.pair.segment: t.num_batches for t in found} == {
        (("release", release),): len(batches) for release, batches in sent.items()
    }
    plain = next(one for one in PAIRS if one.name == "theme_language")
    for tally in found:
        assert tally == count_pairs(plain.in_segment(tally.pair.segment), sent[dict(tally.pair.segment)["release"]])


def test_what_is_lent_does_not_change_while_counting_goes_on(tmp_path):
    place, batches = Place(tmp_path, PAIRED_TOML), make(20)
    with place.open() as (store, take, _):
        for batch in batches[:10]:
            take(pack(batch))
        readable = store.readable(of_pairs(Wanted()))
        for batch in batches[10:]:
            take(pack(batch))
        after = store.readable(of_pairs(Wanted()))
        assert {t.pair.name: t for t in pair_tallies(readable.cells)} == expected(batches[:10])
        assert {t.pair.name: t for t in pair_tallies(after.cells)} == expected(batches)


@pytest.mark.parametrize("names", [("theme", "os"), ("page", "site"), ("minutes", "bitwise")])
def test_the_text_of_an_answer_is_that_of_the_protocol(names):
    found = pair(*names)
    cells = Cells(found)
    cells.num_reports += 10**12
    cells.bit_counts += 5 * 10**11
    for metric, at in zip(found.metrics, (0, 1), strict=True):  # a report of one position: the counts add up
        if metric.one_hot:
            for place in range(found.shape.num_cohorts):
                _one_position(cells, place, at)
    key = (found.metric_hash, 2968)
    encoded = EncodedEpochs()
    for _ in ("made", "remembered"):
        text = b"".join(pieces({key: cells}, encoded, (), "pairs"))
        assert pair_answer_from_json(text).pairs == [PairTally(found, {2968: counts_of(cells)})]
        assert PairTally(found, {2968: counts_of(cells)}).to_json().rstrip("\n").encode() in text
    assert b"".join(pieces({}, encoded, (), "pairs")) == b'{"pairs": [], "withheld": []}\n'


def _one_position(cells, place, at):
    shape = cells.metric.shape
    (a, b), start, total = shape.widths(place), shape.starts[place], int(cells.num_reports[place])
    first, second, both = slice(start, start + a), slice(start + a, start + a + b), slice(start + a + b, None)
    assert at == 1, "only the second metric of these pairs is sent as one position"
    cells.bit_counts[first] = total
    cells.bit_counts[second] = 0
    cells.bit_counts[start + a] = total
    table = cells.bit_counts[both][: a * b].reshape(a, b)
    table[:] = 0
    table[:, 0] = total


def test_no_piece_of_a_large_answer_is_long():
    large = pair("page", "site")
    cells = {(large.metric_hash, epoch): Cells(large) for epoch in range(40)}
    sizes = [len(piece) for piece in pieces(cells, EncodedEpochs(), (), "pairs")]
    assert max(sizes) < 60_000
    assert sum(sizes) > 5 * max(sizes)


@pytest.mark.parametrize("how", ["reload", "restart"])
@pytest.mark.parametrize("ends", [True, False], ids=["a pair ends", "a pair begins"])
def test_a_crash_does_not_count_batches_in_the_pairs_of_a_later_registry(tmp_path, ends, how):
    """They were acknowledged under the registry before, perhaps read, and are only in the log when others come."""
    before, after = (PAIRED_TOML, REGISTRY_TOML) if ends else (REGISTRY_TOML, PAIRED_TOML)
    batches = make(6)
    with Place(tmp_path / "data", before).open(save=False) as (store, take, _):
        for batch in batches:
            take(pack(batch))
        if how == "reload":
            store.adopt(Catalog(Registry.parse(after)))
    for _ in range(2):
        with Place(tmp_path / "data", after).open(save=False):
            pass
        assert exported(tmp_path / "data") == (expected(batches) if ends else {})
