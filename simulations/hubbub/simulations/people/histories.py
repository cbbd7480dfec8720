"""Lives: what the installs of a crowd answer, epoch by epoch, how often each life is lived, and who is away.

People change their minds, forget to run the app, leave for good, have nothing to say. A crowd of any size lives a
limited number of different lives; how many installs live each is a number, so that a billion cost what a thousand do.
In such a crowd everything happens to as many as it should, as the law of large numbers has it; where there are fewer
installs than lives, every one has a life of its own and its own luck. All chance comes from the `rng` argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.protocol.invalid import require
from hubbub.simulations.people.distribution import Distribution

Index = npt.NDArray[np.int64]

ABSENT, AWAY = -1, -2
"""In place of the number of a value: the app ran and had nothing to record; it did not run, and nothing is sent."""

MOST_LIVES = 16_384
MOST_EPOCHS = 400
_GOLDEN = 0.6180339887498949
"""Its multiples fill [0, 1) evenly, however few of them are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How people differ from ones that answer the same for ever. All are chances in one epoch, unless said otherwise.

    `change`: the answer is drawn anew. `drift`: numbers grow by this factor less one; in a list, the answer moves on
    to the next value (below 0: back). `season` (period, amount): numbers swing by the amount; in a list, up to that
    share of people answer with the next value for a while, and come back. `absent`: there is nothing to record.
    `away`: the app is not run. `churn`: the install goes for good and a new one comes. `consent`: the share of people
    who agree at all.
    """

    change: float = 0.0
    drift: float = 0.0
    season: tuple[float, float] = (1.0, 0.0)
    absent: float = 0.0
    away: float = 0.0
    churn: float = 0.0
    consent: float = 1.0

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        for name in ("change", "absent", "churn"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"{name} must be in [0, 1], got {getattr(self, name):g}"
        if not 0 <= self.away < 1:
            yield f"away must be at least 0 and below 1, got {self.away:g}"
        if not 0 < self.consent <= 1:
            yield f"consent must be above 0 and at most 1, got {self.consent:g}"
        if not -0.5 <= self.drift <= 1:
            yield f"drift must be in [-0.5, 1], got {self.drift:g}"
        period, amount = self.season
        if not (period >= 1 and 0 <= amount <= 1):
            yield f"season must be a period of at least 1 epoch and an amount in [0, 1], got {period:g},{amount:g}"

    @property
    def moving(self) -> bool:
        """Whether an install's answers can differ from epoch to epoch."""
        return any((self.change, self.drift, self.season[1], self.absent, self.away, self.churn))

    def words(self) -> str:
        said = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "season" and value[1]:
                said.append(f"season of {value[0]:g} epochs by {100 * value[1]:g} %")
            elif field.name != "season" and value != field.default:
                said.append(f"{field.name} {100 * value:g} %")
        return ", ".join(said) or "answers that never change"


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """`answers[l, e]` is what life l records in epoch e: the number of a value, `ABSENT` or `AWAY`; `installs[l]` live
    it. An install that goes for good and the one that comes in its place are two lives."""

    values: tuple[Any, ...]
    answers: Index
    installs: Index

    @property
    def num_epochs(self) -> int:
        return int(self.answers.shape[1])

    def reporting_once(self) -> Lives:
        """The same, if an install reports in the first epoch in which it runs and never again."""
        there = self.answers != AWAY
        first = there & (np.cumsum(there, axis=1) == 1)
        return Lives(self.values, np.where(first, self.answers, AWAY), self.installs)

    def counts(self, epoch: int | None = None) -> dict[Any, int]:
        """How often each value is recorded, in one epoch or in all; None stands for nothing to record."""
        answers = self.answers if epoch is None else self.answers[:, epoch : epoch + 1]
        weights = np.broadcast_to(self.installs[:, np.newaxis], answers.shape)
        totals = np.bincount((answers - AWAY).ravel(), weights.ravel(), minlength=len(self.values) + 2)
        found: dict[Any, int] = {None: int(totals[1])} if totals[1] else {}
        found.update({value: int(n) for value, n in zip(self.values, totals[2:], strict=True) if n})
        return found

    def split(self) -> Lives:
        """Every install as a life of its own."""
        return Lives(self.values, np.repeat(self.answers, self.installs, axis=0), np.ones(self.installs.sum(), int))


def draw_lives(
    people: Distribution,
    habits: Habits,
    installs: int,
    epochs: int,
    rng: np.random.Generator,
    most: int = MOST_LIVES,
) -> Lives:
    """The lives of so many installs, of whom only those that agree are among them."""
    agreed = int(rng.binomial(installs, habits.consent))
    if not habits.moving or (epochs == 1 and not habits.drift and not habits.season[1]):
        return _standing(people, habits, agreed, epochs, rng)
    return _moving(people, habits, agreed, epochs, rng, most)


def _standing(people: Distribution, habits: Habits, agreed: int, epochs: int, rng: np.random.Generator) -> Lives:
    """One life for each value: in a single epoch, or where nothing ever changes."""
    running = int(rng.binomial(agreed, 1 - habits.away))
    absent = int(rng.binomial(running, habits.absent))
    holders = rng.multinomial(running - absent, people.shares)
    answers = np.append(np.arange(len(people)), ABSENT)
    return _of(people.values, np.repeat(answers[:, np.newaxis], epochs, axis=1), np.append(holders, absent))


