"""The mutation run itself: it plants what it says, finds the tests that could notice, and tells who survived."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.quality import throwaway_tree
from tests.quality.module_tests import tests_of as own_tests
from tests.quality.mutants import AREAS, ROOT, Area, Mutant, Project, drawn, main
from tests.quality.mutations import mutations
from tests.quality.throwaway_tree import ThrowawayTree

TOY = """
def more(count: int, limit: int) -> int:
    return min(count + 1, limit)
"""
TOY_TEST = """
from toy.counting import more

def test_one_is_added(pytestconfig):
    pytestconfig.cache.mkdir("as tests with a PostgreSQL server do")
    assert more(1, limit=9) == 2
"""
SURVIVOR = "min(count + 1, limit) -> (count + 1)"
ENTRY = """
[[harmless]]
module = "source/toy/counting.py"
line = "{}"
mutation = "{}"
reason = "a toy"
"""
LISTED = ENTRY.format("return min(count + 1, limit)", SURVIVOR)


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a < b", {"a < b -> (a <= b)"}),
        ("x = a and b", {"a and b -> (a or b)"}),
        ("x = a - b", {"a - b -> (a + b)"}),
        ("x = 'text' + b", set()),
        ("x = 7", {"7 -> (8)", "7 -> (6)"}),
        ("x = True", {"True -> (False)"}),
        ("x = sorted(a)", {"sorted(a) -> (a)"}),
        ("x = np.maximum(a, b)", {"np.maximum(a, b) -> (a)"}),
        ("x = list(zip(a, b, strict=True))", {"zip(a, b, strict=True) -> (zip(b, a, strict=True))"}),
        ("x = f(a, b)", {"f(a, b) -> (f(b, a))"}),
        ("x = f(a, a)", set()),
        ("x = a[b:]", {"b -> (b) + 1"}),
        ("x = a[:2]", {"2 -> (3)", "2 -> (1)"}),
        ("if a:\n    b()", {"a -> (not (a))", "b() -> pass"}),
        ("x = [a for a in b if c]", {"c -> (not (c))"}),
        ("self.x = a", {"self.x = a -> pass"}),
        ("def f():\n    return a", {"return a -> return None"}),
        ("def f(x: Literal[3] = 4) -> Array[5]:\n    '''6'''", {"4 -> (5)", "4 -> (3)"}),
        ("raise Wrong(f'{1 + 1}', 2)", {"raise Wrong(f'{1 + 1}', 2) -> pass"}),
        ("assert 1 < 2", set()),
    ],
)
def test_each_kind_of_mistake_is_planted_where_it_would_run(source, changes):
    found = mutations(source)
    assert {mutation.change for mutation in found} == changes
    for mutation in found:
        ast.parse(mutation.apply(source))


def test_a_mutation_changes_its_place_and_nothing_else():
    source = 'name = "Größe"; size = (1 +\n    2) * 3  # why\n'
    assert [mutation.apply(source) for mutation in mutations(source) if mutation.change == "2 -> (3)"] == [
        'name = "Größe"; size = (1 +\n    (3)) * 3  # why\n'
    ]


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return Project().mutants()


def test_every_module_in_reach_has_mutants_and_tests_of_its_own(mutants):
    assert {mutant.area for mutant in mutants} == set(AREAS)
    for mutant in {mutant.module: mutant for mutant in mutants}.values():
        source = (ROOT / mutant.module).read_text(encoding="utf-8")
        compile(mutant.mutation.apply(source), mutant.module, "exec")
        found = own_tests(ROOT, mutant.module, mutant.area.tests)
        assert found, mutant.module
        assert all((ROOT / path).is_file() for path in found)


def test_a_draw_takes_as_many_of_each_area_and_little_depends_on_a_change_elsewhere(mutants):
    chosen = drawn(mutants, 40, seed=1)
    assert {sum(mutant.area == area for mutant in chosen) for area in AREAS} == {10}
    assert len(set(chosen)) == 40
    assert set(chosen) == set(drawn(mutants[::-1], 40, seed=1))
    assert set(chosen) != set(drawn(mutants, 40, seed=2))
    gone = chosen[7].module
    left = drawn([mutant for mutant in mutants if mutant.module != gone], 40, seed=1)
    assert {mutant for mutant in chosen if mutant.module != gone} <= set(left)


def test_each_entry_of_the_list_of_harmless_ones_has_a_reason_and_means_one_mutant(mutants):
    for entry in Project().entries():
        assert [mutant.is_meant_by(entry) for mutant in mutants].count(True) == 1, entry


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a toy needs none of them
    root = tmp_path / "project"
    (root / "source" / "toy").mkdir(parents=True)
    (root / "source" / "toy" / "counting.py").write_text(TOY)
    (root / "tests").mkdir()
    (root / "tests" / "test_toy.py").write_text(TOY_TEST)
    (root / "harmless.toml").write_text("")
    return Project(root, [Area("source/toy", "tests")], ["source"], root / "harmless.toml")


def test_a_survivor_fails_the_run_until_it_has_a_reason_that_applies(toy, capsys):
    assert main(["--workers", "2"], toy) == 1
    printed = capsys.readouterr().out
    assert "5 of 5 mutants" in printed
    assert "] killed: source/toy/counting.py:3: count + 1 -> (count - 1)" in printed
    complaints = [line for line in printed.splitlines() if line.startswith("nobody noticed")]
    assert complaints == [f"nobody noticed, and nobody says why it is harmless: source/toy/counting.py:3: {SURVIVOR}"]
    assert [line.split()[-3:] for line in printed.splitlines() if line.startswith("all ")] == [["4", "0", "1"]]

    toy.harmless.write_text(LISTED)
    assert main([], toy) == 0
    assert "] killed" not in capsys.readouterr().out, "what is known of this source tree is not tried again"

    toy.harmless.write_text(LISTED + ENTRY.format("return 2", "2 -> (3)"))
    assert main([], toy) == 1
    complaint = "listed as harmless, and no longer there: source/toy/counting.py: return 2: 2 -> (3)\n"
    assert capsys.readouterr().out.endswith(complaint)
    toy.harmless.write_text(LISTED + ENTRY.format("return min(count + 1, limit)", "count + 1 -> (count - 1)"))
    assert main([], toy) == 1
    assert "listed as harmless, and noticed by the tests" in capsys.readouterr().out


def test_a_mutant_that_never_ends_is_ended(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(throwaway_tree, "FIRST_LIMIT", 3)
    monkeypatch.setattr(throwaway_tree, "MARGIN", 0)
    endless = "def more(count, limit):\n    while True:\n        pass\n"
    with ThrowawayTree(toy.root, toy.on_path, tmp_path / "copy") as tree:
        assert tree.try_mutant("source/toy/counting.py", endless, ["tests"]) == throwaway_tree.TIMED_OUT
        assert tree.try_mutant("source/toy/counting.py", TOY, ["tests"]) == throwaway_tree.SURVIVED, "it is as it was"
    assert not (tmp_path / "copy").exists()


def test_tests_that_fail_without_a_mutant_prove_nothing(toy):
    (toy.root / "tests" / "test_toy.py").write_text(TOY_TEST.replace("== 2", "== 3"))
    with pytest.raises(
        AssertionError, match=r"without any mutant tests/test_toy\.py::test_one_is_added must pass, and do not"
    ):
        main(["--workers", "1"], toy)
