"""Two answers at once, simulated: what a pair or a cross of a registry would show of people whose answers go together.

How they go together is a CSV of pairs, or a correlation: both answers then follow an underlying bell each, in the order
of their categories, and the two bells are so correlated (a Gaussian copula). Everybody answers both in every epoch and
never changes; what else people do is simulated for each metric by itself.
"""

from __future__ import annotations

import csv
import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy.special import ndtri

from hubbub.analysis import Crosstab, Tally, crosstab
from hubbub.analysis.arrays import Array
from hubbub.analysis.render.crosstab_words import answer, cell_of, view
from hubbub.protocol.cadence import epoch_of
from hubbub.protocol.encoding import ABSENT, DITHER_BITS, WrongValue
from hubbub.protocol.invalid import Invalid, brief
from hubbub.protocol.metric import Definition
from hubbub.protocol.pair import Pair, PairTally
from hubbub.protocol.printed import percent, text_table
from hubbub.protocol.registry import Registry
from hubbub.protocol.shape import Factor
from hubbub.protocol.tally_files import write_tally
from hubbub.simulations.exact_tallies import sample_tally
from hubbub.simulations.joint_tallies import sample_pair_tally
from hubbub.simulations.people.distribution import Distribution, default_population
from hubbub.simulations.simulate.run import Setting

USUAL = "correlation:0.3"
FORMS = """\
how the answers of a pair ([together]) or a cross go together, with --joint NAME=...:
  correlation:0.3           of two bells behind the answers, in the order of their categories (the default)
  csv:FILE                  three columns: an answer, the other answer, count; a header is skipped"""
_MOST_TABLE = 40
_FARTHEST = 8.0  # deviations that stand for infinity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointSetting:
    """Which two answers, of whom, and how they go together."""

    name: str
    asked: Pair | Definition  # a pair, or a metric of kind cross
    factors: tuple[Factor, Factor]
    people: tuple[Distribution, Distribution]
    absent: tuple[float, float]
    relation: str
    installs: int
    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointResult:
    """What came of it: the table beside the truth."""

    setting: JointSetting
    tally: Tally | PairTally
    table: Crosstab
    truth: Array

    @property
    def held(self) -> int:
        """How many of the intervals of cells hold the truth."""
        return int(np.count_nonzero((self.table.cells.low <= self.truth) & (self.truth <= self.table.cells.high)))


def joint_factors(registry: Registry, name: str) -> tuple[Factor, Factor] | None:
    """The two answers of a pair or a cross; None where their categories are not declared."""
    asked = registry.together.get(name) or registry[name]
    if isinstance(asked, Pair):
        if not all(metric.shape.told_apart for metric in asked.metrics):
            return None
        first, second = (Factor(name=m.name, shape=m.shape, accumulate=m.accumulate) for m in asked.metrics)
        return first, second
    assert len(asked.shape.factors) == 2
    return asked.shape.factors[0], asked.shape.factors[1]


def joint_settings(registry: Registry, settings: Sequence[Setting], arguments: Namespace) -> list[JointSetting]:
    """Every pair of the registry, and every cross whose answers are said to go together; none where only some metrics
    or single segments are simulated and none is named."""
    known = [*registry.together, *(metric.name for metric in registry if metric.shape.factors)]
    relations: dict[str, str] = {}
    for item in arguments.joint:
        name, equals, relation = item.partition("=")
        if not equals or name not in known:
            names = ", ".join(known) or "none, because the registry has neither [together] nor a cross"
            raise Invalid([f"--joint must be NAME=RELATION with a pair or a cross: {names}, got {brief(item)}"])
        relations[name] = relation
    if arguments.by and relations:
        raise Invalid([f"--joint and --by exclude each other, got --by {brief(arguments.by)}"])
    if not (arguments.by or arguments.metric):
        relations = dict.fromkeys(registry.together, USUAL) | relations
    by_name = {setting.metric.name: setting for setting in settings}
    found = []
    for name, relation in relations.items():
        factors = joint_factors(registry, name)
        if factors is None:
            if any(item.startswith(f"{name}=") for item in arguments.joint):
                raise Invalid([f"--joint {name}: answers must be declared, of flags, choices, histograms and means"])
            continue
        sides = [by_name.get(factor.name) for factor in factors]
        people = [
            default_population(factor.shape) if side is None else side.people
            for factor, side in zip(factors, sides, strict=True)
        ]
        absent = [0.0 if side is None else side.behaviour.absent for side in sides]
        some = settings[0]
        asked = registry.together.get(name) or registry[name]
        found.append(
            JointSetting(
                name=name,
                asked=asked,
                factors=factors,
                people=(people[0], people[1]),
                absent=(absent[0], absent[1]),
                relation=relation,
                installs=max(1, round(some.installs * some.behaviour.consent)),
                epochs=tuple(range(epoch_of(asked.every, some.start), epoch_of(asked.every, some.start) + some.epochs)),
            )
        )
        shares_of(found[-1])  # what is wrong with it is said before anything is simulated
    return found


