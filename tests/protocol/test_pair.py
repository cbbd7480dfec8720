"""Pairs: which cohorts come together, what may not be paired, counts that add up, a file that leads there and back."""

from __future__ import annotations

import json
from contextlib import suppress
from math import gcd
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.client.identity import NUMBER_BITS, cohort_of
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import MAX_PAIR_CELLS, Pair, PairCounts, PairTally, count_pairs, counted_from_json
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report
from hubbub.protocol.tally import by_segment, merge, undivided, within
from hubbub.protocol.tally_files import read_pair_tallies, read_tallies, write_tallies
from tests.protocol.pairs import METRICS, REGISTRY, pair, text_with
from tests.protocol.test_metric import mutated
from tests.protocol.toml import HISTORY

PAIRS = [("theme", "os"), ("os", "editor"), ("bitwise", "minutes"), ("page", "site"), ("sizes", "editor")]


def batch_of(found: Pair, number: int, random: Random, epoch: int = 3000) -> Batch:
    """What the install with this number on the line of cohorts might send."""
    reports = []
    for metric in found.metrics:
        cohort = cohort_of(number, metric.shape.num_cohorts)
        width = metric.shape.width(cohort)
        bits = 1 << random.randrange(width) if metric.one_hot else random.getrandbits(width)
        reports.append(Report(metric, epoch, cohort, bits))
    return Batch.of(random.randbytes(16), reports)


def batches_of(found: Pair, number: int, seed: int = 1) -> list[Batch]:
    random = Random(seed)
    return [
        batch_of(found, random.getrandbits(NUMBER_BITS), random, epoch=3000 + random.randrange(2))
        for _ in range(number)
    ]


# --- cohorts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in METRICS for b in METRICS if a != b])
def test_cohort_pairs_are_those_that_installs_have_and_no_others(first: str, second: str) -> None:
    """On a line of all borders' common multiples, every install's two cohorts, by the client's own rule."""
    try:
        found = pair(first, second)
    except Invalid:
        return
    m, n = (metric.shape.num_cohorts for metric in found.metrics)
    fine = 4 * m * n
    there = {tuple(cohort_of((i << NUMBER_BITS) // fine, of) for of in (m, n)) for i in range(fine)}
    assert found.cohort_pairs == tuple(sorted(there))
    assert len(found.cohort_pairs) == m + n - gcd(m, n) == found.shape.num_cohorts
    for i in range(m):
        for j in range(n):
            place = found.shape.place(i, j)
            assert (place is None) == ((i, j) not in there)
            assert place is None or found.cohort_pairs[place] == (i, j)


# --- what may be paired -------------------------------------------------------------------------------------------

TWO_HOLDS = {"theme": HISTORY, "os": {**HISTORY, "hold": "4", "max_values": "2"}}
SIXTEEN = "[" + ", ".join(f'"a{i}"' for i in range(16)) + "]"
ONCE = {"every": '"once"', "max_values": "1", "choices": SIXTEEN, "epsilon_one_report": "0.5", "epsilon_permanent": "1"}


@pytest.mark.parametrize(
    ("names", "changes", "sentence"),
    [
        (("theme", "theme"), {}, "metrics must be two different ones, got theme twice"),
        (
            ("theme", "daily"),
            {},
            "metrics must have the same every, for only what comes in one message is counted, "
            "got 'week' (theme) and 'day' (daily)",
        ),
        (
            ("sizes", "minutes"),
            {},
            "metrics must have at most one of which an install is asked a part, or some answers never come together, "
            "got sizes and minutes",
        ),
        (
            ("tools", "host"),
            {},
            "metrics must have at most one of which an install is asked a part, or some answers never come together, "
            "got tools and host",
        ),
        (
            ("theme", "os"),
            TWO_HOLDS,
            "metrics must have at most one with hold: each is asked in an epoch drawn by itself, and both in one "
            "epoch out of 52 only, got theme and os",
        ),
        (
            ("theme", "first_os"),
            {"theme": {"every": '"once"', "max_values": "1"}, "first_os": ONCE},
            "metrics must not be sent as a subset of answers, as first_os is: "
            'its every must not be "once", or its noise be given by prob_f, prob_p and prob_q',
        ),
        (
            ("page", "site"),
            {"page": {"num_bits": "1024"}, "site": {"num_bits": "512"}},
            "metrics must have at most 1,048,576 cells together, got 4,206,592 (1024 x 512 bits, 8 cohort pairs)",
        ),
    ],
)
def test_what_can_never_be_read_is_refused_in_words(names: tuple[str, str], changes: Any, sentence: str) -> None:
    registry = Registry.parse(text_with(changes=changes))
    with pytest.raises(Invalid) as caught:
        Pair("both", (registry[names[0]], registry[names[1]]))
    assert sentence in caught.value.problems


def test_what_can_be_read_is_allowed() -> None:
    """One asked in parts, one with hold, a pair asked once; a mean is rounded at random but asks no part."""
    for names in (("sizes", "os"), ("start", "minutes"), ("page", "host"), ("tools", "start")):
        assert pair(*names).name == "both"
    held = Registry.parse(text_with(changes={"theme": HISTORY}))
    assert Pair("both", (held["theme"], held["os"])).metrics[0].hold == 13
    once = Registry.parse(text_with(changes={"theme": {"every": '"once"', "max_values": "1"}}))
    assert Pair("both", (once["theme"], once["first_os"])).every == "once"


def test_the_cap_is_reached_and_not_passed() -> None:
    assert MAX_PAIR_CELLS == 1 << 20
    large = Registry.parse(text_with(changes={"page": {"num_bits": "256"}, "site": {"num_bits": "256"}}))
    assert Pair("both", (large["page"], large["site"])).shape.num_cells == 8 * (256 * 256 + 512)


def test_a_name_and_a_segment_have_their_rules() -> None:
    with pytest.raises(Invalid, match=r"a pair's name must match \[a-z\]"):
        pair("theme", "os", name="Both")
    here = REGISTRY["os"].in_segment((("release", "2.1"),))
    with pytest.raises(Invalid, match=r"metrics must have the same segment, got none and release 2\.1"):
        Pair("both", (REGISTRY["theme"], here))


# --- definitions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", PAIRS)
def test_a_pair_carries_both_definitions_and_no_terms(names: tuple[str, str]) -> None:
    found = pair(*names)
    assert [type(metric) for metric in found.metrics] == [Definition, Definition]
    again = Pair.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found == counted_from_json(found.to_json())
    assert again.metric_hash == found.metric_hash != pair(*reversed(names)).metric_hash
    assert pair(*names, name="other").metric_hash != found.metric_hash
    assert counted_from_json(found.metrics[0].to_json()) == found.metrics[0]


def test_a_pair_has_a_segment_and_goes_back() -> None:
    found, segment = pair("theme", "os"), (("release", "2.1"),)
    here = found.in_segment(segment)
    assert (here.segment, here.every) == (segment, "week")
    assert here.metric_hash != found.metric_hash
    assert here.undivided == found.undivided == found is found.in_segment(())


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "the pair must be a table of keys and values, got 3"),
        ({"name": "both"}, "the pair: metrics is missing"),
        ({"name": 1, "metrics": []}, "the pair: name must be a text, got 1"),
        ({"name": "both", "metrics": [], "colour": 1}, "the pair: colour is not a key that is known here"),
        ({"name": "both", "metrics": 3}, "the pair: metrics must be a list, got 3"),
        ({"name": "both", "metrics": [{}]}, "the pair: metrics must be two definitions, got 1"),
        ({"name": "both", "metrics": [{}, {}]}, "is missing"),
    ],
)
def test_what_is_no_pair_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Pair.from_json(data)
    assert sentence in str(caught.value)


