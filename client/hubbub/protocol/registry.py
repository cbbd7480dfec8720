"""The registry: an app's metrics.toml, read with exact decimals and refused with all its mistakes at once.

It is public, reviewed like code, shipped inside the app and never fetched at run time. Loading it never depends on
today's date: an expired metric still loads, because old tallies must stay decodable.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import (
    Noise,
    kary_noise,
    many_bit_noise,
    one_bit_noise,
    prefers_kary,
    rappor_noise,
)
from hubbub.protocol.epoch import CADENCES
from hubbub.protocol.fields import Reader, number, read_fields, readers_of, text, unknown_key
from hubbub.protocol.metric import Metric
from hubbub.protocol.rules import Invalid, refuse
from hubbub.protocol.shape import SHAPES, Choice, Shape, String

APP = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """All that an app may ask of an install, and the most it may ever spend. `source` is the TOML it came from."""

    app: str
    lifetime_epsilon: Fraction
    metrics: Mapping[str, Metric]
    source: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        refuse(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not APP.fullmatch(self.app):
            yield f"app must match {APP.pattern}, got {self.app!r}"
        if not 0 < self.lifetime_epsilon <= 10_000:
            yield f"lifetime_epsilon must be above 0 and at most 10000, got {_say(self.lifetime_epsilon)}"
        if not self.metrics:
            yield "metrics must hold at least one metric, got none"
        spent = sum((metric.epsilon_lifetime for metric in self.metrics.values()), Fraction(0))
        if self.lifetime_epsilon < spent:
            shares = " + ".join(
                f"{metric.max_values} x {eps.show(metric.epsilon_permanent, 4)} ({name})"
                for name, metric in self.metrics.items()
            )
            yield (
                f"lifetime_epsilon must be at least {eps.show(spent, 4)}, the sum of max_values x epsilon_permanent "
                f"= {shares}, got {_say(self.lifetime_epsilon)}"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Registry:
        """Read a metrics.toml. Raises `Invalid` with every problem of the file, and OSError if there is none."""
        try:
            source = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise Invalid([f"{os.fspath(path)}: must be UTF-8, got a wrong byte at {error.start}"]) from None
        try:
            return cls.parse(source)
        except Invalid as error:
            raise Invalid(f"{os.fspath(path)}: {problem}" for problem in error.problems) from None

    @classmethod
    def parse(cls, source: str) -> Registry:
        """The registry that a TOML text describes."""
        try:
            table = tomllib.loads(source, parse_float=Decimal)
        except (tomllib.TOMLDecodeError, RecursionError, ArithmeticError) as error:
            raise Invalid([f"not TOML: {error}"]) from None
        problems: list[str] = []
        top = read_fields(table, {"app": text, "lifetime_epsilon": number, "metrics": _tables}, _REQUIRED, problems)
        metrics: dict[str, Metric] = {}
        for name, keys in top.get("metrics", {}).items():
            try:
                metrics[name] = _metric(name, keys)
            except Invalid as error:
                problems.extend(f"[metrics.{name}] {problem}" for problem in error.problems)
        # Also with a broken metric left out: what the others break is worth hearing in the same run.
        registry = None
        if metrics and set(_REQUIRED) <= set(top):
            registry = _built(cls, {**top, "metrics": metrics, "source": source}, problems)
        elif top.get("metrics") == {}:
            problems.append("metrics must hold at least one metric, got none")
        refuse(problems)
        assert isinstance(registry, cls)
        return registry

    def __getitem__(self, name: str) -> Metric:
        try:
            return self.metrics[name]
        except KeyError:
            raise KeyError(unknown_key(name, self.metrics)) from None

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.metrics.values())

    def __len__(self) -> int:
        return len(self.metrics)

    def with_cadence(self, every: str) -> tuple[Metric, ...]:
        """The metrics that share a batch: all of one cadence, in the order of the file."""
        return tuple(metric for metric in self if metric.every == every)

    def epsilon_one_epoch(self, every: str) -> Fraction:
        """What one batch tells at most: its reports are one joint release, so their epsilons add."""
        return sum((metric.epsilon_one_report for metric in self.with_cadence(every)), Fraction(0))

    @property
    def cadences(self) -> tuple[str, ...]:
        return tuple(every for every in CADENCES if self.with_cadence(every))

    @property
    def epsilon_lifetime(self) -> Fraction:
        """What all reports of all metrics tell at most, over an install's whole life."""
        return sum((metric.epsilon_lifetime for metric in self), Fraction(0))


