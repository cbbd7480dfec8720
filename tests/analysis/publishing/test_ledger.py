"""The ledger never lets more be published than its budget, whatever is cut short, and refuses what is damaged."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from hubbub.analysis import publishing
from hubbub.analysis.accounting.composition import optimal
from hubbub.analysis.publishing.count_noise import CountNoise, counts_of_a_report
from hubbub.analysis.publishing.ledger import Budget, Item, epsilon_of, open_ledger
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "metrics.toml"
BUDGET = Budget(epsilon=1.0, delta=1e-6)
ITEM = Item(
    metric="dark_theme",
    metric_hash="00" * 16,
    every="week",
    epoch=2960,
    reports=1000,
    digest="a",
    noise="laplace:0.05",
    counts=2,
    cells=((600, 200), (400, 100)),
)


def week(number: int, **changes: object) -> Item:
    return replace(ITEM, epoch=2960 + number, **changes)


def test_what_is_spent_is_the_best_composition_of_all_items(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with open_ledger(path, BUDGET) as ledger:
        assert ledger.spent == 0
        assert ledger.charge([week(0), week(1)]) == pytest.approx(optimal(0.05, 4, 1e-6), rel=0.01)
    with open_ledger(path) as ledger:
        assert ledger.budget == BUDGET
        assert ledger.items == [week(0), week(1)]
        assert ledger.charge([week(2)]) == pytest.approx(optimal(0.05, 6, 1e-6), rel=0.01)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_install_is_in_one_segment_and_losses_of_several_do_not_add(tmp_path: Path) -> None:
    def of(segment: str, number: int = 0, by: str = "platform", **changes: object) -> Item:
        return week(number, metric_hash=segment, question="it", by=by, **changes)

    def times(*items: Item) -> float:
        return epsilon_of(items, 1e-6)

    one = of("linux")
    assert times(one, of("windows"), of("other")) == times(one)
    assert times(one, of("windows"), of("windows", digest="grown")) == times(one, week(1))  # of one of them twice
    assert times(one, of("2.1", by="release")) == times(one, week(1))  # everybody has a platform and a release
    assert times(one, of("linux", 1)) == times(one, week(1))
    assert times(one, week(0, metric_hash="it", question="it")) == times(one, week(1))
    assert times(one, of("windows", noise="laplace:0.1")) >= times(of("windows", noise="laplace:0.1"))
    choice = week(0, metric="the choice", metric_hash="choice:a", noise="exponential:0.05", counts=3, cells=())
    assert times(choice) == pytest.approx(optimal(0.05, 3, 1e-6), rel=0.01)
    with open_ledger(tmp_path / "ledger", BUDGET) as ledger:
        ledger.charge([choice, one])
        with pytest.raises(Invalid, match="the choice was published before: publish that file again"):
            ledger.charge([choice])


def test_beyond_the_budget_it_says_what_is_left_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(0)])
        before = path.read_bytes()
        with pytest.raises(Invalid, match=r"0\.100 is spent, 0\.900 is left, and this release would make it 1\.1"):
            ledger.charge([week(1, noise="laplace:0.5")])
        assert path.read_bytes() == before
        ledger.charge([week(1)])


def test_what_was_published_is_not_drawn_again(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger", BUDGET) as ledger:
        ledger.charge([week(0)])
        with pytest.raises(Invalid, match="2026-W39 of dark_theme was published before: publish that file again"):
            ledger.charge([week(0)])
        with pytest.raises(Invalid, match=r"2026-W39 of dark_theme was published before, with laplace:0\.05"):
            ledger.charge([week(0, noise="gaussian:20")])
        ledger.charge([week(0, reports=1001, digest="b")])  # more has been counted since: another release


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reports": 999, "cells": ((599, 200), (400, 100))}, "1000 reports, got 999$"),
        ({"reports": 1000, "cells": ((601, 200), (399, 100))}, "cannot have grown"),
        ({"reports": 1010, "cells": ((605, 199), (405, 100))}, "cannot have grown"),
        ({"reports": 1010, "cells": ((605, 206), (405, 100))}, "cannot have grown"),
        ({"reports": 1010, "cells": ((1010, 300),)}, "cannot have grown"),
    ],
    ids=["fewer reports", "fewer in a group", "fewer ones", "more ones than reports", "other groups"],
)
def test_a_ledger_is_of_one_collector_whose_counts_never_go_back(
    tmp_path: Path, changes: dict[str, object], why: str
) -> None:
    with open_ledger(tmp_path / "ledger", BUDGET) as ledger:
        assert ledger.strangers([week(0)]) == []  # a new one is anybody's
        ledger.charge([week(0)])
        assert ledger.strangers([week(0), week(1)]) == []
        assert ledger.strangers([week(0, reports=1010, digest="b", cells=((605, 205), (405, 100)))]) == []
        (problem,) = ledger.strangers([week(0, digest="b", **changes), week(1)], vouched=True)
        assert re.search(f"must be the ledger of these tallies' collector, .* gone back.* {why}", problem)
        (problem,) = ledger.strangers([week(1), week(2)])
        assert "nothing shows it: also give a tally that has an epoch published before, such as 2026-W39" in problem
        assert ledger.strangers([week(1), week(2)], vouched=True) == []


def test_a_ledger_that_lost_records_is_refused(tmp_path: Path) -> None:
    """Cut anywhere: within a record, where it looks like a crash, and between two, where it looks whole."""
    path = tmp_path / "ledger"
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(0)])
    before = len(path.read_bytes())
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(1)])
    good = path.read_bytes()
    for place in (0, 40, before - 5, before, before + 3, len(good) - 1):
        path.write_bytes(good[:place])
        with pytest.raises(Invalid, match="of 3 records are left: what was published can no longer"), open_ledger(path):
            pass
    path.write_bytes(good + good[before : before + 30])  # the next one was cut short while it was written
    with open_ledger(path) as ledger:
        assert ledger.items == [week(0), week(1)]
    head = tmp_path / "ledger.head"
    for text in (None, b"", b"3", b"-1\n", b"three\n", b"\xb3\n"):
        head.unlink()
        if text is not None:
            head.write_bytes(text)
        with pytest.raises(Invalid, match="must say how many records ledger has; restore both"), open_ledger(path):
            pass
        head.write_bytes(b"3\n")


def test_a_ledger_has_one_head_by_whatever_name_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "ledger")
    with open_ledger(link, BUDGET) as ledger:
        ledger.charge([week(0)])
        with (
            pytest.raises(Invalid, match="another release is being made"),
            open_ledger(tmp_path / "elsewhere" / "ledger"),
        ):
            pass
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["elsewhere", "ledger", "ledger.head", "link"]
    with open_ledger(tmp_path / "elsewhere" / "ledger") as ledger:
        assert ledger.items == [week(0)]
    (tmp_path / "elsewhere" / "ledger").rename(tmp_path / "moved")
    with pytest.raises(Invalid, match=r"moved\.head must say how many records"), open_ledger(tmp_path / "moved"):
        pass


def test_the_budget_stays_what_it_was_declared(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with pytest.raises(Invalid, match="a new ledger needs a budget"), open_ledger(path):
        pass
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(0)])
    with (
        pytest.raises(Invalid, match="the budget must stay what it was declared, 1,1e-06, got 2,1e-06"),
        open_ledger(path, Budget(epsilon=2, delta=1e-6)),
    ):
        pass
    with pytest.raises(Invalid, match=r"epsilon must be above 0 .*, got 0\n.*delta must be above 0 and below 1, got 1"):
        Budget(epsilon=0, delta=1)


def test_one_release_at_a_time(tmp_path: Path) -> None:
    with (
        open_ledger(tmp_path / "ledger", BUDGET),
        pytest.raises(Invalid, match="another release is being made"),
        open_ledger(tmp_path / "ledger", BUDGET),
    ):
        pass


_HOLDER = """
import sys
from pathlib import Path
from hubbub.analysis.publishing.ledger import Budget, open_ledger
with open_ledger(Path(sys.argv[1]), Budget(epsilon=1.0, delta=1e-6)):
    print("open", flush=True)
    sys.stdin.readline()
