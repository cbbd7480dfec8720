"""The ledger of everything that was published from one collector's tallies, and the budget that it keeps.

A release is charged before its noise is drawn: written, with a checksum that covers all records before it, and synced.
Whatever happens afterwards, at worst something is charged that nobody saw; never is something seen that was not
charged. Each record says how long it is, so that one whose writing was cut short is known from one that was damaged:
the first is dropped (its release was never made), the second makes the whole ledger refused. A file beside it, its
*head*, says how many records there are at least, so that a ledger that lost some is refused, too. One process at a
time.

It is bound to its collector by the counts themselves, which only ever grow: those of a published epoch must be there
again, and must not have gone back.

It belongs beside the data, not on a web page: it holds exact counts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, reduce
from hashlib import blake2b
from pathlib import Path
from typing import Any

from hubbub.analysis.accounting.privacy_loss import PrivacyLoss
from hubbub.analysis.publishing.count_noise import loss_of
from hubbub.protocol.cadence import epoch_text
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.vocabulary import Cadence

FORMAT = "hubbub.ledger"
VERSION = 2
_DIGITS = 8
_HEAD = ".head"
_MOST_EPSILON = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that all releases together may tell about whether one install took part."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.epsilon <= _MOST_EPSILON:
            problems.append(
                f"the budget's epsilon must be above 0 and at most {_MOST_EPSILON}, beyond which it promises nothing, "
                f"got {self.epsilon:g}"
            )
        if not 0 < self.delta < 1:
            problems.append(f"the budget's delta must be above 0 and below 1, got {self.delta:g}")
        require(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One epoch of one metric, published once. `cells` are its exact counts, for each group that of reports and those
    of every bit, and `digest` is theirs."""

    metric: str
    metric_hash: str
    every: Cadence
    epoch: int
    reports: int
    digest: str
    noise: str
    counts: int  # in how many of the published counts one report shows
    cells: tuple[tuple[int, ...], ...] = ()
    question: str = ""  # the hash without a segment, where it is of one
    by: str = ""  # the keys of that segment

    @property
    def key(self) -> tuple[str, int]:
        return self.metric_hash, self.epoch

    def __str__(self) -> str:
        return f"{epoch_text(self.every, self.epoch)} of {self.metric}" if self.cells else self.metric

    def has_grown_from(self, old: Item) -> bool:
        """Whether its counts can be those of the old one and of more reports: no group has fewer, and no bit grew by
        less than nothing or by more than the reports did."""
        if len(self.cells) != len(old.cells):
            return False
        pairs = zip(self.cells, old.cells, strict=True)
        grown = [[new - was for new, was in zip(row, before, strict=True)] for row, before in pairs]
        return all(0 <= each <= row[0] for row in grown for each in row)


