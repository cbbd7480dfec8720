"""A kind of metric that nobody has written yet: one file in each of three packages and one line in each table.

The three files below are all that `stars` (a rating of one to five) needs. Nothing else in the project knows it, and
yet it is read from a registry, recorded by the real client, counted by the real store, decoded, printed, planned,
simulated and audited. Copy from here when you add a kind.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from random import Random
from textwrap import dedent

import numpy as np
import pytest

from hubbub.analysis import Tally, decode
from hubbub.analysis.kinds import KINDS as ANALYSIS_KINDS
from hubbub.analysis.planning.plan import Plan, installs_for
from hubbub.analysis.render.text import table
from hubbub.collector.export import select, tallies
from hubbub.protocol import Invalid, Registry
from hubbub.protocol.cadence import DAY
from hubbub.protocol.compiled import compiled
from hubbub.protocol.kinds import KINDS as PROTOCOL_KINDS
from hubbub.protocol.label import words
from hubbub.protocol.tally_files import Wanted
from hubbub.simulations import Behaviour, Setting, audit_registry, default_population, simulate_metric
from hubbub.simulations.fleet import Run, run_install
from hubbub.simulations.kinds import KINDS as SIMULATION_KINDS
from hubbub.simulations.pretend_machine import keep_in
from tests.collector.storage.kit import NOW, Place

FILES = {
    "stars_protocol.py": '''
        """A rating: one to `most` stars."""

        from __future__ import annotations

        from collections.abc import Iterator
        from functools import cached_property
        from typing import Any

        from hubbub.protocol.channel import Flips
        from hubbub.protocol.encoding import ABSENT, Encoded, WrongValue
        from hubbub.protocol.shape import ONE_OF_MANY, Shape


        class Stars(Shape, kw_only=True):
            kind = "stars"
            natural_order = True
            most: int

            def _broken_rules(self) -> Iterator[str]:
                if not 2 <= self.most <= 10:
                    yield f"most must be in [2, 10], got {self.most}"

            @cached_property
            def num_masks(self) -> int:
                return self.most + 1

            @cached_property
            def flips(self) -> Flips:
                return ONE_OF_MANY

            def width(self, cohort: int) -> int:
                return self.most

            def encode(self, value: Any, cohort: int, dither: int = 0) -> Encoded:
                if value is ABSENT:
                    return Encoded(0)
                if not isinstance(value, int) or not 1 <= value <= self.most:
                    raise WrongValue(f"must be a whole number from 1 to {self.most}, got {type(value).__name__}")
                return Encoded(1 << value - 1)

            def question(self) -> str:
                return f"a rating of one to {self.most} stars"
    ''',
    "stars_analysis.py": '''
        """Ratings: a share for each number of stars."""

        from hubbub.analysis.estimation.guesses import nearest_shares
        from hubbub.analysis.kinds.categorical import Questions, bit_attack_gain, decode_answers
        from hubbub.analysis.kinds.kind import Kind
        from hubbub.analysis.kinds.variances import bit_variance
        from hubbub.analysis.result import ANSWER
        from stars_protocol import Stars


        def decode_stars(pools, candidates, options):
            most = pools[0].metric.shape.most
            questions = Questions(
                values=["*" * stars for stars in range(1, most + 1)],
                roles=[ANSWER] * most,
                asked=[list(range(most)) for _ in pools],
                best_guess=nearest_shares,
                attack_gain=bit_attack_gain(pools),
                rest_is_absent=True,
            )
            return decode_answers(pools, questions, options)


        STARS = Kind(
            decode=decode_stars,
            unit_variance=lambda shape, noise, share, strings: bit_variance(noise, share),
            planned=lambda given, strings: Stars(most=5),
            toml=lambda shape: f"most = {shape.most}",
        )
    ''',
    "stars_simulations.py": '''
        """People who rate."""

        from hubbub.simulations.kinds.kind import Kind
        from hubbub.simulations.kinds.lists import list_population
        from hubbub.simulations.kinds.symbols import subset_selection_variance
        from stars_protocol import Stars


        class StarsKind(Kind):
            default_population = "normal"

            @classmethod
            def example(cls, axes):
                return Stars(most=5)

            def population(self, name, numbers, text):
                return list_population("stars", list(range(1, self.shape.most + 1)), name, numbers, text)

            def row_of(self, answer, num_rows):
                return None if answer is None else answer - 1

            def least_variance(self, e):
                return subset_selection_variance(self.shape.most + 1, e)

            def far_values(self, cohort):
                return 1, 2
    ''',
}
REGISTRY = """
app = "toy"
recipient = { name = "Example", url = "https://telemetry.example.org" }
lifetime_epsilon = 40
[metrics.rating]
kind = "stars"
most = 5
every = "day"
why = "To learn what people like"
owner = "us@example.org"
expires = 2099-01-01
max_values = 2
epsilon_one_report = 4
epsilon_permanent = 6
"""
RATINGS = [5] * 24 + [4] * 10 + [1] * 4 + [None] * 2


@pytest.fixture
def stars(tmp_path, monkeypatch):
    """The files in a folder of their own, and a line in each table."""
    for name, source in FILES.items():
        (tmp_path / name).write_text(dedent(source))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(PROTOCOL_KINDS, "stars", "stars_protocol:Stars")
    monkeypatch.setitem(ANALYSIS_KINDS, "stars", "stars_analysis:STARS")
    monkeypatch.setitem(SIMULATION_KINDS, "stars", "stars_simulations:StarsKind")
    yield
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


@pytest.mark.usefixtures("stars")
def test_a_new_kind_goes_from_record_to_a_table(tmp_path) -> None:
    registry = Registry.parse(REGISTRY)
    rng = np.random.default_rng(1)
    messages: list[bytes] = []
    for rating in RATINGS:
        runs = [Run(NOW - DAY, {"rating": rating})]
        run_install(registry, runs, agreed=NOW - 2 * DAY, finished=NOW, post=keep_in(messages), random=rng.bytes)
    place = Place(tmp_path / "data", REGISTRY)
    with place.open() as (store, take, _):
        for message in messages:
            take(message)
        (tally,) = tallies(select(store, Wanted()).cells)
    decoding = decode(Tally.from_json(tally.to_json()))
    assert decoding.num_reports == len(RATINGS)
    assert decoding.values == ("*", "**", "***", "****", "*****", "absent")
    truth = [RATINGS.count(stars) / len(RATINGS) for stars in (1, 2, 3, 4, 5, None)]
    assert (
        (decoding.low <= truth) & (truth <= decoding.high)
    ).sum() >= 5  # two misses of six: 1 in 30; the seed is fixed
    assert decoding.detected[4]
    assert "*****" in table(decoding)


@pytest.mark.usefixtures("stars")
def test_a_new_kind_is_labelled_planned_simulated_and_audited() -> None:
    registry = Registry.parse(REGISTRY)
    metric = registry["rating"]
    assert "a rating of one to 5 stars, every day" in words(registry)
    plan = Plan(shape=metric.shape, epsilon_one_report=Fraction(4), epsilon_permanent=Fraction(6), share=0.1)
    assert 50 < installs_for(plan) < 500
    setting = Setting(
        metric=metric, people=default_population(metric.shape), behaviour=Behaviour(), installs=100_000, epochs=1
    )
    card = simulate_metric(setting, 1).card
    assert (card.present, card.found, card.false) == (5, 5, 0)
    assert not audit_registry(registry, trials=10_000, installs=0, random=Random(3).randbytes).failures


@pytest.mark.usefixtures("stars")
def test_the_rules_of_a_new_kind_are_told_like_all_others() -> None:
    with pytest.raises(Invalid, match=r"\[metrics.rating\] most must be in \[2, 10\], got 11"):
        Registry.parse(REGISTRY.replace("most = 5", "most = 11"))
    with pytest.raises(Invalid, match=r"mosst is not a key that is known here; did you mean most\?"):
        Registry.parse(REGISTRY.replace("most = 5", "mosst = 5"))


@pytest.mark.usefixtures("stars")
def test_a_new_kind_is_compiled_for_other_clients_once_it_says_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry.parse(REGISTRY)
    with pytest.raises(Invalid, match=r"\[metrics.rating\] kind must be one that clients in other languages know"):
        compiled(registry)
    shape = type(registry["rating"].shape)
    monkeypatch.setattr(shape, "port_facts", lambda self: {"most": self.most})
    (metric,) = compiled(registry)["metrics"]
    assert metric["encoding"] == {"form": "stars", "most": 5}
    assert (metric["widths"], metric["noise"]["permanent"]["sort"]) == ([5], "bits")


def test_without_its_lines_in_the_tables_the_kind_is_unknown() -> None:
    with pytest.raises(Invalid, match="kind must be one of flag, choice, string, mean, histogram, range"):
        Registry.parse(REGISTRY)