# --- counting -----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.sampled_from(PAIRS), st.integers(0, 30), st.integers(0, 2**32))
def test_counting_counts_each_two_bits_of_each_batch(names: tuple[str, str], number: int, seed: int) -> None:
    found = pair(*names)
    batches = batches_of(found, number, seed)
    tally = count_pairs(found, batches)
    assert tally.num_batches == number
    for epoch, counts in tally.epochs.items():
        for place, cohorts in enumerate(found.cohort_pairs):
            two = [tuple(b.reports) for b in batches]
            there = [(a.bits, b.bits) for a, b in two if a.epoch == epoch and (a.cohort, b.cohort) == cohorts]
            a, b = found.shape.widths(place)
            assert counts.num_batches[place] == len(there)
            assert counts.first[place] == tuple(sum(one >> i & 1 for one, _ in there) for i in range(a))
            assert counts.second[place] == tuple(sum(other >> j & 1 for _, other in there) for j in range(b))
            for i in range(a):
                row = tuple(sum((one >> i & 1) * (other >> j & 1) for one, other in there) for j in range(b))
                assert counts.both[place][i] == row


def test_only_batches_with_exactly_one_report_of_both_for_one_epoch_count() -> None:
    found = pair("theme", "os")
    theme, os = found.metrics

    def reports(*made: tuple[Definition, int]) -> Batch:
        return Batch.of(bytes(16), [Report(metric, epoch, 0, 1) for metric, epoch in made])

    counted = reports((theme, 7), (os, 7))
    not_counted = [
        reports((theme, 7)),
        reports((theme, 7), (os, 8)),
        reports((theme, 7), (theme, 7), (os, 7)),  # as a relay sends them
        reports((theme, 7), (os, 7), (os, 7)),
        Batch.of(bytes(16), [Report(REGISTRY["bitwise"], 7, 0, 1), Report(os, 7, 0, 1)]),
    ]
    assert count_pairs(found, not_counted).epochs == {}
    assert count_pairs(found, [counted, *not_counted]) == count_pairs(found, [counted])
    two_epochs = reports((theme, 7), (os, 7), (theme, 8), (os, 8))
    assert list(count_pairs(found, [two_epochs]).epochs) == [7, 8]


