"""The registry: an app's metrics.toml, read with exact decimals and refused with all its mistakes at once.

It is public, reviewed like code, shipped inside the app and never fetched at run time. Loading it never depends on
today's date: an expired metric still loads, because old tallies must stay decodable.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any

from hubbub.protocol import epsilon as eps
from hubbub.protocol.blake2 import blake2b
from hubbub.protocol.cadence import CADENCES
from hubbub.protocol.channel import UNIT
from hubbub.protocol.fields import (
    Reader,
    did_you_mean,
    list_of,
    number,
    read_fields,
    readers_of,
    text,
    unknown_key,
    whole_number,
)
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.kinds import KINDS, shape_class
from hubbub.protocol.linking import at_most, num_groups
from hubbub.protocol.metric import Metric
from hubbub.protocol.names import APP, is_app
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.recipient import Recipient
from hubbub.protocol.segments import Declared, all_segments, broken_declaration, num_segments
from hubbub.protocol.shape import Shape
from hubbub.protocol.value import Value

MAX_METRICS = 1000
"""Fewer than a message has room for (protocol.report.MAX_BLOCKS)."""

IDENTIFYING_BITS = 12
"""The most that what is sent in clear may tell of an install's identity, unless a registry says otherwise. Of 100,000
installs 20 bits would single out 91 %, 12 bits none."""


class Registry(Value, kw_only=True):
    """All that an app may ask of an install, and the most it may ever spend. `source` is the TOML it came from,
    `mark` tells it from another in few bytes."""

    app: str  # the name under which an install keeps its state
    recipient: Recipient  # who receives the messages, and where
    lifetime_epsilon: Fraction  # the most that an install may ever spend
    metrics: Mapping[str, Metric]  # in the order of the file, by name
    max_identifying_bits: int = IDENTIFYING_BITS  # how far what is sent in clear may tell installs apart
    segments: Declared = MappingProxyType({})  # public facts of the build: for each key, the values that are told apart
    source: str = ""  # the TOML it was read from; empty for one made in code
    aside = ("source",)

    def __init__(self, *, metrics: Mapping[str, Metric], segments: Declared | None = None, **head: Any) -> None:
        parts = {"metrics": MappingProxyType(dict(metrics)), "segments": MappingProxyType(dict(segments or {}))}
        super().__init__(**parts, **head)

    @cached_property
    def mark(self) -> bytes:
        return blake2b(self.source.encode(), digest_size=16).digest()

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE2b-128 of the canonical form, in hex: the same for all files that ask the same of people, whatever their
        comments; another if a question, a term, the order (in which budgets are set aside) or the recipient differs."""
        return blake2b(self.canonical().encode(), digest_size=16).hexdigest()

    def canonical(self) -> str:
        """All that people agree to, as one text: JSON with sorted keys and no spaces."""
        form = {
            "app": self.app,
            "recipient": {"name": self.recipient.name, "url": self.recipient.url},
            "lifetime_epsilon": str(self.lifetime_epsilon),
            "max_identifying_bits": self.max_identifying_bits,
            **({"segments": {key: list(values) for key, values in self.segments.items()}} if self.segments else {}),
            "metrics": [metric.terms_to_json() for metric in self],
        }
        return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def _broken_rules(self) -> Iterator[str]:
        yield from _broken_head(self.app, self.lifetime_epsilon)
        yield from broken_declaration(self.segments)
        yield from self._too_identifying()
        if len(self.metrics) > MAX_METRICS:
            yield f"metrics must hold at most {MAX_METRICS}, got {len(self.metrics)}"
        if not self.metrics:
            yield "metrics must hold at least one metric, got none"
        if self.lifetime_epsilon <= sum(metric.epsilon_lifetime_at_most for metric in self):
            yield from self._broken_budget()

    def _broken_budget(self) -> Iterator[str]:
        spent = self.epsilon_lifetime
        if self.lifetime_epsilon < spent:
            shares = " + ".join(
                f"{metric.max_values} x {eps.show(metric.epsilon_permanent, 4)} ({name})"
                for name, metric in self.metrics.items()
            )
            yield (
                f"lifetime_epsilon must be at least {eps.show(spent, 4)}, the sum of max_values x epsilon_permanent "
                f"= {shares}, got {say(self.lifetime_epsilon)}"
            )

    def _too_identifying(self) -> Iterator[str]:
        bits = self.max_identifying_bits
        if not 0 <= bits <= 64:
            yield f"max_identifying_bits must be in [0, 64], got {bits}"
        elif not at_most(bits, self.cohorts, self.num_segments):
            what = "segments and the cohorts of all metrics" if self.segments else "the cohorts of all metrics"
            yield (
                f"{what} must tell at most 2**{bits} groups of installs apart "
                f"(max_identifying_bits = {bits}), got {self.num_groups:,}"
            )

    @property
    def num_segments(self) -> int:
        """How many segments messages tell apart, with `other`; 1 where none are declared."""
        return num_segments(self.segments)

    @property
    def num_groups(self) -> int:
        """How many groups of installs messages tell apart by what they show in clear: segments and cohorts."""
        return num_groups(self.cohorts) * self.num_segments

    def in_all_segments(self) -> Iterator[Metric]:
        """Every metric in every segment: the definitions that messages can be of."""
        segments = list(all_segments(self.segments))
        return (metric.in_segment(segment) for metric in self for segment in segments)

    @property
    def cohorts(self) -> frozenset[int]:
        """Into how many cohorts installs fall, for each metric: what its messages show in clear."""
        return frozenset(metric.shape.num_cohorts for metric in self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Registry:
        """Read a metrics.toml. Raises `Invalid` with every problem of the file, and OSError if there is none."""
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib costs an app's start 3 ms
                source = file.read().removeprefix("\ufeff")  # as editors on Windows begin a file
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
        except (ValueError, RecursionError, ArithmeticError) as error:
            raise Invalid([f"not TOML: {error}"]) from None
        problems: list[str] = []
        top = read_fields(table, _TOP, _REQUIRED, problems)
        if "recipient" in top:
            top["recipient"] = _recipient(top["recipient"], problems) or _SOMEBODY
        metrics: dict[str, Metric] = {}
        for name, keys in top.get("metrics", {}).items():
            try:
                metrics[name] = _metric(name, keys)
            except Invalid as error:
                shown = name if name.isidentifier() else brief(name)
                problems.extend(f"[metrics.{shown}] {problem}" for problem in error.problems)
        # What is missing or broken is left out or stood in for: what the rest breaks is worth hearing in the same run.
        registry = None
        head = {"app": "stand-in", "recipient": _SOMEBODY, "lifetime_epsilon": _LARGEST_BUDGET, **top}
        if metrics or top.get("metrics") == {}:
            registry = _built(cls, {**head, "metrics": metrics, "source": source}, problems)
        else:
            problems.extend(_broken_head(head["app"], head["lifetime_epsilon"]))
        require(problems)
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


def _broken_head(app: str, lifetime_epsilon: Fraction) -> Iterator[str]:
    if not is_app(app):
        yield f"app must match {APP}, got {app!r}"
    if not 0 < lifetime_epsilon <= _LARGEST_BUDGET:
        yield f"lifetime_epsilon must be above 0 and at most {_LARGEST_BUDGET}, got {say(lifetime_epsilon)}"


_LARGEST_BUDGET = Fraction(10_000)
_REQUIRED = ("app", "recipient", "lifetime_epsilon", "metrics")
_SOMEBODY = Recipient(name="unknown", url="https://unknown.invalid")
_EPSILONS = ("epsilon_one_report", "epsilon_permanent")
_PROBABILITIES = ("prob_f", "prob_p", "prob_q")
_NOISE: dict[str, Reader] = dict.fromkeys(_EPSILONS + _PROBABILITIES, number)
_TERMS, _REQUIRED_TERMS = readers_of(Metric, leaving_out=("name", "shape", "noise", "segment"))
_REQUIRED_PARTS = _REQUIRED_TERMS | {"shape", "noise"}


def _stand_ins() -> dict[str, Any]:
    """For what is missing or broken in a metric: they break no rule themselves, so what else is wrong can be heard."""
    return {
        "shape": shape_class("string")(num_bits=64, num_hashes=32, num_cohorts=1),
        "noise": rappor_noise(Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)),
        "every": "week",
        "why": "unknown",
        "owner": "unknown",
        "expires": date.max,
        "max_values": 1,
    }


