"""The files of google/rappor: read its params, counts and map; write its results.

`params.csv` has the header k,h,m,p,q,f and one row. `counts.csv` has one row per cohort: reports, then k bit counts.
`map.csv` has one row per candidate: the string, then m x h one-based indices cohort x k + bit + 1, in which a position
may come twice. The hash behind the map is not ours; decoding takes the design as it is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hubbub.analysis.estimation.cells import Cohort, PooledTally, TwoStageNoise
from hubbub.analysis.estimation.design import cohort_design
from hubbub.analysis.estimation.hashing import Positions
from hubbub.analysis.estimation.threads import one_thread
from hubbub.analysis.kinds.string_rows import judge
from hubbub.analysis.options import Options
from hubbub.analysis.result import Decoding
from hubbub.protocol.invalid import Invalid, require
from hubbub.protocol.kinds import String
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise

HEADER = ["k", "h", "m", "p", "q", "f"]
_NOTE = (
    "These files do not say how unknown strings are hashed: `absent` and `other` are told apart only if evenly; "
    "their sum is sure."
)
RESULT = ["string", "estimate", "std_error", "proportion", "prop_std_error", "prop_low_95", "prop_high_95"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """RAPPOR's parameters, by its own names."""

    k: int
    h: int
    m: int
    p: float
    q: float
    f: float

    def __post_init__(self) -> None:
        require(self._broken_rules())

    def _broken_rules(self) -> Iterator[str]:
        if not 1 <= self.k <= 65_536:
            yield f"k must be in [1, 65536], got {self.k}"
        if not 1 <= self.h <= self.k:
            yield f"h must be in [1, k={self.k}], got {self.h}"
        if not 1 <= self.m <= 65_536:
            yield f"m must be in [1, 65536], got {self.m}"
        for name in ("p", "q", "f"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"{name} must be in [0, 1], got {getattr(self, name)}"
        if self.p == self.q:
            yield f"p and q must differ, got {self.p} for both"
        if self.f == 1:
            yield "f must be below 1, or reports say nothing, got 1"

    @property
    def noise(self) -> TwoStageNoise:
        return TwoStageNoise(1 - self.f / 2, self.f / 2, self.q, self.p)


def decode_rappor(params_file: str, counts_file: str, map_file: str, options: Options) -> Decoding:
    params = read_params(params_file)
    reports, ones = read_counts(counts_file, params)
    strings, where = read_map(map_file, params)
    cohorts = tuple(
        Cohort(
            noise=params.noise,
            reports=float(total),
            ones=row.astype(np.float64),
            sampling=1 / total if total else np.inf,
        )
        for total, row in zip(reports.tolist(), ones, strict=True)
    )
    total = float(reports.sum())
    pool = PooledTally(
        metric=_stand_in(counts_file), epochs=(), cohorts=cohorts, sampling=1 / total if total else np.inf
    )
    # Two of h independent hashes may meet, so a mask has k (1 - (1 - 1/k)^h) bits on average, not always h.
    background = 1 - (1 - 1 / params.k) ** params.h
    with one_thread():
        design = cohort_design(cohorts, where, draws=params.h, background=background, idle=1, constant_weight=False)
        return judge([pool], design, strings, design.duplicate_of(), options, [_NOTE])


def _stand_in(counts_file: str) -> Definition:
    """A name for the table; everything that decoding depends on comes from the files."""
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in Path(counts_file).stem.lower())
    name = (letters if letters[:1].isalpha() else f"m_{letters}")[:64]
    noise = rappor_noise(Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))
    return Definition(name=name, every="once", shape=String(num_bits=8, num_hashes=1, num_cohorts=1), noise=noise)


def read_params(path: str) -> Params:
    rows = _read(path)
    if not rows or [cell.strip() for cell in rows[0]] != HEADER:
        raise Invalid(
            [f"{path}: the header must be {','.join(HEADER)}, got {','.join(rows[0]) if rows else 'nothing'}"]
        )
    if len(rows) != 2 or len(rows[1]) != len(HEADER):
        raise Invalid([f"{path}: one row of {len(HEADER)} numbers must follow the header, got {len(rows) - 1} rows"])
    k, h, m = (_whole(path, 2, name, cell) for name, cell in zip(HEADER, rows[1][:3], strict=False))
    p, q, f = (_real(path, name, cell) for name, cell in zip(HEADER[3:], rows[1][3:], strict=True))
    try:
        return Params(k=k, h=h, m=m, p=p, q=q, f=f)
    except Invalid as error:
        raise Invalid(f"{path}: {problem}" for problem in error.problems) from None


