"""What the installs of a crowd record, epoch by epoch, and how many installs share each history.

People change their minds, do not run the app, leave for good, have nothing to record. A crowd of any size has a limited
number of different histories; how many installs share each is a number, so that a billion cost what a thousand do. In
such a crowd everything happens to as many as it should, as the law of large numbers has it; where there are fewer
installs than histories, each has one of its own, drawn by chance. All chance comes from the `rng` argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.simulations.kinds.kind import Index
from hubbub.simulations.people.behaviour import Behaviour
from hubbub.simulations.people.distribution import Distribution

ABSENT, AWAY = -1, -2
"""In place of the number of a value: the app ran and had nothing to record; it did not run, and nothing is sent."""

MOST_HISTORIES = 16_384
MOST_EPOCHS = 400
_GOLDEN = 0.6180339887498949
"""Its multiples fill [0, 1) evenly, however few of them are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """`answers[h, e]` is what an install of history h records in epoch e: the number of a value, `ABSENT` or `AWAY`;
    `installs[h]` installs have that history. An install that goes for good and the one that replaces it have one each.
    """

    values: tuple[Any, ...]
    answers: Index
    installs: Index

    @property
    def num_epochs(self) -> int:
        return int(self.answers.shape[1])

    def reporting_once(self) -> Histories:
        """The same, if an install reports in the first epoch in which it runs and never again."""
        there = self.answers != AWAY
        first = there & (np.cumsum(there, axis=1) == 1)
        return Histories(self.values, np.where(first, self.answers, AWAY), self.installs)

    def thinned(self, share: float, rng: np.random.Generator) -> Histories:
        """The same, if each install is there with this probability, in all epochs or in none."""
        return Histories(self.values, self.answers, rng.binomial(self.installs, share))

    def in_epochs(self, chosen: Sequence[int]) -> Histories:
        """The same in some of the epochs, by their places."""
        return Histories(self.values, self.answers[:, list(chosen)], self.installs)

    def counts(self, epoch: int | None = None) -> dict[Any, int]:
        """How often each value is recorded, in one epoch or in all; None stands for nothing to record."""
        answers = self.answers if epoch is None else self.answers[:, epoch : epoch + 1]
        weights = np.broadcast_to(self.installs[:, np.newaxis], answers.shape)
        totals = np.bincount((answers - AWAY).ravel(), weights.ravel(), minlength=len(self.values) + 2)
        found: dict[Any, int] = {None: int(totals[1])} if totals[1] else {}
        found.update({value: int(n) for value, n in zip(self.values, totals[2:], strict=True) if n})
        return found

    def split(self) -> Histories:
        """Every install with a history of its own."""
        return Histories(self.values, np.repeat(self.answers, self.installs, axis=0), np.ones(self.installs.sum(), int))


@dataclass(frozen=True, slots=True, eq=False)
class InstallCrowd:
    """Installs that answer several metrics: install i has history i of each, and is away from all or from none.
    `segments[i]` are the facts of its build, such as platform and release; empty where nobody's are known."""

    histories: Mapping[str, Histories]
    segments: tuple[Mapping[str, str], ...] = ()

    @property
    def installs(self) -> int:
        return len(self._first.installs)

    @property
    def epochs(self) -> list[dict[str, list[Any]]]:
        """What all installs record, by epoch and metric; None stands for nothing to record."""
        return [
            {name: _recorded(history, history.answers[:, epoch]) for name, history in self.histories.items()}
            for epoch in range(self._first.num_epochs)
        ]

    def of_install(self, install: int) -> list[Mapping[str, Any] | None]:
        """What one install records, epoch by epoch; None where it does not run."""
        by_metric = {name: _recorded(history, history.answers[install]) for name, history in self.histories.items()}
        return [
            None if away else {name: answers[epoch] for name, answers in by_metric.items()}
            for epoch, away in enumerate((self._first.answers[install] == AWAY).tolist())
        ]

    def segment_of(self, install: int) -> Mapping[str, str]:
        return self.segments[install] if self.segments else {}

    def only(self, key: str, value: str) -> InstallCrowd:
        """Those of its installs whose build has this value of a key."""
        return self._of([i for i, segment in enumerate(self.segments) if segment.get(key) == value])

    def shuffled(self, rng: np.random.Generator) -> InstallCrowd:
        """The same installs in another order."""
        return self._of(rng.permutation(self.installs).tolist())

    def _of(self, chosen: list[int]) -> InstallCrowd:
        return InstallCrowd(
            {name: Histories(h.values, h.answers[chosen], h.installs[chosen]) for name, h in self.histories.items()},
            tuple(self.segments[i] for i in chosen) if self.segments else (),
        )

    @property
    def _first(self) -> Histories:
        return next(iter(self.histories.values()))


