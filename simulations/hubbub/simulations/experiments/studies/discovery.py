"""Strings that nobody listed: what is found, and how much of it is there?

Source: Wang, Li, Jha 2018, "Locally differentially private heavy hitter identification" (PEM), which divides users
over groups that report longer and longer prefixes, keeps the C most frequent at each, and returns the k most frequent
of the last group. Its own code was not used: `prefix_extending` below is its rule in a few lines. It is given estimates
with just the error of its oracle (OLH, in which every user has a hash of their own), drawn anew for every prefix: the
best case for it, without any collisions. And Fanti, Pihur, Erlingsson 2016, "Building a RAPPOR with the unknown", which
puts strings together from n-grams: our own implementation, in its best case too (`experiments/ngrams.py`).

Setting: made-up names with Zipf's law, every install with one, one report each; the same people, the same epsilon and
the same division over groups for both. hubbub's tallies are those that its clients leave, hashed for 16 groups a level;
it tests what its search ends with on the last group alone and returns what was detected. PEM returns k strings,
whatever there is.

Expected, and why. At most one population in twenty has a string in hubbub's table that nobody has: the test is
Bonferroni's at 5 %, on installs that had no part in the search. PEM has no test. An estimate of the last group has a
standard error; strings of less than two of them are lost among those that were made up by chance, so that of k returned
strings no more can be there than have a larger share. Both see the same noise, so hubbub finds nearly as many: what a
test costs is strings just above the noise, less than a quarter. N-grams are tested at the end, as hubbub's strings are,
and nothing is made up. But every user says three things, each with a third of the epsilon, and that two n-grams come
together is known by the product of two noises: only strings with a share of more than two of its errors are put
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any

import numpy as np

from hubbub.analysis import Options, decode
from hubbub.analysis.arrays import Array, Index
from hubbub.analysis.estimation.hashing import Words
from hubbub.analysis.estimation.prefix_search import Beginnings, best, continuations
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import PlotRow, RowPlot, Scale
from hubbub.analysis.result import ANSWER
from hubbub.protocol.kinds import Discovery
from hubbub.protocol.metric import Definition
from hubbub.protocol.printed import fixed_percent
from hubbub.simulations.exact_tallies import assign_cohorts, ones_of, sample_tally
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.ngrams import ANSWERS, SIZE, NGrams, from_ngrams
from hubbub.simulations.experiments.pictures import BLUE, ORANGE, legend, whole
from hubbub.simulations.kinds import kind_of
from hubbub.simulations.kinds.discovery import made_up_name

OURS, THEIRS, PIECEWISE = "hubbub", "PEM", "n-grams"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    installs: int = 1_000_000
    epsilon: int = 2
    texts: int = 10_000
    parts: int = 2
    """Made-up names in one text, with hyphens between."""
    returned: tuple[int, ...] = (10, 20, 50)
    populations: int = 20
    beam: int = 300

    @property
    def metric(self) -> Definition:
        shape = Discovery(discover=True, alphabet="host", max_length=7 * self.parts - 1)
        epsilon = Fraction(self.epsilon)
        return Definition(name="name", every="once", shape=shape, noise=shape.best_noise(epsilon, epsilon))

    @property
    def names(self) -> list[str]:
        far = 500_000
        return ["-".join(made_up_name(rank + far * part) for part in range(self.parts)) for rank in range(self.texts)]

    @property
    def shares(self) -> Array:
        weights = 1 / np.arange(1, self.texts + 1)
        return np.asarray(weights / weights.sum())

    @property
    def std_error(self) -> float:
        """Of a share in the last group: 4E/(E-1)^2 over its installs."""
        e = np.exp(self.epsilon)
        shape = self.metric.shape
        assert isinstance(shape, Discovery)
        return sqrt(4 * e / (e - 1) ** 2 * shape.num_levels / self.installs)

    @property
    def ngrams(self) -> NGrams:
        return NGrams(self.installs, -(-(7 * self.parts - 1) // SIZE), self.epsilon)


def describe(setting: Setting) -> Mapping[str, str]:
    shape = setting.metric.shape
    assert isinstance(shape, Discovery)
    return {
        "people": f"{setting.installs:,} installs with {setting.texts:,} names of {shape.max_length} letters, Zipf's "
        f"law; {setting.populations} populations",
        "metric": f"string with discover, epsilon {setting.epsilon}, {shape.num_levels} levels",
        "rival": f"PEM's rule on estimates with its oracle's error: {setting.beam} prefixes kept, "
        f"the {', '.join(map(str, setting.returned))} most frequent returned",
        "second rival": f"n-grams of {SIZE} letters at {setting.ngrams.num_positions} positions, epsilon "
        f"{setting.epsilon}/{ANSWERS} for each of {ANSWERS} answers",
    }


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {
        "false": Prediction(
            what="populations in which hubbub returns a string that nobody has",
            low=0,
            high=bounds.at_most(setting.populations, 0.05)[1],
            why="Bonferroni at 5 % on installs of their own",
            false_alarm=FALSE_ALARM,
            form=".0%",
        ),
        "recall": Prediction(
            what=f"strings that hubbub finds, for each true one among PEM's first {setting.returned[1]}",
            low=0.75,
            high=inf,
            why="the same installs and noise; a test costs what is just above the noise",
        ),
    }
    whole = int(np.count_nonzero(setting.shares > 2 * setting.ngrams.edge_error))
    found["n-grams"] = Prediction(
        what="strings that n-grams find",
        low=0,
        high=whole,
        why=f"{whole} have a share of more than two errors of a pair ({fixed_percent(setting.ngrams.edge_error)})",
        form=".1f",
    )
    found["n-grams false"] = Prediction(
        what="populations in which n-grams return a string that nobody has",
        low=0,
        high=bounds.at_most(setting.populations, 0.05)[1],
        why="Bonferroni at 5 %, given the candidates",
        false_alarm=FALSE_ALARM,
        form=".0%",
    )
    seen = int(np.count_nonzero(setting.shares > 2 * setting.std_error))
    for k in setting.returned:
        found[f"precision {k}"] = Prediction(
            what=f"share of PEM's first {k} that somebody has",
            low=0,
            high=min(1.0, seen / k),
            why=f"{seen} strings have a share of more than two standard errors ({fixed_percent(setting.std_error, 2)})",
            form=".0%",
        )
    return found


def prefix_extending(setting: Setting, held: Index, most: int, rng: np.random.Generator) -> list[str]:
    """PEM's rule: the most frequent prefixes are extended, the most frequent strings of the last group returned."""
    shape = setting.metric.shape
    assert isinstance(shape, Discovery)
    names = [name.encode() for name in setting.names]
    texts = Beginnings.nothing(shape.max_length)
    for level in range(shape.num_levels - 1):
        grown = continuations(shape, texts, level)
        true = Beginnings.asked(shape, names, level)
        texts = grown.only(best(_estimates(setting, grown.states, true.states, held, rng), setting.beam))
    whole = texts.only(texts.ended)
    true = Beginnings.asked(shape, names, shape.num_levels - 1)
    estimates = _estimates(setting, whole.states, true.states, held, rng)
    return [whole.text(row) for row in np.argsort(-estimates, kind="stable")[:most].tolist()]


