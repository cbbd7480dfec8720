"""What a rehearsal exchanges in its own process for as long as a run or an install lasts. All of it goes through here,
so that all of it is as it was afterwards, whatever was raised."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def replaced(owner: object, **values: object) -> Iterator[None]:
    """These attributes of a module or class have these values meanwhile; those that there were not are gone again."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            elif name in vars(owner):
                delattr(owner, name)


@contextmanager
def importable(module: ModuleType) -> Iterator[None]:
    """`import` finds this module by its name meanwhile, in place of another of that name."""
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if before is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = before


@contextmanager
def chance_from(seed: float) -> Iterator[None]:
    """The functions of `random` begin with this seed meanwhile: apps that are scripts have no other chance."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
