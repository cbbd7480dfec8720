"""A set on its page: a bar for each item, and the terms of a metric that accumulates beside it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.dashboard.chart_rows import digits_of
from hubbub.dashboard.snapshot import parse_terms
from hubbub.simulations.exact_tallies import sample_tally
from tests.dashboard.kit import FIRST_DAY, text_of, visiting, words
from tests.protocol.toml import registry

pytestmark = pytest.mark.anyio

ASKS = registry("set", every='"day"', items='["export", "macros", "vim_keys"]', items_per_report="3")
USED = [3_500, 2_400, 100]


async def test_the_page_of_a_set_holds_the_numbers_of_the_command(tmp_path) -> None:
    tally = sample_tally(ASKS["it"], [4_000], [USED], np.random.default_rng(1), (FIRST_DAY,))
    (tmp_path / "it.json").write_text(tally.to_json())
    async with visiting(str(tmp_path / "it.json")) as client:
        page, overview = words(await text_of(client, "/metric/it")), words(await text_of(client, "/"))
    decoding = decode(tally)
    digits = digits_of([decoding], [range(3)])
    for i in (0, 1):
        numbers = f"{digits.value(decoding.estimate[i])} {digits.interval(decoding.low[i], decoding.high[i])}"
        assert f"{decoding.values[i]} {' '.join(numbers.split())}" in page
    assert "vim_keys < " in page
    assert "one that recorded nothing counts as using none of them" in page
    assert "which of 3 items (export, macros, vim_keys)" in page.lower()
    assert "it set of 3" in overview


def test_the_terms_of_metrics_that_accumulate_are_read() -> None:
    """Without `accumulate` such a definition has another hash, or is none: then no metric's terms were shown."""
    asked = [ASKS["it"], registry("flag", accumulate='"any"')["it"], registry("flag")["it"]]
    body = json.dumps({"app": "a", "metrics": [metric.terms_to_json() for metric in asked]}).encode()
    _, terms = parse_terms(body)
    assert [each.definition.metric_hash for each in terms] == [metric.metric_hash for metric in asked]
