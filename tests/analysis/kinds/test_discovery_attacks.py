"""Texts and crowds that a search might stumble over: it ends, makes nothing up, and says in words what is odd.

One search in twenty may show a text or a beginning that nobody has, so what is asserted is about those that are there
and those that were pushed.
"""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.analysis import Decoding, Options, decode
from hubbub.analysis.render.text import table
from hubbub.dashboard.beginnings_view import Branch, beginnings_view
from hubbub.protocol.kinds import Discovery
from hubbub.protocol.tally import Counts, Tally
from tests.analysis.discoveries import SMALL, Crowd, asked

METRIC = asked(SMALL, 4)
NARROW = Options(beam=30)
BYTES = Discovery(discover=True, alphabet="bytes", max_length=4, step=1, num_bits=64, num_groups=8)
GROUPS = SMALL.num_groups
DISAGREE = "Levels disagree by more than chance: "


def drawn(
    texts: list[str], installs: int = 20_000, shape: Discovery = SMALL, epsilon: float = 4, **more: float
) -> Tally:
    return Crowd(asked(shape, epsilon), texts).draw(installs, seed=1, **more)[0]  # type: ignore[arg-type]


def found(tally: Tally, listed: list[str] | None = None, options: Options = NARROW) -> Decoding:
    return decode(tally, listed, options)


def answers(decoding: Decoding) -> set[str]:
    return {value for value, role in zip(decoding.values, decoding.roles, strict=True) if role == "answer"}


def with_fakes(tally: Tally, text: str, levels: range, each: int) -> Tally:
    """So many more reports in every group of these levels, each with the bit of the text alone."""
    shape, (epoch, counts) = tally.metric.shape, next(iter(tally.epochs.items()))
    reports, ones = list(counts.num_reports), [list(row) for row in counts.bit_counts]
    for level in levels:
        for cohort in range(level * GROUPS, (level + 1) * GROUPS):
            reports[cohort] += each
            ones[cohort][shape.encode(text, cohort).mask.bit_length() - 1] += each
    return Tally(tally.metric, {epoch: Counts(tuple(reports), tuple(map(tuple, ones)))})


def without(tally: Tally, level: int) -> Tally:
    """No reports of one level."""
    epoch, counts = next(iter(tally.epochs.items()))
    mine = range(level * GROUPS, (level + 1) * GROUPS)
    return Tally(
        tally.metric,
        {
            epoch: Counts(
                tuple(0 if cohort in mine else n for cohort, n in enumerate(counts.num_reports)),
                tuple(
                    (0,) * len(row) if cohort in mine else tuple(row) for cohort, row in enumerate(counts.bit_counts)
                ),
            )
        },
    )


# --- hostile crowds -----------------------------------------------------------------------------------------------


def test_a_text_that_fakes_push_at_every_level_is_found_and_nothing_else_changes() -> None:
    """150 fakes in each of 24 groups. No method could tell them from people who hold the text."""
    assert answers(found(with_fakes(drawn(["spel", "b"]), "evil", range(3), each=150))) >= {"spel", "b", "evil"}


def test_fakes_move_a_text_by_no_more_than_is_said_and_all_at_one_level_by_nearly_that() -> None:
    tally = with_fakes(drawn(["spel", "b"]), "evil", range(2, 3), each=300)
    share = 8 * 300 / tally.num_reports
    decoding = found(tally, listed=["evil"], options=Options(beam=30, fake_share=share))
    pushed, radius = decoding.estimate[decoding.index("evil")], decoding.diagnostics.attack_radius
    assert 0.7 * radius < pushed < radius
    assert f"If {100 * share:.1f} % of the reports were fake, an estimate could be off by" in table(decoding)


def test_fakes_at_the_last_level_alone_make_no_text_known() -> None:
    decoding = found(with_fakes(drawn(["spel", "b"]), "evil", range(2, 3), each=300))
    assert answers(decoding) >= {"spel", "b"}
    assert "evil" not in answers(decoding)


