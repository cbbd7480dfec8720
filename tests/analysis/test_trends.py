"""Values over time: every epoch, what changed since the one before, and what happened meanwhile."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from hubbub.analysis import Annotation, Options, decode, read_annotations, releases, trend
from hubbub.analysis.commands.decode import each_epoch
from hubbub.command.main import main
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import Choice, Mean
from hubbub.protocol.tally import Tally
from hubbub.protocol.tally_files import write_tally
from tests.analysis.worlds import define, tally_of
from tests.chance import binomial_bounds, power

CHOICE = define(Choice(choices=("a", "b", "c")), "4", "6")
FIRST = 2960  # 2026-W39


def weeks(shares: list[list[float]], installs: int = 20_000, seed: int = 1, metric=CHOICE) -> Tally:
    """One crowd a week, of whom these shares give each answer."""
    rng = np.random.default_rng(seed)
    epochs = {}
    for number, share in enumerate(shares):
        counts = np.round(np.array([*share, 1 - sum(share)]) * installs).astype(int)
        epochs |= tally_of(metric, counts, rng, epochs=(FIRST + number,)).epochs
    return Tally(metric, epochs)


def points(tally: Tally, *values: str, notes: tuple[Annotation, ...] = ()):
    return trend([decode(one) for one in each_epoch([tally])], values, notes)


STEADY, MOVED = [0.5, 0.3, 0.1], [0.4, 0.4, 0.1]


def test_a_change_is_found_in_the_week_in_which_it_came() -> None:
    found = points(weeks([STEADY, STEADY, MOVED, MOVED]), "a", "c")
    assert [point.epoch for point in found] == ["2026-W39", "2026-W40", "2026-W41", "2026-W42"] * 2
    assert [point.changed for point in found] == [None, False, True, False, None, False, False, False]
    assert [point.change is None for point in found] == [True, False, False, False] * 2
    moved = found[2]
    assert moved.change == pytest.approx(moved.estimate - found[1].estimate)
    assert moved.change_low <= -0.1 <= moved.change_high
    assert all(point.low <= (0.5 if place < 2 else 0.4) <= point.high for place, point in enumerate(found[:4]))


def test_where_nothing_changes_a_week_seldom_shows_a_change() -> None:
    """Corrected over its values: at most 5 % of weeks, of crowds that are drawn anew."""
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng([7, seed])
        shares = [(rng.multinomial(2_000, [0.5, 0.3, 0.1, 0.1]) / 2_000)[:3].tolist() for _ in range(2)]
        both = [decode(one, options=Options(estimand="population")) for one in each_epoch([weeks(shares, 2_000, seed)])]
        alarms += any(point.changed for point in trend(both, ("a", "b", "c")))
    assert alarms <= binomial_bounds(150, 0.05)[1]
    assert power(150, 0.05, 0.25) > 0.99


def test_without_names_the_largest_values_are_followed_and_of_numbers_the_mean() -> None:
    assert {point.value for point in points(weeks([STEADY, STEADY]))} == {"a", "b", "c"}
    mean = define(Mean(low=0, high=30, absent=0, unit="s"))
    (first, second) = points(weeks([[0.5], [0.5]], metric=mean))
    assert (first.value, first.unit, second.value) == ("mean", "s", "mean")


def test_a_value_that_no_week_has_is_refused() -> None:
    with pytest.raises(Invalid, match="the value must be one of a, b, c, absent, which every epoch has, got 'd'"):
        points(weeks([STEADY, STEADY]), "d")


def test_annotations_stand_at_their_week() -> None:
    notes = (Annotation("2026-W40", "2.1 is out"), Annotation("2026-W40", "a holiday"))
    found = points(weeks([STEADY, STEADY]), "a", notes=notes)
    assert [point.annotation for point in found] == ["", "2.1 is out; a holiday"]


def test_annotations_are_read_from_a_file(tmp_path) -> None:
    path = tmp_path / "happened.toml"
    path.write_text('[[annotations]]\ndate = 2026-09-30\ntext = "a sale"\n', encoding="utf-8")
    assert read_annotations(str(path), "week") == [Annotation("2026-W40", "a sale")]
    assert read_annotations(str(path), "month") == [Annotation("2026-09", "a sale")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[annotations]", "not TOML"),
        ("[[notes]]", r"must hold tables \[\[annotations\]\] and nothing else, got notes"),
        ("[[annotations]]\ntext = 'x'", "must have a date and a text"),
        ("[[annotations]]\ndate = '2026-09-30'\ntext = 'x'", "date must be a day such as 2026-11-16"),
        ("[[annotations]]\ndate = 2026-09-30\ntext = ' '", "text must say what happened, got ' '"),
    ],
)
def test_wrong_annotations_are_refused(tmp_path, text: str, sentence: str) -> None:
    path = tmp_path / "happened.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Invalid, match=sentence):
        read_annotations(str(path), "week")


def of_release(release: str, first: int, last: int, installs: int) -> Tally:
    metric = CHOICE.in_segment((("release", release),))
    tally = weeks([STEADY] * (last - first), installs, metric=metric)
    return Tally(metric, {epoch + first: counts for epoch, counts in tally.epochs.items()})


def test_a_release_is_out_when_one_install_in_a_hundred_has_it() -> None:
    tallies = [
        of_release("2.9", 0, 4, 2_000),
        of_release("2.10", 1, 2, 10),  # a few testers
        of_release("2.10", 2, 4, 800),
        of_release("other", 0, 4, 500),
    ]
    tallies = [tallies[0], tallies[1] + tallies[2], tallies[3]]
    assert releases(tallies) == [Annotation("2026-W41", "2.10 is out")]
    assert releases([weeks([STEADY])]) == []


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> str:
    return str(write_tally(weeks([STEADY, STEADY, MOVED]), tmp_path / "asked.json"))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["decode", *arguments]) == 0
    return capsys.readouterr().out


def test_a_trend_as_table_csv_and_json(file, capsys) -> None:
    text = printed(capsys, file, "--trend", "--value", "a")
    assert "no significant change" in text
    assert [line.split()[1] for line in text.splitlines()[3:6]] == ["2026-W39", "2026-W40", "2026-W41"]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, file, "--trend", "--format", "csv", "--value", "b"))))
    assert [row["changed"] for row in rows] == ["", "false", "true"]
    assert len(json.loads(printed(capsys, file, "--trend", "--json"))) == 9


def test_a_range_of_weeks_and_a_picture(file, capsys, tmp_path) -> None:
    notes = tmp_path / "happened.toml"
    notes.write_text('[[annotations]]\ndate = 2026-10-08\ntext = "a sale"\n', encoding="utf-8")
    picture = tmp_path / "trend.svg"
    options = ("--from", "2026-W40", "--to", "2026-W41", "--annotate", str(notes), "--chart", str(picture))
    rows = json.loads(printed(capsys, file, "--trend", "--json", "--value", "a", *options))
    assert [(row["epoch"], row["annotation"]) for row in rows] == [("2026-W40", ""), ("2026-W41", "a sale")]
    assert "a sale" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--value", "a"], "--value says what --trend or --by-epoch --chart shows, got it without: 'a'"),
        (["--annotate", "x.toml"], "--annotate is for --trend or --by-epoch --chart, got it without: 'x.toml'"),
        (["--trend", "--format", "parquet", "--out", "x.parquet"], "--trend writes a table, csv or json"),
        (["--trend", "--against", "x.json"], "--trend and a comparison exclude each other"),
    ],
)
def test_contradictions_are_refused(file, capsys, arguments: list[str], sentence: str) -> None:
    assert main(["decode", file, *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_too_many_lines_are_refused(tmp_path, capsys) -> None:
    wide = define(Choice(choices=tuple(f"c{i}" for i in range(9))), "4", "6")
    path = str(write_tally(weeks([[0.1] * 9] * 2, metric=wide), tmp_path / "wide.json"))
    names = [part for i in range(9) for part in ("--value", f"c{i}")]
    assert main(["decode", path, "--by-epoch", "--chart", str(tmp_path / "x.svg"), *names]) == 2
    assert "at most 8 lines, got 9; name fewer values" in capsys.readouterr().err