def test_cohorts_that_no_install_has_are_not_counted() -> None:
    found = pair("page", "site")
    made_up = Batch.of(bytes(16), [Report(found.metrics[0], 7, 0, 1), Report(found.metrics[1], 7, 3, 1)])
    assert count_pairs(found, [made_up]).epochs == {}


@pytest.mark.parametrize("names", PAIRS)
def test_pair_tallies_add_up_to_what_one_collector_would_have_counted(names: tuple[str, str]) -> None:
    found = pair(*names)
    here, there = batches_of(found, 20, seed=1), batches_of(found, 30, seed=2)
    a, b = count_pairs(found, here), count_pairs(found, there)
    assert a + b == b + a == count_pairs(found, here + there)
    assert list(merge([a, b]).values()) == [a + b]
    assert (a + b).only(3000).num_batches + (a + b).only(3001).num_batches == 50
    with pytest.raises(Invalid, match="epoch 7 of both must be one that was counted"):
        a.only(7)
    with pytest.raises(Invalid, match="pair tallies must be of one pair to be merged"):
        _ = a + count_pairs(pair("theme", "editor"), [])


def test_segments_of_pairs_are_told_apart_and_added_up() -> None:
    plain = pair("theme", "os")
    segments = [(("platform", p), ("release", r)) for p in ("linux", "macos") for r in ("2.0", "2.1")]
    tallies = [
        count_pairs(here := plain.in_segment(segment), batches_of(here, 10, seed))
        for seed, segment in enumerate(segments)
    ]
    (whole,) = undivided(tallies)
    assert (whole.pair, whole.num_batches) == (plain, 40)
    apart = by_segment(tallies, "release")
    assert {value: sum(t.num_batches for t in some) for value, some in apart.items()} == {"2.0": 20, "2.1": 20}
    assert apart["2.0"][0].pair.segment == (("release", "2.0"),)
    assert within(tallies, {"platform": "linux", "release": "2.1"}) == [tallies[1]]


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", PAIRS)
def test_a_file_leads_there_and_back(names: tuple[str, str]) -> None:
    tally = count_pairs(pair(*names), batches_of(pair(*names), 20))
    assert PairTally.from_json(tally.to_json()) == tally
    assert PairTally.from_json(tally.to_json()).to_json() == tally.to_json()


def test_a_folder_may_hold_both_sorts_of_file(tmp_path: Any) -> None:
    from hubbub.protocol.tally import count

    found = pair("theme", "os", name="theme_os")
    pairs = count_pairs(found, batches_of(found, 5))
    theme = count(found.metrics[0], [Report(found.metrics[0], 3000, 0, 1)])
    paths = write_tallies([theme, pairs], tmp_path)
    assert [path.name for path in paths] == ["theme.json", "theme_os.json"]
    assert read_tallies(tmp_path) == [theme]
    assert read_pair_tallies(tmp_path) == [pairs]
    assert read_pair_tallies(paths[1], paths[1], merge=True) == [pairs + pairs]
    with pytest.raises(
        Invalid, match=r"epoch 3000 of theme_os was read before; --merge \(in Python, merge=True\) adds"
    ):
        read_pair_tallies(tmp_path, tmp_path)
    with pytest.raises(Invalid, match=r"format must be 'hubbub\.tally', got 'hubbub.pair_tally'"):
        read_tallies(paths[1])
    with pytest.raises(Invalid, match=r"format must be 'hubbub\.pair_tally', got 'hubbub.tally'"):
        read_pair_tallies(paths[0])
    paths[0].unlink()
    with pytest.raises(Invalid, match="a folder must hold tally files, got none but pair tallies"):
        read_tallies(tmp_path)


def test_a_pair_and_an_older_metric_of_its_name_get_files_of_their_own(tmp_path: Any) -> None:
    from hubbub.protocol.tally import Tally

    found = pair("theme", "os", name="theme")
    paths = write_tallies([Tally(found.metrics[0], {}), PairTally(found, {})], tmp_path)
    assert len({path.name for path in paths}) == 2
    assert all(path.name.startswith("theme-") for path in paths)


GOOD = PairCounts((2,), ((1,),), ((1, 1, 0, 0),), (((0, 1, 0, 0),),))


