"""Strings: a share for every candidate, found among hashed bits; what a plan of them says of shapes and of RAPPOR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from hubbub.analysis.estimation.cells import PooledTally
from hubbub.analysis.estimation.design import Design, cohort_design, together
from hubbub.analysis.estimation.detection import Rule
from hubbub.analysis.estimation.hashing import Words, canonical, digests, positions
from hubbub.analysis.estimation.planned_strings import PlannedStrings
from hubbub.analysis.estimation.string_screen import fits_all
from hubbub.analysis.kinds.factor import Factor
from hubbub.analysis.kinds.kind import Kind, PlanOption, Pools, Sketch
from hubbub.analysis.kinds.published_rappor import rappor_at
from hubbub.analysis.kinds.string_factor import string_factor
from hubbub.analysis.kinds.string_rows import judge
from hubbub.analysis.options import Options
from hubbub.analysis.result import ANSWER, Decoding
from hubbub.protocol.channel import Noise
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String

CELLS_PER_STRING = 20
"""Cells for each string expected: the variance then inflates by 1/19 at most."""


def decode_string(pools: Pools, candidates: Sequence[str], options: Options) -> Decoding:
    """Design, weigh, estimate, judge; for candidates as an analyst lists them, repeats and all."""
    listed = distinct(candidates)
    design = string_design(pools, digests(listed))
    notes = []
    if len(listed) < len(candidates):
        notes.append(f"{len(candidates) - len(listed)} repeated candidates were left out.")
    if not listed:
        notes.append("No candidates were given (--candidates FILE): only `absent` and `other` can be estimated.")
    return judge(pools, design, listed, design.duplicate_of(hashed=True), options, notes)


def _factor(pool: PooledTally, candidates: Sequence[str], options: Options) -> Factor:
    if not candidates:
        raise Invalid([f"a crosstab of {pool.metric.name}, a string, needs candidates: a list of strings to look for"])
    return string_factor(pool, decode_string([pool], candidates, options))


def distinct(candidates: Sequence[str]) -> list[str]:
    """Each candidate once: texts that differ only in how their accents are composed are one string to the client."""
    if all(map(str.isascii, candidates)):
        return list(dict.fromkeys(candidates))
    found: dict[bytes, str] = {}
    for text in candidates:
        found.setdefault(canonical(text), text)
    return list(found.values())


def string_design(pools: Pools, seeds: Words) -> Design:
    """The design of candidates with these digests, over the cohorts of one or more definitions."""
    return together([_part(pool, seeds) for pool in pools], [pool.metric.shape for pool in pools])


def _part(pool: PooledTally, seeds: Words) -> Design:
    shape = pool.metric.shape
    assert isinstance(shape, String)
    parity = shape.num_bits == 1
    return cohort_design(
        pool.cohorts,
        positions(shape, seeds),
        draws=shape.num_hashes,
        background=0.5 if parity else shape.num_hashes / shape.num_bits,
        # A parity bit is a draw from two cells, of which only one is counted.
        idle=int(parity),
        constant_weight=not parity,
    )


# --- planning -----------------------------------------------------------------------------------------------------


def string_shape(strings: int) -> String:
    """One hash, 64 bits (3 % above the best), and cohorts enough for the strings expected, at least 16."""
    cohorts = max(16, CELLS_PER_STRING * strings / 64)
    return String(num_bits=64, num_hashes=1, num_cohorts=min(65_536, 1 << ceil(cohorts - 1).bit_length()))


def _in_cells(shape: String, noise: Noise, strings: int) -> PlannedStrings:
    return PlannedStrings(shape.num_bits, shape.num_hashes, shape.num_cohorts, noise, strings)


def _unit_variance(shape: String, noise: Noise, share: float, strings: int) -> float:
    return _in_cells(shape, noise, strings).unit_variance(share)


def _line(shape: String, noise: Noise, share: float, strings: int, reports: float, rule: Rule) -> float:
    return _in_cells(shape, noise, strings).detected_from(share, reports, rule)


def _planned(given: Mapping[str, int], strings: int) -> String:
    advised = string_shape(strings)
    return String(
        num_bits=given.get("num_bits") or advised.num_bits,
        num_hashes=given["num_hashes"],
        num_cohorts=given.get("num_cohorts") or advised.num_cohorts,
    )


def _toml(shape: String) -> str:
    return f"num_bits = {shape.num_bits}\nnum_hashes = {shape.num_hashes}\nnum_cohorts = {shape.num_cohorts}"


def _plan_problems(shape: String, strings: int) -> Iterator[str]:
    cells = shape.num_bits * shape.num_cohorts
    if strings >= cells:
        yield f"strings must be below num_bits x num_cohorts = {cells}, got {strings}"
    if shape.num_cohorts == 1:
        yield "num_cohorts must be at least 2 to tell a listed string from others, got 1"


def _plan_remarks(sketch: Sketch[String]) -> list[str]:
    shape = sketch.shape
    rappor = rappor_at(sketch.epsilon_one_report, sketch.epsilon_permanent)
    ours = _unit_variance(shape, sketch.noise, 0.0, sketch.strings)
    return [
        f"Shape: num_bits = {shape.num_bits}, num_hashes = {shape.num_hashes}, num_cohorts = {shape.num_cohorts}"
        + (f", for {sketch.strings:,} strings." if sketch.strings else "."),
        f"RAPPOR at the same epsilons (2 hashes, p = 0.5, q = {rappor.prob_q:.3f}, f = {rappor.prob_f:.3f}) would need "
        f"{rappor.unit_variance / ours:.1f} times the reports.",
    ]


def _plan_warnings(sketch: Sketch[String]) -> list[str]:
    cells = sketch.shape.num_bits * sketch.shape.num_cohorts
    if fits_all(sketch.candidates, cells):
        return []
    return [
        f"{sketch.candidates:,} candidates are too many for {cells:,} cells (num_bits x num_cohorts) to be estimated "
        "together: strings that are too rare to be detected add noise that is not planned here, and the power may be "
        "far less. num_cohorts so large that they are a tenth of the cells avoids that."
    ]


STRING: Kind[String] = Kind(
    decode=decode_string,
    unit_variance=_unit_variance,
    planned=_planned,
    toml=_toml,
    tested=lambda shape, candidates: candidates,
    line=_line,
    factor=_factor,
    released=lambda decoding: [i for i in decoding.detected.nonzero()[0].tolist() if decoding.roles[i] == ANSWER],
    plan_options=(
        PlanOption("num_bits", None, "string (default: 64)"),
        PlanOption("num_hashes", 1, "string (default: 1)"),
        PlanOption("num_cohorts", None, "string (default: enough for --strings)"),
    ),
    plan_problems=_plan_problems,
    plan_warnings=_plan_warnings,
    plan_remarks=_plan_remarks,
)
