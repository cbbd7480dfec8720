"""Auditing any callable `value -> bits` against a claimed epsilon: other libraries, older versions, planted defects.

Nothing is known of its law, so the event is chosen on the first fifth of the trials and judged on the rest: what was
used to choose is never used to judge. Two sorts of event are tried, a set of whole outcomes (where few occur) and a
threshold on the sum of each bit's log-odds; the one that promises more is taken. A callable that tells less than it
claims looks the same as one whose worst event was not found, so only excess fails.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.protocol.encoding import bytes_for
from hubbub.protocol.invalid import Invalid, brief
from hubbub.simulations.audit.evidence import ALPHA, Finding, Seen, about_expected, judge

Mechanism = Callable[[Any], Any]
"""What is audited: from a value to what would be sent of it."""
Bits = npt.NDArray[np.uint8]
Event = Callable[[Bits], npt.NDArray[np.bool_]]

ONE_IN = 5
BLOCK = 2_000
FEW = 4_096
"""Different outcomes up to which each is looked at as a whole."""


class CallableAudit:
    """One callable, one claim, two values. Both directions are tried, so alpha is shared by two tests."""

    def __init__(self, mechanism: Mechanism, values: tuple[Any, Any], epsilon: float, trials: int, name: str) -> None:
        if epsilon < 0 or not np.isfinite(epsilon):
            raise Invalid([f"epsilon must be a number of at least 0, got {epsilon}"])
        self.mechanism, self.values, self.epsilon, self.name = mechanism, values, epsilon, name
        half = trials // 2
        self.pilot, self.rest = half // ONE_IN, half - half // ONE_IN
        if self.pilot < 100:
            raise Invalid([f"trials must be at least {200 * ONE_IN}, got {trials}"])
        self.drawn: tuple[list[Bits], list[Bits]] = ([], [])

    @property
    def work(self) -> int:
        return 2 * -(-(self.pilot + self.rest) // BLOCK)

    def run(self) -> Iterator[None]:
        total = self.pilot + self.rest
        for start in range(0, total, BLOCK):
            for value, drawn in zip(self.values, self.drawn, strict=True):
                drawn.append(as_rows([self.mechanism(value) for _ in range(min(BLOCK, total - start))]))
                yield

    def findings(self) -> list[Finding]:
        one, other = (_stacked(blocks) for blocks in self.drawn)
        if one.shape != other.shape:
            raise Invalid([f"every output must have as many bits, got {one.shape[1]} and {other.shape[1]}"])
        found = []
        for pair, favoured, unfavoured in (
            ("first value against second", one, other),
            ("second value against first", other, one),
        ):
            happens = choose_event(favoured[: self.pilot], unfavoured[: self.pilot], self.rest, ALPHA / 2)
            seen = Seen(
                int(happens(favoured[self.pilot :]).sum()),
                self.rest,
                int(happens(unfavoured[self.pilot :]).sum()),
                self.rest,
            )
            found.append(judge(seen, ALPHA / 2, metric=self.name, what="one call", pair=pair, claim=self.epsilon))
        return found


def load(path: str) -> Mechanism:
    """The callable that `package.module:name` names."""
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise Invalid([f"--module must be package.module:callable, got {path!r}"])
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Invalid([f"--module {path}: {error}"]) from None
    if not callable(found):
        raise Invalid([f"--module {path}: must be callable, got {type(found).__name__}"])
    return found


def as_rows(outputs: Sequence[Any]) -> Bits:
    """Outputs as rows of bits. Understood: numbers, bytes, texts of 0 and 1, sequences and arrays of 0 and 1."""
    first = outputs[0]
    if isinstance(first, bool | np.bool_):
        return np.array(outputs, dtype=np.uint8)[:, np.newaxis]
    if isinstance(first, int | np.integer):
        numbers = [int(number) for number in outputs]
        if min(numbers) < 0:
            raise Invalid([f"a number that stands for bits must be at least 0, got {min(numbers)}"])
        size = bytes_for(max(number.bit_length() for number in numbers)) or 1
        return _unpacked([number.to_bytes(size, "little") for number in numbers])
    if isinstance(first, bytes | bytearray):
        return _unpacked([bytes(output) for output in outputs])
    rows = [[int(bit) for bit in output] for output in _each(outputs)]
    if len({len(row) for row in rows}) != 1:
        raise Invalid([f"every output must have as many bits, got {sorted({len(row) for row in rows})[:2]}"])
    array = np.array(rows, dtype=np.int64)
    if array.size == 0 or array.min() < 0 or array.max() > 1:
        raise Invalid([f"bits must be 0 or 1, got {brief(str(first))}"])
    return array.astype(np.uint8)


def _each(outputs: Sequence[Any]) -> Iterator[Any]:
    for output in outputs:
        try:
            iter(output)
        except TypeError:
            raise Invalid(
                [f"an output must be a number, bytes or a sequence of bits, got {type(output).__name__}"]
            ) from None
        yield output


def _unpacked(rows: Sequence[bytes]) -> Bits:
    if len({len(row) for row in rows}) != 1:
        raise Invalid(["every output must have as many bytes, got different lengths"])
    array = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.unpackbits(array, axis=1, bitorder="little")


def _stacked(blocks: Sequence[Bits]) -> Bits:
    """Numbers have no width of their own: blocks are filled up with zeros to the widest."""
    width = max(block.shape[1] for block in blocks)
    return np.concatenate([np.pad(block, ((0, 0), (0, width - block.shape[1]))) for block in blocks])


def choose_event(one: Bits, other: Bits, trials: int, alpha: float) -> Event:
    """The event that promises the largest bound: made on one half of these trials, compared on the other."""
    half = len(one) // 2
    events = [_threshold_on_bits(one[:half], other[:half], trials, alpha)]
    outcomes = np.unique(np.concatenate([one[:half], other[:half]]), axis=0)
    if len(outcomes) <= FEW:
        events.append(_set_of_outcomes(outcomes, one[:half], other[:half], trials, alpha))

    def promise(event: Event) -> float:
        here, there = (np.array([event(rows[half:]).mean()]) for rows in (one, other))
        return _most_promising(here, there, len(one) - half, trials, alpha)[1]

    return max(events, key=promise)


def _threshold_on_bits(one: Bits, other: Bits, trials: int, alpha: float) -> Event:
    p, q = ((rows.sum(axis=0) + 0.5) / (len(rows) + 1) for rows in (one, other))
    if_set, if_not = np.log(p / q), np.log((1 - p) / (1 - q))
    # Bits that do not tell the two apart would only blur the score.
    told = abs(p - q) > 5 * np.sqrt((p * (1 - p) + q * (1 - q)) / len(one))
    if_set, if_not = np.where(told, if_set, 0.0), np.where(told, if_not, 0.0)

    def score(rows: Bits) -> npt.NDArray[np.float64]:
        return np.asarray(np.round(rows @ (if_set - if_not) + if_not.sum(), 9))

    of_one, of_other = score(one), score(other)
    thresholds = np.unique(np.concatenate([of_one, of_other]))
    if len(thresholds) > FEW:
        thresholds = np.quantile(thresholds, np.linspace(0, 1, FEW), method="nearest")
    here = np.array([(of_one >= t).mean() for t in thresholds])
    there = np.array([(of_other >= t).mean() for t in thresholds])
    best, _ = _most_promising(here, there, len(one), trials, alpha)
    return lambda rows: score(rows) >= thresholds[best]


def _set_of_outcomes(outcomes: Bits, one: Bits, other: Bits, trials: int, alpha: float) -> Event:
    """Outcomes in the order of their likelihood ratio; the best beginning of that list."""
    keys = {row.tobytes(): number for number, row in enumerate(outcomes)}
    here, there = (np.bincount([keys[row.tobytes()] for row in rows], minlength=len(outcomes)) for rows in (one, other))
    order = np.argsort(-(here + 0.5) / (there + 0.5), kind="stable")
    best, _ = _most_promising(
        np.cumsum(here[order]) / len(one), np.cumsum(there[order]) / len(other), len(one), trials, alpha
    )
    chosen = {outcomes[number].tobytes() for number in order[: best + 1]}
    return lambda rows: np.array([row.tobytes() in chosen for row in rows])


def _most_promising(
    here: npt.NDArray[np.float64], there: npt.NDArray[np.float64], pilot: int, trials: int, alpha: float
) -> tuple[int, float]:
    """By the upper end of what the pilot leaves open: a set that happened to miss the other value promises too much."""
    cautious = np.minimum(1.0, there + (1 + np.sqrt(there * pilot)) / pilot)
    bounds = about_expected(here, cautious, trials, alpha)
    bounds = np.where(here * pilot < 10, -np.inf, bounds)
    best = int(np.argmax(bounds))
    return best, float(bounds[best])