def _moving(
    people: Distribution, habits: Habits, agreed: int, epochs: int, rng: np.random.Generator, most: int
) -> Lives:
    """Each value starts some lives, in proportion to its share and at least one, lived by equally many installs."""
    holders = rng.multinomial(agreed, people.shares)
    starts = np.minimum(holders, np.maximum(1, np.round(most * people.shares))) if agreed > most else holders
    starts = starts.astype(np.int64)
    first = np.repeat(np.arange(len(people)), starts)
    within = np.arange(len(first)) - np.repeat(np.cumsum(starts) - starts, starts)
    installs = holders[first] // starts[first] + (within < holders[first] % starts[first])
    walk = _Walk(people, habits, first, rng, evenly=agreed > most)
    return walk.through(epochs, installs)


class _Walk:
    """People on their seats, from epoch to epoch. Whoever goes for good leaves the seat to somebody new.

    `evenly`: a seat stands for many, so what happens with some chance happens to that share of the holders of each
    value (systematic sampling), and values are drawn anew in their proportions.
    """

    def __init__(
        self, people: Distribution, habits: Habits, first: Index, rng: np.random.Generator, *, evenly: bool
    ) -> None:
        self.people, self.habits, self.rng, self.evenly = people, habits, rng, evenly
        self.now = first
        self.mood = (self._rank() * _GOLDEN + rng.random()) % 1 if evenly else rng.random(len(first))
        self.person = np.zeros(len(first), dtype=np.int64)
        self._reached = np.cumsum(people.shares)

    def through(self, epochs: int, installs: Index) -> Lives:
        seen, persons = [], []
        for epoch in range(epochs):
            if epoch:
                self._step()
            seen.append(self._shown(epoch))
            persons.append(self.person.copy())
        values, answers = self._as_values(np.stack(seen, axis=1))
        return self._by_person(values, answers, np.stack(persons, axis=1), installs)

    def _step(self) -> None:
        new = self._happens(self.habits.churn)
        self.person += new
        self.mood[new] = self.rng.random(int(new.sum()))
        anew = new | self._happens(self.habits.change)
        drawn = np.searchsorted(self._reached, self._chances(int(anew.sum())) * self._reached[-1], side="right")
        self.now = self.now.copy()
        self.now[anew] = np.minimum(drawn, len(self.people) - 1)
        if self.habits.drift and not self.people.numeric:
            steps = np.sign(self.habits.drift).astype(int) * self._happens(abs(self.habits.drift))
            self.now = np.clip(self.now + steps, 0, len(self.people) - 1)

    def _happens(self, chance: float) -> npt.NDArray[np.bool_]:
        if not chance:
            return np.zeros(len(self.now), dtype=bool)
        if not self.evenly:
            return self.rng.random(len(self.now)) < chance
        reached = self._rank() * chance + self.rng.random()
        return np.asarray(np.floor(reached + chance) > np.floor(reached))

    def _rank(self) -> Index:
        """Everybody's place in a row in which holders of one value stand together, in random order."""
        rank = np.empty(len(self.now), dtype=np.int64)
        rank[np.lexsort((self.rng.random(len(self.now)), self.now))] = np.arange(len(self.now))
        return rank

    def _chances(self, size: int) -> npt.NDArray[np.float64]:
        """Numbers from [0, 1), spread over it as evenly as they can be, in random order."""
        if not self.evenly:
            return self.rng.random(size)
        return self.rng.permutation((np.arange(size) + self.rng.random(size)) / max(size, 1))

    def _shown(self, epoch: int) -> npt.NDArray[np.float64]:
        """What is recorded: a number, or the place in the list; NaN for nothing, infinity for not being there."""
        period, amount = self.habits.season
        turn = 2 * np.pi * epoch / period
        if self.people.numeric:
            factor = (1 + self.habits.drift) ** epoch * (1 + amount * np.sin(turn))
            shown = np.asarray(self.people.values, dtype=np.float64)[self.now] * factor
        else:
            swayed = self.mood < amount * (1 - np.cos(turn)) / 2
            shown = np.minimum(self.now + swayed, len(self.people) - 1).astype(np.float64)
        shown[self._happens(self.habits.absent)] = np.nan
        shown[self._happens(self.habits.away)] = np.inf
        return np.asarray(shown)

    def _as_values(self, shown: npt.NDArray[np.float64]) -> tuple[tuple[Any, ...], Index]:
        there, absent = np.isfinite(shown), np.isnan(shown)
        answers = np.where(absent, ABSENT, AWAY)
        if not self.people.numeric:
            answers[there] = shown[there]
            return self.people.values, answers
        distinct, which = np.unique(shown[there], return_inverse=True)
        answers[there] = which
        return tuple(distinct.tolist()), answers

    def _by_person(self, values: tuple[Any, ...], answers: Index, persons: Index, installs: Index) -> Lives:
        rows = [
            (np.where(persons == person, answers, AWAY), installs, (persons == person).any(axis=1))
            for person in range(int(persons.max(initial=0)) + 1)
        ]
        return _of(
            values,
            np.concatenate([row[there] for row, _, there in rows]),
            np.concatenate([n[there] for _, n, there in rows]),
        )


def _of(values: tuple[Any, ...], answers: Index, installs: npt.ArrayLike) -> Lives:
    """Lives that somebody lives and that are not spent away."""
    lived = np.asarray(installs, dtype=np.int64)
    kept = (lived > 0) & (answers != AWAY).any(axis=1)
    return Lives(values, answers[kept], lived[kept])