def _metric(name: str, keys: Mapping[str, Any]) -> Metric:
    problems: list[str] = []
    kind = _kind(keys.get("kind"), problems)
    shape_readers, required = readers_of(shape_class(kind, keys)) if kind else ({}, set())
    readers = {"kind": text, **shape_readers, **_TERMS, **_NOISE}
    # Without a kind nobody knows which further keys are right.
    table = {key: raw for key, raw in keys.items() if key != "kind" and (kind or key in readers)}
    if keys.get("every") == "once":
        table.setdefault("max_values", 1)
    values = read_fields(table, readers, required | _REQUIRED_TERMS, problems)
    parts = {"name": name, **_picked(values, _TERMS)}
    if kind and required <= set(values):
        parts["shape"] = _suited(_built(shape_class(kind, keys), _picked(values, shape_readers), problems), values)
        if parts["shape"] is not None:
            parts.setdefault("accumulate", parts["shape"].accumulations[0])
    if set(table) & set(_NOISE) <= set(values):
        parts["noise"] = _noise(parts.get("shape"), _picked(values, _NOISE), parts.get("every") == "once", problems)
    found = {key: part for key, part in parts.items() if part is not None}
    metric = _built(Metric, found if set(found) >= _REQUIRED_PARTS else {**_stand_ins(), **found}, problems)
    require(problems)
    assert isinstance(metric, Metric)
    return metric