def _recorded(histories: Histories, answers: Index) -> list[Any]:
    return [histories.values[answer] if answer > ABSENT else None for answer in answers.tolist()]


def draw_crowd(
    people: Mapping[str, tuple[Distribution, Behaviour]], installs: int, epochs: int, rng: np.random.Generator
) -> InstallCrowd:
    """So many installs, each with an answer of its own to every metric. Metrics are independent of each other, so
    behaviour that concerns an install as a whole (`away`, `churn`, `consent`) has no place here."""
    histories = {}
    for name, (distribution, behaviour) in people.items():
        each = draw_histories(distribution, behaviour, installs, epochs, rng, most=installs).split()
        # They come sorted by their first answer; nobody's answer to one metric may depend on that to another.
        histories[name] = Histories(each.values, rng.permutation(each.answers), each.installs)
    return InstallCrowd(histories)


def one_crowd(crowds: Sequence[tuple[Mapping[str, str], InstallCrowd]]) -> InstallCrowd:
    """Crowds of the same metrics, each of one segment, as one: their installs one after the other."""
    first = crowds[0][1]
    return InstallCrowd(
        {name: _one_after_the_other([crowd.histories[name] for _, crowd in crowds]) for name in first.histories},
        tuple(segment for segment, crowd in crowds for _ in range(crowd.installs)),
    )


def _one_after_the_other(parts: Sequence[Histories]) -> Histories:
    """Each part numbers its values by itself; together they have one list."""
    places: dict[Any, int] = {}
    answers = []
    for part in parts:
        numbers = [places.setdefault(value, len(places)) for value in part.values]
        renumbered = np.array([*numbers, AWAY, ABSENT], dtype=np.int64)  # the last two are found at -2 and -1
        answers.append(renumbered[part.answers])
    return Histories(tuple(places), np.concatenate(answers), np.concatenate([part.installs for part in parts]))


def draw_histories(
    people: Distribution,
    behaviour: Behaviour,
    installs: int,
    epochs: int,
    rng: np.random.Generator,
    most: int = MOST_HISTORIES,
) -> Histories:
    """The histories of those of so many installs that agree; `most` different ones, if there are more installs."""
    agreed = int(rng.binomial(installs, behaviour.consent))
    if not behaviour.moving or (epochs == 1 and not behaviour.drift and not behaviour.season[1]):
        return _standing(people, behaviour, agreed, epochs, rng)
    return _moving(people, behaviour, agreed, epochs, rng, most)


def _standing(
    people: Distribution, behaviour: Behaviour, agreed: int, epochs: int, rng: np.random.Generator
) -> Histories:
    """One history for each value: in a single epoch, or where nothing ever changes."""
    running = int(rng.binomial(agreed, 1 - behaviour.away))
    absent = int(rng.binomial(running, behaviour.absent))
    holders = rng.multinomial(running - absent, people.shares)
    answers = np.append(np.arange(len(people)), ABSENT)
    return _of(people.values, np.repeat(answers[:, np.newaxis], epochs, axis=1), np.append(holders, absent))


