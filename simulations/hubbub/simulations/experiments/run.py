"""All experiments, in the order of the report, and how one is conducted: what is predicted comes before what is drawn.

First what can be seen, then what protects, then what attacks.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from hubbub.analysis.progress import Progress
from hubbub.protocol.invalid import Invalid
from hubbub.simulations.experiments.experiment import CheckedPrediction, Experiment, ExperimentResult
from hubbub.simulations.experiments.studies import (
    association,
    averaging,
    central_noise,
    dbitflip,
    discovery,
    histories,
    one_bit_mean,
    poisoned_mean,
    poisoned_string,
    range_queries,
    rappor_exponential,
    rappor_normal,
    rappor_windows,
    tracking,
)

EXPERIMENTS: tuple[Experiment, ...] = tuple(
    module.EXPERIMENT
    for module in (
        rappor_normal,
        rappor_exponential,
        rappor_windows,
        one_bit_mean,
        dbitflip,
        range_queries,
        discovery,
        association,
        central_noise,
        averaging,
        histories,
        tracking,
        poisoned_string,
        poisoned_mean,
    )
)


def named(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all of them for none; raises `Invalid` for a name that is none."""
    by_name = {experiment.name: experiment for experiment in EXPERIMENTS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise Invalid([f"there is no experiment {name!r}{_nearest(name, list(by_name))}" for name in unknown])
    return [by_name[name] for name in dict.fromkeys(names)] if names else list(EXPERIMENTS)


def _nearest(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f"; there are {', '.join(names)}"


def conduct(
    experiment: Experiment, *, quick: bool, seed: int, progress: Progress = lambda done: None
) -> ExperimentResult:
    """Predict, then run. The chance of an experiment depends on the seed and its name, not on what ran before it."""
    started = time.process_time()
    setting = experiment.quick if quick else experiment.full
    predictions = experiment.predict(setting)
    output = experiment.run(setting, np.random.default_rng([seed, zlib.crc32(experiment.name.encode())]), progress)
    if set(output.figures) != set(predictions):
        odd = sorted(set(output.figures) ^ set(predictions))
        raise Invalid([f"{experiment.name}: every prediction needs a figure and every figure a prediction, got {odd}"])
    return ExperimentResult(
        name=experiment.name,
        title=experiment.title,
        question=experiment.question,
        source=experiment.source,
        setting=experiment.describe(setting),
        findings=tuple(CheckedPrediction(p, float(output.figures[key])) for key, p in predictions.items()),
        output=output,
        seconds=time.process_time() - started,
    )
