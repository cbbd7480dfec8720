"""Texts that nobody listed: what an install is asked of its text, and that it tells no more."""

from __future__ import annotations

from itertools import product

import pytest

from hubbub.protocol.changes import asks_more
from hubbub.protocol.encoding import ABSENT, WrongValue
from hubbub.protocol.kinds import Discovery, String, shape_class
from hubbub.protocol.label import facts, words
from hubbub.protocol.metric import Definition
from hubbub.protocol.privacy_page import privacy_page
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, problems_of, registry, source

SHAPE = Discovery(discover=True, alphabet="host", max_length=5, step=2, num_bits=64, num_groups=3)
TEXTS = ["".join(letters) for length in range(8) for letters in product("ab", repeat=length)]
LEVELS = [(0, 2), (1, 4), (2, 5), (3, 5)]


def of(alphabet: str, **more: object) -> Discovery:
    return SHAPE.replace(alphabet=alphabet, **more)


@pytest.mark.parametrize(("level", "reach"), LEVELS)
def test_a_level_tells_no_more_than_the_beginning_it_asks_for(level: int, reach: int) -> None:
    """Of all texts of up to seven letters: those with the same beginning, and the same end where it is asked, have the
    same mask in every group, and so the same memo."""
    assert SHAPE.reach(level) == reach
    for group in range(SHAPE.num_groups):
        masks: dict[str, set[int]] = {}
        for text in TEXTS:
            ends = len(text) < reach or len(text) == reach == SHAPE.max_length
            told = text[:reach] + "." * ends
            masks.setdefault(told, set()).add(SHAPE.encode(text, level * SHAPE.num_groups + group).mask)
        assert all(len(found) == 1 for found in masks.values())


def test_different_beginnings_are_told_apart_over_the_groups() -> None:
    shape = SHAPE.replace(num_groups=16)
    cohorts = range(3 * 16, 4 * 16)
    whole = {tuple(shape.encode(text, cohort).mask for cohort in cohorts) for text in TEXTS}
    beginnings = {(text[:5], len(text) > 5) for text in TEXTS}
    assert len(whole) == len(beginnings)


def test_every_mask_has_one_bit_and_silence_none() -> None:
    for cohort in range(SHAPE.num_cohorts):
        assert SHAPE.encode(ABSENT, cohort).mask == 0
        assert {SHAPE.encode(text, cohort).mask.bit_count() for text in TEXTS} == {1}


def test_a_longer_text_is_cut_and_counted_as_clamped() -> None:
    assert [SHAPE.encode(text, 0).clamped for text in ("abcde", "abcdef")] == [False, True]


@pytest.mark.parametrize("cohort", range(SHAPE.num_cohorts))
def test_the_device_keeps_no_more_of_a_text_than_is_asked(cohort: int) -> None:
    reach = SHAPE.reach(cohort // SHAPE.num_groups)
    for text in TEXTS:
        kept = SHAPE.kept(text, cohort)
        assert SHAPE.encode(kept, cohort).mask == SHAPE.encode(text, cohort).mask
        assert len(kept) <= reach + (reach == SHAPE.max_length)
    assert SHAPE.kept(ABSENT, cohort) is ABSENT


def test_whole_characters_are_kept() -> None:
    shape = of("bytes", step=1)
    for cohort in range(shape.num_cohorts):
        kept = shape.kept("a\U0001f600b", cohort)
        assert shape.encode(kept, cohort).mask == shape.encode("a\U0001f600b", cohort).mask


def test_texts_are_normalised_before_anything_else() -> None:
    shape = of("bytes", lowercase=True)
    assert shape.encode("E\u0301A", 9) != shape.encode("e\u0301a", 9)  # only A to Z have another case in every language
    assert shape.encode("e\u0301A", 9) == shape.encode("\u00e9a", 9)
    assert of("bytes").encode("A", 9) != of("bytes").encode("a", 9)


@pytest.mark.parametrize(
    ("alphabet", "value", "problem"),
    [
        ("host", "exAmple", 'must be made of a-z, 0-9 and + - . _ (alphabet = "host"), got another at 2'),
        ("ascii", "caf\u00e9", 'must be made of printable ASCII characters (alphabet = "ascii"), got another at 3'),
        (
            "bytes",
            "\u001b[2J",
            'must be made of characters that are no control characters (alphabet = "bytes"), got another at 0',
        ),
        (
            "bytes",
            "\ud800",
            'must be made of characters that are no control characters (alphabet = "bytes"), got another at 0',
        ),
        ("host", 3, "must be a string, got int"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_not_with_itself(
    alphabet: str, value: object, problem: str
) -> None:
    with pytest.raises(WrongValue) as caught:
        of(alphabet).encode(value, 0)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"discover": "false"},
            "discover must be true, or left out for a string that is looked for in lists, got false",
        ),
        ({"alphabet": '"latin"'}, "alphabet must be one of host, ascii, bytes, got 'latin'"),
        ({"max_length": "65"}, "max_length must be in [1, 64], got 65"),
        (
            {"step": "4"},
            "step must be at least 1, and the alphabet's 40 symbols to this power at most 65536, got 4",
        ),
        (
            {"step": "0"},
            "step must be at least 1, and the alphabet's 40 symbols to this power at most 65536, got 0",
        ),
        ({"num_bits": "1"}, "num_bits must be in [2, 65536], got 1"),
        ({"num_groups": "1"}, "num_groups must be in [2, 1024], got 1"),
        (
            {"num_bits": "65536", "num_groups": "1000"},
            "num_bits x num_groups x levels must be at most 16777216, got 65536 x 1000 x 10",
        ),
    ],
)
def test_a_wrong_key_is_refused_in_words(changes: dict[str, str], problem: str) -> None:
    assert problem in problems_of(source("discovery", changes))


