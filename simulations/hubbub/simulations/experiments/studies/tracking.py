"""A collector sees a few reports today and a few next month. Can it tell that they are from the same install?

Source: RAPPOR (Erlingsson, Pihur, Korolova 2014), sections 3 and 6, aims at reports that cannot be linked, and leaves
the cohort in clear. How well memos link reports we know of no publication for; the exact law below is our own
derivation.

Setting: the hardest case for the attacker: everybody holds the same string, so nothing but noise tells installs
apart. He has T reports of one install, and T later ones from each of N installs, that one among them; he picks the
likeliest. Once with 128 bits, 2 hashes and 16 cohorts, once with a single hashed bit and one cohort, both with f =
1/2, p = 1/4, q = 3/4. Reports are made by the real `draw_memo` and `draw_bits`.

Expected, and why. For one bit with u ones in T reports and v in T later ones the log-likelihood ratio of one memo
against two is ln[ P(u, v) / (P(u) P(v)) ], P from a mixture of two binomials. The score of an install is the sum over
the bits (rounded to 1/256, so that its law is exact by convolution); others must be of the same cohort, one in 16.
The chance to be picked is the mean, over what was seen first, of sum over s of P(right install scores s) times the
chance that the N - 1 others score less, ties by lot. With 128 bits a single report against a single one already
narrows a crowd down; three against three pick one out of a million. With one bit and one cohort there are 2 memos: at
most two in N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from hubbub.analysis.arrays import Array
from hubbub.analysis.progress import Progress
from hubbub.analysis.render.plots import Plot, Scale
from hubbub.client.respond import draw_bits, draw_memo
from hubbub.protocol.encoding import bytes_for
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.printed import fixed_percent, plain_percent
from hubbub.simulations.experiments import bounds
from hubbub.simulations.experiments.bounds import FALSE_ALARM
from hubbub.simulations.experiments.experiment import Experiment, Prediction, Published, StudyOutput
from hubbub.simulations.experiments.pictures import BLUE, GREEN, GREY, ORANGE, lines_and_points, one, thousands

TEXT = "https://example.org/"
SCALE = 256
_NOISE = rappor_noise(Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))
MANY = Definition(name="many", every="day", shape=String(num_bits=128, num_hashes=2, num_cohorts=16), noise=_NOISE)
ONE = Definition(name="one", every="day", shape=String(num_bits=1, num_hashes=1, num_cohorts=1), noise=_NOISE)
CASES = {"128 bits, 1 against 1": (MANY, 1), "128 bits, 3 against 3": (MANY, 3), "1 bit, 3 against 3": (ONE, 3)}
CHANCE = "blind guess"
CROWDS = tuple(round(10 ** (i / 2)) for i in range(2, 19))
MOST = 3
_TICKS = (10, 1_000, 100_000, 10_000_000, 1_000_000_000)
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    crowds: Mapping[str, tuple[int, ...]]
    targets: int = 500
    sightings: int = 300
    """First sightings over which the exact law is averaged."""


FULL = Setting(crowds={"many": (10, 100, 1_000, 10_000), "one": (10, 100, 1_000)})
QUICK = Setting(crowds={"many": (10, 1_000), "one": (10, 100)}, targets=40, sightings=12)


def describe(setting: Setting) -> Mapping[str, str]:
    return {
        "people": "all hold the same string; cohorts are drawn evenly",
        "metrics": "string with 128 bits, 2 hashes, 16 cohorts; and with 1 bit, 1 cohort; f = 1/2, p = 1/4, q = 3/4",
        "attacker": "has T reports of one install and T later ones of everyone; knows string and noise; picks the "
        "likeliest",
        "crowds": ", ".join(f"{n:,}" for n in setting.crowds["many"]),
        "repeats": f"{setting.targets} installs to be found again, each in a crowd of its own",
    }


# --- exact laws -------------------------------------------------------------------------------------------------------


def bit_laws(metric: Definition, reports: int) -> list[Array]:
    """P(u ones of T, then v of T) at a bit whose mask is 0, and 1: both from one memo."""
    (a1, a0), (q, p) = metric.noise.permanent.probabilities, metric.noise.instantaneous.probabilities
    said, unsaid = (stats.binom.pmf(np.arange(reports + 1), reports, float(x)) for x in (q, p))
    return [float(a) * np.outer(said, said) + (1 - float(a)) * np.outer(unsaid, unsaid) for a in (a0, a1)]


def scores(metric: Definition, reports: int) -> Integers:
    """The rounded score of (mask bit, u, v)."""
    laws = bit_laws(metric, reports)
    ratios = [np.log(law) - np.log(np.outer(law.sum(axis=1), law.sum(axis=0))) for law in laws]
    return np.asarray(np.rint(SCALE * np.stack(ratios)), dtype=np.int64)


@cache
def picked(case: str, sightings: int) -> tuple[dict[int, float], dict[int, float]]:
    """The chance that the right install is picked out of each of CROWDS, and the standard error of that figure.

    Exact for one first sighting; averaged over so many of them (the counts of each kind of bit decide the law).
    """
    metric, reports = CASES[case]
    laws, table = bit_laws(metric, reports), scores(metric, reports)
    width, set_bits = metric.shape.width(0), metric.shape.encode(TEXT, 0).mask.bit_count()
    shifts = table - table.min(axis=2, keepdims=True)  # both laws move by the same amount, which decides nothing
    size = 1 << (width * int(shifts.max()) + 1).bit_length()
    right = [[_wave(law[u] / law[u].sum(), shifts[m, u], size) for u in range(len(law))] for m, law in enumerate(laws)]
    other = [[_wave(law.sum(axis=0), shifts[m, u], size) for u in range(len(law))] for m, law in enumerate(laws)]
    rng = np.random.default_rng(0)
    found = []
    for _ in range(sightings):
        seen = [
            (m, u, number)
            for m, bits in enumerate((width - set_bits, set_bits))
            for u, number in enumerate(rng.multinomial(bits, laws[m].sum(axis=1)))
            if number
        ]
        of_right, of_other = (
            np.clip(np.fft.irfft(np.prod([waves[m][u] ** number for m, u, number in seen], axis=0), size), 0, None)
            for waves in (right, other)
        )
        found.append(_chances(of_right, of_other / metric.shape.num_cohorts))  # other cohorts are out of the question
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(sightings)
    return dict(zip(CROWDS, mean.tolist(), strict=True)), dict(zip(CROWDS, error.tolist(), strict=True))


def _chances(right: Array, other: Array) -> list[float]:
    """Of being picked from each crowd, given the law of the right install's score and that of any other's."""
    above = np.concatenate([np.cumsum(other[::-1])[::-1][1:], [0.0]])
    logs = [np.log1p(-np.minimum(x, 1 - 1e-15)) for x in (above, above + other)]
    result = []
    for crowd in CROWDS:
        # Ties by lot: E[1 / (1 + ties); nobody better] = ((1 - above)**N - (1 - above - tie)**N) / (N tie).
        better, as_good = (np.exp(crowd * log) for log in logs)
        ties = crowd * other
        share = np.where(ties > 1e-9, (better - as_good) / np.where(ties > 1e-9, ties, 1), better)
        result.append(float(np.sum(right * share)))
    return result


def _wave(law: Array, shift: Integers, size: int) -> npt.NDArray[np.complex128]:
    pulse = np.zeros(size)
    np.add.at(pulse, shift, law)
    return np.asarray(np.fft.rfft(pulse))


def predict(setting: Setting) -> Mapping[str, Prediction]:
    found = {}
    for case, (metric, _) in CASES.items():
        chances, errors = picked(case, setting.sightings)
        for crowd in setting.crowds[metric.name]:
            chance, error = chances[crowd], errors[crowd]
            low, high = bounds.share(setting.targets, max(0, chance - 5 * error), min(1, chance + 5 * error))
            found[f"{case} {crowd}"] = Prediction(
                what=f"found again in a crowd of {crowd:,}: {case}",
                low=low,
                high=high,
                why=f"{fixed_percent(chance, 2)} by convolution; binomial",
                false_alarm=FALSE_ALARM,
                form=".1%",
            )
    return found


# --- the run ----------------------------------------------------------------------------------------------------------


def run(setting: Setting, rng: np.random.Generator, progress: Progress) -> StudyOutput:
    figures: dict[str, float] = {}
    for part, metric in enumerate((MANY, ONE)):
        cases = {case: reports for case, (asked, reports) in CASES.items() if asked is metric}
        crowds = setting.crowds[metric.name]
        wins = {(case, crowd): 0 for case in cases for crowd in crowds}
        for target in range(setting.targets):
            for won in _found_again(metric, cases, crowds, rng):
                wins[won] += 1
            progress((part + target / setting.targets) / 2)
        figures |= {f"{case} {crowd}": number / setting.targets for (case, crowd), number in wins.items()}
    theory = {case: picked(case, setting.sightings)[0] for case in CASES}
    rows = []
    for crowd in (*setting.crowds["many"], 1_000_000):
        cells = []
        for case in CASES:
            key = f"{case} {crowd}"
            cells += [_chance(theory[case][crowd]), _chance(figures[key]) if key in figures else "not run"]
        rows.append((f"{crowd:,}", *cells, _chance(1 / crowd)))
    million = {case: theory[case][1_000_000] for case in CASES}
    once, thrice, one = CASES
    return StudyOutput(
        figures=figures,
        columns=("crowd", *(f"{case}: {word}" for case in CASES for word in ("theory", "found")), CHANCE),
        rows=tuple(rows),
        chart=_picture(theory, figures, setting),
        caption="Chance to find an install again by its noise alone. Lines: theory. Points: what was found.",
        meaning=(
            "A long memo is a fingerprint. Three reports now and three later pick one install out of a million with "
            f"{fixed_percent(million[thrice], 0)}, though everybody gave the same answer: the noise that protects the "
            "answer is what tells installs apart. Even one report against one does it with "
            f"{fixed_percent(million[once])}, where a blind guess has one in a million. Sixteen cohorts make the "
            "crowd sixteen times smaller, on top.",
            "A single hashed bit in a single cohort has two memos for everyone, and finds nobody: in a crowd of a "
            f"million it does {1e6 * million[one]:.1f} times as well as a blind guess. That is what few bits and few "
            "cohorts are for, and why hubbub's label prints the bits that link an install's reports.",
        ),
        published=(
            Published(
                what="linking reports of one install",
                theirs="made hard by the instantaneous noise (by argument)",
                ours=f"one in a million found with {fixed_percent(million[once])} from one report, "
                f"{fixed_percent(million[thrice], 0)} from three",
                why="the argument holds for one bit; 128 bits of memo are too many for it",
            ),
        ),
    )


def _found_again(
    metric: Definition, cases: Mapping[str, int], crowds: tuple[int, ...], rng: np.random.Generator
) -> list[tuple[str, int]]:
    """In which cases and crowds the attacker picks the right one of a fresh crowd. Installs of other cohorts are never
    likelier, so only those of the same cohort report."""
    shape = metric.shape
    cohort = int(rng.integers(shape.num_cohorts))
    mask = shape.encode(TEXT, cohort).mask
    where = _unpacked([mask], shape.width(0))[0]
    memo = draw_memo(metric, mask, cohort, rng.bytes)
    before = _reports(metric, memo, cohort, rng)
    same = np.flatnonzero(rng.integers(shape.num_cohorts, size=max(crowds) - 1) == 0)  # the target's own is called 0
    memos = [memo, *(draw_memo(metric, mask, cohort, rng.bytes) for _ in same)]
    after = np.stack([_reports(metric, each, cohort, rng) for each in memos])
    won = []
    for case, reports in cases.items():
        table = scores(metric, reports)
        u, v = before[:reports].sum(axis=0), after[:, :reports].sum(axis=1)
        totals = table[where, u, v].sum(axis=1) + rng.random(len(v)) / 2  # ties by lot: scores are whole numbers
        for crowd in crowds:
            there = totals[1:][same < crowd - 1]
            if not len(there) or totals[0] > there.max():
                won.append((case, crowd))
    return won


def _reports(metric: Definition, memo: int, cohort: int, rng: np.random.Generator) -> Integers:
    bits = [draw_bits(metric, memo, cohort, rng.bytes) for _ in range(MOST)]
    return _unpacked(bits, metric.shape.width(cohort))


def _unpacked(numbers: list[int], width: int) -> Integers:
    size = bytes_for(width)
    data = np.frombuffer(b"".join(number.to_bytes(size, "little") for number in numbers), dtype=np.uint8)
    return np.unpackbits(data.reshape(-1, size), axis=1, bitorder="little")[:, :width].astype(np.int64)


def _chance(chance: float) -> str:
    return fixed_percent(chance) if chance >= 0.001 or chance == 0 else f"{1e6 * chance:.3g} in a million"


def _picture(theory: Mapping[str, Mapping[int, float]], figures: Mapping[str, float], setting: Setting) -> Plot:
    chances = {**theory, CHANCE: {crowd: 1 / crowd for crowd in CROWDS}}
    lines = {case: [(float(crowd), found) for crowd, found in of.items()] for case, of in chances.items()}
    points = {
        case: [(float(crowd), figures[f"{case} {crowd}"]) for crowd in setting.crowds[metric.name]]
        for case, (metric, _) in CASES.items()
    }
    series = dict(zip([*CASES, CHANCE], (GREEN, BLUE, ORANGE, GREY), strict=True))
    x = Scale.logarithmic(_TICKS, thousands, "installs in the crowd")
    y = Scale.linear(0, 1, plain_percent, "found again")
    return one(lines_and_points(lines, points, x, y, series, height=240), series)


EXPERIMENT = Experiment(
    name="tracking",
    title="Found again by the noise",
    question="A collector sees a few reports today and a few next month. Can it tell that they are from one install?",
    source="Erlingsson, Pihur, Korolova 2014 (RAPPOR), sections 3 and 6; exact law derived here",
    full=FULL,
    quick=QUICK,
    describe=describe,
    predict=predict,
    run=run,
)
