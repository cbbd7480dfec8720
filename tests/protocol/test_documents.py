"""The documents say what the code does: every key is explained, every number of a table is computed here again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import exp, log
from pathlib import Path

import pytest

from hubbub.protocol import metric_tables
from hubbub.protocol import registry as reader
from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.channel import BitChannel, Noise
from hubbub.protocol.epsilon import log_above, show
from hubbub.protocol.kinds import KINDS, Choice, Flag, Mean, String, shape_class
from hubbub.protocol.label import facts, show_bits
from hubbub.protocol.linking import num_groups
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.refusal import STATUS
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import MAX_BLOCKS, by_short_hash
from hubbub.protocol.wire import from_json

F = Fraction
ROOT = Path(__file__).resolve().parent.parent.parent
PRIVACY_MODEL = (ROOT / "docs" / "privacy-model.md").read_text(encoding="utf-8")
METRICS_TOML = (ROOT / "docs" / "metrics-toml.md").read_text(encoding="utf-8")
WIRE_FORMAT = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
EPSILONS = "| setting | p*, q* | 1 report | 2 reports | 7 reports | all reports |"
VARIANCES = (
    "| epsilon_one_report | one bit | 4 categories | many bits | mean, parity | unary, symmetric (basic RAPPOR) |"
)
TWO_HASHES = String(num_bits=128, num_hashes=2, num_cohorts=16)
ONE_HASH = String(num_bits=64, num_hashes=1, num_cohorts=128)


def table(document: str, head: str) -> list[list[str]]:
    """The rows of the table whose first line is `head`."""
    _, _, rest = document.partition(head + "\n")
    lines = rest.splitlines()[1:]
    rows = lines[: next(i for i, line in enumerate([*lines, ""]) if not line.startswith("|"))]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def explained(section: str) -> set[str]:
    """The keys in the first column of the table of a section of docs/metrics-toml.md."""
    _, _, rest = METRICS_TOML.partition(f"\n## {section}")
    rows = table(rest.partition("\n## ")[0], "| key | value | meaning |")
    return {key for row in rows for key in re.findall(r"`(\w+)`", row[0])}


# --- metrics.toml -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_every_kind_is_explained(kind: str) -> None:
    assert explained(f"{kind}:") == set(shape_class(kind).keys()[0])


def test_every_key_of_a_string_that_is_discovered_is_explained() -> None:
    assert explained("string with discover:") == set(shape_class("string", ["discover"]).keys()[0])


def test_every_key_of_a_metric_is_explained() -> None:
    assert explained("Every metric") == {"kind", *metric_tables.TERMS}
    assert explained("The noise") == set(metric_tables.NOISE)
    assert explained("The registry") == set(reader._TOP)


def test_the_example_uses_every_kind_but_two_and_says_what_it_adds_up_to() -> None:
    source = (ROOT / "examples" / "metrics.toml").read_text(encoding="utf-8")
    example = Registry.parse(source)
    assert {metric.kind for metric in example} | {"set", "cross"} == set(KINDS)
    shares = [show(metric.max_values * metric.epsilon_permanent) for metric in example]
    assert f"{' + '.join(shares)} = {show(example.epsilon_lifetime)} here" in source


# --- the wire format ----------------------------------------------------------------------------------------------


def test_every_reason_of_the_page_is_known() -> None:
    reasons = {row[0].strip("`") for row in table(WIRE_FORMAT, "| reason | when |")}
    assert reasons <= STATUS.keys()
    assert f"num_blocks, from 1 to {MAX_BLOCKS}" in WIRE_FORMAT


def test_the_examples_of_the_page_are_real() -> None:
    metric = Registry.load(ROOT / "examples" / "metrics.toml")["dark_theme"]
    definition, batch, *_ = re.findall(r"```json\n(.*?)```", WIRE_FORMAT, re.DOTALL)
    assert Definition.from_json(json.loads(definition)).metric_hash == metric.metric_hash
    (report,) = from_json(batch.encode(), by_short_hash([metric])).reports
    assert (report.epoch, report.bits) == (parse_epoch("week", "2026-W47"), 1)


# --- the privacy model --------------------------------------------------------------------------------------------


def published() -> Iterator[tuple[str, Noise, tuple[tuple[int, int], ...]]]:
    for row in table(PRIVACY_MODEL, EPSILONS):
        given = re.search(r"f = (\S+), p = (\S+), q = (\S+)", row[0])
        if given:
            yield row[0], rappor_noise(*map(F, given.groups())), TWO_HASHES.flips
        else:
            four = Choice(choices=("a", "b", "c", "d"), absent="a")
            yield row[0], four.best_noise(F(1), F(2)), four.flips


def test_the_table_of_epsilons_is_right() -> None:
    rows = {row[0]: row[1:] for row in table(PRIVACY_MODEL, EPSILONS)}
    assert len(rows) == 5
    for setting, noise, flips in published():
        odds = [*(noise.odds_after(number, flips) for number in (1, 2, 7)), noise.odds_permanent(flips)]
        stars = f"{float(noise.p_star):.6g}, {float(noise.q_star):.6g}"
        assert rows[setting] == [stars, *(show(log_above(ratio, 4), 4) for ratio in odds)]


def test_the_epsilons_of_the_literature_are_reproduced_to_their_digits() -> None:
    """RAPPOR's and Chromium's parameters, epsilon after 1, 2, 7 and all reports, rounded to the nearest."""
    expected = {
        "RAPPOR, Windows": "1.0743 2.017 4.068 4.394",
        "RAPPOR, Chrome": "0.5343 0.990 1.910 2.043",
        "Chromium, normal": "2.0433 3.389 4.390 4.394",
        "Chromium, sparse": "3.1538 5.545 7.771 7.784",
        "hubbub, 4": "1.0000 1.678 2.000 2.000",
    }
    for setting, noise, flips in published():
        odds = [*(noise.odds_after(number, flips) for number in (1, 2, 7)), noise.odds_permanent(flips)]
        found = [f"{log(ratio):.{4 if i == 0 else 3}f}" for i, ratio in enumerate(odds)]
        (digits,) = (digits for name, digits in expected.items() if setting.startswith(name))
        assert " ".join(found) == digits


def test_the_table_of_histories_is_right() -> None:
    (row,) = table(PRIVACY_MODEL, "| n | 1 | 3 | 10 | 30 |")
    found = [show(log_above(worst_against_a_change(number), 2)) for number in (1, 3, 10, 30)]
    assert row == ["log-odds", *found]


def worst_against_a_change(number: int) -> Fraction:
    """A flag answered alike in 2n epochs against one that changes in the middle: the worst odds, either way round."""
    noise = Flag().best_noise(F(1), F(2))
    a1, a0 = noise.permanent.probabilities
    q, p = noise.instantaneous.probabilities
    if_one = [q**ones * (1 - q) ** (number - ones) for ones in range(number + 1)]
    if_zero = [p**ones * (1 - p) ** (number - ones) for ones in range(number + 1)]
    worst = F(1)
    for first, second in product(range(number + 1), repeat=2):
        alike = [a * if_one[first] * if_one[second] + (1 - a) * if_zero[first] * if_zero[second] for a in (a1, a0)]
        half = {(a, ones): a * if_one[ones] + (1 - a) * if_zero[ones] for a in (a1, a0) for ones in (first, second)}
        changing = [half[a1, first] * half[a0, second], half[a0, first] * half[a1, second]]
        worst = max(worst, max(alike) / min(changing), max(changing) / min(alike))
    return worst


def test_the_table_of_variances_is_right() -> None:
    head = (
        "| epsilon_one_report | one bit | 4 categories | many bits | mean, parity | unary, symmetric (basic RAPPOR) |"
    )
    for epsilon, *cells in table(PRIVACY_MODEL, head):
        one = F(epsilon)
        four = Choice(choices=("a", "b", "c", "d"), absent="a")
        half = exp(one / 2)
        symmetric = BitChannel(F(half / (half + 1)), F(1 / (half + 1)))
        found = [n_var(*shape.best_noise(one, F(8)).composed.probabilities) for shape in (Flag(), four, ONE_HASH)]
        mean = Mean(low=F(0), high=F(1), absent=F(0)).best_noise(one, F(8))
        found += [float(1 / (mean.q_star - mean.p_star) ** 2), n_var(*symmetric.probabilities)]
        assert cells == [f"{value:.3f}" for value in found]


def n_var(q_star: Fraction, p_star: Fraction) -> float:
    return float(p_star * (1 - p_star) / (q_star - p_star) ** 2)


def test_the_table_of_hashes_is_right() -> None:
    noise = rappor_noise(F(1, 2), F(1, 2), F(3, 4))
    odds = noise.odds_after(1, TWO_HASHES.flips), noise.odds_permanent(TWO_HASHES.flips)
    one, permanent = (log_above(ratio, 4) - F(1, 10_000) for ratio in odds)
    assert f"just under {show(log_above(odds[0], 4), 4)} and {show(log_above(odds[1], 4), 4)}" in PRIVACY_MODEL
    found = [
        n_var(*noise.composed.probabilities) / 2,
        n_var(*TWO_HASHES.best_noise(one, permanent).composed.probabilities) / 2,
        n_var(*ONE_HASH.best_noise(one, permanent).composed.probabilities),
        4 * exp(one) / (exp(one) - 1) ** 2,
    ]
    assert [row[1] for row in table(PRIVACY_MODEL, "| channel | n Var |")] == [f"{value:.3f}" for value in found]


def test_the_other_numbers_of_the_privacy_model_are_right() -> None:
    example = Registry.load(ROOT / "examples" / "metrics.toml")
    text = PRIVACY_MODEL.replace("\n  ", " ")
    assert f"one of {num_groups(example.cohorts)} groups, {show_bits(num_groups(example.cohorts))} bits" in text
    found = facts(example)["found_again_among_1000"]
    assert f"a crowd of 1,000 with the same answers {100 * found:.0f} times in 100" in text
    assert f'"{100 / (1 + exp(-1)) + 0.05:.1f} % sure"' in PRIVACY_MODEL
