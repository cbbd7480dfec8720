"""An answer that changes, asked over a year for one epsilon in all: how close is a week, how close is a quarter?

Source: Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta 2019 (SODA) for dyadic changes (the implementation
is our own); Ding, Kulkarni, Yekhanin 2017 for repeated answers; the joint law of flags is derived in
docs/privacy-model.md.

Setting: a yes or no, 30 % yes at first, over T weeks; each install flips its answer in as many random weeks as the
setting says. Whatever changed and when, everything an install ever says may have one epsilon, 4. Five ways:

* an answer kept for each value, epsilon 2 each: for comparison, because this shows when an answer changes, and keeps
  the promise only between histories that change at the same times;
* an answer kept for each of four periods, epsilon 1 each, true at the period's first week;
* the answer of a random week of each period, epsilon 1 each;
* the answer of a random week of each period, with truth flags that are drawn together (`hold`): this is what hubbub
  does, by its own code;
* dyadic changes: one level of a binary tree over the weeks for each install, one of its at most c changes, each node
  of the level answered with epsilon/2.

Expected, and why. With V = E/(E - 1)^2 for one answer of e^epsilon = E, and m = T/4 weeks in a period: a kept answer
has n Var = V(1) and what has changed since besides; a random week m V(1) + f (1 - f)(m - 1); flags the same with V of
the flags' law; a quarter of random weeks V (and what installs differ within it); an answer kept for each value V(2). A
node of one of L + 1 levels has
n Var about (L + 1) c^2 ((E' + 1)/(E' - 1))^2 with E' = e^(epsilon/2), and a week is the sum of as many nodes as its
number has binary ones; the starting answer is a change, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt

import numpy as np

from hubbub.analysis import Options, decode
from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.printed import fixed_percent, plain_percent
from hubbub.protocol.tally import Tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    legend,
    lines_and_points,
    points_of,
)
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally

EPSILON, PERIODS, YES = 4, 4, 0.3
MEMO = "kept for each value (shows changes)"
KEPT, RANDOM, FLAGS, DYADIC = "kept for a period", "random week", "random week, flags drawn together", "dyadic changes"
SERIES = {MEMO: INK, KEPT: ORANGE, RANDOM: GREY, FLAGS: BLUE, DYADIC: GREEN}
WEEK, QUARTER = "week", "period"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    weeks: tuple[int, ...] = (12, 52, 104)
    changes: tuple[int, ...] = (0, 1, 4)
    installs: int = 20_000
    crowds: int = 12


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": f"{setting.installs:,} installs, 30 % say yes at first; each flips its answer in "
        f"{', '.join(map(str, setting.changes))} random weeks",
        "metric": f"flag, weekly, over {', '.join(map(str, setting.weeks))} weeks; epsilon {EPSILON} for everything an "
        "install ever says, whatever changes",
        "crowds": f"{setting.crowds} of each",
    }


# --- the ways ---------------------------------------------------------------------------------------------------------


def _one_answer(epsilon: float) -> float:
    """n Var of a yes or no."""
    return exp(epsilon) / (exp(epsilon) - 1) ** 2


def _randomized(answers: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Told truly or not, and put right on average."""
    truth = exp(epsilon) / (exp(epsilon) + 1)
    told = np.where(rng.random(answers.shape) < truth, answers, 1 - answers)
    return np.asarray((told - (1 - truth)) / (2 * truth - 1))


def memo(answers: Array, rng: np.random.Generator) -> Array:
    """The estimates of all weeks."""
    yes, no = (_randomized(np.full(len(answers), said), EPSILON / 2, rng) for said in (1.0, 0.0))
    return np.asarray(np.where(answers == 1, yes[:, np.newaxis], no[:, np.newaxis]).mean(axis=0))


def kept(answers: Array, rng: np.random.Generator) -> Array:
    held = answers.shape[1] // PERIODS
    told = _randomized(answers[:, ::held], EPSILON / PERIODS, rng).mean(axis=0)
    return np.repeat(told, held)


