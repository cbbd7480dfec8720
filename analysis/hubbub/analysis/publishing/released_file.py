"""The file that is published: figures, how they were noised, and what they tell, so that a stranger can check the last.

Everything a statement rests on stands in the file: the definitions, the noise, the numbers of reports (noised).
`verify` makes the statements anew from these and compares. The checksum is against accidents, not against forgers.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from hubbub.analysis.accounting.mechanisms import amplified_by_sampling
from hubbub.analysis.publishing.count_noise import EXPONENTIAL, CountNoise, counts_of_a_report
from hubbub.analysis.publishing.ledger import Budget, Item, epsilon_of
from hubbub.analysis.publishing.published_segments import Division
from hubbub.analysis.publishing.reader import ANY_HISTORIES, ReaderBound, reader_bound
from hubbub.analysis.publishing.release import PublishedMetric
from hubbub.analysis.render.export import no_formula
from hubbub.protocol.asked_parts import share_in_words
from hubbub.protocol.cadence import epoch_text, parse_epoch
from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.invalid import Invalid, brief, require, say
from hubbub.protocol.metric import Definition
from hubbub.protocol.segments import MAX_COMBINATIONS, in_words

FORMAT = "hubbub.release"
VERSION = 2
_OF_COUNTS = 0.1  # the part of delta that is set aside for crowds smaller than their noised number
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_MOST_REPORTS = 10**12
_NO_LIMIT = 100  # beyond such an epsilon there is nothing to say
_COLUMNS = ("metric", "segment", "epochs", "value", "estimate", "std_error", "low", "high", "unit")


def document(
    published: Sequence[PublishedMetric],
    noise: CountNoise,
    budget: Budget,
    spent: float,
    confidence: float,
    division: Division | None = None,
) -> dict[str, Any]:
    """All of a release as plain data. `spent` is what the ledger composed of all releases so far."""
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "count_noise": str(noise),
        "confidence": confidence,
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "epsilon_all_releases": show(Fraction(spent), 6),
        "choice": _choice_facts(division),
        "metrics": [_metric_facts(one) for one in published],
    }
    return _sealed({**facts, "statements": _statements(facts)})


def _choice_facts(division: Division | None) -> dict[str, Any] | None:
    if division is None or division.top is None:
        return None
    found = {"by": division.key, "top": division.top, "among": len(division.values), "epsilon": say(division.epsilon)}
    return dict(found)


def _metric_facts(one: PublishedMetric) -> dict[str, Any]:
    return {
        "metric": one.metric.described(),
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
        require(_broken(found))
        made = _statements(found)
    except Invalid as error:
        return [*problems, *error.problems]
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        return [*problems, f"a released file must have every field, got none or another for {brief(str(error))}"]
    if found.get("statements") != made:
        problems.append("the statements must be those that follow from the file:\n" + "\n".join(made))
    return problems


def _broken(facts: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the numbers that statements rest on: a file may be anybody's."""
    delta, every = facts["budget"]["delta"], facts["epsilon_all_releases"]
    if not isinstance(delta, float) or not 0 < delta < 1:
        yield f"the budget's delta must be above 0 and below 1, got {brief(delta)}"
    if not isinstance(every, str) or not _DECIMAL.fullmatch(every):
        yield f"epsilon_all_releases must be a decimal number, got {brief(every)}"
    choice = facts["choice"]
    if choice is not None and (type(choice["top"]) is not int or not 1 <= choice["top"] <= MAX_COMBINATIONS):
        yield f"the choice's top must be from 1 to {MAX_COMBINATIONS}, got {brief(choice['top'])}"
    for one in facts["metrics"]:
        for epoch, count in one["reports"].items():
            if type(count) is not int or not 0 <= count <= _MOST_REPORTS:
                yield f"reports of {brief(epoch)} must be a whole number from 0 to {_MOST_REPORTS}, got {brief(count)}"
        if not one["reports"]:
            yield "reports must have at least one epoch, got none"


def read(text: str) -> dict[str, Any]:
    """The facts in a .json or an .html file that `hubbub release` wrote. Raises `Invalid` for anything else."""
    if "<html" in text[:200]:
        _, _, rest = text.partition(SCRIPT)
        text = rest.partition("</script>")[0]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
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
            segment = in_words(one["metric"].get("segment", {}).items())
            unit = "" if figure["is_share"] else one["unit"]
            cells = {**figure, "metric": one["metric"]["name"], "segment": segment, "unit": unit}
            row = [cells[name] for name in _COLUMNS]
            writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue()


