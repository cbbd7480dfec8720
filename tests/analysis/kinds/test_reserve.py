"""Lists with spare places, decoded: rows of names only, estimates as of any list, a note where a name is missing."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis import Options, decode
from hubbub.protocol.kinds import Choice, Set
from hubbub.protocol.tally import Tally
from tests.analysis.worlds import define, tally_of
from tests.chance import assert_binomial, power

COLOURS = Choice(choices=("red", "green", "blue"), reserve=3, named=("teal",))
TOOLS = Set(items=("export", "macros", "vim"), items_per_report=2, reserve=2, named=("zen",))


@pytest.mark.parametrize("epsilon", ["0.5", "2"], ids=["as bits", "as one of k"])
def test_rows_are_the_names_and_estimates_are_near_the_truth(epsilon: str) -> None:
    metric = define(COLOURS, epsilon, "4")
    tally = tally_of(metric, [40_000, 20_000, 10_000, 20_000, 10_000], np.random.default_rng(1))
    found = decode(tally)
    assert found.values == ("red", "green", "blue", "teal", "absent")
    assert found.best_guess.sum() == pytest.approx(1)
    truth = np.array([0.4, 0.2, 0.1, 0.2, 0.1])
    assert np.all(np.abs(found.estimate - truth) < 5 * found.std_error)
    assert found.notes == ()
    only = decode(tally, options=Options(exclude_absent=True))
    assert only.values == ("red", "green", "blue", "teal")
    assert np.all(np.abs(only.estimate - truth[:4] / 0.9) < 5 * only.std_error)


def test_a_set_has_a_row_for_each_named_item() -> None:
    tally = tally_of(define(TOOLS, "4", "8"), [50_000, 20_000, 5_000, 30_000], np.random.default_rng(2))
    # `tally_of` counts an install for each item that it holds: shares are of all 105,000.
    found = decode(tally)
    assert found.values == ("export", "macros", "vim", "zen")
    truth = np.array([50, 20, 5, 30]) / 105
    assert np.all(np.abs(found.estimate - truth) < 5 * found.std_error)


def test_an_answer_whose_name_is_not_known_here_is_noted_and_named_by_a_newer_tally() -> None:
    metric = define(COLOURS, "2", "4")
    older = metric.replace(shape=COLOURS.replace(named=()))
    tally = tally_of(metric, [400, 200, 100, 20_000, 10_000], np.random.default_rng(3))
    found = decode(Tally(older, tally.epochs))
    assert found.values == ("red", "green", "blue", "absent")
    assert found.notes == (
        "Installs answer with a spare place: read these tallies with the metrics.toml that names them.",
    )
    both = Tally(older, tally.epochs) + Tally(metric, {7: tally.epochs[0]})
    assert "teal" in decode(both).values
    assert decode(both).notes == ()


def test_nobody_in_spare_places_is_said_rarely() -> None:
    """In 300 populations, with 20 spare places: at most 5 % have the note. 18 % would be noticed."""
    metric = define(Choice(choices=("a", "b"), reserve=20, absent="a"), "1", "2")
    rng = np.random.default_rng(4)
    noted = sum(bool(decode(tally_of(metric, [1_500, 500], rng)).notes[1:]) for _ in range(300))
    assert_binomial(max(noted, 15), 300, 0.05)
    assert power(300, 0.05, 0.18) > 0.99


def test_stacked_definitions_name_what_either_names() -> None:
    one, other = define(COLOURS, "1", "2"), define(COLOURS.replace(named=("teal", "cyan")), "2", "4")
    rng = np.random.default_rng(5)
    tallies = [tally_of(one, [400, 200, 100, 200, 100], rng), tally_of(other, [400, 200, 100, 200, 0, 100], rng)]
    assert decode(tallies).values == ("red", "green", "blue", "teal", "cyan", "absent")
    sets = [define(TOOLS, "2", "4"), define(TOOLS.replace(named=("zen", "zoom")), "4", "8")]
    counted = [tally_of(sets[0], [5, 2, 5, 3], rng), tally_of(sets[1], [5, 2, 5, 3, 1], rng)]
    assert decode(counted).values == ("export", "macros", "vim", "zen", "zoom")