def read_counts(path: str, params: Params) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Reports per cohort, and bit counts."""
    rows = _read(path)
    if len(rows) != params.m:
        raise Invalid([f"{path}: must have m={params.m} rows, one per cohort, got {len(rows)}"])
    table = np.zeros((params.m, params.k + 1), dtype=np.int64)
    for line, (row, out) in enumerate(zip(rows, table, strict=True), 1):
        if len(row) != params.k + 1:
            raise Invalid([f"{path}, line {line}: must have 1 + k={params.k} numbers, got {len(row)}"])
        out[:] = [_whole(path, line, "a count", cell) for cell in row]
        if out.min() < 0 or out[1:].max(initial=0) > out[0]:
            raise Invalid(
                [f"{path}, line {line}: bit counts must be in [0, {out[0]}], got {out[1:].min()} to {out[1:].max()}"]
            )
    return table[:, 0], table[:, 1:]


def read_map(path: str, params: Params) -> tuple[list[str], Positions]:
    """The candidates, and their positions; a repeated position points to the idle cell after the cohort's bits."""
    rows = [row for row in _read(path) if row]
    per_row = params.m * params.h
    table = np.zeros((len(rows), per_row), dtype=np.int64)
    for line, (row, out) in enumerate(zip(rows, table, strict=True), 1):
        if len(row) != per_row + 1:
            raise Invalid(
                [f"{path}, line {line}: must have a string and m x h = {per_row} indices, got {len(row) - 1}"]
            )
        out[:] = [_whole(path, line, "an index", cell) for cell in row[1:]]
    # Indices come cohort by cohort.
    start = np.repeat(np.arange(params.m) * params.k, params.h)
    where = table - 1 - start
    wrong = np.argwhere((where < 0) | (where >= params.k))
    if len(wrong):
        line, column = wrong[0]
        low, high = start[column] + 1, start[column] + params.k
        raise Invalid(
            [
                f"{path}, line {line + 1}: index {column + 1} belongs to cohort {column // params.h} and must be in "
                f"[{low}, {high}], got {table[line, column]}"
            ]
        )
    by_cohort = where.reshape(len(rows), params.m, params.h)
    for i in range(1, params.h):
        again = (by_cohort[:, :, :i] == by_cohort[:, :, i : i + 1]).any(axis=2)
        by_cohort[:, :, i][again] = params.k
    dtype = np.uint8 if params.k < 256 else np.uint16 if params.k < 65_536 else np.uint32
    return [row[0] for row in rows], np.ascontiguousarray(where.T.astype(dtype))


def to_rappor(decoding: Decoding) -> str:
    """A decoding as google/rappor's own decoder would have written it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RESULT)
    writer.writerows(_result_rows(decoding))
    return out.getvalue()


def _result_rows(decoding: Decoding) -> Iterator[list[object]]:
    """The detected strings in google/rappor's columns, the largest first; its estimates are counts of reports."""
    n = decoding.num_reports
    chosen = [i for i in np.argsort(-decoding.estimate, kind="stable") if decoding.detected[i]]
    for i in chosen:
        if decoding.roles[i] != "answer":
            continue
        share, error = float(decoding.estimate[i]), float(decoding.std_error[i])
        yield [
            decoding.values[i],
            share * n,
            error * n,
            share,
            error,
            float(decoding.low[i]),
            float(decoding.high[i]),
        ]


def _read(path: str) -> list[list[str]]:
    try:
        with Path(path).open(encoding="utf-8", newline="") as lines:
            return list(csv.reader(lines))
    except UnicodeDecodeError as error:
        raise Invalid([f"{path}: must be UTF-8, got a wrong byte at {error.start}"]) from None
    except csv.Error as error:
        raise Invalid([f"{path}: must be CSV: {error}"]) from None


def _whole(path: str, line: int, name: str, cell: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise Invalid([f"{path}, line {line}: {name} must be a whole number, got {cell!r}"]) from None


def _real(path: str, name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise Invalid([f"{path}: {name} must be a number, got {cell!r}"]) from None