def test_fakes_at_the_last_level_alone_are_noticed_where_a_text_is_real() -> None:
    honest, pushed = (found(with_fakes(drawn(["spel", "b"]), "b", range(2, 3), each=each)) for each in (0, 300))
    assert not any(note.startswith(DISAGREE) for note in honest.notes)
    (note,) = (note for note in pushed.notes if note.startswith(DISAGREE))
    assert '"b" is held by 3' in note
    assert note.endswith("so reports of some levels were made up, or lost, or some clients are broken.")
    answered = found(
        with_fakes(drawn(["spel", "b"]), "b", range(2, 3), each=300), options=Options(beam=30, exclude_absent=True)
    )
    assert note in answered.notes


def test_what_goes_on_cannot_be_more_common_than_what_it_continues() -> None:
    texts = ["spel", "b", "evna"]
    decoding = found(with_fakes(drawn(texts), "evil", range(1, 3), each=400))
    (note,) = (note for note in decoding.notes if note.startswith(DISAGREE))
    assert 'and "ev" only those of 1' in note
    assert not any(note.startswith(DISAGREE) for note in found(drawn(texts)).notes)


def test_a_text_that_is_lost_at_the_next_level_is_noticed() -> None:
    """Fakes for a short text at the first level alone: it has ended there, and the second asks the same."""
    decoding = found(with_fakes(drawn(["spel", "b"]), "b", range(1), each=300))
    (note,) = (note for note in decoding.notes if note.startswith(DISAGREE))
    assert note.startswith(f'{DISAGREE}"b" is held by 79')


# --- odd texts ----------------------------------------------------------------------------------------------------


def test_texts_that_share_all_but_the_last_letter_are_told_apart() -> None:
    assert answers(found(drawn(["abcd", "abce", "abcf", "abcg"]))) >= {"abcd", "abce", "abcf", "abcg"}


def test_an_empty_text_is_found_and_quoted() -> None:
    decoding = found(drawn(["", "other"], shape=SMALL.replace(max_length=5)))
    assert answers(decoding) >= {"", "other"}
    names = [line.split()[0] for line in table(decoding).splitlines() if "%" in line]
    assert [names.count(name) for name in ('""', '"other"', "absent", "other")] == [1, 1, 1, 1]


def test_what_is_longer_than_asked_is_told_apart_from_what_is_just_as_long() -> None:
    decoding = found(drawn(["abcd", "abcde"]))
    assert "abcd" in answers(decoding)
    assert "abcde" not in answers(decoding)
    (longer,) = (one for one in decoding.beginnings if one.text == "abcd")
    assert (longer.hex, longer.length, longer.too_long) == (b"abcd".hex(), 4, True)
    assert longer.low - 0.04 <= 1 / 3 <= longer.high + 0.04  # four standard errors more than an interval has
    assert "abcd...      3" in table(decoding)
    (root,) = (root for root in beginnings_view(decoding) if root.text == "ab…")
    assert [(one.text, one.found, one.branches) for one in root.branches] == [("abcd…", False, ()), ("abcd", True, ())]


def test_a_heavy_text_outside_a_list_is_said_to_be_there() -> None:
    decoding = found(drawn(["much-too-long", "b"]), listed=["b", "no", "much-too-long"])
    assert answers(decoding) >= {"b", "no"}
    assert "a string outside the list is likely held by many" in "\n".join(decoding.notes)
    assert (
        "1 candidate is longer than the 4 bytes that are asked for, and can become known by their beginnings only."
        in decoding.notes
    )


def test_characters_of_four_bytes_are_found_whole_and_beginnings_within_one_are_kept_apart() -> None:
    r"""With a level for each byte. The first bytes of é and of the smile are shown without a letter, and are no
    beginning of a; what begins with é is longer than asked."""
    smile = "\U0001f600"
    decoding = found(drawn([smile, "a", "\u00e9\u00e9\u00e9"], installs=40_000, shape=BYTES))
    assert answers(decoding) >= {smile, "a"}
    first = {one.hex: one.text for one in decoding.beginnings if one.length == 1}
    assert first.items() >= {"f0": "", "61": "a", "c3": ""}.items()
    assert "\u00e9\u00e9" in [one.text for one in decoding.beginnings if one.too_long]
    assert table(decoding).count("\u00e9...") == 1
    (root,) = (root for root in beginnings_view(decoding) if root.text == "a…")
    assert [(one.text, one.found) for one in root.branches if one.found] == [("a", True)]
    assert sum(root.text == "…" for root in beginnings_view(decoding)) == 2
    assert sum(map(_beginnings_in, beginnings_view(decoding))) == len(decoding.beginnings)  # each at one place