def _estimates(setting: Setting, wanted: Words, states: Words, held: Index, rng: np.random.Generator) -> Array:
    """The true share of each wanted text, from those who hold texts with these states, and the oracle's error."""
    known, which = np.unique(states, return_inverse=True)
    shares = np.bincount(which.reshape(-1), held) / setting.installs
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, shares[place], 0.0) + rng.normal(0, setting.std_error, len(wanted))


def _returned(
    setting: Setting, names: list[str], held: Index, where: Any, rng: np.random.Generator
) -> dict[str, list[str]]:
    """What each way returns for one population."""
    metric = setting.metric
    by_cohort = assign_cohorts(held, metric.shape.num_cohorts, rng)
    tally = sample_tally(metric, by_cohort.sum(axis=1), ones_of(metric.shape, by_cohort, where), rng)
    found = decode(tally, None, Options(beam=setting.beam))
    ours = [value for value, role in zip(found.values, found.roles, strict=True) if role == ANSWER]
    theirs = prefix_extending(setting, held, max(setting.returned), rng)
    built = from_ngrams(setting.ngrams, names, held, setting.beam, 0.05, rng)
    return {OURS: ours, **{f"{THEIRS}, {k}": theirs[:k] for k in setting.returned}, PIECEWISE: built}


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    names = setting.names
    where = kind_of(setting.metric.shape).prepared(names)
    true: dict[str, list[int]] = {OURS: [], **{f"{THEIRS}, {k}": [] for k in setting.returned}, PIECEWISE: []}
    returned: dict[str, list[int]] = {way: [] for way in true}
    recall: dict[str, list[float]] = {way: [] for way in true}
    largest = set(names[: setting.returned[1]])
    for done in range(setting.populations):
        held = rng.multinomial(setting.installs, setting.shares)
        there = {name for name, number in zip(names, held, strict=True) if number}
        for way, texts in _returned(setting, names, held, where, rng).items():
            true[way].append(len(there.intersection(texts)))
            recall[way].append(len(largest.intersection(texts)) / len(largest))
            returned[way].append(len(texts))
        progress((done + 1) / setting.populations)
    hits, sizes = ({way: float(np.mean(found)) for way, found in table.items()} for table in (true, returned))
    precision = {way: hits[way] / max(sizes[way], 1e-9) for way in hits}
    recalled = {way: float(np.mean(found)) for way, found in recall.items()}
    beside = f"{THEIRS}, {setting.returned[1]}"
    figures = {
        **{
            name: float(np.mean([r > t for r, t in zip(returned[way], true[way], strict=True)]))
            for name, way in (("false", OURS), ("n-grams false", PIECEWISE))
        },
        "n-grams": hits[PIECEWISE],
        "recall": hits[OURS] / max(hits[beside], 1e-9),
        **{f"precision {k}": precision[f"{THEIRS}, {k}"] for k in setting.returned},
    }
    longest = f"{THEIRS}, {setting.returned[-1]}"
    return StudyOutput(
        figures=figures,
        columns=("method", "returned", "of them there", "precision", f"recall of the {setting.returned[1]} largest"),
        rows=tuple(
            (way, f"{sizes[way]:.1f}", f"{hit:.1f}", _share(hit, sizes[way]), fixed_percent(recalled[way], 0))
            for way, hit in hits.items()
        ),
        chart=_picture(hits, sizes),
        caption="Strings returned, on average: those that somebody has, and those that nobody has.",
        meaning=(
            f"hubbub returned {sizes[OURS]:.1f} strings, {fixed_percent(precision[OURS], 0)} of them there; PEM's "
            f"first {setting.returned[-1]} hold {hits[longest]:.1f} that are there, and nothing says which; n-grams "
            f"found {hits[PIECEWISE]:.1f}.",
            "How many strings are there to be found is what nobody knows who discovers: a method that returns as many "
            "as it was told to cannot say. What hubbub returns has an interval and a p-value each.",
        ),
        published=(
            Published(
                what="strings found without a list",
                theirs="F1 of the k returned against the k most frequent",
                ours=f"precision {fixed_percent(precision[OURS], 0)}; PEM's rule on the same people "
                f"{fixed_percent(precision[longest], 0)} of {setting.returned[-1]}",
                why="with k unknown, recall and precision are told apart",
            ),
        ),
    )


def _share(there: float, returned: float) -> str:
    return fixed_percent(there / returned, 0) if returned else "nothing returned"


def _picture(hits: Mapping[str, float], sizes: Mapping[str, float]) -> RowPlot:
    series = {"somebody has": BLUE, "nobody has": ORANGE}
    rows = tuple(
        PlotRow(name=way, bars=((BLUE, hits[way]), (ORANGE, sizes[way] - hits[way])), stacked=True) for way in hits
    )
    scale = Scale.linear(0, max(*sizes.values(), 1), whole, "strings returned")
    return RowPlot(scale=scale, rows=rows, legend=legend(series), names=20)


EXPERIMENT = Experiment(
    name="discovery",
    title="Strings that nobody listed",
    question="Strings that nobody listed: what is found, and how much of it is there?",
    source="Wang, Li, Jha 2018 (PEM); Fanti, Pihur, Erlingsson 2016 (n-grams); their rules implemented here",
    full=Setting(),
    quick=Setting(installs=100_000, epsilon=4, texts=300, parts=1, populations=4, beam=60),
    describe=describe,
    predict=predict,
    run=run,
)
