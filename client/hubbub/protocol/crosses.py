"""Metrics that are made of others, among all of one registry: which they are, and what must be alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hubbub.protocol.metric import Metric


def crosses_by_factor(metrics: Iterable[Metric]) -> dict[str, tuple[Metric, ...]]:
    """By the name of a factor, the metrics that are made of it; of most metrics none is."""
    found: dict[str, tuple[Metric, ...]] = {}
    for metric in metrics:
        for factor in metric.shape.factors:
            found[factor.name] = (*found.get(factor.name, ()), metric)
    return found


def broken_crosses(metrics: Mapping[str, Metric]) -> Iterator[str]:
    """A cross is found from what its factors keep in the same epoch: they must be there, and be asked when it is."""
    for metric in metrics.values():
        for factor in metric.shape.factors:
            found = metrics.get(factor.name)
            if found is None:
                yield f"[metrics.{metric.name}] of must name metrics of the same registry, got {factor.name}"
                continue
            if (found.shape, found.accumulate) != (factor.shape, factor.accumulate):
                yield f"[metrics.{metric.name}] its factor {factor.name} must be the metric of that name"
            for key, its, own in (("every", found.every, metric.every), ("hold", found.hold, metric.hold)):
                if its != own:
                    yield (
                        f"[metrics.{metric.name}] {key} must be that of its factor {factor.name}, {_said(its)}, "
                        f"got {_said(own)}"
                    )


def _said(value: str | int | None) -> str:
    return "none" if value is None else str(value)
