"""hubbub agrees with the golden vectors, which a second implementation derived from docs/wire-format.md alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.client.respond import RandomDraws, respond
from hubbub.protocol import bloom, prefixes, wire
from hubbub.protocol.encoding import ABSENT, WrongValue
from hubbub.protocol.fields import read_fields
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import shape_class
from hubbub.protocol.metric import Definition
from hubbub.protocol.noise import rappor_noise
from hubbub.protocol.pair import PairTally, count_pairs
from hubbub.protocol.refusal import Refused
from hubbub.protocol.report import by_short_hash
from hubbub.protocol.tally import Tally, count

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def vectors(name: str) -> list[Any]:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))


DEFINITIONS = {case["definition"]["name"]: case for case in vectors("definitions")}
METRICS = {name: Definition.from_json(case["definition"]) for name, case in DEFINITIONS.items()}
KNOWN = by_short_hash(METRICS.values())


def about(case: Any) -> str:
    return case["about"]


def bytes_of(case: Any) -> bytes:
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    text, times = case.get("then_repeated", ["", 0])
    return (case["utf8"] + text * times).encode()


def value_of(raw: Any) -> Any:
    match raw:
        case None:
            return ABSENT
        case {"flag": flag}:
            return flag
        case {"text": text}:
            return text
        case {"texts": texts}:
            return texts
        case {"number": number}:
            return Fraction(number)
        case {"factors": factors}:
            return [value_of(factor) for factor in factors]
        case {"float": number}:
            return float(number)
        case {"utf16": units}:
            return bytes.fromhex(units).decode("utf-16-be", "surrogatepass")


def test_the_vectors_are_what_the_second_implementation_derives() -> None:
    done = subprocess.run([sys.executable, VECTORS / "derive.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_second_implementation_shares_no_code_with_the_first() -> None:
    imported = {
        name.partition(".")[0]
        for path in VECTORS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert imported - {path.stem for path in VECTORS.glob("*.py")} <= sys.stdlib_module_names


def test_every_vector_file_is_explained() -> None:
    readme = (VECTORS / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(VECTORS.iterdir()) if path.is_file() and f"`{path.name}`" not in readme] == [
        "README.md"
    ]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_has_the_noise_its_registry_asks_for(name: str) -> None:
    case = DEFINITIONS[name]
    wanted = case["definition"]
    problems: list[str] = []
    cls = shape_class(wanted["kind"], wanted["shape"])
    names = {"named": tuple(wanted["named"])} if "named" in wanted else {}
    shape = cls(**read_fields(wanted["shape"], *cls.readers(), problems), **names)
    given = {key: Fraction(value) for key, value in case["noise"].items()}
    once = wanted["every"] == "once"
    if "prob_f" in given:
        noise = rappor_noise(**given)
    elif "hold" in given:
        hold, answers = int(given["hold"]), int(given["max_values"])
        noise = shape.history_noise(shape.best_history(given["epsilon_history"], hold, answers))
    else:
        noise = shape.best_noise(**given, once=once)
    assert not problems
    accumulate = wanted.get("accumulate", "first")
    segment = tuple(sorted(wanted.get("segment", {}).items()))
    made = Definition(
        name=name,
        every=wanted["every"],
        shape=shape,
        noise=noise,
        accumulate=accumulate,
        segment=segment,
        sample=Fraction(wanted.get("sample", 1)),
    )
    assert made.described() == wanted


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_has_the_hash_the_cohorts_and_the_widths_of_its_vector(name: str) -> None:
    case, metric = DEFINITIONS[name], METRICS[name]
    shape = metric.shape
    assert metric.metric_hash == case["metric_hash"]
    assert shape.num_cohorts == case["num_cohorts"]
    assert [shape.width(0), shape.width(shape.num_cohorts - 1)] == case["widths_of_first_and_last_cohort"]


@pytest.mark.parametrize("case", vectors("hash"), ids=lambda case: ascii(case["text"])[:24])
def test_a_text_hashes_to_the_positions_of_its_vector(case: Any) -> None:
    assert bloom.canonical_text(case["text"]).hex() == case["utf8_of_nfc"]
    digest = bloom.digest(case["text"])
    assert [f"{half:016x}" for half in digest] == case["h1_h2"]
    for row in case["positions"]:
        assert bloom.positions(digest, row["cohort"], row["num_bits"], row["num_hashes"]) == row["positions"]


@pytest.mark.parametrize("case", vectors("prefixes"), ids=lambda case: f"{case['bytes'][:24]} {case['ends']}")
def test_a_beginning_hashes_to_the_state_and_positions_of_its_vector(case: Any) -> None:
    state = prefixes.state_of([*bytes.fromhex(case["bytes"]), *([prefixes.END] if case["ends"] else [])])
    assert f"{state:016x}" == case["state"]
    for row in case["positions"]:
        assert prefixes.position(state, row["cohort"], row["num_bits"]) == row["position"]


@pytest.mark.parametrize("name", sorted({case["metric"] for case in vectors("masks")}))
def test_a_value_has_the_mask_of_its_vector(name: str) -> None:
    shape = METRICS[name].shape
    for case in vectors("masks"):
        if case["metric"] == name:
            mask = int.from_bytes(bytes.fromhex(case["mask"]), "little")
            value, dither = value_of(case["value"]), int(case["dither"])
            if shape.factors:
                values = [ABSENT, ABSENT] if value is ABSENT else value
                value = tuple(f.category(each, dither) for f, each in zip(shape.factors, values, strict=True))
            found = shape.encode(value, case["cohort"], dither)
            assert (found.mask, found.clamped) == (mask, case["clamped"]), case


@pytest.mark.parametrize("case", vectors("bad_values"), ids=lambda case: f"{case['metric']} {case['value']}")
def test_a_bad_value_has_no_mask(case: Any) -> None:
    with pytest.raises(WrongValue):
        METRICS[case["metric"]].shape.encode(value_of(case["value"]), 0)


@pytest.mark.parametrize("name", METRICS)
def test_a_response_is_that_of_its_vector(name: str) -> None:
    for case in vectors("responses"):
        if case["metric"] == name:
            chances = iter([bytes.fromhex(case["random_of_memo"]), bytes.fromhex(case["random_of_bits"])])

            def random(size: int, chances: Any = chances) -> bytes:
                chance: bytes = next(chances)
                assert len(chance) == size
                return chance

            mask, memo, bits = (
                int.from_bytes(bytes.fromhex(case[stage]), "little") for stage in ("mask", "memo", "bits")
            )
            found = respond(METRICS[name], mask, case["cohort"], random)
            assert (found.memo, found.bits) == (memo, bits)


@pytest.mark.parametrize("case", vectors("histories"), ids=lambda case: case["metric"])
def test_the_flags_of_a_history_are_those_of_its_vector(case: Any) -> None:
    chance, begin = bytes.fromhex(case["random"]), 0

    def random(size: int) -> bytes:
        nonlocal begin
        begin += size
        return chance[begin - size : begin]

    history = METRICS[case["metric"]].noise.history
    assert history is not None
    assert RandomDraws(random).flags(history) == case["flags"]
    assert begin == len(chance)


@pytest.mark.parametrize("case", vectors("batches"), ids=about)
def test_a_batch_has_the_bytes_of_its_vector_in_both_forms(case: Any) -> None:
    message = bytes.fromhex(case["packed"])
    batch = wire.unpack(message, KNOWN)
    assert wire.pack(batch) == message
    assert wire.to_json(batch) == case["json"]
    assert wire.from_json(json.dumps(case["json"]).encode(), KNOWN) == batch


@pytest.mark.parametrize("case", vectors("good_json"), ids=about)
def test_a_json_batch_may_be_written_in_any_way_that_json_allows(case: Any) -> None:
    assert wire.pack(wire.from_json(bytes_of(case), KNOWN)).hex() == case["packed"]


@pytest.mark.parametrize("case", vectors("bad_packed"), ids=about)
def test_a_bad_packed_batch_is_refused_for_its_reason(case: Any) -> None:
    with pytest.raises(Refused) as caught:
        wire.unpack(bytes.fromhex(case["packed"]), KNOWN)
    assert caught.value.reason == case["reason"]
    assert caught.value.detail


@pytest.mark.parametrize("case", vectors("bad_json"), ids=about)
def test_a_bad_json_batch_is_refused_for_its_reason(case: Any) -> None:
    with pytest.raises(Refused) as caught:
        wire.from_json(bytes_of(case), KNOWN)
    assert caught.value.reason == case["reason"]
    assert caught.value.detail


@pytest.mark.parametrize("case", vectors("tallies"), ids=lambda case: case["sum"]["metric"]["name"])
def test_tallies_are_read_written_and_added_as_their_vectors(case: Any) -> None:
    one, other = (Tally.from_json(json.dumps(case[key])) for key in ("one", "other"))
    assert json.loads((one + other).to_json()) == case["sum"]
    assert json.loads(one.to_json()) == case["one"]


@pytest.mark.parametrize("case", vectors("pair_tallies"), ids=lambda case: case["sum"]["pair"]["name"])
def test_pairs_are_counted_read_written_and_added_as_their_vectors(case: Any) -> None:
    one, other = (PairTally.from_json(json.dumps(case[key])) for key in ("one", "other"))
    assert [list(cohorts) for cohorts in one.pair.cohort_pairs] == case["cohort_pairs"]
    assert json.loads((one + other).to_json()) == case["sum"]
    known = by_short_hash(one.pair.metrics)
    batches = [wire.from_json(json.dumps(message).encode(), known) for message in case["batches"]]
    assert json.loads(count_pairs(one.pair, batches).to_json()) == case["one"] == json.loads(one.to_json())


@pytest.mark.parametrize("case", vectors("bad_pair_tallies"), ids=about)
def test_a_bad_pair_tally_is_refused(case: Any) -> None:
    with pytest.raises(Invalid) as caught:
        PairTally.from_json(bytes_of(case))
    assert all(caught.value.problems)


@pytest.mark.parametrize("case", vectors("batches"), ids=about)
def test_counting_a_batch_counts_its_bits(case: Any) -> None:
    """Against a count that shares nothing with `count`: the hex digits of the JSON form."""
    batch = wire.unpack(bytes.fromhex(case["packed"]), KNOWN)
    for name in {row["metric"] for row in case["json"]["reports"]}:
        rows = [row for row in case["json"]["reports"] if row["metric"] == name]
        tally = count(METRICS[name], [r for r in batch.reports if r.metric.name == name])
        assert tally.num_reports == len(rows)
        ones = sum(sum(map(sum, counts.bit_counts)) for counts in tally.epochs.values())
        assert ones == sum(bin(int(row["bits"], 16)).count("1") for row in rows)


@pytest.mark.parametrize("case", vectors("bad_tallies"), ids=about)
def test_a_bad_tally_is_refused(case: Any) -> None:
    with pytest.raises(Invalid) as caught:
        Tally.from_json(bytes_of(case))
    assert all(caught.value.problems)
