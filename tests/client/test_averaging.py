"""The averaging attack: a year of daily reports of one value, all collected, and the noise averaged out.

It works on the instantaneous noise and ends at the memo, which is itself noisy; with memos drawn afresh it would
recover everything. The bits of many positions are many attacks at once.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb
from random import Random

import pytest

from hubbub.client import Answer, Client, Registry
from hubbub.client.facts import read_facts
from hubbub.client.identity import cohort_of
from hubbub.client.memos import Memo
from hubbub.client.respond import permanent_response
from hubbub.protocol.bloom import string_mask
from hubbub.protocol.metric import Metric
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.wire import unpack
from tests.chance import assert_binomial, power
from tests.client.answering_server import stored

DAY = 86_400
YEAR = 365
REGISTRY = Registry.parse("""
app = "averaged"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 10
[metrics.page]
kind = "string"
num_bits = 128
num_hashes = 2
num_cohorts = 16
why = "w"
owner = "o"
expires = 2099-01-01
every = "day"
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75
max_values = 1
""")
PAGE = REGISTRY["page"]


def a_year_of_reports(directory, seed: int) -> tuple[int, int, int, list[int]]:
    """(mask, memo, cohort, the bits of every report) of one install that records the same page every day."""
    bodies: list[bytes] = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        bodies.append(body)
        return stored(body)

    now = [20_000.0 * DAY]
    client = Client(
        REGISTRY,
        endpoint="http://127.0.0.1:9",
        state_dir=directory,
        background=False,
        post=post,
        environ={"HUBBUB_MODE": "on"},
        clock=lambda: now[0],
        send_delay=lambda span: 0.0,
        random=Random(seed).randbytes,
    )
    client.consent(True)
    for _ in range(YEAR + 1):
        now[0] += DAY
        client.record("page", "https://example.org/")
        client.flush()
    with client._state.transaction() as db:
        number = read_facts(db).number
        rows = db.execute("SELECT memo FROM memos").fetchall()
    client.close()
    cohort = cohort_of(number, PAGE.shape.num_cohorts)
    memo = int.from_bytes(rows[0][0], "little") if rows else 0
    reports = [bits for body in bodies for block in unpack(body, by_short_hash([PAGE])).blocks for _, bits in block]
    assert len(reports) == YEAR
    return string_mask("https://example.org/", cohort, 128, 2), memo, cohort, reports


def averaged(reports: list[int]) -> int:
    """The attacker's guess: the positions set in more than half of the reports."""
    return sum(1 << i for i in range(128) if 2 * sum(bits >> i & 1 for bits in reports) > len(reports))


def attack(tmp_path, installs: int) -> tuple[int, int]:
    """(positions of masks guessed right, memos recovered whole) over so many installs."""
    right = memos = 0
    for seed in range(installs):
        mask, memo, _, reports = a_year_of_reports(tmp_path / str(seed), seed)
        guess = averaged(reports)
        right += 128 - (guess ^ mask).bit_count()
        memos += guess == memo
    return right, memos


def test_a_year_of_reports_gives_away_the_memo_and_nothing_else(tmp_path) -> None:
    """A memo's bit equals the mask's with probability 3/4 (f = 1/2), so that is how often averaging is right."""
    installs = 4
    right, memos = attack(tmp_path, installs)
    assert memos == installs  # averaging does get as far as the memo
    assert_binomial(right, 128 * installs, 3 / 4)
    assert power(128 * installs, 3 / 4, wrong_p=0.9) > 0.999


def test_without_memos_averaging_recovers_everything(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def afresh(db, who, metric: Metric, mask: int, draws) -> Memo:
        return Memo(permanent_response(metric, mask, who.cohort(metric), draws))

    monkeypatch.setattr("hubbub.client.recorder.find_or_draw", afresh)
    right, _ = attack(tmp_path, 2)
    assert right == 2 * 128


def test_the_best_attacker_on_a_flag_is_right_no_more_often_than_the_memo() -> None:
    """Exactly: of two equally likely answers, the best guess from T reports is right with probability
    sum over counts of max(P(count | yes), P(count | no)) / 2, below that of seeing the memo itself."""
    source = REGISTRY.source.split("[metrics.page]")[0] + (
        '[metrics.theme]\nkind = "flag"\nwhy = "w"\nowner = "o"\nexpires = 2099-01-01\nevery = "day"\n'
        "epsilon_one_report = 1\nepsilon_permanent = 2\nmax_values = 1\n"
    )
    noise = Registry.parse(source)["theme"].noise
    a1, a0 = noise.permanent.probabilities
    q, p = noise.instantaneous.probabilities

    def success(reports: int) -> Fraction:
        total = Fraction(0)
        for c in range(reports + 1):
            shown, hidden = (comb(reports, c) * x**c * (1 - x) ** (reports - c) for x in (q, p))
            total += max(a1 * shown + (1 - a1) * hidden, a0 * shown + (1 - a0) * hidden)
        return total / 2

    by_memo = (a1 + 1 - a0) / 2
    rates = [success(reports) for reports in (1, 2, 7, 30, YEAR)]
    assert all(earlier <= later for earlier, later in pairwise(rates))
    assert all(rate < by_memo for rate in rates)
    assert by_memo - rates[-1] < Fraction(1, 10**6)


@pytest.mark.proof
def test_a_year_of_reports_of_a_hundred_installs(tmp_path, figure) -> None:
    installs = 100
    right, memos = attack(tmp_path, installs)
    figure(
        "averaging over 365 reports", f"{right} of {128 * installs} positions right, {memos} of {installs} memos whole"
    )
    assert memos == installs
    assert_binomial(right, 128 * installs, 3 / 4)