def random_week(answers: Array, rng: np.random.Generator) -> Array:
    installs, weeks = answers.shape
    held = weeks // PERIODS
    found = np.empty(weeks)
    for period in range(PERIODS):
        asked = rng.integers(0, held, installs) + held * period
        told = _randomized(answers[np.arange(installs), asked], EPSILON / PERIODS, rng)
        for week in range(held * period, held * (period + 1)):
            found[week] = told[asked == week].mean()
    return found


def _metric(weeks: int) -> Definition:
    shape = Flag()
    history = shape.best_history(Fraction(EPSILON), weeks // PERIODS, PERIODS)
    return Definition(name="setting", every="week", shape=shape, noise=shape.history_noise(history))


def _tally(answers: Array, rng: np.random.Generator) -> Tally:
    weeks = answers.shape[1]
    metric, epochs = _metric(weeks), range(0, weeks)
    people = Histories((False, True), answers.astype(np.int64), np.ones(len(answers), dtype=np.int64))
    return history_tally(metric, people, epochs, rng)


def flags(answers: Array, rng: np.random.Generator) -> Array:
    tally = _tally(answers, rng)
    return np.array([decode(Tally(tally.metric, {e: c})).estimate[0] for e, c in tally.epochs.items()])


def dyadic(answers: Array, rng: np.random.Generator) -> Array:
    """One level, and one change out of as many as there may be; nodes in which it does not lie say yes or no evenly."""
    installs, weeks = answers.shape
    levels = max(weeks - 1, 1).bit_length() + 1
    steps = np.diff(np.concatenate([np.zeros((installs, 1)), answers], axis=1))
    most = int(np.abs(steps).sum(axis=1).max())
    # One of `most` places is drawn; an install with fewer changes may draw an empty one.
    order = np.cumsum(np.abs(steps), axis=1) * np.abs(steps)
    kept_change = steps * (order == rng.integers(1, most + 1, (installs, 1)))
    level = rng.integers(0, levels, installs)
    truth = exp(EPSILON / 2) / (exp(EPSILON / 2) + 1)
    nodes = []
    for height in range(levels):
        mine = kept_change[level == height]
        sums = np.add.reduceat(mine, np.arange(0, weeks, 1 << height), axis=1)
        fair = rng.random(sums.shape) < np.where(sums == 0, 0.5, np.where(sums > 0, truth, 1 - truth))
        nodes.append((2.0 * fair - 1).sum(axis=0) * levels * most / (2 * truth - 1) / installs)
    found = np.zeros(weeks)
    for week in range(weeks):
        end = week + 1
        for height in range(levels):
            if end >> height & 1:
                found[week] += nodes[height][(end >> height) - 1]
    return found


WAYS: Mapping[str, Callable[[Array, np.random.Generator], Array]] = {
    MEMO: memo,
    KEPT: kept,
    RANDOM: random_week,
    FLAGS: flags,
    DYADIC: dyadic,
}


def people(setting: Setting, weeks: int, changes: int, rng: np.random.Generator) -> Array:
    answers = np.repeat(rng.random((setting.installs, 1)) < YES, weeks, axis=1)
    for _ in range(changes):
        answers ^= np.arange(weeks) >= rng.integers(1, weeks, (setting.installs, 1))
    return answers.astype(np.float64)


# --- what theory says -------------------------------------------------------------------------------------------------


def variance_of_week(way: str, weeks: int, changes: int) -> float:
    """n Var, averaged over the weeks, without what has changed in a kept answer."""
    held = weeks // PERIODS
    spread = float(np.mean([f * (1 - f) for f in _shares(weeks, changes)]))
    if way == MEMO:
        return _one_answer(EPSILON / 2)
    if way == KEPT:
        return _one_answer(EPSILON / PERIODS)
    if way == RANDOM:
        return held * _one_answer(EPSILON / PERIODS) + spread * (held - 1)
    if way == DYADIC:
        levels = (weeks - 1).bit_length() + 1
        c = (exp(EPSILON / 2) + 1) / (exp(EPSILON / 2) - 1)
        ones = float(np.mean([(week + 1).bit_count() for week in range(weeks)]))
        return levels * (changes + 1) ** 2 * c**2 * ones
    history = _metric(weeks).noise.history
    assert history is not None
    a = float(history.truth)
    return held * a * (1 - a) / (2 * a - 1) ** 2 + spread * (held - 1)


def _shares(weeks: int, changes: int) -> Array:
    """Of yes in each week: an answer has been flipped by each change with the chance that it lies behind."""
    behind = np.minimum(np.arange(weeks) / max(weeks - 1, 1), 1)
    return np.asarray(0.5 - (0.5 - YES) * (1 - 2 * behind) ** changes)


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for weeks in setting.weeks:
        for changes in setting.changes:
            for way in WAYS:
                # The errors of a period's weeks, or of all, may be one and the same, which then counts once in a crowd.
                low, high = bounds.mean_square(
                    variance_of_week(way, weeks, changes) / setting.installs,
                    setting.crowds * (1 if way == MEMO else PERIODS),
                )
                stale = way == KEPT and changes > 0
                found[f"{way} {weeks} {changes}"] = Prediction(
                    what=f"error of a week, {way}, {weeks} weeks, {changes} changes",
                    low=sqrt(low),
                    high=np.inf if stale else sqrt(1.05 * high),
                    why="chi-square of the formula; and at least that much where a kept answer has changed since"
                    if stale
                    else "chi-square of the formula, and 5 % of its variance for what it leaves out",
                    false_alarm=FALSE_ALARM,
                    form=".2%",
                )
    weeks, changes = setting.weeks[-1], setting.changes[-1]
    trials = setting.crowds * weeks
    found["coverage"] = Prediction(
        what=f"95 % intervals of a week that hold the truth, flags drawn together, {weeks} weeks, {changes} changes",
        low=bounds.share(trials, 0.95)[0],
        high=1.0,
        why="binomial: 95 % or more",
        false_alarm=FALSE_ALARM,
        form=".1%",
    )
    found["coverage of kept answers"] = Prediction(
        what=f"the same of answers kept for a period, {weeks} weeks, {changes} changes",
        low=0.0,
        high=bounds.share(trials, 0.95)[0],
        why="refuted: the answer is that of the period's first week",
        form=".1%",
    )
    return found


# --- the run ----------------------------------------------------------------------------------------------------------


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    figures, rows, points = {}, [], []
    cells = [(weeks, changes) for weeks in setting.weeks for changes in setting.changes]
    for done, (weeks, changes) in enumerate(cells):
        errors: dict[str, list[Array]] = {way: [] for way in WAYS}
        for _ in range(setting.crowds):
            answers = people(setting, weeks, changes, rng)
            for way, estimated in WAYS.items():
                errors[way].append(estimated(answers, rng) - answers.mean(axis=0))
        for way, found in errors.items():
            every = np.array(found)
            week = sqrt(float(np.mean(every**2)))
            quarter = sqrt(float(np.mean(every.reshape(len(every), PERIODS, -1).mean(axis=2) ** 2)))
            figures[f"{way} {weeks} {changes}"] = week
            rows.append((way, str(weeks), str(changes), fixed_percent(week, 2), fixed_percent(quarter, 2)))
            points += [
                {"series": way, "weeks": f"{weeks} weeks", "changes": changes, "of": name, "error": error}
                for name, error in ((WEEK, week), (QUARTER, quarter))
            ]
        progress((done + 1) / len(cells))
    figures |= _coverage(setting, rng)
    at = f"{setting.weeks[len(setting.weeks) // 2]} {setting.changes[len(setting.changes) // 2]}"
    flags_, random_, dyadic_ = (figures[f"{way} {at}"] for way in (FLAGS, RANDOM, DYADIC))
    return StudyOutput(
        figures=figures,
        columns=("way", "weeks", "changes", "error of a week", "error of a period"),
        rows=tuple(rows),
        chart=_picture(setting, points),
        caption="Typical error of a week's share of yes, by how often each install changes its answer, for one epsilon "
        "over the whole time. Lines: theory. Points: found.",
        meaning=(
            f"For the same total epsilon, flags drawn together make a week {random_ / flags_:.1f} times as precise as "
            f"independent answers and {dyadic_ / flags_:.1f} times as dyadic changes, whatever the number of changes.",
            "An answer that is kept for a period looks best for a week that nobody changed in, and is wrong without "
            "saying so otherwise: its 95 % intervals hold the truth in "
            f"{fixed_percent(figures['coverage of kept answers'], 0)} of weeks, those of flags in "
            f"{fixed_percent(figures['coverage'], 0)}.",
            "Dyadic changes need to know how many changes there may be at most, and pay for each of them.",
        ),
        published=_published(),
    )


def _coverage(setting: Setting, rng: np.random.Generator) -> dict[str, float]:
    weeks, changes = setting.weeks[-1], setting.changes[-1]
    held, stale = [], []
    error = 1.96 * sqrt(_one_answer(EPSILON / PERIODS) / setting.installs)
    for _ in range(setting.crowds):
        answers = people(setting, weeks, changes, rng)
        truth, tally = answers.mean(axis=0), _tally(answers, rng)
        for epoch, counts in tally.epochs.items():
            found = decode(Tally(tally.metric, {epoch: counts}), options=Options(estimand="population"))
            held.append(bool(found.low[0] <= truth[epoch] <= found.high[0]))
        stale += (np.abs(kept(answers, rng) - truth) <= error).tolist()
    return {"coverage": float(np.mean(held)), "coverage of kept answers": float(np.mean(stale))}


def _published() -> tuple[Published, ...]:
    return (
        Published(
            what="error of dyadic changes over d epochs with k changes",
            theirs="linear in k, polylogarithmic in d (Erlingsson et al. 2019)",
            ours="linear in k + 1, and about linear in log d",
            why="agrees; a starting answer is one more change",
        ),
    )


def _picture(setting: Setting, points: list[dict[str, object]]) -> Plot:
    last = len(setting.changes) - 1
    places = {changes: float(place) for place, changes in enumerate(setting.changes)}
    panels = []
    for weeks in setting.weeks:
        lines = {
            way: [
                (places[changes], sqrt(variance_of_week(way, weeks, changes) / setting.installs))
                for changes in setting.changes
                if way != KEPT or not changes
            ]
            for way in WAYS
        }
        weekly = [
            {**point, "place": places[int(str(point["changes"]))]}
            for point in points
            if point["of"] == WEEK and point["weeks"] == f"{weeks} weeks"
        ]
        ticks = tuple((place, str(changes)) for changes, place in places.items())
        x = Scale(low=-0.3, high=last + 0.3, ticks=ticks, title="changes")
        first = weeks == setting.weeks[0]
        y = Scale.logarithmic(
            [0.001, 0.01, 0.1],
            plain_percent if first else lambda _: "",
            "error of a week" if first else " ",
            (0.001, 0.6),
        )
        found = points_of(weekly, "place", "error")
        panels.append(lines_and_points(lines, found, x, y, SERIES, title=f"{weeks} weeks", height=210))
    return Plot(rows=(tuple(panels),), legend=legend(SERIES))


EXPERIMENT = Experiment(
    name="histories",
    title="Answers that change",
    question="For one epsilon over a whole history: which way of asking is closest to the truth?",
    source="Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta 2019 (own implementation); flags "
    "drawn together derived here",
    full=Setting(),
    quick=Setting(weeks=(12, 52), changes=(0, 2), installs=2_000, crowds=3),
    describe=describe,
    predict=predict,
    run=run,
)