def _kind(raw: Any, problems: list[str]) -> str | None:
    if isinstance(raw, str) and raw in KINDS:
        return raw
    got = "nothing" if raw is None else brief(raw)
    hint = did_you_mean(raw, KINDS) if isinstance(raw, str) else ""
    problems.append(f"kind must be one of {', '.join(KINDS)}, got {got}{hint}")
    return None


def _suited(shape: Shape | None, values: Mapping[str, Any]) -> Shape | None:
    """With the best of what was left out, where the epsilon is given that decides it."""
    epsilon = values.get("epsilon_one_report")
    if shape is None or epsilon is None or not eps.SMALLEST <= epsilon <= eps.LARGEST:
        return shape
    drawn_anew = values.get("every") == "once" or values.get("hold") is not None
    return shape.suited(epsilon, values.keys(), None if drawn_anew else values.get("max_values"))


def _noise(shape: Shape | None, given: Mapping[str, Fraction], once: bool, problems: list[str]) -> Any:
    if set(given) == set(_EPSILONS):
        one_report, permanent = (given[key] for key in _EPSILONS)
        found = list(_broken_epsilons(one_report, permanent))
        problems.extend(found)
        return None if found or shape is None else shape.best_noise(one_report, permanent, once)
    if set(given) == set(_PROBABILITIES):
        found = list(_broken_probabilities(**given))
        problems.extend(found)
        return None if found else rappor_noise(**given)
    problems.append(
        f"the noise must be given either by {' and '.join(_EPSILONS)} or by {', '.join(_PROBABILITIES)}, "
        f"got {', '.join(given) or 'neither'}"
    )
    return None


def _broken_epsilons(one_report: Fraction, permanent: Fraction) -> Iterator[str]:
    for key, value in zip(_EPSILONS, (one_report, permanent), strict=True):
        if not eps.SMALLEST <= value <= eps.LARGEST:
            yield f"{key} must be in [{say(eps.SMALLEST)}, {say(eps.LARGEST)}], got {say(value)}"
    if one_report > permanent:
        yield f"epsilon_one_report must be at most epsilon_permanent={say(permanent)}, got {say(one_report)}"


def _broken_probabilities(prob_f: Fraction, prob_p: Fraction, prob_q: Fraction) -> Iterator[str]:
    # Any closer to pure noise, and rounding to multiples of 2**-24 leaves nothing else.
    if not 0 < prob_f <= 1 - 2 * UNIT:
        yield (
            "prob_f must be above 0 (or the memo is the truth) and at most 1 - 2**-23 (or it is pure noise), "
            f"got {say(prob_f)}"
        )
    if prob_p < 0 or not prob_p + 2 * UNIT <= prob_q <= 1:
        yield (
            "prob_p must be at least 2**-23 below prob_q, both in [0, 1], "
            f"got prob_p={say(prob_p)} and prob_q={say(prob_q)}"
        )


def _picked(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _built(cls: Any, values: dict[str, Any], problems: list[str]) -> Any:
    try:
        return cls(**values)
    except Invalid as error:
        problems.extend(error.problems)
        return None


def _recipient(table: Mapping[str, Any], problems: list[str]) -> Any:
    found: list[str] = []
    values = read_fields(table, *readers_of(Recipient), found)
    problems.extend(f"recipient.{problem}" for problem in found)
    return _built(Recipient, values, problems) if set(values) == set(Recipient.fields) else None


def _table(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f'must be a table such as {{ name = "Us", url = "https://t.example.org" }}, got {brief(raw)}')
    return dict(raw)


def _segments(raw: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, dict):
        raise ValueError(f'must be a table such as [segments] with platform = ["linux", "macos"], got {brief(raw)}')
    found = {}
    for key, values in raw.items():
        try:
            found[key] = list_of(text)(values)
        except ValueError as error:
            raise ValueError(f"of {key if key.isidentifier() else brief(key)} {error}") from None
    return found


def _tables(raw: Any) -> dict[str, dict[str, Any]]:
    stray = [raw] if not isinstance(raw, dict) else [item for item in raw.values() if not isinstance(item, dict)]
    if stray:
        raise ValueError(f"must hold tables such as [metrics.dark_theme] and nothing else, got {brief(stray[0])}")
    return dict(raw)


_TOP: dict[str, Reader] = {
    "app": text,
    "recipient": _table,
    "lifetime_epsilon": number,
    "max_identifying_bits": whole_number,
    "segments": _segments,
    "metrics": _tables,
}
