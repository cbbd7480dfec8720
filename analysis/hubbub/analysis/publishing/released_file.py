"""The file that is published: figures, how they were noised, and what they tell, so that a stranger can check the last.

Everything a statement rests on stands in the file: the definitions, the noise, the numbers of reports (noised).
`verify` makes the statements anew from these and compares. The checksum is against accidents, not against forgers.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from hubbub.analysis.publishing.count_noise import CountNoise, counts_of_a_report
from hubbub.analysis.publishing.ledger import Budget, Item, epsilon_of
from hubbub.analysis.publishing.reader import ANY_HISTORIES, ReaderBound, reader_bound
from hubbub.analysis.publishing.release import PublishedMetric
from hubbub.protocol.cadence import epoch_text, parse_epoch
from hubbub.protocol.epsilon import show
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import certainty
from hubbub.protocol.metric import Definition

FORMAT = "hubbub.release"
VERSION = 1
_OF_COUNTS = 0.1  # the part of delta that is set aside for crowds smaller than their noised number
_COLUMNS = ("metric", "epochs", "value", "estimate", "std_error", "low", "high", "unit")


def document(
    published: Sequence[PublishedMetric], noise: CountNoise, budget: Budget, spent: float, confidence: float
) -> dict[str, Any]:
    """All of a release as plain data. `spent` is what the ledger composed of all releases so far."""
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "count_noise": str(noise),
        "confidence": confidence,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "epsilon_all_releases": show(Fraction(spent), 6),
        "metrics": [_metric_facts(one) for one in published],
    }
    return _sealed({**facts, "statements": _statements(facts)})


def _metric_facts(one: PublishedMetric) -> dict[str, Any]:
    return {
        "metric": one.metric.to_json(),
        "unit": one.metric.shape.unit,
        "reports": {epoch_text(one.metric.every, epoch): count for epoch, count in one.reports.items()},
        "candidates": one.candidates,
        "figures": [
            {
                "epochs": figure.epochs,
                "value": figure.value,
                "estimate": figure.estimate,
                "std_error": figure.std_error,
                "low": figure.low,
                "high": figure.high,
                "is_share": figure.is_share,
            }
            for figure in one.figures
        ],
    }


def verify(text: str) -> list[str]:
    """What is wrong with a released file; nothing, if its statements follow from what stands in it."""
    found = read(text)
    problems = []
    if found.get("checksum") != _sealed(found)["checksum"]:
        problems.append("the checksum must be that of the rest of the file")
    try:
        made = _statements(found)
    except (KeyError, TypeError, AttributeError) as error:
        return [*problems, f"a released file must have every field, got none or another for {error}"]
    if found.get("statements") != made:
        problems.append("the statements must be those that follow from the file:\n" + "\n".join(made))
    return problems


def read(text: str) -> dict[str, Any]:
    """The facts in a .json or an .html file that `hubbub release` wrote. Raises `Invalid` for anything else."""
    if "<html" in text[:200]:
        _, _, rest = text.partition(SCRIPT)
        text = rest.partition("</script>")[0]
    try:
        found = json.loads(text)
    except ValueError:
        raise Invalid(["not a released file: give a .json or .html that `hubbub release` wrote"]) from None
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        raise Invalid([f"not a released file: format must be {FORMAT!r}, version {VERSION}"])
    return found


SCRIPT = '<script type="application/json" id="release">'


def to_json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def to_csv(facts: dict[str, Any]) -> str:
    """The figures, a row each; the statements stand in the other two forms."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in facts["metrics"]:
        for figure in one["figures"]:
            cells = {**figure, "metric": one["metric"]["name"], "unit": "" if figure["is_share"] else one["unit"]}
            writer.writerow([_safe(cells[name]) for name in _COLUMNS])
    return out.getvalue()


def _safe(cell: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return "'" + cell if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


# --- what it tells ------------------------------------------------------------------------------------------------


def _statements(facts: dict[str, Any]) -> list[str]:
    """About answers, metric by metric, and about having taken part; each ends with whom one must trust."""
    noise, delta = CountNoise.parse(facts["count_noise"]), facts["budget"]["delta"]
    sentences, items = [], []
    for one in facts["metrics"]:
        metric = Definition.from_json(one["metric"])
        epochs = {parse_epoch(metric.every, text): count for text, count in one["reports"].items()}
        items += [_item(metric, epoch, noise) for epoch in epochs]
        sentences.append(f"{metric.name}: {_about_answers(_bound(metric, list(epochs.values()), noise, delta), delta)}")
    this = Fraction(epsilon_of(items, delta))
    every = Fraction(facts["epsilon_all_releases"])
    return [
        *sentences,
        f"Whether an install took part at all: at most {certainty(this)} sure (epsilon {show(this, 3)}, but for a "
        f"chance of {delta:g}) from these figures, and {certainty(every)} (epsilon {show(every, 3)}) from all that "
        "were ever published, trusting the collector.",
    ]


def _bound(metric: Definition, reports: list[int], noise: CountNoise, delta: float) -> ReaderBound | None:
    """With crowds as small as their noised numbers leave possible."""
    aside = delta * _OF_COUNTS
    margin = noise.margin(metric.shape.num_cohorts, aside / len(reports))
    return reader_bound(metric, Counter(max(1, int(count - margin)) for count in reports), delta - aside)


def _about_answers(bound: ReaderBound | None, delta: float) -> str:
    if bound is None:
        return "no statement, because a single message is as clear as the kept answer behind it."
    one, life = Fraction(bound.one_answer), Fraction(bound.life)
    history = "" if bound.holds_for == ANY_HISTORIES else " (that an answer changed may show)"
    return (
        f"at most {certainty(one)} sure (epsilon {show(one, 3)}) which of two kept answers an install has, and "
        f"{certainty(life)} (epsilon {show(life, 3)}) about all its answers in these figures{history}, but for a "
        f"chance of {delta:g}, trusting the collector."
    )


def _item(metric: Definition, epoch: int, noise: CountNoise) -> Item:
    return Item(
        metric=metric.name,
        metric_hash=metric.metric_hash,
        every=metric.every,
        epoch=epoch,
        reports=0,
        digest="",
        noise=str(noise),
        counts=counts_of_a_report(metric),
    )


def _sealed(facts: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    return {**rest, "checksum": blake2b(text.encode(), digest_size=16).hexdigest()}
