"""From the tables `[metrics.NAME]` of a metrics.toml to metrics: keys read, noise chosen, all mistakes found.

A metric with mistakes is left out. What stands in for its missing or broken parts breaks no rule itself, so that all
that is wrong with a file is heard at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from fractions import Fraction

from hubbub.protocol import epsilon as eps
from hubbub.protocol.channel import UNIT
from hubbub.protocol.fields import did_you_mean, number, read_fields, readers_of, text, whole_number
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.kinds import KINDS, shape_class
from hubbub.protocol.metric import Metric
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.shape import Beside, Shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hubbub.protocol.vocabulary import Accumulation, Reader

_EPSILONS = ("epsilon_one_report", "epsilon_permanent")
_PROBABILITIES = ("prob_f", "prob_p", "prob_q")
_HISTORY: dict[str, Reader] = {"hold": whole_number, "epsilon_history": number}
NOISE: dict[str, Reader] = {**dict.fromkeys(_EPSILONS + _PROBABILITIES, number), **_HISTORY}
TERMS, _REQUIRED_TERMS = readers_of(Metric, leaving_out=("name", "shape", "noise", "segment"))
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


def read_metrics(tables: Mapping[str, Mapping[str, Any]], problems: list[str]) -> dict[str, Metric]:
    """In the order of the file, wherever those stand of which others are made."""
    found: dict[str, Metric] = {}
    beside: dict[str, tuple[Shape, Accumulation] | None] = dict.fromkeys(tables)
    for name, keys in sorted(tables.items(), key=lambda item: _is_made_of_others(item[1])):
        try:
            metric = found[name] = _metric(name, keys, beside)
        except Invalid as error:
            shown = name if name.isidentifier() else brief(name)
            problems.extend(f"[metrics.{shown}] {problem}" for problem in error.problems)
        else:
            if not metric.shape.made_of_others:
                beside[name] = metric.shape, metric.accumulate
    return {name: found[name] for name in tables if name in found}


def _is_made_of_others(keys: Mapping[str, Any]) -> bool:
    kind = keys.get("kind")
    return isinstance(kind, str) and kind in KINDS and shape_class(kind, keys).made_of_others


def _metric(name: str, keys: Mapping[str, Any], beside: Beside) -> Metric:
    problems: list[str] = []
    kind = _kind(keys.get("kind"), problems)
    shape_readers, required = shape_class(kind, keys).keys() if kind else ({}, set())
    readers = {"kind": text, **shape_readers, **TERMS, **NOISE}
    # Without a kind nobody knows which further keys are right.
    table = {key: raw for key, raw in keys.items() if key != "kind" and (kind or key in readers)}
    if keys.get("every") == "once":
        table.setdefault("max_values", 1)
    values = read_fields(table, readers, required | _REQUIRED_TERMS, problems)
    parts = {"name": name, **_picked(values, TERMS)}
    if kind and required <= set(values):
        asked, of_shape = shape_class(kind, keys), _picked(values, shape_readers)
        parts["shape"] = _suited(_or_none(lambda: asked.from_keys(of_shape, beside), problems), values)
        if parts["shape"] is not None:
            parts.setdefault("accumulate", parts["shape"].accumulations[0])
    if set(table) & set(NOISE) <= set(values):
        parts["noise"] = _noise(parts.get("shape"), values, problems)
    if parts.get("noise") is None and _asks_history(values):
        parts.pop("max_values", None)  # what stands in for its noise would ask for another one
    found = {key: part for key, part in parts.items() if part is not None}
    metric = built(Metric, found if set(found) >= _REQUIRED_PARTS else {**_stand_ins(), **found}, problems)
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


def _asks_history(values: Mapping[str, Any]) -> bool:
    """Whether any key of a history is there."""
    return not _HISTORY.keys().isdisjoint(values)


def _suited(shape: Shape | None, values: Mapping[str, Any]) -> Shape | None:
    """With the best of what was left out, where the epsilon is given that decides it."""
    if shape is not None and _asks_history(values):
        from hubbub.protocol.history_keys import suited_to_history  # here and below, because few registries have one

        return suited_to_history(shape, values)
    epsilon = values.get("epsilon_one_report")
    if shape is None or epsilon is None or not eps.in_limits(epsilon):
        return shape
    return shape.suited(epsilon, values.keys(), None if values.get("every") == "once" else values.get("max_values"))


def _noise(shape: Shape | None, values: Mapping[str, Any], problems: list[str]) -> Any:
    given, once = _picked(values, _EPSILONS + _PROBABILITIES), values.get("every") == "once"
    if _asks_history(values):
        from hubbub.protocol.history_keys import history_noise

        noise, found = history_noise(shape, values, list(given))
        problems.extend(found)
        return noise
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
        if not eps.in_limits(value):
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


def built(cls: Any, values: dict[str, Any], problems: list[str]) -> Any:
    return _or_none(lambda: cls(**values), problems)


def _or_none(make: Callable[[], Any], problems: list[str]) -> Any:
    try:
        return make()
    except Invalid as error:
        problems.extend(error.problems)
        return None