def broken(**changes: Any) -> PairTally:
    return PairTally(pair("theme", "os"), {7: GOOD.replace(**changes)})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_batches": (2, 0)}, "num_batches must have 1 cohort pairs, got 2"),
        ({"first": ()}, "first must have 1 cohort pairs, got 0"),
        ({"num_batches": (-1,)}, "num_batches of cohorts 0 and 0 must be in [0, 9223372036854775807], got -1"),
        ({"num_batches": (2**63,)}, f"num_batches of cohorts 0 and 0 must be in [0, {2**63 - 1}], got {2**63}"),
        ({"first": ((1, 1),)}, "first of cohorts 0 and 0 must have 1 bits, got 2"),
        ({"second": ((1, 1, 0),)}, "second of cohorts 0 and 0 must have 4 bits, got 3"),
        ({"first": ((3,),)}, "first of cohorts 0 and 0 must be in [0, num_batches=2], got 3 to 3"),
        ({"second": ((2, 1, -1, 0),)}, "second of cohorts 0 and 0 must be in [0, num_batches=2], got -1 to 2"),
        ({"second": ((1, 0, 0, 0),)}, "second of cohorts 0 and 0 must add up to num_batches=2, got 1"),
        ({"both": (((0, 1, 0),),)}, "both of cohorts 0 and 0 must be a table of 1 by 4, got 1 rows of [3]"),
        ({"both": (((0, 2, 0, 0),),)}, "both of cohorts 0 and 0 must be in [0, 1] for bits 0 and 1, got 2"),
        (
            {"both": (((0, 0, 0, 0),),)},
            "both of cohorts 0 and 0 must add up to first, because every second report has one bit",
        ),
    ],
)
def test_counts_that_no_batches_make_are_refused(changes: dict[str, Any], sentence: str) -> None:
    assert broken().num_batches == 2
    with pytest.raises(Invalid) as caught:
        broken(**changes)
    assert f"pair both, epoch 7: {sentence}" in caught.value.problems


def test_bits_that_must_have_met_must_be_counted() -> None:
    """Three of four batches had the one bit and three the other: at least two had both."""
    both = pair("theme", "start")
    for met in (2, 3):
        PairTally(both, {7: PairCounts((4,), ((3,),), ((3,),), (((met,),),))})
    with pytest.raises(Invalid, match=r"must be in \[2, 3\] for bits 0 and 0, got 1"):
        PairTally(both, {7: PairCounts((4,), ((3,),), ((3,),), (((1,),),))})
    with pytest.raises(Invalid, match="must add up to second, because every first report has one bit"):
        PairTally(pair("os", "theme"), {7: PairCounts((2,), ((1, 1, 0, 0),), ((1,),), (((0,), (0,), (0,), (0,)),))})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "hubbub.tally"}, "not a pair tally: format must be 'hubbub.pair_tally', got 'hubbub.tally'"),
        ({"version": 2}, "version must be 1, got 2"),
        ({"pair_hash": "00"}, "pair_hash must be "),
        ({"colour": 1}, "a pair tally must have exactly the keys 'epochs', 'format', 'pair', 'pair_hash', 'version'"),
        ({"epochs": 3}, "epochs must be a list, got 3"),
        ({"epochs": [{"epoch": 7}]}, "an epoch must have exactly the keys 'both', 'epoch', 'first', 'num_batches'"),
        ({"pair": []}, "the pair must be a table of keys and values, got a list of 0"),
    ],
)
def test_a_file_that_is_none_is_refused(change: dict[str, Any], sentence: str) -> None:
    data = json.loads(broken().to_json()) | change
    with pytest.raises(Invalid) as caught:
        PairTally.from_data(data)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("epoch", "7", "epoch must be a whole number that comes once, got '7'"),
        ("epoch", 2**31, "epoch must fit 32 bits"),
        ("num_batches", [True], "num_batches must be lists of whole numbers, got a list of 1"),
        ("first", [3], "the rows of first must be lists of whole numbers, got 3"),
        ("second", 3, "second must be a list, got 3"),
        ("both", [[[0.5]]], "the rows of both must be lists of whole numbers, got a list of 1"),
    ],
)
def test_an_epoch_that_is_none_is_refused(key: str, value: Any, sentence: str) -> None:
    data = json.loads(broken().to_json())
    data["epochs"][0][key] = value
    with pytest.raises(Invalid) as caught:
        PairTally.from_data(data)
    assert sentence in str(caught.value)


@settings(max_examples=60)
@given(st.data())
def test_any_json_is_a_pair_tally_or_refused(data: st.DataObject) -> None:
    good = json.loads(count_pairs(pair("page", "site"), batches_of(pair("page", "site"), 5)).to_json())
    with suppress(Invalid):
        PairTally.from_data(mutated(good, data.draw))


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(Invalid, match="not a pair tally: not JSON"):
        PairTally.from_json("{")