def _beginnings_in(branch: Branch) -> int:
    return (not branch.found) + sum(map(_beginnings_in, branch.branches))


def test_everybody_may_hold_one_text() -> None:
    decoding = found(drawn(["spel"]))
    row = decoding.index("spel")
    assert decoding.low[row] - 0.05 <= 1 <= decoding.high[row] + 0.05  # four standard errors more than an interval has


# --- little to go by ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "lengths", "note"),
    [
        (0, set(), "No reports are of level 1 of 2: the search could not begin, and no text can be found."),
        (
            1,
            {2},
            "No reports are of level 2 of 2: the search ended there, and no text can be found; beginnings of up to 2 "
            "bytes can.",
        ),
        (2, {2}, "No reports: nothing can be estimated."),
    ],
)
def test_a_level_without_reports_is_said_and_what_is_known_above_it_stays(
    level: int, lengths: set[int], note: str
) -> None:
    decoding = found(without(drawn(["spel", "b"]), level), listed=["spel"])
    assert "spel" in answers(decoding)  # it was listed
    assert "b" not in answers(decoding)
    assert decoding.detected[decoding.index("spel")] == (level < 2)
    assert {one.length for one in decoding.beginnings if one.text == "sp"} == lengths
    assert note in decoding.notes


@pytest.mark.parametrize("epsilon", [0.1, 8])
@pytest.mark.parametrize("installs", [3, 100, 5_000])
def test_little_or_hardly_any_noise_makes_nothing_up(installs: int, epsilon: float) -> None:
    """A text that nobody has, or that somebody is silent, may be shown once in twenty: these six are seeded."""
    decoding = found(drawn(["spel", "b"], installs, epsilon=epsilon))
    assert answers(decoding) <= {"spel", "b"}
    assert not decoding.detected[decoding.index("absent", "absent")]
    assert not any(note.startswith(DISAGREE) for note in decoding.notes)
    assert table(decoding)
    if epsilon == 8 and installs == 5_000:
        assert answers(decoding) == {"spel", "b"}


def test_a_handful_of_installs_that_answered_are_not_called_silent() -> None:
    """Of three clear reports some set no bit by chance: noise is reckoned as if all had answered. Before it was as if
    none had, and a third of such tallies was called detected."""
    crowd = Crowd(asked(SMALL, 8), ["spel", "b"])
    for seed in range(20):
        decoding = found(crowd.draw(3, seed)[0], options=Options(beam=10))
        assert not decoding.detected[decoding.index("absent", "absent")]


def test_a_search_looks_at_no_more_than_the_beam_allows() -> None:
    told: list[str] = []
    decode(drawn(["spel", "b"]), None, NARROW, lambda share, what: told.append(what))
    counts = [int(what.split(": ")[1].split()[0].replace(",", "")) for what in told if what.startswith("level")]
    assert counts[0] == 1_641
    assert counts[1] <= 30 * (1_641 + 1_600)  # at the greatest length also whether it ends


def test_a_beginning_is_shown_of_all_installs_where_rows_are_of_those_who_answered() -> None:
    tally = drawn(["spel", "long-name"], absent=0.5)
    decoding = found(tally, options=Options(beam=30, exclude_absent=True))
    assert "Beginnings are shares of all installs, also of those that did not answer." in table(decoding)
    (longer,) = (one for one in decoding.beginnings if one.text == "long")
    assert longer.low - 0.05 <= 1 / 6 <= longer.high + 0.05  # of those who answered it would be a third
    assert np.isclose(float(decoding.estimate.sum()), 1)