def test_a_definition_comes_back_from_its_json_as_the_same_question() -> None:
    metric = registry("discovery")["it"]
    assert Definition.from_json(metric.to_json()).shape == metric.shape
    assert isinstance(metric.shape, Discovery)
    assert shape_class("string") is String


def test_the_label_says_from_how_many_installs_on_a_text_is_found() -> None:
    found = words(registry("discovery", epsilon_one_report="4", epsilon_permanent="4"))
    sentence = (
        "There is no fixed list of answers: among 1,000,000 installs, any text shared by about 4,000 or more can be "
        "discovered from all messages until 2028-01-01. Someone who guesses your text can test the guess, as with "
        "every answer."
    )
    assert sentence in " ".join(found.split())
    assert facts(registry("discovery"))["metrics"]["it"]["discoverable"].startswith("There is no fixed list of answers")


def test_more_noise_hides_texts_that_more_share() -> None:
    shape = registry("discovery")["it"].shape
    assert isinstance(shape, Discovery)
    found = [shape.shared_by(shape.best_noise(e, e), 10**6) for e in (registry("flag").lifetime_epsilon / 60, 2, 4)]
    assert found == sorted(found, reverse=True)


def test_among_fewer_installs_fewer_must_share_a_text_and_the_label_says_so() -> None:
    """A hundred times fewer installs: ten times fewer, because a share is known ten times worse."""
    few = registry("discovery", epsilon_one_report="4", epsilon_permanent="4", expected_installs="10_000")
    assert "among 10,000 installs, any text shared by about 400 or more" in " ".join(words(few).split())
    assert "among 10,000 installs" in facts(few)["metrics"]["it"]["discoverable"]
    for language, sentence in (
        ("en", "among 10,000 devices, any text that about 400 or more share can be discovered from all messages until"),
        ("de", "Unter 10,000 Geräten kann aus allen Nachrichten bis 2028-01-01 jeder Text entdeckt werden"),
        ("fr", "parmi 10,000 appareils, tout texte partagé par environ 400 ou plus peut être découvert"),
    ):
        assert sentence in privacy_page(few, language)
    for wrong in ("0", "10_000_000_001"):
        got = wrong.replace("_", "")
        assert f"expected_installs must be in [1, 10000000000], got {got}" in problems_of(
            source("discovery", {"expected_installs": wrong})
        )


def test_four_answers_with_noise_of_their_own_need_half_as_many_who_share_a_text() -> None:
    """`hold`: noise is drawn anew for each answer, and cancels out over them."""
    metric = registry("discovery", **HISTORY)["it"]
    assert isinstance(metric.shape, Discovery)
    history = metric.noise.history
    assert history is not None
    one = metric.noise.replace(history=history.replace(answers=1, threshold=1))
    few, many = (metric.shape.shared_by(noise, 10**8) for noise in (metric.noise, one))
    assert many == pytest.approx(2 * few, rel=0.03)


def test_fewer_expected_installs_ask_anew_and_more_do_not() -> None:
    million, thousand = registry("discovery"), registry("discovery", expected_installs="1000")
    assert million.fingerprint == registry("discovery", expected_installs="1_000_000").fingerprint
    assert million.fingerprint != thousand.fingerprint
    (change,) = asks_more(million, thousand)
    assert str(change) == "1,000 installs are expected, before 1,000,000"
    assert asks_more(thousand, million) == ()
    assert asks_more(registry("flag"), registry("flag", expected_installs="1000")) == ()


def test_making_a_string_a_discovery_asks_anew_and_says_what_differs() -> None:
    (change,) = asks_more(registry("string"), registry("discovery"))
    assert "asked anew and differently" in str(change)
    assert "discover yes, before not given" in str(change)
    assert "num_cohorts not given, before 128" in str(change)


def test_a_registry_with_a_discovery_loads_whatever_the_order_of_its_keys() -> None:
    lines = source("discovery").splitlines()
    place = lines.index("[metrics.it]") + 1
    again = "\n".join([*lines[:place], *reversed(lines[place:])])
    assert Registry.parse(again)["it"] == registry("discovery")["it"]


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_the_page_for_people_says_that_texts_can_be_discovered(language: str) -> None:
    found = privacy_page(registry("discovery", epsilon_one_report="4", epsilon_permanent="4"), language)
    assert "4,000" in found
    assert "4,000" not in privacy_page(registry("string"), language)