class Ledger:
    """What is in a ledger that is open and locked. Made by `open_ledger`."""

    def __init__(self, descriptor: int, budget: Budget | None, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        records, self._end = _records(_read_all(descriptor), path)
        self._stated = _require_all(len(records), path)
        if records:
            self.budget = Budget(**records[0]["budget"])
            if budget is not None and budget != self.budget:
                was, now = (f"{each.epsilon:g},{each.delta:g}" for each in (self.budget, budget))
                raise Invalid([f"{path}: the budget must stay what it was declared, {was}, got {now}"])
        elif budget is None:
            raise Invalid([f"{path}: a new ledger needs a budget, --budget EPSILON,DELTA"])
        else:
            self.budget = budget
        self._number = len(records)
        self._checksum = records[-1]["checksum"] if records else ""
        self.items = [_item(item) for record in records[1:] for item in record["items"]]

    @property
    def spent(self) -> float:
        """The epsilon of everything in the ledger, at the budget's delta."""
        return epsilon_of(self.items, self.budget.delta)

    def charge(self, items: Sequence[Item]) -> float:
        """Write these down, and return what is spent then. Raises `Invalid`, and writes nothing, if they do not fit the
        budget or were published before."""
        require(self._conflicts(items))
        self.require_room(items)
        if not self._number:
            self._append({"format": FORMAT, "version": VERSION, "budget": asdict(self.budget)})
        self._append({"items": [asdict(item) for item in items]})
        self.items.extend(items)
        return self.spent

    def require_room(self, items: Sequence[Item]) -> None:
        """Raises `Invalid`, with what is left, if the budget does not hold these, too."""
        before, after = self.spent, epsilon_of([*self.items, *items], self.budget.delta)
        if after > self.budget.epsilon:
            raise Invalid(
                [
                    f"the budget of epsilon {self.budget.epsilon:g} at delta {self.budget.delta:g} must not be "
                    f"exceeded: {before:.3f} is spent, {self.budget.epsilon - before:.3f} is left, and this release "
                    f"would make it {after:.3f}; publish fewer epochs or metrics, or with more noise"
                ]
            )

    def newest(self, key: tuple[str, int]) -> Item | None:
        """What was last published of this metric and epoch."""
        return next((item for item in reversed(self.items) if item.key == key), None)

    def has_others(self, item: Item) -> bool:
        """Whether other segments of its question and epoch were published, by the same key."""
        return bool(item.by) and any(
            (old.question, old.epoch, old.by) == (item.question, item.epoch, item.by) for old in self.items
        )

    def strangers(self, items: Sequence[Item], *, vouched: bool = False) -> list[str]:
        """Why tallies with these epochs cannot be of the collector that everything in the ledger is of. `vouched`:
        somebody says that they are, where no epoch that was published is left to show it."""
        known = [(item, old) for item in items if (old := self.newest(item.key)) is not None]
        problems = [
            f"{self._path} must be the ledger of these tallies' collector, and its counts must not have gone back, as "
            f"those of a restored backup have: {item} was published with {old.reports} reports, got {item.reports}"
            + ("" if item.reports < old.reports else " and counts that cannot have grown from those")
            for item, old in known
            if not item.has_grown_from(old)
        ]
        if self.items and not known and not vouched:
            problems.append(
                f"{self._path} must be the ledger of these tallies' collector, and nothing shows it: also give a tally "
                f"that has an epoch published before, such as {self.items[-1]}, or say --same-collector if no such "
                "counts are kept any more"
            )
        return problems

    def _conflicts(self, items: Sequence[Item]) -> Iterator[str]:
        for item in items:
            old = self.newest(item.key)
            if old is not None and item.digest == old.digest:
                how = "" if item.noise == old.noise else f", with {old.noise}"
                yield f"{item} was published before{how}: publish that file again; another draw would spend again"

    def _append(self, record: dict[str, Any]) -> None:
        self._count_up()  # a crash may have come before
        numbered = {"number": self._number, **record}
        checksum = _checksum(self._checksum, numbered)
        text = json.dumps({**numbered, "checksum": checksum}, sort_keys=True).encode()
        line = _head(len(text)) + text + b"\n"
        os.ftruncate(self._descriptor, self._end)  # what was cut short before
        os.lseek(self._descriptor, self._end, os.SEEK_SET)
        _write_all(self._descriptor, line)
        os.fsync(self._descriptor)
        self._end += len(line)
        self._number, self._checksum = self._number + 1, checksum
        self._count_up()

    def _count_up(self) -> None:
        if self._stated < self._number:
            _write_head(self._path, self._number)
            self._stated = self._number


@contextmanager
def open_ledger(path: Path, budget: Budget | None = None) -> Iterator[Ledger]:
    """The ledger in this file, for this process alone; a new one is made by its first charge and needs a budget."""
    try:
        import fcntl
    except ImportError:
        raise Invalid(["a ledger needs a system that locks files, such as Linux or macOS"]) from None
    path = path.resolve()  # one head, by whatever name it is called
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Invalid([f"{path}: another release is being made; try again when it is done"]) from None
        yield Ledger(descriptor, budget, path)
    finally:
        os.close(descriptor)


def epsilon_of(items: Sequence[Item], delta: float) -> float:
    """What all of these tell together about one install that took part in every one of them: losses add up. Of segments
    of one question and epoch, by the same key, it is in one: of these that counts of which most was published."""
    within: dict[tuple[str, int, str, str], Counter[str]] = {}
    for item in items:
        group = item.question or item.metric_hash, item.epoch, item.by, item.noise
        within.setdefault(group, Counter())[item.metric_hash] += item.counts
    counts: Counter[str] = Counter()
    for (*_, noise), segments in within.items():
        counts[noise] += max(segments.values())
    return _epsilon(tuple(sorted(counts.items())), delta) if counts else 0.0


@cache
def _epsilon(counts: tuple[tuple[str, int], ...], delta: float) -> float:
    return reduce(PrivacyLoss.then, (loss_of(noise, times) for noise, times in counts)).epsilon(delta)


def _item(facts: dict[str, Any]) -> Item:
    return Item(**{**facts, "cells": tuple(map(tuple, facts["cells"]))})


def _write_head(path: Path, number: int) -> None:
    """Put into its place whole, once the record that it counts is synced: it never says more than there is."""
    new = path.with_name(path.name + _HEAD + ".part")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write_all(descriptor, b"%d\n" % number)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(path.with_name(path.name + _HEAD))


def _write_all(descriptor: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])


def _require_all(found: int, path: Path) -> int:
    """How many records the head says there are: of what is found at most the last one may be missing in it, because the
    head is written before the next."""
    head = path.with_name(path.name + _HEAD)
    try:
        text = head.read_text(encoding="ascii")
        stated = int(text) if text.endswith("\n") and text[:-1].isdigit() else -1
    except FileNotFoundError:
        stated = 0 if found <= 1 else -1
    except ValueError:
        stated = -1
    if stated < 0:
        raise Invalid([f"{head} must say how many records {path.name} has; restore both of them"])
    if found < stated:
        raise Invalid([f"{path}: {found} of {stated} records are left: what was published can no longer be told"])
    return stated


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _records(whole: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """All records, and where the last whole one ends."""
    records: list[dict[str, Any]] = []
    place, checksum = 0, ""
    while place < len(whole):
        head = whole[place : place + len(_head(0))]
        if len(head) < len(_head(0)):
            break
        if not head[:_DIGITS].isdigit() or head != _head(int(head[:_DIGITS])):
            raise _damaged(path, place)
        start = place + len(head)
        end = start + int(head[:_DIGITS])
        if len(whole) < end + 1:
            break  # cut short while it was written
        try:
            record = json.loads(whole[start:end])
            stated = record.pop("checksum")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise _damaged(path, place) from None
        checksum = _checksum(checksum, record)
        if stated != checksum or whole[end : end + 1] != b"\n" or record["number"] != len(records):
            raise _damaged(path, place)
        if not records and (record.get("format"), record.get("version")) != (FORMAT, VERSION):
            raise Invalid([f"{path}: not a ledger of version {VERSION}"])
        records.append({**record, "checksum": checksum})
        place = end + 1
    return records, place


def _head(length: int) -> bytes:
    """How long a record is, and the same once more as a complement: a length that was changed is no other length."""
    return b"%0*d %0*d " % (_DIGITS, length, _DIGITS, 10**_DIGITS - 1 - length)


def _damaged(path: Path, place: int) -> Invalid:
    return Invalid([f"{path}: damaged at byte {place}: what was published can no longer be told; restore it"])


def _checksum(before: str, record: dict[str, Any]) -> str:
    return blake2b((before + json.dumps(record, sort_keys=True)).encode(), digest_size=16).hexdigest()
