"""What somebody learns who sees only published figures: on the page as `hubbub label --installs` has it, or why not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.analysis.publishing.reader import reader_bound
from hubbub.dashboard.reader_view import readers
from hubbub.dashboard.snapshot import Terms, snapshot_of
from hubbub.protocol.epsilon import certainty, show
from hubbub.protocol.kinds import Flag
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import one_bit_noise
from hubbub.protocol.tally import Counts, Tally
from tests.dashboard.kit import text_of, visiting, words


def flag(one_report: int, permanent: int) -> Definition:
    noise = one_bit_noise(Fraction(one_report), Fraction(permanent))
    return Definition(name="dark_theme", every="week", shape=Flag(), noise=noise)


def tally(metric: Definition, *reports: int) -> Tally:
    return Tally(metric, {2900 + week: Counts((number,), ((number // 2,),)) for week, number in enumerate(reports)})


def sure(epsilon: float | Fraction) -> str:
    return f"at most {certainty(Fraction(epsilon))} sure (ε {show(Fraction(epsilon), 3)})"


@pytest.mark.anyio
async def test_the_statement_stands_apart_from_the_label_with_its_conditions(tmp_path) -> None:
    metric = flag(1, 2)
    (tmp_path / "t.json").write_text(tally(metric, 4321, 5021, 5721).to_json())
    async with visiting(str(tmp_path / "t.json")) as client:
        page = words(await text_of(client, "/metric/dark_theme"))
    bound = reader_bound(metric, {4000: 1, 5000: 2}, 1e-9)
    assert bound is not None
    assert 0 < bound.one_answer < bound.life < 1
    assert (
        "To someone who sees only published figures Trusting the collector. What stands above under Privacy holds "
        f"against everyone; this does not. Which of two kept answers is yours {sure(bound.one_answer)} "
        f"All your answers, in 3 weeks {sure(bound.life)} "
        "Counted on: 3 weeks of 4,000 to 5,000 installs, as many as reported, rounded down; the figures of a week "
        "published once, when no more reports arrive; but for a chance of 1e-09. Broken if the "
        "collector shows anybody single messages or counts by group. That an install took part is not hidden."
    ) in page


def test_no_reader_learns_more_than_the_device_gives_away() -> None:
    """Of one install alone the counts are its reports."""
    metric = flag(1, 2)
    alone = snapshot_of([tally(metric, *[1] * 400)])
    terms = Terms(definition=metric, why="", owner="", expires="", max_values=3)

    def said(known: Terms | None) -> list[str]:
        return [fact.words for fact in readers(metric, known, alone).said]

    one_answer, life = sure(metric.epsilon_permanent), sure(3 * metric.epsilon_permanent)
    assert said(None) == [one_answer, "no limit is known"]
    assert said(terms) == [one_answer, life]


def test_where_nothing_can_be_said_the_reason_is_given() -> None:
    metric, clear = flag(1, 2), flag(1, 1)
    none = readers(metric, None, snapshot_of([]))
    assert (none.said, none.why_not) == ((), "No statement: no report has been counted yet.")
    as_clear = readers(clear, None, snapshot_of([tally(clear, 4000)]))
    assert as_clear.said == ()
    assert as_clear.why_not.startswith("No statement: a single message is as clear as the kept answer behind it")


def test_figures_of_an_earlier_definition_are_not_passed_over_in_silence() -> None:
    metric, earlier = flag(1, 2), flag(1, 3)
    both = readers(metric, None, snapshot_of([tally(earlier, 4000), tally(metric, 4000)]))
    alone = readers(metric, None, snapshot_of([tally(metric, 4000)]))
    assert both.said == alone.said
    assert both.conditions == (*alone.conditions, "Figures of earlier definitions of this metric tell more.")


def test_a_crowd_of_billions_has_a_smaller_chance_of_error() -> None:
    metric = flag(1, 2)
    (counted, _) = readers(metric, None, snapshot_of([tally(metric, 3_000_000_000)])).conditions
    assert counted.endswith("but for a chance of 3.33333e-11.")
