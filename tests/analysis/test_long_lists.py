"""Lists of any length, in files: whichever engine screens them, the same bytes; the same digits as from memory."""

from __future__ import annotations

import json
from argparse import ArgumentParser

import numpy as np
import pytest

from hubbub.analysis import Options, compare, decode, decode_lists, engine_from
from hubbub.analysis.candidate_lists import Stretch, is_long, list_files, most_candidates, pieces, stretches
from hubbub.analysis.commands.decode import add_decode, run_decode
from hubbub.analysis.estimation import repeats, shards
from hubbub.analysis.estimation.design import Block, gathered
from hubbub.analysis.estimation.hashing import digests, positions
from hubbub.analysis.estimation.standouts import Rest
from hubbub.analysis.render.export import to_json
from hubbub.analysis.render.text import table
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String
from tests.analysis.engines.clusters import dask
from tests.analysis.engines.work import Killing
from tests.analysis.long_lists import shards_of, tally_with, text, write_text
from tests.analysis.worlds import define, tally_of

TOTAL = 12_000
HELD = [11_999, 3, 700, 4_801, 9_100, 42, 1_000, 2_345, 6_000, 7_777]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A tally, its list in one file, and the same in five."""
    folder = tmp_path_factory.mktemp("lists")
    tally = tally_with(HELD, 300_000, num_cohorts=16, seed=4)
    (folder / "tally.json").write_text(tally.to_json())
    write_text(folder / "all.txt", range(TOTAL))
    (folder / "five").mkdir()
    for place, numbers in enumerate(shards_of(TOTAL, 5)):
        write_text(folder / "five" / f"{place}.txt", numbers)
    return folder, tally


def command(*arguments: object) -> int:
    parser = ArgumentParser()
    add_decode(parser)
    return run_decode(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture(scope="module")
def alone(world):
    """One list, one process."""
    folder, tally = world
    return decode_lists(tally, folder / "all.txt")


def test_what_is_said_of_a_string_has_the_digits_it_has_among_a_list_in_memory(world, alone):
    """All but the best guess, which is learnt from a histogram; `other` is a sum, rounded at another place."""
    _, tally = world
    memory = decode(tally, [text(number) for number in range(TOTAL)])
    assert alone.detected.sum() == memory.detected.sum() > 5
    rows = {row["value"]: row for row in memory.rows()}
    largest = {memory.values[i] for i in memory.top_rows(len(memory)) if not memory.detected[i]}
    for row in alone.rows():
        expected = rows[row["value"]]
        exactly = {name: value for name, value in row.items() if name != "best_guess"}
        if row["value"] == "other":
            for name, value in exactly.items():
                if isinstance(value, float):
                    assert value == pytest.approx(expected[name], rel=1e-8), name
        else:
            assert exactly == {name: expected[name] for name in exactly}
            assert row["detected"] or row["value"] in largest
        # A bin is 1/25 of a standard error wide.
        assert row["best_guess"] == pytest.approx(expected["best_guess"], abs=alone.noise_floor / 50)
    assert list(alone.values) == [value for value in memory.values if value in set(alone.values)], "in list order"
    assert alone.noise_floor == pytest.approx(memory.noise_floor, rel=0.01)
    assert alone.diagnostics.num_columns == memory.diagnostics.num_columns == TOTAL
    assert f"Of {TOTAL:,} candidates only those detected and the 10 largest others have rows." in alone.notes


def test_five_files_give_the_same_bytes_in_one_process_in_two_and_with_one_killed(world, alone, tmp_path, capsys):
    folder, tally = world
    command(folder / "tally.json", "--candidates", folder / "five", "--json")
    assert capsys.readouterr().out == to_json([alone])
    command(folder / "tally.json", "--candidates", folder / "five", "--engine", "local:2", "--json")
    assert capsys.readouterr().out == to_json([alone])
    engine = Killing(engine_from("local:2"), tmp_path / "killed", at=4)
    try:
        assert to_json([decode_lists(tally, folder / "five", engine=engine)]) == to_json([alone])
    finally:
        engine.close()
    assert (tmp_path / "killed").exists()


def test_two_workers_of_dask_give_the_same_bytes_though_one_is_killed(world, alone, tmp_path):
    folder, tally = world
    with dask(tmp_path, workers=2) as address:
        engine = Killing(engine_from(address), tmp_path / "killed", at=4)
        try:
            assert to_json([decode_lists(tally, folder / "five", engine=engine)]) == to_json([alone])
        finally:
            engine.close()
    assert (tmp_path / "killed").exists()


def test_shares_among_those_who_answered_are_spread_alike(world):
    folder, tally = world
    options = Options(exclude_absent=True, estimand="population", confidence=0.9)
    found = decode_lists(tally, folder / "five", options)
    memory = decode(tally, [text(number) for number in range(TOTAL)], options)
    assert "(10 %, Bonferroni)" in table(found)  # what another correction would find is not known
    with pytest.raises(Invalid, match=r"must have a row for each candidate, 11,\d+ of asked have none"):
        compare(memory, found)
    for i in np.flatnonzero(found.detected):
        place = memory.index(found.values[i])
        for name in ("estimate", "low", "high", "p_adjusted", "low_selected"):
            assert getattr(found, name)[i] == getattr(memory, name)[place]
        assert found.best_guess[i] == pytest.approx(memory.best_guess[place], rel=0.02)


@pytest.mark.parametrize(
    "shapes",
    [
        [String(num_bits=1, num_hashes=1, num_cohorts=512)],
        [String(num_bits=32, num_hashes=2, num_cohorts=16)],
        [String(num_bits=32, num_hashes=2, num_cohorts=16), String(num_bits=512, num_hashes=1, num_cohorts=2)],
    ],
    ids=["one bit", "two hashes", "two definitions"],
)
def test_any_hash_and_several_definitions_are_spread_alike(world, shapes):
    """Cells with different backgrounds and positions of different widths; single bits, whose zero is a draw, too."""
    folder, _ = world
    rng = np.random.default_rng(3)
    where = digests([text(number) for number in HELD[:4]])
    tallies = [
        tally_of(define(shape), [90_000, 60_000, 40_000, 20_000], rng, positions(shape, where)) for shape in shapes
    ]
    memory = decode(tallies, [text(number) for number in range(TOTAL)])
    found = decode_lists(tallies, folder / "five")
    assert found.detected.sum() == memory.detected.sum() >= 3
    rows = {row["value"]: row for row in memory.rows()}
    for row in found.rows():
        if row["value"] == "other":
            assert row["estimate"] == pytest.approx(rows["other"]["estimate"], rel=1e-8)
            assert row["std_error"] == pytest.approx(rows["other"]["std_error"], rel=1e-8)
        else:
            del row["best_guess"]
            assert row == {name: rows[row["value"]][name] for name in row}
    assert found.tested_besides == TOTAL - sum(role == "answer" for role in found.roles)


def test_looks_at_those_that_were_kept_find_what_passes_over_the_files_would(world, alone, monkeypatch):
    folder, tally = world
    passes: list[str] = []

    def decoded():
        passes.clear()
        found = decode_lists(tally, folder / "all.txt", progress=lambda _, what: passes.append(what))
        return to_json([found]), sum("stand out" in what for what in passes)

    spared = decoded()
    monkeypatch.setattr(Rest, "stays_below", lambda *_: False)
    every = decoded()
    assert spared[0] == every[0] == to_json([alone])
    assert spared[1] < every[1]


def test_nobody_who_was_not_kept_scores_above_what_was_said_to_suffice():
    """Residuals change, as when a heavy string is taken in; no claim is broken by any of 20,000 candidates, and no
    claim could be much bolder."""
    shapes = (String(num_bits=16, num_hashes=2, num_cohorts=4), String(num_bits=64, num_hashes=1, num_cohorts=8))
    seeds = digests([text(number) for number in range(20_000)])
    blocks = (Block(0, 4, 16, 2, 16), Block(64, 8, 64, 1, 64))
    offset = np.concatenate([np.repeat(np.arange(4) * 16, 2), 64 + np.arange(8) * 64])
    hashing = shards.Hashing(shapes, offset, 576)
    rng = np.random.default_rng(2)
    gaps = []
    for _ in range(50):
        before = rng.normal(size=576)
        after = rng.uniform(0.5, 2) * before + rng.normal(size=576) * rng.choice([0.001, 0.01, 0.1])
        scores = [gathered(hashing.where(seeds), offset, cells) for cells in (before, after)]
        floor = float(np.quantile(scores[0], 0.9))
        others = scores[1][scores[0] <= floor].max()
        rest = Rest(before, floor)
        low, high = others - 1, others + 40
        assert rest.stays_below(high, after, blocks)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if rest.stays_below(middle, after, blocks) else (middle, high)
        assert high >= others
        gaps.append(high - others)
    assert min(gaps) < 0.1


def test_the_best_are_kept_in_list_order_and_of_equals_the_first():
    seeds = np.zeros((5, 2), dtype=np.uint64)
    some = shards.Survivors(np.arange(10, 15), seeds, tuple("abcde"), np.array([1.0, 3, 2, 3, 2]), np.zeros(5))
    assert some.best(3).texts == ("b", "c", "d")
    assert some.best(9) is some


def test_whoever_is_left_out_has_at_most_the_floor():
    """The best of many parts, cut now and then: the same as of all at once."""
    values = np.random.default_rng(5).permutation(1000).astype(float)
    best = shards.Best(200.0, 40)
    for start in range(0, 1000, 30):
        numbers = np.arange(start, min(start + 30, 1000))
        numbers = numbers[values[numbers] > 200]
        seeds = np.zeros((len(numbers), 2), dtype=np.uint64)
        part = shards.Best(200.0, 25)
        part.add(shards.Survivors(numbers, seeds, ("",) * len(numbers), values[numbers], values[numbers]))
        best.add(part.found(), part.floor)
    found = best.found()
    expected = np.sort(np.argsort(-values)[:40])
    assert found.numbers.tolist() == expected.tolist()
    assert best.floor == 960
    few = shards.Best(200.0, 0)
    few.add(found)
    assert len(few.found()) == 0
    assert few.floor == np.inf


def test_repeats_are_left_out_wherever_they_stand(world, alone, tmp_path, monkeypatch):
    """In the same file, in another, and written with another accent; also where digests are compared in parts, files
    are cut into stretches, and many different candidates are suspected of being the same."""
    folder, tally = world
    monkeypatch.setattr(repeats, "_PART", 2_500)
    monkeypatch.setattr(repeats, "_SUSPECTS", 300)
    monkeypatch.setattr(repeats, "_fingerprint", lambda keys: (keys >> np.uint64(52)).astype(np.uint32) << 20)
    monkeypatch.setattr("hubbub.analysis.candidate_lists._STRETCH", 50_000)
    monkeypatch.setattr(shards, "PIECE", 300)
    again = [text(HELD[0]), text(HELD[2]).replace("é", "é"), text(5), text(5)]
    (tmp_path / "0.txt").write_bytes((folder / "all.txt").read_bytes() + "\n".join(again[:2]).encode())
    (tmp_path / "1.txt").write_text("\n".join(again[2:]), encoding="utf-8")
    found = decode_lists(tally, tmp_path)
    assert found.notes[0] == "4 repeated candidates were left out."
    assert found.notes[1:] == alone.notes
    assert to_json([found]).replace(f'"{found.notes[0]}",', "").split() == to_json([alone]).split()


@pytest.mark.parametrize("most", [10, TOTAL - 1])
def test_so_many_repeats_that_nobody_could_remember_them_are_refused(world, tmp_path, monkeypatch, most):
    """Before their places are asked for, and when these are known."""
    folder, tally = world
    monkeypatch.setattr(repeats, "_MOST_REPEATS", most)
    for name in ("0.txt", "1.txt"):
        (tmp_path / name).write_bytes((folder / "all.txt").read_bytes())
    with pytest.raises(Invalid, match=f"candidates: at most {most:,} repeats, got more; sort -u leaves each but once"):
        decode_lists(tally, tmp_path)


def test_a_short_list_is_decoded_as_ever(world, tmp_path):
    _, tally = world
    write_text(tmp_path / "a.txt", range(2_000))
    write_text(tmp_path / "b.txt", range(2_000, 4_000))
    listed = [text(number) for number in range(4_000)]
    assert to_json([decode_lists(tally, tmp_path)]) == to_json([decode(tally, listed)])


def test_progress_goes_from_pass_to_pass(world):
    folder, tally = world
    told: list[tuple[float, str]] = []
    decode_lists(tally, folder / "five", progress=lambda share, what: told.append((share, what)))
    assert [share for share, _ in told[:5]] == [0.2, 0.4, 0.6, 0.8, 1.0]
    names = list(dict.fromkeys(what for _, what in told))
    assert names[:3] == ["pass 1: counting", "pass 2: finding repeats", "pass 3: looking for strings that stand out"]
    assert names[-1] == f"pass {len(names)}: estimating"


# --- files --------------------------------------------------------------------------------------------------------


def test_parquet_and_text_hold_the_same_lists(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("hubbub.analysis.candidate_lists._BLOCK", 7)
    listed = ["a", "bb", "é", "x" * 40, "last"]
    (tmp_path / "a.txt").write_bytes("\ufeffa\r\nbb\n\né\n".encode() + b"x" * 40 + b"\nlast")
    pq.write_table(pa.table({"site": ["a", "bb", None, "é", "", "x" * 40, "last"]}), tmp_path / "b.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").touch()
    files = list_files(tmp_path)
    assert files == [str(tmp_path / "a.txt"), str(tmp_path / "b.parquet")]
    for file in files:
        (stretch,) = stretches(file)
        found = [[line.decode() for line in some] for some in pieces(stretch, 2)]
        assert found == [listed[:2], listed[2:4], listed[4:]]
        assert len(listed) <= most_candidates(stretch) <= 7


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_wherever_a_text_is_cut_each_line_is_read_once(tmp_path, monkeypatch, size, end):
    monkeypatch.setattr("hubbub.analysis.candidate_lists._STRETCH", size)
    monkeypatch.setattr("hubbub.analysis.candidate_lists._BLOCK", 3)
    listed = ["a", "bb", "é", "long enough for several stretches", "c", "last"]
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeff\n\n".encode() + "\r\n".join(listed).encode() + end)
    parts = stretches(str(path))
    assert len(parts) == -(-path.stat().st_size // size)
    assert [line.decode() for part in parts for some in pieces(part, 2) for line in some] == listed
    assert sum(map(most_candidates, parts)) >= len(listed)


def test_groups_of_rows_are_read_once_a_few_at_a_time(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    listed = [text(number) for number in range(50)]
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"site": listed}), path, row_group_size=7)
    one_group = pq.ParquetFile(path).metadata.row_group(0).total_byte_size
    monkeypatch.setattr("hubbub.analysis.candidate_lists._STRETCH", int(2.5 * one_group))
    parts = stretches(path)
    assert [(part.begin, part.end) for part in parts] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [line.decode() for part in parts for some in pieces(part, 5) for line in some] == listed
    assert [most_candidates(part) for part in parts] == [14, 14, 14, 8]
    pq.write_table(pa.table({"site": pa.array([], type=pa.string())}), path)
    assert [*pieces(*stretches(path), 5)] == []


def test_files_that_are_no_lists_are_refused_by_their_name(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("hubbub.analysis.candidate_lists._BLOCK", 4)
    with pytest.raises(Invalid, match=r"must hold lists of candidates, text or \.parquet, got no file"):
        list_files(tmp_path)
    wrong = tmp_path / "wrong.txt"
    wrong.write_bytes(b"good\nbad \xff\n")
    with pytest.raises(Invalid, match=r"wrong.txt: must be UTF-8, got a wrong byte at 9$"):
        list(pieces(Stretch(str(wrong), 0, 100), 10))
    with pytest.raises(Invalid, match=r"wrong.txt: must be UTF-8, got a wrong byte at 9$"):
        list(pieces(Stretch(str(wrong), 3, 100), 10))
    numbers = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), numbers)
    with pytest.raises(Invalid, match=r"numbers.parquet: must have one column of strings, got a: int64, b: string"):
        stretches(str(numbers))
    numbers.write_text("no parquet")
    with pytest.raises(Invalid, match=r"numbers.parquet: must be Parquet, got "):
        stretches(str(numbers))


def test_a_bad_file_is_named_whoever_reads_it(world, tmp_path):
    _, tally = world
    (tmp_path / "0.txt").write_text("fine\n")
    (tmp_path / "1.txt").write_bytes(b"\xff\n")
    engine = engine_from("local:2")
    try:
        with pytest.raises(Invalid, match=r"1.txt: must be UTF-8, got a wrong byte at 0"):
            decode_lists(tally, tmp_path, engine=engine)
    finally:
        engine.close()


# --- what does not go together ------------------------------------------------------------------------------------


def test_what_a_long_list_cannot_give_is_refused_in_words(world, tmp_path, monkeypatch):
    folder, tally = world
    with pytest.raises(Invalid, match="correction must be bonferroni for a list of 12,000 candidates"):
        decode_lists(tally, folder / "five", Options(correction="benjamini-hochberg"))
    monkeypatch.setattr("hubbub.analysis.kinds.string_lists.MOST_CANDIDATES", 10_000)
    nobody = type(tally)(tally.metric, {})
    with pytest.raises(Invalid, match="a list of 12,000 needs reports to be judged by, got none"):
        decode_lists(nobody, folder / "five")
    shape = String(num_bits=16, num_hashes=1, num_cohorts=4)
    few = tally_of(define(shape), [1_000], np.random.default_rng(1), np.zeros((4, 1), dtype=np.uint8))
    with pytest.raises(Invalid, match="at most 10,000 where cohorts are so few that strings share all their bits"):
        decode_lists(few, folder / "five")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "local:2"], "--engine local:2: it spreads lists of candidates, and no --candidates were given"),
        (["--candidates", "five", "--against", "tally.json"], "a comparison needs a row for each candidate"),
        (["--candidates", "five", "--engine", "cloud"], "engine must be local, local:N"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(world, monkeypatch, arguments, words):
    folder, _ = world
    monkeypatch.chdir(folder)
    with pytest.raises(Invalid, match=words):
        command("tally.json", *arguments)


def test_one_file_with_an_engine_is_a_list_of_one_file(world, alone, capsys):
    folder, _ = world
    command(folder / "tally.json", "--candidates", f"asked={folder / 'all.txt'}", "--engine", "local:1", "--json")
    out = capsys.readouterr().out
    assert out == to_json([alone])
    assert len(json.loads(out)[0]["rows"]) < 40


def test_a_file_that_is_too_long_for_memory_is_read_in_pieces(world, alone, monkeypatch, capsys):
    """More lines than memory is used for: as with an engine. It was refused before."""
    folder, _ = world
    for place in ("candidate_lists", "candidates_file", "kinds.string_lists"):
        monkeypatch.setattr(f"hubbub.analysis.{place}.MOST_CANDIDATES", TOTAL - 1)
    command(folder / "tally.json", "--candidates", folder / "all.txt", "--json")
    assert capsys.readouterr().out == to_json([alone])


def test_what_a_list_is_says_whether_it_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("hubbub.analysis.candidate_lists.MOST_CANDIDATES", 3)
    for name, content, long in (
        ("short.txt", "a\nb\nc\n", False),
        ("few long lines.txt", "aaaa\nbbbb\ncccc\n", False),
        ("long.txt", "a\nb\nc\nd\n", True),
        ("short.parquet", "", True),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert is_long(tmp_path / name) is long, name
    assert is_long(tmp_path)
    assert not is_long(tmp_path / "none.txt")


def test_a_piece_finds_those_of_its_own_numbers_and_no_other():
    def nothing(values):
        return values

    piece = shards.Piece(np.array([3, 4, 6]), [b"c", b"d", b"f"], np.zeros((3, 2), np.uint64), nothing, nothing)
    assert piece.places(np.array([1, 3, 6, 7, 9])).tolist() == [0, 2]
    assert piece.places(np.array([4])).tolist() == [1]
    assert piece.places(np.array([1, 2, 7])).tolist() == []
