"""Which of a list were recorded: any number, in any order; the device keeps the few it is asked about, and no longer
than the epoch lasts; each of them is answered by itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from shutil import copytree

import pytest

from hubbub.client import Registry
from hubbub.client.gathering import in_words
from tests.client.install import Install
from tests.client.processes import hubbub
from tests.client.registries import clear, clear_metric, metric, registry
from tests.client.test_gathering import files_of

ITEMS = "export", "macros", "vim_keys"
ALL = clear(clear_metric("features", "set", items_per_report=3))
SOME = clear(clear_metric("features", "set", items_per_report=2))


def asked(install: Install) -> tuple[str, ...]:
    """The items that this install is asked about, in the order of its bits."""
    (found,) = install.registry
    cohort = install.client().preview()[0].reports[0]["cohort"]
    return tuple(ITEMS[found.shape.item(cohort, i)] for i in range(found.shape.width(cohort)))


def bits_after(install: Install, asks: Registry, records: list[object]) -> int:
    client = install.agreed(asks)
    for value in records:
        client.record("features", value)
    install.days(1)
    client.flush()
    return install.arrived()[-1].bits


@pytest.mark.parametrize(
    ("records", "bits"),
    [
        ([], 0b000),
        (["export"], 0b001),
        (["vim_keys", "export"], 0b101),
        (["export", "vim_keys", "export", "export"], 0b101),
        ([["macros", "vim_keys"], "macros"], 0b110),
        ([("export",), {"macros"}, frozenset(), "vim_keys"], 0b111),
    ],
)
def test_all_items_of_an_epoch_count_in_any_order_and_however_often(install: Install, records, bits) -> None:
    assert bits_after(install, ALL, records) == bits


def test_every_epoch_begins_with_none_and_silence_is_an_answer(install: Install) -> None:
    client = install.agreed(ALL)
    for items in (["export", "macros"], [], ["macros"]):
        client.record("features", items)
        install.days(1)
    install.days(1)
    client.flush()
    assert [report.bits for report in install.arrived()] == [0b011, 0, 0b010, 0]
    assert client.status().counts == {"gathered": 3, "made": 4, "sent": 4}  # none is absent


def test_what_comes_before_the_epoch_is_opened_is_kept_as_well(install: Install) -> None:
    client = install.agreed(ALL)
    install.now = (install.now // 86_400 + 1) * 86_400 + 1  # nobody has looked since midnight
    for item in ("macros", "export", "macros"):
        client.record("features", item)
    install.look()
    assert client.status().gathered == {"features": "export, macros"}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("Export", "must be one of the 3 declared items, got an undeclared str"),
        (["export", "Export"], "must be one of the 3 declared items, got an undeclared str"),
        (["export", 3], "must be one of the 3 declared items, got an undeclared int"),
        (3, "must be one of the 3 declared items, or several, got int"),
        ({"export": True}, "must be one of the 3 declared items, or several, got dict"),
    ],
)
def test_an_undeclared_item_is_refused_in_words_and_changes_nothing(install: Install, value, sentence, caplog) -> None:
    client = install.agreed(ALL)
    client.record("features", value)
    assert [record.message for record in caplog.records] == [f"record('features'): the value {sentence}"]
    assert client.status().counts == {"wrong_value": 1}
    assert client.status().gathered == {}
    with pytest.raises(ValueError, match="declared items"):
        install.client(strict=True).record("features", value)


def test_add_is_for_sums(install: Install, caplog) -> None:
    install.agreed(ALL).add("features", "export")
    assert caplog.records[0].message == 'add(\'features\'): needs a metric with accumulate = "sum", got "any"'


# --- what the device keeps ------------------------------------------------------------------------------------------


def test_only_the_items_it_is_asked_about_are_kept_until_the_epoch_is_over(install: Install) -> None:
    client = install.agreed(SOME)
    install.days(1)
    about = asked(install)
    (other,) = set(ITEMS) - set(about)
    before = files_of(install)
    for item in ITEMS:
        client.record("features", item)
    assert client.status().gathered == {"features": ", ".join(sorted(about))}
    found = files_of(install)
    # The registry, which has all names, lies in the state as well: what was recorded stands in a list of its own.
    kept = ('["' + '", "'.join(sorted(about)) + '"]').encode()
    assert kept in found
    assert found.count(other.encode()) == before.count(other.encode())
    install.days(1)
    assert client.status().gathered == {}
    assert kept not in files_of(install)


def test_of_items_that_are_not_asked_about_nothing_is_kept(install: Install) -> None:
    client = install.agreed(SOME)
    install.days(1)
    (other,) = set(ITEMS) - set(asked(install))
    client.record("features", other)
    assert client.status().gathered == {}
    assert client.status().counts["gathered"] == 1


@pytest.mark.parametrize("way", ["no", "forget"])
def test_they_are_gone_after_a_no_and_after_forget(install: Install, way: str) -> None:
    client = install.agreed(ALL)
    client.record("features", ["vim_keys", "export"])
    assert b'["export", "vim_keys"]' in files_of(install)
    client.consent(False) if way == "no" else client.forget()
    assert b'["export", "vim_keys"]' not in files_of(install)


def test_the_person_sees_them(install: Install) -> None:
    client = install.agreed(ALL)
    client.record("features", ["vim_keys", "export"])
    client.close()
    shown = hubbub("status", "--state", install.directory).stdout
    assert "  kept as it is   features: export, vim_keys, until its period is over" in shown
    assert in_words('["a", "b"]') == "a, b"


# --- kept answers ---------------------------------------------------------------------------------------------------

SHOWN = {"items_per_report": 3, "epsilon_one_report": 3, "epsilon_permanent": 3}


def answers(install: Install, days: list[tuple[str, ...]], asks: Registry, runs: bool = False) -> list[int]:
    """The reports of these days, which show the memo itself."""
    client = install.agreed(asks)
    for items in days:
        client.record("features", items)
        install.days(1)
        client.flush()
        if runs:
            client.close()
            client = install.client()
    return [report.bits for report in install.arrived()][: len(days)]


@pytest.mark.parametrize("runs", [False, True], ids=["in one run", "in a run each"])
def test_each_item_has_one_answer_while_it_is_used_and_one_while_it_is_not(install: Install, runs: bool) -> None:
    """All eight answers, twice: what is sent for an item depends on that item and on nothing else, and two kept answers
    are all that is ever charged."""
    sets = [tuple(item for item, used in zip(ITEMS, uses, strict=True) if used) for uses in product((0, 1), repeat=3)]
    found = answers(install, sets * 2, registry(metric("features", "set", **SHOWN)), runs)
    for place, item in enumerate(ITEMS):
        by_use = {(item in used, bits >> place & 1) for used, bits in zip(sets * 2, found, strict=True)}
        assert len(by_use) == 2
    status = install.client().status()
    assert status.epsilon_spent == pytest.approx(2 * 3)
    assert "overflowed" not in status.counts


def test_with_one_slot_the_first_answer_is_repeated_for_ever(install: Install) -> None:
    asks = registry(metric("features", "set", max_values=1, **SHOWN))
    assert len(set(answers(install, [("export",), (), ITEMS, ("macros",)], asks))) == 1
    assert install.client().status().epsilon_spent == pytest.approx(3)


def test_a_lifetime_is_two_kept_answers_however_many_items_are_asked() -> None:
    for number in (1, 2, 3):
        found = registry(metric("features", "set", items_per_report=number))["features"]
        assert found.epsilon_lifetime == 2 * found.epsilon_permanent
        assert Fraction(299, 100) < found.epsilon_permanent <= 3


def test_the_number_of_items_that_was_left_out_is_the_best_for_the_epsilon() -> None:
    items = str([f"item {i}" for i in range(20)]).replace("'", '"')
    chosen = {}
    for epsilon in (1, 3, 4, 8, 16):
        keys = {"items": items, "epsilon_one_report": epsilon, "epsilon_permanent": 16}
        text = metric("features", "set", **keys).replace("items_per_report = 2\n", "")
        chosen[epsilon] = registry(text)["features"].shape.items_per_report
    assert chosen == {1: 1, 3: 1, 4: 2, 8: 4, 16: 7}


def test_where_nothing_may_be_stored_an_example_shows_all_that_was_recorded(install: Install) -> None:
    client = install.client(ALL)
    for item in ("export", "vim_keys", "export"):
        client.record("features", item)
    assert client.preview()[0].reports[0]["bits"] == "05"


def test_a_set_asked_once_is_answered_once_and_by_a_copy_of_the_state_alike(install: Install, tmp_path) -> None:
    """What is told truly is drawn by key for the answer: a backup that is restored spends nothing again."""
    terms = {"items_per_report": 3, "epsilon_one_report": 4, "epsilon_permanent": 4}
    once = registry(metric("features", "set", every="once", **terms))
    assert once["features"].noise.history is not None
    install.agreed(once).close()
    copytree(install.directory, tmp_path / "copy")

    def answer() -> list[int]:
        before = len(install.arrived())
        install.asleep(31)
        client = install.client()
        client.record("features", ["export", "macros"])
        client.close()
        install.asleep(31)
        client = install.client()
        client.flush()
        client.close()
        return [report.bits for report in install.arrived()[before:]]

    (first,) = answer()
    assert answer() == [], "asked once"
    install.directory = tmp_path / "copy"
    client = install.client()
    client.consent(True)  # a copy is known as one, and asks
    client.close()
    assert answer() == [first]
