"""Published strings: those detected in a list, from noised counts alone, with intervals that hold given detection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hubbub.analysis.options import DEFAULTS
from hubbub.analysis.publishing.count_noise import CountNoise
from hubbub.analysis.publishing.discrete_noise import NoiseSource
from hubbub.analysis.publishing.ledger import Budget, open_ledger
from hubbub.analysis.publishing.release import publish, release
from hubbub.analysis.publishing.released_file import document, verify
from hubbub.analysis.publishing.released_page import to_html
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String
from tests.analysis.worlds import RAPPOR, Strings, define, tally_of
from tests.chance import assert_binomial, binomial_bounds, power

STRINGS = {
    "one hash": (define(String(num_bits=32, num_hashes=1, num_cohorts=8), "2", "3"), 8_000, "gaussian:50"),
    "two hashes": (define(String(num_bits=32, num_hashes=2, num_cohorts=8), noise=RAPPOR), 40_000, "laplace:0.02"),
}
HELD = [0.35, 0.2, 0.12, 0.08, *[0.25 / 20] * 20]  # of the four that are listed, and of twenty that nobody listed
NOISE = CountNoise.parse("gaussian:40")
NOBODY = [f"text {i}" for i in range(30, 40)]


def _strings(case: str, populations: int, seed: int) -> tuple[list[int], list[int], int]:
    """Of the strings that are listed and held: how often each was detected, how often its interval then held the truth;
    and in how many populations one was detected that nobody holds. Noise on counts is most of all noise here."""
    metric, installs, noise = STRINGS[case]
    rng = np.random.default_rng(seed)
    source, strings = NoiseSource(rng.bytes), Strings.of(metric, 40)
    counts = np.floor(np.array(HELD) * installs).astype(np.int64)
    listed = [str(strings.texts[i]) for i in range(4)]
    detected, covered, wrongly = [0] * 4, [0] * 4, 0
    for _ in range(populations):
        tally = tally_of(metric, counts, rng, strings.where[:, : len(counts)])
        published = publish(tally, CountNoise.parse(noise), source, DEFAULTS, [*listed, *NOBODY])
        found = {figure.value: figure for figure in published.figures}
        wrongly += any(text in found for text in NOBODY)
        for i, text in enumerate(listed):
            if text in found:
                detected[i] += 1
                covered[i] += found[text].low <= counts[i] / counts.sum() <= found[text].high
    return detected, covered, wrongly


@pytest.mark.parametrize("case", STRINGS)
def test_detected_strings_are_published_with_intervals_that_hold(case: str) -> None:
    """Given that they were detected. Errors of different strings are of different cells, nearly independent."""
    detected, covered, wrongly = _strings(case, 40, 15)
    assert_binomial(sum(covered), sum(detected), 0.95)
    assert power(sum(detected), 0.95, 0.65) > 0.99
    assert wrongly <= binomial_bounds(40, 0.05)[1]


@pytest.mark.proof
@pytest.mark.parametrize("case", STRINGS)
def test_detected_strings_at_full_size(case: str, figure: Callable[[str, object], None]) -> None:
    detected, covered, wrongly = _strings(case, 2000, 16)
    for number, (times, held) in enumerate(zip(detected, covered, strict=True)):
        found = f"detected {times / 2000:.3f}, cover {held / times:.4f}"
        figure(f"published strings, {case}, held by {HELD[number]:.0%}", found)
        assert_binomial(held, times, 0.95)
    figure(f"published strings, {case}, any that nobody holds", f"{wrongly / 2000:.4f} of 2000 populations")
    assert wrongly <= binomial_bounds(2000, 0.05)[1]
    assert power(detected[0], 0.95, 0.91) > 0.98


def test_a_string_is_published_only_from_a_list(tmp_path: Path) -> None:
    metric, installs, _ = STRINGS["one hash"]
    strings = Strings.of(metric, 4)
    tally = tally_of(metric, [installs // 4] * 4, np.random.default_rng(17), strings.where)
    with open_ledger(tmp_path / "ledger", Budget(epsilon=99, delta=1e-9)) as ledger:
        with pytest.raises(Invalid, match="of which those are published that are detected in a list"):
            release([tally], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS)
        assert ledger.spent == 0
        (found,) = release(
            [tally], NOISE, ledger, np.random.default_rng(0).bytes, DEFAULTS, {"asked": ["text 0", "text 0", "nobody"]}
        )
    assert [figure.value for figure in found.figures] == ["text 0"]
    facts = document([found], NOISE, Budget(epsilon=99, delta=1e-9), 9.0, 0.95)
    assert "Detected among 2 strings that were looked for" in to_html(facts)
    assert "nobody" not in to_html(facts)
    assert verify(to_html(facts)) == []
    nothing = publish(tally, NOISE, NoiseSource(np.random.default_rng(1).bytes), DEFAULTS, ["nobody"])
    facts = document([nothing], NOISE, Budget(epsilon=99, delta=1e-9), 9.0, 0.95)
    assert "None of 1 string was detected." in to_html(facts)