def simulate_joint(setting: JointSetting, seed: int) -> JointResult:
    """Draw, decode, and put the truth beside it."""
    rng = np.random.default_rng([seed, *setting.name.encode()])
    shares = shares_of(setting)
    installs = rng.multinomial(setting.installs, shares.ravel()).reshape(shares.shape)
    tally: Tally | PairTally
    if isinstance(setting.asked, Pair):
        first, second = (
            [_masks(factor, people, cohort) for cohort in range(factor.shape.num_cohorts)]
            for factor, people in zip(setting.factors, setting.people, strict=True)
        )
        tally = sample_pair_tally(setting.asked, installs, (first, second), rng, setting.epochs)
        table = crosstab(tally)
    else:
        tally = sample_tally(setting.asked, [setting.installs], [installs.ravel()], rng, setting.epochs)
        table = crosstab(tally)
    truth = np.zeros(table.shape)
    truth[: shares.shape[0], : shares.shape[1]] = installs / installs.sum()
    return JointResult(setting=setting, tally=tally, table=table, truth=truth)


# --- who answers what ----------------------------------------------------------------------------------------------


def shares_of(setting: JointSetting) -> Array:
    """The true table: a row for each category of the first answer."""
    name, _, rest = setting.relation.partition(":")
    if name == "csv" and rest:
        return _from_file(rest, setting.factors)
    if name == "correlation":
        margins = [
            _margin(factor, people, absent)
            for factor, people, absent in zip(setting.factors, setting.people, setting.absent, strict=True)
        ]
        return coupled(margins[0], margins[1], _correlation(rest, setting.relation))
    raise Invalid([f"--joint {setting.name}: must be correlation:NUMBER or csv:FILE, got {brief(setting.relation)}"])


