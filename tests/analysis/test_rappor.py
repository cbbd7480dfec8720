"""Files of google/rappor: read, decoded with a hash that is not ours, written in its columns."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from hubbub.analysis.options import Options
from hubbub.analysis.rappor import decode_rappor, read_counts, read_map, read_params, to_rappor
from hubbub.protocol.invalid import Invalid

K, H, M = 32, 2, 8


def write_files(folder, rng, *, f=0.5, p=0.25, q=0.75, count=60, held=(600_000, 300_000, 100_000)):
    """A world with a hash of its own: positions drawn at random, sometimes the same twice."""
    positions = rng.integers(0, K, (count, M, H))
    p_star, q_star = (f * (p + q) / 2 + (1 - f) * x for x in (p, q))
    cohort = [rng.multinomial(n, [1 / M] * M) for n in held]
    rows = []
    for c in range(M):
        ones = np.zeros(K, dtype=int)
        for string, sizes in enumerate(cohort):
            ones[np.unique(positions[string, c])] += sizes[c]
        n = sum(sizes[c] for sizes in cohort)
        rows.append([n, *(rng.binomial(ones, q_star) + rng.binomial(n - ones, p_star))])
    (folder / "params.csv").write_text(f"k,h,m,p,q,f\n{K},{H},{M},{p},{q},{f}\n")
    (folder / "counts.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    indices = positions + 1 + K * np.arange(M)[:, np.newaxis]
    lines = [f'"string, {i}",' + ",".join(map(str, indices[i].ravel())) for i in range(count)]
    (folder / "map.csv").write_text("\n".join(lines) + "\n")
    return [str(folder / name) for name in ("params.csv", "counts.csv", "map.csv")]


@pytest.mark.parametrize("count", [10, 60, 400])
def test_intervals_cover_with_a_hash_that_is_not_ours(tmp_path, count):
    rng = np.random.default_rng(count)
    truth = np.zeros(count)
    truth[:3] = 0.6, 0.3, 0.1
    hits = 0
    for _ in range(20):
        found = decode_rappor(*write_files(tmp_path, rng, count=count), Options())
        hits += int(((found.low[:count] <= truth) & (truth <= found.high[:count])).sum())
        assert found.detected[:3].all()
    assert hits >= 0.93 * 20 * count


def test_a_channel_that_never_says_one_for_zero_decodes(tmp_path):
    found = decode_rappor(*write_files(tmp_path, np.random.default_rng(1), f=0, p=0.0, q=0.5, count=10), Options())
    assert np.isfinite(found.estimate).all()
    assert any("`absent` and `other` are told apart only if evenly" in note for note in found.notes)
    assert found.estimate[:3] == pytest.approx([0.6, 0.3, 0.1], abs=0.02)


def test_results_are_written_in_their_columns_the_largest_first(tmp_path):
    found = decode_rappor(*write_files(tmp_path, np.random.default_rng(2)), Options())
    rows = list(csv.DictReader(io.StringIO(to_rappor(found))))
    assert list(rows[0]) == [
        "string",
        "estimate",
        "std_error",
        "proportion",
        "prop_std_error",
        "prop_low_95",
        "prop_high_95",
    ]
    assert [row["string"] for row in rows[:3]] == ["string, 0", "string, 1", "string, 2"]
    first = rows[0]
    assert float(first["estimate"]) == pytest.approx(float(first["proportion"]) * 1_000_000)
    assert float(first["prop_low_95"]) < 0.6 < float(first["prop_high_95"])


def test_a_position_that_comes_twice_counts_once(tmp_path):
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n4,2,1,0.25,0.75,0.5\n")
    (tmp_path / "map.csv").write_text("a,2,2\nb,1,3\n")
    params = read_params(str(tmp_path / "params.csv"))
    names, where = read_map(str(tmp_path / "map.csv"), params)
    assert names == ["a", "b"]
    assert where.T.tolist() == [[1, 4], [0, 2]]  # 4 is the idle cell behind the cohort's bits


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("params.csv", "k,h,m\n1,1,1\n", "the header must be k,h,m,p,q,f, got k,h,m"),
        ("params.csv", "k,h,m,p,q,f\n", "one row of 6 numbers must follow the header, got 0 rows"),
        ("params.csv", "k,h,m,p,q,f\n4,2,1,0.5,0.5,0.5\n", "p and q must differ, got 0.5 for both"),
        ("params.csv", "k,h,m,p,q,f\n4,9,1,0.5,0.6,1\n", "h must be in .1, k=4., got 9"),
        ("params.csv", "k,h,m,p,q,f\n4,x,1,0.5,0.6,0\n", "h must be a whole number, got 'x'"),
        ("params.csv", "k,h,m,p,q,f\n4,1,1,y,0.6,0\n", "p must be a number, got 'y'"),
        ("counts.csv", "10,1,1,1,1\n10,1,1,1,1\n", "must have m=1 rows, one per cohort, got 2"),
        ("counts.csv", "10,1,1\n", "line 1: must have 1 . k=4 numbers, got 3"),
        ("counts.csv", "10,1,1,1,11\n", "bit counts must be in .0, 10., got 1 to 11"),
        ("map.csv", "a,1\n", "must have a string and m x h = 2 indices, got 1"),
        ("map.csv", "a,1,9\n", "index 2 belongs to cohort 0 and must be in .1, 4., got 9"),
        ("map.csv", "a,1,0\n", "must be in .1, 4., got 0"),
    ],
)
def test_files_that_are_wrong_are_refused_with_line_rule_and_value(tmp_path, file, text, words):
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n4,2,1,0.25,0.75,0.5\n")
    (tmp_path / file).write_text(text)

    def read():
        params = read_params(str(tmp_path / "params.csv"))
        if file == "counts.csv":
            read_counts(str(tmp_path / file), params)
        if file == "map.csv":
            read_map(str(tmp_path / file), params)

    with pytest.raises(Invalid, match=words):
        read()
