"""One of the two answers of a crosstab: which categories it has, and what a report tells of each.

Categories exclude each other and leave nobody out: where silence is no answer of its own, `absent` is the last of them,
and of strings `other` is whatever is not listed. A kind whose answers can be such a side brings a `factor` function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hubbub.analysis.arrays import Array
from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.factor_scores import Response, bit_scores, one_hot_scores, response, with_none
from hubbub.analysis.result import ABSENT, ANSWER, Role
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds import Mean
from hubbub.protocol.metric import Definition
from hubbub.protocol.shape import Factor as DeclaredFactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """The categories of one side, in words. `numbers` are what they stand for, where an average means something."""

    name: str
    values: tuple[str, ...]
    roles: tuple[Role, ...]
    unit: str = ""
    natural_order: bool = False
    numbers: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def answers(self) -> list[int]:
        """The categories that somebody gave as an answer."""
        return [i for i, role in enumerate(self.roles) if role != ABSENT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Categories, and for each cohort what its reports tell of them; None: a cohort that is not used."""

    categories: Categories
    responses: tuple[Response | None, ...]
    unlisted: bool = False
    """Whether strings that are in no list fall on the cells of those that are."""
    notes: tuple[str, ...] = ()


def categories_of(metric: Definition, silence_is_apart: bool = False) -> Categories:
    """Of a metric whose answers are declared: those that a cross would tell apart."""
    told = metric.shape.told_apart
    declared = declared_categories(DeclaredFactor(name=metric.name, shape=metric.shape, accumulate=metric.accumulate))
    if not silence_is_apart or len(declared) > len(told):
        return declared
    return replace(declared, values=(*told, "absent"), roles=(*declared.roles, ABSENT))


def declared_categories(factor: DeclaredFactor) -> Categories:
    """Of a factor of a cross."""
    told, shape = len(factor.shape.told_apart), factor.shape
    return Categories(
        name=factor.name,
        values=factor.categories,
        roles=tuple(ANSWER if i < told else ABSENT for i in range(len(factor.categories))),
        unit=shape.unit,
        natural_order=shape.natural_order or shape.is_number,
        numbers=_numbers(shape) if isinstance(shape, Mean) else None,
    )


def _numbers(shape: Mean) -> tuple[float, ...]:
    step = (shape.high - shape.low) / (shape.points - 1)
    return tuple(float(shape.low + point * step) for point in range(shape.points))


def one_bit(noise: Noise) -> Response:
    """Of a bit that is set for the second of two categories."""
    of_one = bit_scores(noise, 1)
    return response(noise, np.array([[0.0], [1.0]]), with_none(of_one)[::-1])


def one_of(noise: Noise, categories: int) -> Response:
    """Of a bit for each category, one of which is true."""
    return response(noise, np.eye(categories), one_hot_scores(noise, categories))


def some_or_none(noise: Noise, bits: int) -> Response:
    """Of a bit for each category but the last, of which none may be true."""
    return response(noise, np.vstack([np.eye(bits), np.zeros(bits)]), with_none(bit_scores(noise, bits)))


def bit_of_several(noise: Noise, bits: int, place: int) -> Response:
    """Of one bit among others that are not looked at."""
    scores, masks = np.zeros((1, 1 + bits)), np.zeros((2, bits))
    scores[0, [0, 1 + place]], masks[1, place] = bit_scores(noise, 1)[0], 1
    return response(noise, masks, with_none(scores)[::-1])


def reports_of(pool: PooledTally) -> Array:
    """Of each cohort."""
    return np.array([cohort.reports for cohort in pool])