def coupled(first: Array, second: Array, correlation: float) -> Array:
    """Two margins as one table, by two bells with this correlation."""
    if abs(correlation) == 1:
        order = second if correlation > 0 else second[::-1]
        ends = np.concatenate([[0], np.cumsum(first)]), np.concatenate([[0], np.cumsum(order)])
        together = np.minimum.outer(*ends)
    else:
        bells = scipy.stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
        shares = (np.clip(np.append(0, np.cumsum(each)), 0, 1) for each in (first, second))
        cuts = [np.clip(ndtri(share), -_FARTHEST, _FARTHEST) for share in shares]
        grid = np.stack(np.meshgrid(*cuts, indexing="ij"), axis=-1)
        together = bells.cdf(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    found = np.maximum(np.diff(np.diff(together, axis=0), axis=1), 0)
    if correlation == -1:
        found = found[:, ::-1]
    return np.asarray(found / found.sum())


def _correlation(text: str, whole: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = np.nan
    if not -1 <= found <= 1:
        raise Invalid([f"a correlation must be a number from -1 to 1, got {brief(whole)}"])
    return found


def _margin(factor: Factor, people: Distribution, absent: float) -> Array:
    """The share of each category, silence included."""
    found = np.zeros(len(factor.categories))
    for value, share in zip(people.values, people.shares, strict=True):
        for category, part in _categories(factor, value):
            found[category] += (1 - absent) * share * part
    found[factor.category(ABSENT, 0)] += absent
    return found


def _categories(factor: Factor, value: Any) -> Iterator[tuple[int, float]]:
    """Which categories a value is rounded to, and how often: one, or the two beside it."""
    whole = 1 << DITHER_BITS
    low, high = factor.category(value, 0), factor.category(value, whole - 1)
    if low == high:
        yield low, 1.0
        return
    below, above = 0, whole - 1  # the least dither that rounds up lies between
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if factor.category(value, middle) == low else (below, middle)
    yield low, above / whole
    yield high, 1 - above / whole


def _masks(factor: Factor, people: Distribution, cohort: int) -> Array:
    """The bits that each category sets; of one that nobody has, none."""
    width = factor.shape.width(cohort)
    found = np.zeros((len(factor.categories), width))
    silence = 0 if factor.accumulate == "sum" else ABSENT  # what nothing added comes to
    for value in (*people.values, silence):
        for dither in (0, (1 << DITHER_BITS) - 1):
            mask = factor.shape.encode(value, cohort, dither).mask
            found[factor.category(value, dither)] = [mask >> bit & 1 for bit in range(width)]
    return found


def _from_file(path: str, factors: tuple[Factor, Factor]) -> Array:
    found = np.zeros([len(factor.categories) for factor in factors])
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row or (number == 1 and not _is_count(row[-1])):
                continue
            if len(row) != 3 or not _is_count(row[2]):
                raise Invalid([f"{path}, line {number}: must be an answer, the other answer and a count, got {row!r}"])
            places = [_place(factor, text, path, number) for factor, text in zip(factors, row, strict=False)]
            found[places[0], places[1]] += float(row[2])
    if not found.sum() > 0:
        raise Invalid([f"{path}: must count at least one pair, got none"])
    return np.asarray(found / found.sum())


def _is_count(text: str) -> bool:
    try:
        return 0 <= float(text) < np.inf
    except ValueError:
        return False


def _place(factor: Factor, text: str, path: str, number: int) -> int:
    """A category by its own words, or a value that belongs to one; nothing is silence."""
    if text in factor.categories:
        return factor.categories.index(text)
    try:
        return factor.category(factor.shape.typed(text) if text else ABSENT, 0)
    except (WrongValue, ValueError):
        known = ", ".join(factor.categories)
        raise Invalid([f"{path}, line {number}: {factor.name} must be one of {known}, got {brief(text)}"]) from None


# --- what comes of it ----------------------------------------------------------------------------------------------


def joint_words(results: Sequence[JointResult]) -> str:
    """A sentence and a table for each: truth beside estimate."""
    return "\n\n".join(_words(result) for result in results)


def _words(result: JointResult) -> str:
    table, seen = result.table, view(result.table, None)
    said = (
        f"{table.name} ({table.way} of {table.factors[0].name} and {table.factors[1].name}, {result.setting.relation})"
    )
    cells = [(i, j) for i in range(table.shape[0]) for j in range(table.shape[1])]
    rows = []
    for i, j in cells[:_MOST_TABLE]:
        cell = cell_of(seen.shares, (i, j), seen.digits)
        rows.append(
            [
                table.factors[0].values[i],
                table.factors[1].values[j],
                percent(float(result.truth[i, j])),
                cell.figure.replace("\N{NO-BREAK SPACE}", " "),
                f"{cell.interval} %" if cell.detected else cell.interval,
            ]
        )
    header = [*(factor.name for factor in table.factors), "truth", "estimate", "95 % interval"]
    more = [f"{len(cells) - _MOST_TABLE} more cells are not shown."] if len(cells) > _MOST_TABLE else []
    return "\n".join(
        [
            said,
            str(answer(table)).replace("\N{NO-BREAK SPACE}", " "),
            "",
            *text_table(header, rows, left=(0, 1)),
            *more,
            f"{result.held} of {len(cells)} intervals hold the truth.",
        ]
    )


def write_joint(directory: Path, results: Sequence[JointResult]) -> None:
    """Tallies as an analyst would have them, and the truth."""
    for result in results:
        name = result.setting.name
        write_tally(result.tally, directory / f"{name}.json")
        truth = json.dumps(joint_facts(result), indent=1, ensure_ascii=False)
        (directory / f"{name}.truth.json").write_text(truth + "\n", "utf-8")


def joint_facts(result: JointResult) -> dict[str, Any]:
    table = result.table
    return {
        "name": table.name,
        "way": table.way,
        "relation": result.setting.relation,
        "sentence": str(answer(table)),
        "held": result.held,
        "cells": [
            {
                table.factors[0].name: table.factors[0].values[i],
                table.factors[1].name: table.factors[1].values[j],
                "truth": float(result.truth[i, j]),
                "estimate": float(table.cells.estimate[i, j]),
                "low": float(table.cells.low[i, j]),
                "high": float(table.cells.high[i, j]),
            }
            for i in range(table.shape[0])
            for j in range(table.shape[1])
        ],
    }
