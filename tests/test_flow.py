"""One value, top to bottom: registry, mask, memo, bits, bytes, count, estimate.

A crowd whose values are known goes through the code that devices and a collector run. What is counted in the end is a
sum of coin tosses whose odds the registry promised, so the bounds on the estimate are exact.
"""

from __future__ import annotations

import json
import time
from fractions import Fraction
from random import Random

import pytest

from hubbub.analysis import decode
from hubbub.analysis.render.text import table
from hubbub.client import Client
from hubbub.client.respond import respond
from hubbub.protocol.encoding import ABSENT, DITHER_BITS
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from hubbub.protocol.report import Batch, Report, by_short_hash
from hubbub.protocol.tally import count
from hubbub.protocol.tally_files import read_tallies
from hubbub.protocol.wire import from_json, pack, to_json, unpack
from hubbub.simulations.server import running_collector
from tests.chance import binomial_bounds
from tests.registry_head import head

EPOCH = 2967
INSTALLS = 4000
TERMS = """
why = "To see it arrive"
owner = "flow@example.org"
expires = 2028-01-01
every = "week"
epsilon_one_report = 2
epsilon_permanent = 4
max_values = 1
"""
METRICS = {
    "dark_theme": 'kind = "flag"',
    "language": 'kind = "choice"\nchoices = ["python", "rust", "prose"]',
    "city": 'kind = "choice"\nchoices = [' + ", ".join(f'"city {i}"' for i in range(60)) + "]",
    "homepage": 'kind = "string"\nnum_bits = 16\nnum_hashes = 1\nnum_cohorts = 4',
    "parity": 'kind = "string"\nnum_bits = 1\nnum_hashes = 1\nnum_cohorts = 8',
    "startup": 'kind = "mean"\nlow = 0\nhigh = 30\nabsent = 0',
    "tabs": 'kind = "histogram"\nedges = [0, 1, 10, 100, 1000]\nbuckets_per_report = 2',
    "length": 'kind = "range"\nlow = 0\nhigh = 60\nnum_leaves = 16\nbranching = 4',
}
VALUES = {
    "dark_theme": True,
    "language": "rust",
    "city": "city 17",
    "homepage": "bücher.example",
    "parity": "bücher.example",
    "startup": 22.5,
    "tabs": 42,
    "length": 59.9,
}
REGISTRY = Registry.parse(
    head("org.example.flow", 60) + "\n".join(f"[metrics.{name}]\n{kind}{TERMS}" for name, kind in METRICS.items())
)


@pytest.mark.parametrize("name", METRICS)
def test_a_value_is_found_again_at_the_end_of_the_way(name):
    """How many hold it, by (bit_counts - p* N) / (q* - p*), lies where the tosses of this very crowd can put it."""
    metric, chance = REGISTRY[name], Random(2026)

    # On the devices: three in ten hold the value, the others nothing.
    masks = []
    for number in range(INSTALLS):
        cohort, dither = chance.getrandbits(16) % metric.shape.num_cohorts, chance.getrandbits(DITHER_BITS)
        value = VALUES[name] if number % 10 < 3 else ABSENT
        masks.append((cohort, metric.shape.encode(value, cohort, dither).mask))
    reports = [
        Report(metric, EPOCH, cohort, respond(metric, mask, cohort, chance.randbytes).bits) for cohort, mask in masks
    ]
    message = pack(Batch.of(chance.randbytes(16), reports))

    # At the collector.
    counts = count(metric, unpack(message, by_short_hash(REGISTRY)).reports).epochs[EPOCH]

    # At the analyst's: the value's cells are the positions it sets, in the cohorts where it sets any.
    cells = cells_of(metric, VALUES[name])
    num_reports = sum(counts.num_reports[cohort] for cohort in cells)
    bit_counts = sum(counts.bit_counts[cohort][position] for cohort, position in cells.items())
    estimate = moment_estimate(metric, bit_counts, num_reports)

    # The truth, which nobody else knows.
    held = sum(mask >> cells[cohort] & 1 for cohort, mask in masks if cohort in cells)
    low, high = bounds(metric, held, num_reports)
    assert low <= estimate <= high
    assert bounds(metric, 0, num_reports)[1] < low, "nobody holding it would look the same: too few installs"


def cells_of(metric: Metric, value: object) -> dict[int, int]:
    masks = {
        cohort: metric.shape.encode(value, cohort, dither=2**DITHER_BITS - 1).mask
        for cohort in range(metric.shape.num_cohorts)
    }
    return {cohort: mask.bit_length() - 1 for cohort, mask in masks.items() if mask}


def moment_estimate(metric: Metric, bit_counts: int, num_reports: int) -> Fraction:
    q_star, p_star = metric.noise.q_star, metric.noise.p_star
    return (bit_counts - p_star * num_reports) / (q_star - p_star)  # RAPPOR section 4


def bounds(metric: Metric, held: int, num_reports: int) -> tuple[Fraction, Fraction]:
    """Of the estimate, if so many hold the value: the ones are Binomial(held, q*) + Binomial(others, p*), each within
    its own exact bounds but for a false alarm of 1e-6 in all."""
    tosses = [(held, metric.noise.q_star), (num_reports - held, metric.noise.p_star)]
    parts = [binomial_bounds(trials, p, false_alarm=5e-7) for trials, p in tosses if trials]
    low, high = (moment_estimate(metric, sum(ends), num_reports) for ends in zip(*parts, strict=True))
    return low, high


def test_a_message_says_the_same_in_packed_bytes_and_in_json():
    chance = Random(2026)
    reports = [
        Report(metric, EPOCH, cohort := metric.shape.num_cohorts - 1, respond(metric, 1, cohort, chance.randbytes).bits)
        for metric in REGISTRY
        for _ in range(20)
    ]
    batch, known = Batch.of(chance.randbytes(16), reports), by_short_hash(REGISTRY)
    assert list(unpack(pack(batch), known).reports) == reports
    assert from_json(json.dumps(to_json(batch)).encode(), known) == batch


def test_one_record_travels_through_the_real_client_the_real_collector_and_the_real_decoder(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`record` in sixty installs of its own state each, a message each over HTTP, counted by a collector process, read
    with its token, decoded to a table. All say yes, so the reports with the bit set are Binomial(60, q*)."""
    monkeypatch.setenv("HUBBUB_MODE", "on")
    installs, day = 60, 86_400
    source = head("flow", 60) + f"[metrics.dark_theme]\n{METRICS['dark_theme']}{TERMS}"
    path = tmp_path / "metrics.toml"
    path.write_text(source.replace('every = "week"', 'every = "day"'))
    with running_collector(path, tmp_path / "data") as collector:
        for install in range(installs):
            now = [time.time() - 2 * day]
            with Client(
                path,
                endpoint=collector.url,
                state_dir=tmp_path / str(install),
                background=False,
                clock=lambda now=now: now[0],
                send_delay=lambda span: 0.0,
                random=Random(install).randbytes,
            ) as client:
                client.consent(True)
                now[0] += day
                client.flush()
                client.record("dark_theme", True)
                now[0] += day
                assert client.flush()
                assert client.status().counts["sent"] == 1
        (tally,) = read_tallies(collector.url, token=collector.token)
    assert tally.num_reports == installs
    (counts,) = tally.epochs.values()
    low, high = binomial_bounds(installs, float(tally.metric.noise.q_star), 1e-6)
    assert low <= counts.bit_counts[0][0] <= high
    decoding = decode(tally)
    assert decoding.values == ("yes",)
    assert bool(decoding.detected[0])
    assert "dark_theme (flag)" in table(decoding)
