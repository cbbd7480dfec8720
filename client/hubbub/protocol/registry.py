"""The registry: an app's metrics.toml, read with exact decimals and refused with all its mistakes at once.

It is public, reviewed like code, shipped inside the app and never fetched at run time. Loading it never depends on
today's date: an expired metric still loads, because old tallies must stay decodable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from hubbub.protocol import epsilon as eps
from hubbub.protocol.cadence import CADENCES
from hubbub.protocol.fields import did_you_mean, list_of, number, read_fields, readers_of, text, whole_number
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.linking import at_most, num_groups, num_samples
from hubbub.protocol.metric import Metric, canonical, hash_of
from hubbub.protocol.metric_tables import built, read_metrics
from hubbub.protocol.names import APP, host_of, is_app
from hubbub.protocol.segments import Declared, all_segments, broken_declaration, num_segments
from hubbub.protocol.value import Value, cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.pair import Pair  # loaded where a registry has pairs, which few have
    from hubbub.protocol.vocabulary import Cadence, Reader

MAX_METRICS = 1000
"""Fewer than a message has room for (protocol.report.MAX_BLOCKS)."""

IDENTIFYING_BITS = 12
"""The most that what is sent in clear may tell of an install's identity, unless a registry says otherwise. Of 100,000
installs 20 bits would single out 91 %, 12 bits none."""

EXPECTED_INSTALLS = 1_000_000
"""The number of installs a label assumes where a registry does not say how many installs there will be."""


def tables_of(source: str) -> dict[str, Any]:
    """The tables of a TOML text, with exact decimals."""
    import tomllib  # here, because a client that was started before need not parse its file again

    try:
        return tomllib.loads(source, parse_float=Decimal)
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise Invalid([f"not TOML: {error}"]) from None


class Recipient(Value, kw_only=True):
    """Who runs the collector, and its address: part of what people agree to. A path in it is part of it: one for each
    person would be a name. An address is written in one way only, so that two of them are the same place exactly if
    they are the same text."""

    name: str  # who receives the messages, as people know them
    url: str  # the collector's address, https, without a slash at its end

    def _broken_rules(self) -> Iterator[str]:
        if not self.name.strip():
            yield "recipient.name must not be empty"
        if not self.url.startswith("https://") or host_of(self.url) is None or len(self.url) > 200:
            yield (
                "recipient.url must be an https address in lower case, without user, query, fragment or a slash at "
                f"its end, such as https://telemetry.example.org, got {self.url!r}"
            )

    def __str__(self) -> str:
        return f"{self.name} ({self.url})"


class Registry(Value, kw_only=True):
    """All that an app may ask of an install, and the most it may ever spend. `source` is the TOML it came from,
    `fingerprint` tells what it asks from what another asks."""

    app: str  # the name under which an install keeps its state
    recipient: Recipient  # who receives the messages, and where
    lifetime_epsilon: Fraction  # the most that an install may ever spend
    metrics: Mapping[str, Metric]  # in the order of the file, by name
    max_identifying_bits: int = IDENTIFYING_BITS  # how far what is sent in clear may tell installs apart
    expected_installs: int = EXPECTED_INSTALLS  # among how many the label says from when on a text can be found
    segments: Declared = MappingProxyType({})  # public facts of the build: for each key, the values that are told apart
    together: Mapping[str, Pair] = MappingProxyType({})  # metrics that are counted in pairs as well, by the pair's name
    source: str = ""  # the TOML it was read from; empty for one made in code
    aside = ("source",)

    def __init__(
        self,
        *,
        metrics: Mapping[str, Metric],
        segments: Declared | None = None,
        together: Mapping[str, Pair] | None = None,
        **head: Any,
    ) -> None:
        parts = {"metrics": metrics, "segments": segments or {}, "together": together or {}}
        super().__init__(**{name: MappingProxyType(dict(part)) for name, part in parts.items()}, **head)

    @cached_property
    def fingerprint(self) -> str:
        """BLAKE2b-128 of the canonical form, in hex: the same for all files that ask the same of people, whatever their
        comments; another if a question, a term, the order (in which budgets are set aside) or the recipient differs, or
        if another release of hubbub makes other noise of the same file."""
        return hash_of(self.canonical())

    def canonical(self) -> str:
        """All that people agree to, as one text: JSON with sorted keys and no spaces."""
        form = {
            "app": self.app,
            "recipient": {"name": self.recipient.name, "url": self.recipient.url},
            "lifetime_epsilon": str(self.lifetime_epsilon),
            "max_identifying_bits": self.max_identifying_bits,
            **({"expected_installs": self.expected_installs} if self.expected_installs != EXPECTED_INSTALLS else {}),
            **({"segments": {key: list(values) for key, values in self.segments.items()}} if self.segments else {}),
            "metrics": [metric.terms_to_json() for metric in self],
            **({"together": self.pairs_by_name} if self.together else {}),
        }
        return canonical(form)

    def _broken_rules(self) -> Iterator[str]:
        yield from _broken_head(self.app, self.lifetime_epsilon)
        yield from broken_declaration(self.segments)
        yield from self._too_identifying()
        if not 1 <= self.expected_installs <= 10**10:
            yield f"expected_installs must be in [1, {10**10}], got {self.expected_installs}"
        if self._has_crosses:
            from hubbub.protocol.crosses import broken_crosses  # here and below, because few registries have any

            yield from broken_crosses(self.metrics)
        if self.together:
            from hubbub.protocol.together import broken_together

            yield from broken_together(self.together, self.metrics)
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
                f"{metric.charges} x {eps.show(metric.epsilon_permanent, 4)} ({name})"
                for name, metric in self.metrics.items()
            )
            once = "(of epsilon_history once) " if any(metric.hold for metric in self) else ""
            yield (
                f"lifetime_epsilon must be at least {eps.show(spent, 4)}, the sum of max_values x epsilon_permanent "
                f"{once}= {shares}, got {say(self.lifetime_epsilon)}"
            )

    def _too_identifying(self) -> Iterator[str]:
        bits = self.max_identifying_bits
        if not 0 <= bits <= 64:
            yield f"max_identifying_bits must be in [0, 64], got {bits}"
        elif not at_most(bits, self.cohorts, self.num_segments * self.num_samples):
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
        """How many groups of installs messages tell apart by what they show in clear: segments, cohorts and samples."""
        return num_groups(self.cohorts) * self.num_segments * self.num_samples

    @property
    def num_samples(self) -> int:
        """As how many groups installs count that are told apart by which metrics they answer at all: one in ten shows
        as much of who it is as one of ten groups."""
        return num_samples(metric.sample for metric in self)

    def in_all_segments(self) -> Iterator[Metric]:
        """Every metric in every segment: the definitions that messages can be of."""
        segments = list(all_segments(self.segments))
        return (metric.in_segment(segment) for metric in self for segment in segments)

    @property
    def pairs_by_name(self) -> dict[str, list[str]]:
        """The names of the metrics that are counted together, by that of the pair."""
        return {name: [metric.name for metric in pair.metrics] for name, pair in self.together.items()}

    def counted_with(self, name: str) -> list[str]:
        """The metrics that this one is counted together with."""
        return [other for pair in self.pairs_by_name.values() if name in pair for other in pair if other != name]

    @property
    def cohorts(self) -> frozenset[int]:
        """Into how many cohorts installs fall, for each metric: what its messages show in clear."""
        return frozenset(metric.shape.num_cohorts for metric in self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], tables: Callable[[str], Mapping[str, Any]] = tables_of) -> Registry:
        """Read a metrics.toml. Raises `Invalid` with every problem of the file, and OSError if there is none. `tables`
        parses its text; a client that has parsed it before does so faster."""
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib costs an app's start 3 ms
                source = file.read().removeprefix("\ufeff")  # as editors on Windows begin a file
        except FileNotFoundError as error:
            if os.path.isabs(path):  # noqa: PTH117
                raise
            words = f"{error.strerror} (looked for {os.path.abspath(path)})"  # noqa: PTH100
            raise FileNotFoundError(error.errno, words, path) from None
        except UnicodeDecodeError as error:
            raise Invalid([f"{os.fspath(path)}: must be UTF-8, got a wrong byte at {error.start}"]) from None
        try:
            return cls.parse(source, tables)
        except Invalid as error:
            raise Invalid(f"{os.fspath(path)}: {problem}" for problem in error.problems) from None

    @classmethod
    def parse(cls, source: str, tables: Callable[[str], Mapping[str, Any]] = tables_of) -> Registry:
        """The registry that a TOML text describes."""
        problems: list[str] = []
        top = read_fields(tables(source), _TOP, _REQUIRED, problems)
        if "recipient" in top:
            top["recipient"] = _recipient(top["recipient"], problems) or _SOMEBODY
        metrics = read_metrics(top.get("metrics", {}), problems)
        together = top.pop("together", {})
        if together != {}:
            from hubbub.protocol.together import read_together

            try:
                together = read_together(together, metrics, top.get("metrics", {}))
            except Invalid as error:
                problems.extend(error.problems)
                together = {}
        # What is missing or broken is left out or stood in for: what the rest breaks is worth hearing in the same run.
        registry = None
        head = {"app": "stand-in", "recipient": _SOMEBODY, "lifetime_epsilon": _LARGEST_BUDGET, **top}
        if metrics or top.get("metrics") == {}:
            registry = built(cls, {**head, "metrics": metrics, "together": together, "source": source}, problems)
        else:
            problems.extend(_broken_head(head["app"], head["lifetime_epsilon"]))
        require(problems)
        assert isinstance(registry, cls)
        return registry

    @cached_property
    def crosses(self) -> Mapping[str, tuple[Metric, ...]]:
        """By name, the metrics that are made of this one and another (`cross`)."""
        if not self._has_crosses:
            return {}
        from hubbub.protocol.crosses import crosses_by_factor

        return crosses_by_factor(self)

    @property
    def _has_crosses(self) -> bool:
        return any(metric.shape.made_of_others for metric in self)

    def __getitem__(self, name: str) -> Metric:
        try:
            return self.metrics[name]
        except KeyError:
            raise KeyError(self.no_metric(name)) from None

    def no_metric(self, name: str) -> str:
        """That there is no metric of this name, in words, with the nearest name or all of them."""
        hint = did_you_mean(name, self.metrics) or f"; it asks {', '.join(self.metrics)}"
        return f"{brief(name)} is no metric of {self.app}{hint}"

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.metrics.values())

    def __len__(self) -> int:
        return len(self.metrics)

    def with_cadence(self, every: Cadence) -> tuple[Metric, ...]:
        """The metrics that share a batch: all of one cadence, in the order of the file."""
        return tuple(metric for metric in self if metric.every == every)

    def epsilon_one_epoch(self, every: Cadence) -> Fraction:
        """What one batch tells at most: its reports are one joint release, so their epsilons add."""
        return sum((metric.epsilon_one_report for metric in self.with_cadence(every)), Fraction(0))

    def epsilon_same_answer(self, metric: Metric) -> Fraction:
        """What all messages tell at most about an answer to this metric that never changes: those about it, and those
        of every cross that it is in. While it stays, the other factor may change: each of its answers is another one of
        the cross, with a kept answer of its own."""
        found = metric.epsilon_same_answer
        for cross in self.crosses.get(metric.name, ()):
            (other,) = (factor for factor in cross.shape.factors if factor.name != metric.name)
            found += min(cross.charges, len(other.categories)) * cross.epsilon_permanent
        return found

    @property
    def cadences(self) -> tuple[Cadence, ...]:
        """How often its metrics are asked: each cadence that some metric has."""
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


def _recipient(table: Mapping[str, Any], problems: list[str]) -> Any:
    found: list[str] = []
    values = read_fields(table, *readers_of(Recipient), found)
    problems.extend(f"recipient.{problem}" for problem in found)
    return built(Recipient, values, problems) if set(values) == set(Recipient.fields) else None


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
    "expected_installs": whole_number,
    "segments": _segments,
    "metrics": _tables,
    "together": lambda raw: raw,  # read once the metrics are known
}