_REQUIRED = ("app", "lifetime_epsilon", "metrics")
_EPSILONS = ("epsilon_one_report", "epsilon_permanent")
_PROBABILITIES = ("prob_f", "prob_p", "prob_q")
_NOISE: dict[str, Reader] = dict.fromkeys(_EPSILONS + _PROBABILITIES, number)
_TERMS, _REQUIRED_TERMS = readers_of(Metric, leaving_out=("name", "shape", "noise"))
_STAND_IN = rappor_noise(Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))


def _metric(name: str, keys: Mapping[str, Any]) -> Metric:
    problems: list[str] = []
    kind = keys.get("kind")
    if not isinstance(kind, str) or kind not in SHAPES:
        got = "nothing" if kind is None else repr(kind)
        raise Invalid([f"kind must be one of {', '.join(SHAPES)}, got {got}"])
    shape_readers, required = readers_of(SHAPES[kind])
    once = keys.get("every") == "once"
    values = read_fields(
        {"max_values": 1, **keys} if once else keys,
        {"kind": text, **shape_readers, **_TERMS, **_NOISE},
        required | _REQUIRED_TERMS,
        problems,
    )
    shape = None
    if required <= set(values):
        shape = _built(SHAPES[kind], {key: values[key] for key in shape_readers if key in values}, problems)
    noise = _noise(shape, {key: values[key] for key in _NOISE if key in values}, problems)
    metric = None
    if shape and set(values) >= _REQUIRED_TERMS:
        terms = {key: values[key] for key in _TERMS if key in values}
        # With broken noise a stand-in, only to hear what else is wrong.
        metric = _built(Metric, {"name": name, "shape": shape, "noise": noise or _STAND_IN, **terms}, problems)
    refuse(problems)
    assert isinstance(metric, Metric)
    return metric


def _noise(shape: Shape | None, given: Mapping[str, Fraction], problems: list[str]) -> Any:
    if set(given) == set(_EPSILONS):
        one_report, permanent = (given[key] for key in _EPSILONS)
        found = list(_broken_epsilons(one_report, permanent))
        problems.extend(found)
        return None if found or shape is None else best_noise(shape, one_report, permanent)
    if set(given) == set(_PROBABILITIES):
        found = list(_broken_probabilities(**given))
        problems.extend(found)
        return None if found else _built(rappor_noise, dict(given), problems)
    problems.append(
        f"the noise must be given either by {' and '.join(_EPSILONS)} or by {', '.join(_PROBABILITIES)}, "
        f"got {', '.join(given) or 'neither'}"
    )
    return None


def best_noise(shape: Shape, epsilon_one_report: Fraction, epsilon_permanent: Fraction) -> Noise:
    """The least noise that keeps both epsilons, for this shape."""
    if isinstance(shape, Choice) and prefers_kary(epsilon_one_report, shape.categories):
        return kary_noise(epsilon_one_report, epsilon_permanent, shape.categories)
    if shape.num_masks == 2:
        return one_bit_noise(epsilon_one_report, epsilon_permanent)
    num_hashes = shape.num_hashes if isinstance(shape, String) else 1
    return many_bit_noise(epsilon_one_report, epsilon_permanent, num_hashes)


def _broken_epsilons(one_report: Fraction, permanent: Fraction) -> Iterator[str]:
    for key, value in zip(_EPSILONS, (one_report, permanent), strict=True):
        if not eps.SMALLEST <= value <= eps.LARGEST:
            yield f"{key} must be in [{_say(eps.SMALLEST)}, {_say(eps.LARGEST)}], got {_say(value)}"
    if one_report > permanent:
        yield f"epsilon_one_report must be at most epsilon_permanent={_say(permanent)}, got {_say(one_report)}"


def _broken_probabilities(prob_f: Fraction, prob_p: Fraction, prob_q: Fraction) -> Iterator[str]:
    if not 0 < prob_f < 1:
        yield f"prob_f must be above 0 (or the memo is the truth) and below 1 (or it is pure noise), got {_say(prob_f)}"
    if not 0 <= prob_p < prob_q <= 1:
        yield f"prob_p and prob_q must hold 0 <= prob_p < prob_q <= 1, got {_say(prob_p)} and {_say(prob_q)}"


def _built(cls: Any, values: dict[str, Any], problems: list[str]) -> Any:
    try:
        return cls(**values)
    except Invalid as error:
        problems.extend(error.problems)
        return None


def _tables(raw: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(raw, dict) or not all(isinstance(table, dict) for table in raw.values()):
        raise ValueError("must be tables such as [metrics.dark_theme]")
    return raw


def _say(value: Fraction) -> str:
    return f"{float(value):.12g}"
