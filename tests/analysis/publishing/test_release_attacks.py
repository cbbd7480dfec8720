"""Releases killed, run at once, on a full disk, of another folder: what is seen is whole, and was charged once."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.analysis.publishing.ledger import Budget, open_ledger
from hubbub.analysis.publishing.released_file import verify
from hubbub.command.main import main
from hubbub.protocol.kinds import Flag
from hubbub.protocol.tally import Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import binomial_bounds, power

METRIC = define(Flag(), "2", "3")
BUDGET = Budget(epsilon=3.0, delta=1e-9)


def a_tally(path: Path, seed: int = 1, epochs: tuple[int, ...] = (2960,), metric=METRIC) -> Tally:
    tally = tally_of(metric, [1_400, 600], np.random.default_rng(seed), epochs=epochs)
    path.write_text(tally.to_json(), encoding="utf-8")
    return tally


def words(folder: Path, tallies: Path, *more: str) -> list[str]:
    outputs = [word for ending in ("json", "html") for word in ("--out", str(folder / f"figures.{ending}"))]
    return ["release", str(tallies), *outputs, "--budget", "3,1e-9", "--ledger", str(folder / "ledger"), *more]


def published(folder: Path) -> list[Path]:
    """The files of figures, each of which must be whole."""
    found = [folder / f"figures.{ending}" for ending in ("json", "html") if (folder / f"figures.{ending}").exists()]
    for path in found:
        assert verify(path.read_text(encoding="utf-8")) == []
    return found


class _Killed(BaseException):
    """Nothing catches it: what would have come next does not."""


def _dying(monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> Callable[[], int]:
    """The call number `at` of those that change files is the last, before or after it is done; of a text that is
    written, half. Returns how many calls there have been."""
    calls = 0
    write, sync, cut, replaced, text = os.write, os.fsync, os.ftruncate, Path.replace, Path.write_text

    def guarded(done: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            done() if after else half()
            raise _Killed
        return done()

    def dying_write(descriptor: int, data: bytes) -> int:
        return guarded(lambda: write(descriptor, data), lambda: write(descriptor, data[: len(data) // 2]))

    def dying_text(path: Path, data: str, **options: Any) -> int:
        return guarded(lambda: text(path, data, **options), lambda: text(path, data[: len(data) // 2], **options))

    monkeypatch.setattr(os, "write", dying_write)
    monkeypatch.setattr(os, "fsync", lambda descriptor: guarded(lambda: sync(descriptor)))
    monkeypatch.setattr(os, "ftruncate", lambda descriptor, size: guarded(lambda: cut(descriptor, size)))
    monkeypatch.setattr(Path, "replace", lambda path, target: guarded(lambda: replaced(path, target)))
    monkeypatch.setattr(Path, "write_text", dying_text)
    return lambda: calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_any_write_what_is_seen_is_whole_and_was_charged(tmp_path: Path, after: bool, capsys) -> None:
    """The whole command, at each of the calls that change a file; and once more by whoever finds it so."""
    a_tally(tmp_path / "asked.json")
    calls, at, lost = 99, 0, 0
    while at < calls:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            counted = _dying(patch, at, after=after)
            try:
                assert main(words(folder, tmp_path / "asked.json")) == 0
                calls = counted()
            except _Killed:
                pass
        charged = bool(items_in(folder))
        seen = published(folder)
        assert charged or not seen
        again = main(words(folder, tmp_path / "asked.json"))
        assert again == (2 if charged else 0)
        assert len(published(folder)) == (len(seen) if charged else 2)
        assert items_in(folder) == 1
        lost += charged and not seen
        capsys.readouterr()
    assert calls > 12
    assert lost  # charged and never seen: the price of never the other way round


def items_in(folder: Path) -> int:
    """How many epochs the ledger has been charged for; none before it is begun."""
    with open_ledger(folder / "ledger", BUDGET) as ledger:
        assert ledger.spent <= BUDGET.epsilon
        return len(ledger.items)


def test_of_many_at_once_one_publishes(tmp_path: Path, capsys) -> None:
    """Eight threads with the same words: each opens the ledger for itself, as a process does."""
    a_tally(tmp_path / "asked.json")
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(main(words(tmp_path, tmp_path / "asked.json"))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, *[2] * 7]
    assert len(published(tmp_path)) == 2
    refusals = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    allowed = ("another release is being made", "was published before", "nothing is new", "a new ledger needs")
    assert all(any(part in line for part in allowed) for line in refusals)
    assert items_in(tmp_path) == 1


@pytest.mark.parametrize("bytes_left", [0, 10, 60, 120, 400, 700])
def test_on_a_full_disk_nothing_is_published_that_was_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, bytes_left: int
) -> None:
    """So many bytes can be written, by whatever call; then none. It says so, and with room again goes on."""
    a_tally(tmp_path / "asked.json")
    write, text, left = os.write, Path.write_text, bytes_left

    def full() -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_some(descriptor: int, data: bytes) -> int:
        nonlocal left
        if left <= 0:
            raise full()
        done = write(descriptor, data[:left])
        left -= done
        return done

    def write_text(path: Path, data: str, **options: Any) -> int:
        nonlocal left
        text(path, data[:left], **options)
        left -= len(data)
        if left < 0:
            raise full()
        return len(data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        patch.setattr(Path, "write_text", write_text)
        assert main(words(tmp_path, tmp_path / "asked.json")) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert published(tmp_path) == []
    again = main(words(tmp_path, tmp_path / "asked.json"))
    said = capsys.readouterr().err
    assert items_in(tmp_path) == 1
    if again:
        assert "was published before" in said
    else:
        assert len(published(tmp_path)) == 2


def test_a_second_folder_with_the_same_ledger_is_refused_unless_it_is_of_the_same_collector(
    tmp_path: Path, capsys
) -> None:
    """The same counts again, the same weeks of other people, other weeks of other people, and another metric."""
    first = a_tally(tmp_path / "first.json")
    assert main(words(tmp_path, tmp_path / "first.json")) == 0
    capsys.readouterr()
    (tmp_path / "copy.json").write_text(first.to_json(), encoding="utf-8")
    a_tally(tmp_path / "others.json", seed=2)
    a_tally(tmp_path / "later.json", seed=3, epochs=(2961,))
    a_tally(tmp_path / "another.json", seed=4, metric=define(Flag(), "1", "3"))
    for name, refusal in (
        ("copy", "nothing is new: publish those files again"),
        ("others", "must be the ledger of these tallies' collector, and its counts must not have gone back"),
        ("later", "must be the ledger of these tallies' collector, and nothing shows it"),
        ("another", "must be the ledger of these tallies' collector, and nothing shows it"),
    ):
        assert main(words(tmp_path, tmp_path / f"{name}.json")) == 2, name
        assert refusal in capsys.readouterr().err, name
    assert items_in(tmp_path) == 1


def test_thirty_releases_by_the_operating_systems_chance_differ_and_hold_what_was_counted(tmp_path: Path) -> None:
    """The counts are the same thirty times, the noise on them is not. An interval also allows for the noise of the
    devices, so that it holds the estimate without noise on counts at least so often: fewer than the bound would once in
    a million runs, and that an interval forgot the noise on counts, and held .4, nearly always."""
    tally = a_tally(tmp_path / "asked.json", seed=5)
    (without,) = decode(tally).estimate
    seen, held = set(), 0
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert main([*words(folder, tmp_path / "asked.json"), "--count-noise", "gaussian:60"]) == 0
        (facts,) = json.loads((folder / "figures.json").read_text(encoding="utf-8"))["metrics"]
        (figure,) = facts["figures"]
        seen.add((figure["estimate"], *facts["reports"].values()))
        held += figure["low"] <= without <= figure["high"]
    assert len(seen) == 30
    assert held >= binomial_bounds(30, 0.95)[0]
    assert power(30, 0.95, 0.4) > 0.99
