"""What a kind of metric brings for its analysis: how it is decoded, how noisy it is, and how a plan of it reads.

A kind is a value of this class in a file of its own, named in the table `hubbub.analysis.kinds.KINDS`. Everything else
asks it, or the facts that every shape answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.kinds.factor import Factor
from hubbub.analysis.options import Options
from hubbub.analysis.progress import NamedProgress
from hubbub.analysis.result import Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.shape import Shape

S = TypeVar("S", bound=Shape)
Pools = Sequence[PooledTally]
"""The tallies of one metric, each definition once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a plan looks for, in words; `most` is the largest share there can be.

    `counts_holders` says that a share is one of installs: fewer than a few of them are never promised to be seen.
    `sides` are those of the test (see `estimation.detection`).
    """

    what: str = "an answer"
    of: str = "of installs"
    by: str = "an answer by its share"
    most: float = 1.0
    counts_holders: bool = True
    sides: int = 1


@dataclass(frozen=True, slots=True)
class PlanOption:
    """A whole number by which `hubbub plan` lets this kind's shape be chosen."""

    name: str
    default: int | None
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch(Generic[S]):
    """The part of a plan that a kind may have more to say about."""

    shape: S
    noise: Noise
    epsilon_one_report: float
    epsilon_permanent: float
    strings: int
    candidates: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S]):
    """The functions and words of one kind.

    `decode` makes a result of pooled tallies, and of candidates where the list of answers is open. `unit_variance` is n
    times the variance of the estimated share of an answer that a share of n installs holds, beside so many strings.
    `planned` is the shape with given `plan_options`, `alternatives` are all that differ from it in what was not given,
    of which a plan takes the best: by their `worst_variance` where there is one, that of the answers which are told
    worst. `toml` is a shape's keys in a metrics.toml and `slots` how many kept answers one is usually given,
    `plan_problems` what is wrong with expecting so many strings, `plan_warnings` why less may be seen than is planned,
    `plan_remarks` what else a planner should know.

    What a plan must know of `decode`: `tested` is how many rows it tests, given so many candidates; `row_variance` is
    the `unit_variance` of such a row, where a row is not one answer; `asked` the share of installs that are asked about
    an answer, where the test is of their count of ones (binomial), and `line` the estimate from which on an answer with
    this share is detected, beside so many strings and among so many reports, where the test has a law of its own; with
    neither it is of a normal estimate.
    """

    decode: Callable[[Pools, Sequence[str], Options], Decoding]
    unit_variance: Callable[[S, Noise, float, int], float]
    planned: Callable[[Mapping[str, int], int], S]
    toml: Callable[[S], str]
    alternatives: Callable[[S, Mapping[str, int]], Sequence[S]] = lambda shape, given: (shape,)
    slots: Callable[[S], int] = lambda shape: min(shape.most_slots, 2)
    worst_variance: Callable[[S, Noise], float] | None = None
    tested: Callable[[S, int], int] = lambda shape, candidates: 1
    row_variance: Callable[[S, Noise, float, int], float] | None = None
    asked: Callable[[S], float] | None = None
    line: Callable[[S, Noise, float, int, float, Rule], float] | None = None
    plan_options: tuple[PlanOption, ...] = ()
    plan_problems: Callable[[S, int], Iterable[str]] = lambda shape, strings: ()
    plan_warnings: Callable[[Sketch[S]], list[str]] = lambda sketch: []
    plan_remarks: Callable[[Sketch[S]], list[str]] = lambda sketch: []
    goal: Goal = Goal()
    search: Callable[[Pools, Sequence[str], Options, NamedProgress], Decoding] | None = None
    """In place of `decode` where that takes seconds: it is told whom to tell how far it is."""
    released: Callable[[Decoding], Sequence[int]] | None = None
    """The rows of a result that can be published, because their errors allow for noise on counts; None: none."""
    factor: Callable[[PooledTally, Sequence[str], Options], Factor] | None = None
    """Of one side of a crosstab, given the counts of that side; None: its answers can be none."""
    silent_as: Callable[[S], str] = lambda shape: ""
    """The answer that an install counts as which recorded nothing, in words; empty: it is absent, so that shares of
    those who answered can be asked for."""
    has_ranges: bool = False
    """Whether shares of any range and quantiles can be asked for."""
