"""Pages of texts that nobody listed, of answers that have a history, and of means that ask absence apart."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest

from hubbub.analysis import decode
from hubbub.dashboard.beginnings_view import Branch, beginnings_view
from hubbub.dashboard.sentences import row_digits
from hubbub.dashboard.snapshot import parse_terms
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import Tally
from hubbub.simulations.exact_tallies import sample_tally
from hubbub.simulations.people.histories import Histories
from hubbub.simulations.simulate.exact import history_tally
from tests.analysis.discoveries import SMALL, Crowd, asked
from tests.dashboard.kit import FIRST_DAY, text_of, visiting, words
from tests.protocol.toml import registry

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def found() -> Tally:
    texts = ["ab", "abcd", "zz9", "long-name", "q1", "q2"]
    return Crowd(asked(SMALL, 4), texts).draw(20_000, seed=1, absent=0.1)[0]


async def test_texts_are_found_without_a_list_and_their_beginnings_can_be_opened(found: Tally, tmp_path) -> None:
    (tmp_path / "plugin.json").write_text(found.to_json())
    async with visiting(str(tmp_path / "plugin.json")) as client:
        markup = await text_of(client, "/metric/plugin")
        overview = words(await text_of(client, "/"))
    page = words(markup)
    assert "5 texts found." in page
    assert "No list is needed: what enough installs share is found." in page
    assert "any other text" in page
    assert "Compare two" not in page, "what one period finds may have no row in another"
    assert "Beginnings Open a beginning to see how it goes on." in page
    assert '<summary><span class="branch"><bdi>ab…</bdi><svg' in markup
    parts = re.search(r"All installs, accounted for (\d) found in full (\d+) % (.*?)no answer (\d+) %", page)
    assert parts
    assert parts[1] == "5"
    assert sum(map(int, re.findall(r"(\d+) %", parts[0]))) in (99, 100, 101), "rounded"
    assert re.search(r"5 texts found\. Texts below [\d.]+ % stay hidden\.", page)
    assert "text, without a list" in overview


def test_a_tree_has_every_beginning_once_and_texts_below_what_they_continue(found: Tally) -> None:
    decoding = decode(found)
    tree = beginnings_view(decoding)

    def walk(branches: tuple[Branch, ...], above: str = "") -> list[str]:
        told = []
        for each in branches:
            assert each.text.startswith(above)
            told += [each.text, *walk(each.branches, each.text.removesuffix("…"))]
        return told

    told = walk(tree)
    assert sorted(text for text in told if text.endswith("…")) == sorted(f"{b.text}…" for b in decoding.beginnings)
    assert {"ab", "abcd", "zz9"} <= set(told)
    assert {len(each.text) for each in tree} == {3}, (
        "two letters and the dots: longer ones are below what they continue"
    )
    (long,) = [each for each in tree if each.text == "lo…"]
    assert [each.text for each in long.branches] == ["long…"]
    assert beginnings_view(decode(Tally(found.metric, {}))) == ()


async def test_answers_with_a_history_say_who_was_asked_and_what_it_costs(tmp_path) -> None:
    shape = Flag()
    noise = shape.history_noise(shape.best_history(Fraction(4), 4, 4))
    metric = Definition(name="dark", every="week", shape=shape, noise=noise)
    people = Histories((True, False), np.repeat([[0], [1]], 8, axis=1), np.array([6_000, 14_000]))
    rng, epochs = np.random.default_rng(1), range(2952, 2960)
    (tmp_path / "dark.json").write_text(history_tally(metric, people, epochs, rng).to_json())
    async with visiting(str(tmp_path / "dark.json")) as client:
        page = words(await text_of(client, "/metric/dark"))
    assert "once in 4 weeks, four times in all" in page
    assert "An install is asked in one of 4 weeks, which its device draws" in page
    assert "4 for everything an install ever says, whatever changes" in page
    assert "asking again does not wear it off" not in page


async def test_a_mean_of_those_who_answered_has_the_silent_beside_it(tmp_path) -> None:
    """The chart and the sentence are the mean's; the share that gave no answer stands beside, in its own digits."""
    asks = registry("mean", every='"day"', absent='"apart"', points="3", unit='"s"', max_values="4")["it"]
    rng = np.random.default_rng(1)
    tally = sample_tally(asks, [40_000], [[6_000, 12_000, 2_000, 20_000]], rng, (FIRST_DAY,))
    (tmp_path / "it.json").write_text(tally.to_json())
    async with visiting(str(tmp_path / "it.json")) as client:
        page, overview = words(await text_of(client, "/metric/it")), words(await text_of(client, "/"))
        only = words(await text_of(client, "/metric/it?exclude_absent=yes"))
    found = decode(tally)
    mean, digits = words(row_digits(found, 0).value(found.estimate[0])), row_digits(found, 2)
    silent = words(f"{digits.value(found.estimate[2])}, {digits.interval(found.low[2], found.high[2])}")
    assert f"The mean of those who answered is {mean}" in page
    assert f"Gave no answer {silent}" in page
    assert "no answer" in page
    assert f"{float(found.estimate[2]) * 40_000:,.0f}" in page, "installs of the share, in the table"
    assert "leads with" not in page
    assert mean in overview
    assert "Gave no answer" not in only
    assert f"The mean of those who answered is {mean}" in only


def test_the_terms_of_a_sample_and_of_named_places_are_read() -> None:
    asks = registry("choice", sample='"1/10"', reserve="2", named='["d"]')["it"]
    _, (terms,) = parse_terms(json.dumps({"app": "a", "metrics": [asks.terms_to_json()]}).encode())
    assert terms.definition.metric_hash == asks.metric_hash
    assert terms.definition.shape.later_names == ("d",)


def test_the_terms_of_metrics_with_a_history_are_read() -> None:
    asks = registry("flag", epsilon_one_report=None, epsilon_permanent=None, hold="4", epsilon_history="4")["it"]
    body = json.dumps({"app": "a", "metrics": [asks.terms_to_json()]}).encode()
    _, (terms,) = parse_terms(body)
    assert terms.definition.metric_hash == asks.metric_hash
