"""All experiments, in the order of the report: what is seen first, then what protects, then what attacks."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from hubbub.protocol.invalid import Invalid
from hubbub.simulations.experiments.experiment import Experiment
from hubbub.simulations.experiments.studies import (
    averaging,
    dbitflip,
    hold,
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
        averaging,
        hold,
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