"""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    holder = [sys.executable, "-c", _HOLDER, str(path)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(Invalid, match="another release is being made; try again"), open_ledger(path, BUDGET):
            pass
        other.kill()  # a process that dies leaves no lock behind
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(0)])


def test_no_clock_has_a_say() -> None:
    """What was published is known by counts, so that a clock that goes back gives nothing back."""
    for module in Path(publishing.__path__[0]).glob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & {"time", "datetime"}, module


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with open_ledger(path, BUDGET) as ledger:
        ledger.charge([week(0)])
        ledger.charge([week(1)])
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(Invalid, match="damaged at byte"), open_ledger(path):
            pass


class _Crash(Exception):
    pass


def _crashing(monkeypatch: pytest.MonkeyPatch, rng: Random, chance: float) -> None:
    """Any system call that changes the file may be the last: done in part, done in whole, or not at all."""
    write, cut = os.write, os.ftruncate

    def crash_or(call: Callable[[], object]) -> None:
        if rng.random() < chance:
            if rng.random() < 0.5:
                call()
            raise _Crash

    def crashing_write(descriptor: int, data: bytes) -> int:
        crash_or(lambda: write(descriptor, data[: rng.randrange(len(data) + 1)]))
        return write(descriptor, data[: rng.randrange(1, len(data) + 1)])

    def crashing_sync(descriptor: int) -> None:
        crash_or(lambda: None)

    def crashing_cut(descriptor: int, length: int) -> None:
        crash_or(lambda: cut(descriptor, length))
        cut(descriptor, length)

    def crashing_replace(path: Path, target: Path) -> Path:
        crash_or(lambda: replaced(path, target))
        return replaced(path, target)

    replaced = Path.replace
    monkeypatch.setattr(Path, "replace", crashing_replace)
    monkeypatch.setattr(os, "write", crashing_write)
    monkeypatch.setattr(os, "fsync", crashing_sync)
    monkeypatch.setattr(os, "ftruncate", crashing_cut)


def _life_of_a_ledger(path: Path, rng: Random) -> tuple[int, int]:
    """Releases until something is refused; a release is seen only after its charge came back. Returns how many were
    seen and how many crashed."""
    for each in path.parent.glob("ledger*"):
        each.unlink()
    seen: list[Item] = []
    crashes, refused = 0, ""
    for number in range(40):
        items = [
            week(40 * number + i, noise=rng.choice(["laplace:0.05", "laplace:0.1"])) for i in range(rng.randrange(1, 4))
        ]
        try:
            with open_ledger(path, BUDGET) as ledger:
                ledger.charge(items)
        except _Crash:
            crashes += 1
            continue
        except Invalid as error:
            refused = str(error)
            break
        seen += items
        assert epsilon_of(seen, BUDGET.delta) <= BUDGET.epsilon
    assert "must not be exceeded" in refused
    with open_ledger(path, BUDGET) as ledger:
        assert ledger.spent <= BUDGET.epsilon
        assert [item for item in ledger.items if item in seen] == seen
    return len(seen), crashes


def _many(path: Path, ledgers: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    rng = Random(23)
    _crashing(monkeypatch, rng, 0.1)
    found = [_life_of_a_ledger(path, rng) for _ in range(ledgers)]
    return sum(seen for seen, _ in found), sum(crashes for _, crashes in found)


def test_no_crash_lets_more_be_published_than_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, crashes = _many(tmp_path / "ledger", 150, monkeypatch)
    assert seen > 300
    assert crashes > 150


@pytest.mark.proof
def test_no_crash_of_ten_thousand_ledgers_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str, object], None]
) -> None:
    seen, crashes = _many(tmp_path / "ledger", 10_000, monkeypatch)
    figure(
        "ledgers with crashes between any two writes", f"10,000; {seen} epochs published, {crashes} crashes, none over"
    )
    assert crashes > 10_000


def test_charging_after_the_release_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slip this order avoids: what is seen before it is charged is lost in a crash."""
    rng = Random(5)
    _crashing(monkeypatch, rng, 0.5)
    seen: list[Item] = []
    for number in range(60):
        seen.append(week(number, noise="laplace:0.1"))
        try:
            with open_ledger(tmp_path / "ledger", BUDGET) as ledger:
                ledger.charge([seen[-1]])
        except _Crash:
            continue
        except Invalid:
            break
    assert epsilon_of(seen, BUDGET.delta) > BUDGET.epsilon