# --- what it tells ------------------------------------------------------------------------------------------------


def _statements(facts: dict[str, Any]) -> list[str]:
    """About answers, metric by metric, and about having taken part; each ends with whom one must trust."""
    noise, delta = CountNoise.parse(facts["count_noise"]), facts["budget"]["delta"]
    sentences, items = [], []
    crowds: dict[Definition, dict[int, int]] = {}
    for one in facts["metrics"]:
        metric = Definition.from_json(one["metric"])
        epochs = {parse_epoch(metric.every, text): count for text, count in one["reports"].items()}
        items += [_item(metric, epoch, noise) for epoch in epochs]
        shown = {figure["epochs"] for figure in one["figures"]}
        least = crowds.setdefault(metric.undivided, {})
        for text, count in one["reports"].items():
            # An install may be in another segment in each epoch. One of which there are no figures tells no answers.
            if not metric.segment or text in shown:
                epoch = parse_epoch(metric.every, text)
                least[epoch] = min(count, least.get(epoch, count))
    for question, least in crowds.items():
        if least:
            bound = _bound(question, list(least.values()), noise, delta)
            sentences.append(f"{question.name}: {_about_answers(bound, question, delta)}")
    if facts["choice"] is not None:
        items.append(_choice_item(facts["choice"]))
    this = Fraction(epsilon_of(items, delta))
    every = Fraction(facts["epsilon_all_releases"])
    return [
        *sentences,
        f"Whether an install took part at all: at most {certainty(this)} sure (epsilon {show(this, 3)}, but for a "
        f"chance of {delta:g}) from these figures, and {certainty(every)} (epsilon {show(every, 3)}) from all that "
        "were ever published, trusting the collector.",
        *_of_a_sample(facts, this, delta),
    ]


def _of_a_sample(facts: dict[str, Any], epsilon: Fraction, delta: float) -> list[str]:
    """Counts have noise, so that nobody can see who was drawn: of an install that was asked with probability s, s of
    the difference is left, ln(1 + s (e^epsilon - 1)). Samples lie within one another, so the largest counts."""
    share = max((Fraction(one["metric"].get("sample", 1)) for one in facts["metrics"]), default=Fraction(1))
    if share == 1:
        return []
    left = Fraction(amplified_by_sampling(float(epsilon), float(share)))
    return [
        f"Devices draw whether they are asked, {share_in_words(share)}, and tell nobody. Whether an install is in use "
        f"at all, drawn or not: at most {certainty(left)} sure (epsilon {show(left, 3)}, but for a chance of "
        f"{delta:g}) from these figures, trusting the collector."
    ]


def _bound(metric: Definition, reports: list[int], noise: CountNoise, delta: float) -> ReaderBound | None:
    """With crowds as small as their noised numbers leave possible."""
    aside = delta * _OF_COUNTS
    margin = noise.margin(metric.shape.num_cohorts, aside / len(reports))
    return reader_bound(metric, Counter(max(1, int(count - margin)) for count in reports), delta - aside)


def _about_answers(bound: ReaderBound | None, metric: Definition, delta: float) -> str:
    if bound is None:
        return "no statement, because a single message is as clear as the kept answer behind it."
    one = min(Fraction(min(bound.one_answer, _NO_LIMIT)), metric.epsilon_permanent)
    history = "" if bound.holds_for == ANY_HISTORIES else " (that an answer changed may show)"
    life = Fraction(min(bound.life, _NO_LIMIT))
    all_answers = f"{certainty(life)} (epsilon {show(life, 3)})" if life < _NO_LIMIT else "without a limit"
    return (
        f"at most {certainty(one)} sure (epsilon {show(one, 3)}) which of two kept answers an install has, and "
        f"{all_answers} about all its answers in these figures{history}, but for a chance of {delta:g}, trusting the "
        "collector."
    )


def _choice_item(choice: dict[str, Any]) -> Item:
    return Item(
        metric="the choice",
        metric_hash="choice",
        every="once",
        epoch=0,
        reports=0,
        digest="",
        noise=f"{EXPONENTIAL}:{choice['epsilon']}",
        counts=choice["top"],
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
        question=metric.undivided.metric_hash,
        by=", ".join(key for key, _ in metric.segment),
    )


def _sealed(facts: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    return {**rest, "checksum": blake2b(text.encode(), digest_size=16).hexdigest()}