def _moving(
    people: Distribution, behaviour: Behaviour, agreed: int, epochs: int, rng: np.random.Generator, most: int
) -> Histories:
    """Each value starts some histories, in proportion to its share and at least one, each of equally many installs."""
    holders = rng.multinomial(agreed, people.shares)
    starts = np.minimum(holders, np.maximum(1, np.round(most * people.shares))) if agreed > most else holders
    starts = starts.astype(np.int64)
    first = np.repeat(np.arange(len(people)), starts)
    within = np.arange(len(first)) - np.repeat(np.cumsum(starts) - starts, starts)
    installs = holders[first] // starts[first] + (within < holders[first] % starts[first])
    walk = _Walk(people, behaviour, first, rng, evenly=agreed > most)
    return walk.through(epochs, installs)


class _Walk:
    """People in places, from epoch to epoch. Whoever goes for good leaves the place to somebody new.

    `evenly`: a place stands for many installs, so what happens with some chance happens to that share of the holders of
    each value (systematic sampling), and values are drawn anew in their proportions.
    """

    def __init__(
        self, people: Distribution, behaviour: Behaviour, first: Index, rng: np.random.Generator, *, evenly: bool
    ) -> None:
        self.people, self.behaviour, self.rng, self.evenly = people, behaviour, rng, evenly
        self.now = first
        self.mood = (self._rank() * _GOLDEN + rng.random()) % 1 if evenly else rng.random(len(first))
        self.person = np.zeros(len(first), dtype=np.int64)
        self._reached = np.cumsum(people.shares)

    def through(self, epochs: int, installs: Index) -> Histories:
        seen, persons = [], []
        for epoch in range(epochs):
            if epoch:
                self._step()
            seen.append(self._shown(epoch))
            persons.append(self.person.copy())
        values, answers = self._as_values(np.stack(seen, axis=1))
        return self._by_person(values, answers, np.stack(persons, axis=1), installs)

    def _step(self) -> None:
        new = self._happens(self.behaviour.churn)
        self.person += new
        self.mood[new] = self.rng.random(int(new.sum()))
        anew = new | self._happens(self.behaviour.change)
        drawn = np.searchsorted(self._reached, self._chances(int(anew.sum())) * self._reached[-1], side="right")
        self.now = self.now.copy()
        self.now[anew] = np.minimum(drawn, len(self.people) - 1)
        if self.behaviour.drift and not self.people.numeric:
            steps = np.sign(self.behaviour.drift).astype(int) * self._happens(abs(self.behaviour.drift))
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
        period, amount = self.behaviour.season
        turn = 2 * np.pi * epoch / period
        if self.people.numeric:
            factor = (1 + self.behaviour.drift) ** epoch * (1 + amount * np.sin(turn))
            shown = np.asarray(self.people.values, dtype=np.float64)[self.now] * factor
        else:
            swayed = self.mood < amount * (1 - np.cos(turn)) / 2
            shown = np.minimum(self.now + swayed, len(self.people) - 1).astype(np.float64)
        shown[self._happens(self.behaviour.absent)] = np.nan
        shown[self._happens(self.behaviour.away)] = np.inf
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

    def _by_person(self, values: tuple[Any, ...], answers: Index, persons: Index, installs: Index) -> Histories:
        rows = [
            (np.where(persons == person, answers, AWAY), installs, (persons == person).any(axis=1))
            for person in range(int(persons.max(initial=0)) + 1)
        ]
        return _of(
            values,
            np.concatenate([row[there] for row, _, there in rows]),
            np.concatenate([n[there] for _, n, there in rows]),
        )


def _of(values: tuple[Any, ...], answers: Index, installs: npt.ArrayLike) -> Histories:
    """Histories that some install has, and in which it runs at least once."""
    shared_by = np.asarray(installs, dtype=np.int64)
    kept = (shared_by > 0) & (answers != AWAY).any(axis=1)
    return Histories(values, answers[kept], shared_by[kept])