# --- count noise --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["gaussian:20", "gaussian:2.5", "laplace:0.1", "laplace:1"])
def test_noise_is_written_as_it_was_read(text: str) -> None:
    assert str(CountNoise.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("gaussian", "gaussian:0.5", "laplace:2", "laplace:0", "uniform:3", "gaussian:x", "laplace:1/0"),
        *("laplace:1/3", "gaussian:1e999999999", "gaussian:2_0", "gaussian:\u0662\u0660", "gaussian: 20"),
        *("gaussian:-20", "gaussian:nan"),
        *("gaussian:inf", "laplace:0x1", "laplace:1e-1", "gaussian:20\n", "GAUSSIAN:20", "gaussian:20:20"),
    ],
)
def test_other_noise_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"count noise must be gaussian:DEVIATION .* or laplace:EPSILON .*, got"):
        CountNoise.parse(text)


def test_a_report_shows_in_the_count_of_reports_and_in_each_bit_it_may_set() -> None:
    registry = Registry.load(EXAMPLE)
    found = {metric.name: counts_of_a_report(metric) for metric in registry}
    assert found["dark_theme"] == 2
    assert found["homepage"] == 65
    assert found["file_size"] == 3
    assert found["language"] == (2 if registry["language"].one_hot else 1 + registry["language"].shape.width(0))
