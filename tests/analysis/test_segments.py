"""A metric by segment: totals are sums of counts, each segment is decoded by itself, and two can be compared."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from hubbub.analysis import active_installs, by_segment, compare, decode, undivided, within
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Flag
from hubbub.protocol.segments import Segment
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import read_tallies, write_tallies
from tests.analysis.worlds import define, tally_of

FLAG = define(Flag())
CHOICE = define(Choice(choices=("a", "b")))
SIZES = {("linux", "2.9"): 30_000, ("linux", "2.10"): 20_000, ("macos", "2.9"): 10_000, ("macos", "other"): 5_000}


def segment(platform: str, release: str) -> Segment:
    return (("platform", platform), ("release", release))


def divided(seed: int = 1) -> list[Tally]:
    """Linux says yes in 60 of 100 installs, macOS in 20."""
    rng = np.random.default_rng(seed)
    found = []
    for (platform, release), installs in SIZES.items():
        yes = round(installs * (0.6 if platform == "linux" else 0.2))
        found.append(tally_of(FLAG.in_segment(segment(platform, release)), [installs - yes, yes], rng))
    return found


def test_a_total_is_the_sum_of_its_segments() -> None:
    """The same digits as from a tally that was never divided."""
    tallies = divided()
    (together,) = undivided(tallies)
    assert together.metric == FLAG
    assert together.num_reports == sum(SIZES.values())
    whole, plain = decode(tallies), decode(together)
    assert whole.segment == plain.segment == ()
    for name in ("estimate", "std_error", "low", "high", "p_value"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(plain, name))


def test_installs_of_a_registry_without_segments_count_in_the_total() -> None:
    old = tally_of(FLAG, [700, 300], np.random.default_rng(2))
    tallies = [*divided(), old]
    assert decode(tallies).num_reports == sum(SIZES.values()) + 1_000
    assert list(by_segment(tallies, "release")) == ["2.9", "2.10", "other", "not said"]


def test_each_value_of_a_key_is_decoded_by_itself() -> None:
    found = {value: decode(some) for value, some in by_segment(divided(), "platform").items()}
    assert list(found) == ["linux", "macos"]
    assert found["linux"].segment == (("platform", "linux"),)
    assert found["linux"].title == "asked, platform linux"
    assert found["linux"].low[0] <= 0.6 <= found["linux"].high[0]
    assert found["macos"].low[0] <= 0.2 <= found["macos"].high[0]
    assert [decoding.num_reports for decoding in found.values()] == [50_000, 15_000]


def test_two_releases_are_compared_as_different_installs() -> None:
    before, after = (decode(within(divided(), {"platform": p})) for p in ("macos", "linux"))
    assert compare(before, after).changed.tolist() == [True]
    columns = compare(before, after).columns()
    assert (columns["segment_before"], columns["segment_after"]) == (["platform macos"], ["platform linux"])


def test_what_was_not_counted_is_refused_in_words() -> None:
    with pytest.raises(Invalid, match="the key of segments must be one of platform, release, got 'colour'"):
        by_segment(divided(), "colour")
    with pytest.raises(Invalid, match="must be left out: these tallies have no segments, got 'platform'"):
        by_segment([tally_of(FLAG, [1, 1], np.random.default_rng(1))], "platform")
    with pytest.raises(Invalid, match=r"release must be one of 2\.9, 2\.10, which were counted, got 'other'"):
        within(divided(), {"platform": "linux", "release": "other"})


def test_the_same_segment_twice_is_no_total() -> None:
    with pytest.raises(Invalid, match="each definition must come once"):
        decode([divided()[0], divided()[0]])


def test_installs_are_counted_by_segment() -> None:
    (whole,) = active_installs(divided())
    assert (whole.installs, whole.segment) == (65_000, ())
    (linux,) = active_installs(within(divided(), {"platform": "linux"}))
    assert (linux.installs, linux.segment) == (50_000, (("platform", "linux"),))


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path) -> str:
    write_tallies(divided(), tmp_path / "tallies")
    return str(tmp_path / "tallies")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["decode", *arguments]) == 0
    return capsys.readouterr().out


def test_a_table_has_a_column_for_each_segment(folder, capsys) -> None:
    title, _, header, yes, reports, _, *said = printed(capsys, folder, "--by", "platform").splitlines()
    assert title.startswith("asked (flag)")
    assert header.split("  ")[-1].strip() == "platform macos"
    assert yes.split()[0] == "yes"
    assert reports.split() == ["reports", "50,000", "15,000"]
    assert "platform linux" in header
    assert said[0] == "Intervals describe the installs that reported (reporting)."


def test_rows_for_programs_say_the_segment(folder, capsys) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, folder, "--by", "platform", "--format", "csv"))))
    assert [(row["segment"], row["num_reports"]) for row in rows] == [
        ("platform linux", "50000"),
        ("platform macos", "15000"),
    ]
    found = json.loads(printed(capsys, folder, "--by", "release", "--json"))
    assert [decoding["segment"] for decoding in found] == [{"release": name} for name in ("2.9", "2.10", "other")]


def test_only_and_against_only_compare_two_segments(folder, capsys) -> None:
    text = printed(capsys, folder, "--only", "platform=linux", "--against-only", "platform=macos")
    assert "platform macos" in text
    assert "The two sides are different installs: variances add." in text
    assert " differs" in text


def test_installs_by_segment(folder, capsys) -> None:
    rows = json.loads(printed(capsys, folder, "--installs", "--by", "platform", "--json"))
    assert [(row["segment"], row["installs"]) for row in rows] == [
        ("platform linux", 50_000),
        ("platform macos", 15_000),
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "linux"], "a segment must be KEY=VALUE, such as release=2.1, got 'linux'"),
        (["--only", "platform=amiga"], "platform must be one of linux, macos, which were counted, got 'amiga'"),
        (["--by", "release", "--against-only", "release=2.9"], "--by and a comparison exclude each other"),
        (["--by-epoch", "--against-only", "release=2.9"], "--by-epoch and a comparison exclude each other"),
    ],
)
def test_contradictions_are_refused(folder, capsys, arguments: list[str], sentence: str) -> None:
    assert main(["decode", folder, *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_charts_of_shares_and_of_numbers_are_drawn(folder, tmp_path, capsys) -> None:
    assert main(["decode", folder, "--by", "platform", "--chart", str(tmp_path / "by.svg")]) == 0
    picture = (tmp_path / "by.svg").read_text(encoding="utf-8")
    assert "platform linux" in picture
    assert "platform macos" in picture


def test_an_export_by_key_adds_up_the_rest(folder, tmp_path) -> None:
    apart = by_segment(read_tallies(folder), "platform")
    write_tallies([tally for some in apart.values() for tally in some], tmp_path / "by_platform")
    found = {tally.metric.segment: tally.num_reports for tally in read_tallies(tmp_path / "by_platform")}
    assert found == {(("platform", "linux"),): 50_000, (("platform", "macos"),): 15_000}
