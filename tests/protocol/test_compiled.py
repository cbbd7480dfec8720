"""`hubbub compile`: what it writes is what a second implementation derives, and no kind is compiled unasked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hubbub.command.main import main
from hubbub.protocol.agreement import agreement, beyond
from hubbub.protocol.changes import asks_more
from hubbub.protocol.compiled import compiled, compiled_text
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.kinds import String
from hubbub.protocol.label import short, words
from hubbub.protocol.metric import Metric
from hubbub.protocol.registry import Registry
from tests.protocol.test_changes import CHANGES, REDEFINED
from tests.protocol.test_vectors import vectors
from tests.protocol.toml import SHAPES, registry, source

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "metrics.toml"
PAGE = (ROOT / "docs" / "compiled-registry.md").read_text(encoding="utf-8")
CASES = vectors("compiled")


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_registry_compiles_to_its_vector(case: Any) -> None:
    made = compiled(Registry.parse(case["toml"]))
    for key in ("consent", "fingerprint"):
        del made[key]  # no client computes with them
    assert made == case["compiled"]


def test_people_are_shown_what_hubbub_would_show_them() -> None:
    asked = Registry.load(EXAMPLE)
    made = compiled(asked)
    assert made["consent"] == {"short": short(asked), "label": words(asked)}
    assert made["fingerprint"] == asked.fingerprint


def test_every_hash_is_that_of_a_definition_that_messages_can_be_of() -> None:
    asked = Registry.load(EXAMPLE)
    hashes = [name for metric in compiled(asked)["metrics"] for name in metric["hashes"]]
    assert hashes == [metric.metric_hash for metric in asked.in_all_segments()]


def numbers(data: Any) -> list[Any]:
    if isinstance(data, dict | list):
        return [number for part in (data.values() if isinstance(data, dict) else data) for number in numbers(part)]
    return [data] if isinstance(data, int | float) else []


def test_numbers_are_whole_and_exact_in_every_language() -> None:
    for case in CASES:
        found = numbers(compiled(Registry.parse(case["toml"])))
        assert all(isinstance(number, int) and abs(number) < 2**53 for number in found)


def test_the_page_names_every_key_and_every_form() -> None:
    for case in CASES:
        made = compiled(Registry.parse(case["toml"]))
        for metric in made["metrics"]:
            noise = metric["noise"].get("history") or {
                **metric["noise"]["permanent"],
                **metric["noise"]["instantaneous"],
            }
            for key in (*made, *metric, *metric["encoding"], *noise, metric["encoding"]["form"], noise["sort"]):
                assert f"`{key}`" in PAGE, key


@pytest.mark.parametrize("kind", SHAPES)
def test_the_page_has_the_keys_of_every_form_and_no_others(kind: str) -> None:
    """A new key is a new question to other clients: they refuse what their page does not have."""
    shape = registry(kind)["it"].shape
    (row,) = (line for line in PAGE.partition("## Encodings")[2].splitlines() if line.startswith(f"| `{shape.form}` "))
    assert re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[2]) == list(shape.port_facts() or ())


@pytest.mark.parametrize("kind", SHAPES)
def test_every_kind_that_is_compiled_is_in_the_vectors(kind: str) -> None:
    forms = {metric["encoding"]["form"] for case in CASES for metric in case["compiled"]["metrics"]}
    shape = registry(kind)["it"].shape
    assert (shape.form in forms) == (shape.port_facts() is not None)


def test_a_kind_that_says_nothing_to_other_clients_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(String, "port_facts", lambda self: None)
    with pytest.raises(Invalid) as caught:
        compiled(registry("string"))
    assert str(caught.value) == (
        "[metrics.it] kind must be one that clients in other languages know, got 'string': "
        "the compiled format, version 1, has no place for it"
    )


def test_a_key_of_a_definition_that_other_clients_know_nothing_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Metric.to_json
    monkeypatch.setattr(Metric, "to_json", lambda self: {**whole(self), "odds": "1/10"})
    with pytest.raises(Invalid) as caught:
        compiled(registry())
    assert str(caught.value) == (
        "[metrics.it] odds must be left out for clients in other languages: the compiled format, version 1, has no "
        "place for it"
    )


PAIRS = [(kind, before, after) for kind, before, after, *_ in (*CHANGES, *REDEFINED)]


@pytest.mark.parametrize(("kind", "before", "after"), PAIRS, ids=[str(row[3]) for row in (*CHANGES, *REDEFINED)])
def test_flat_facts_ask_again_exactly_where_hubbub_diff_says_so(kind: str, before: Any, after: Any) -> None:
    old, new = registry(kind, **before), registry(kind, **after)
    assert (not any(beyond(agreement(old), agreement(new)))) == (not asks_more(old, new))
    assert (not any(beyond(agreement(new), agreement(old)))) == (not asks_more(new, old))


def test_flat_facts_know_new_metrics_kinds_and_segments() -> None:
    one = source()
    two = one + one.partition("[metrics.it]")[2].join(["[metrics.other]", ""])
    parts = one.partition("[metrics.it]")
    facts = {
        name: Registry.parse(text)
        for name, text in {
            "one": one,
            "two": two,
            "string": source("string"),
            "release": f'{parts[0]}[segments]\nrelease = ["1"]\n{"".join(parts[1:])}',
            "discovery": source("discovery"),
            "discovery among few": source("discovery", {"expected_installs": "1000"}),
            "flag among few": source("flag", {"expected_installs": "1000"}),
            "pair": two + '[together.both]\nmetrics = ["it", "other"]\n',
            "pair by another name": two + '[together.two]\nmetrics = ["other", "it"]\n',
            "next release": f'{parts[0]}[segments]\nrelease = ["1", "2"]\n{"".join(parts[1:])}',
        }.items()
    }
    for old in facts.values():
        for new in facts.values():
            assert (not any(beyond(agreement(old), agreement(new)))) == (not asks_more(old, new))


def test_whoever_adds_a_field_says_whether_a_change_of_it_asks_more() -> None:
    """A new field fails here: if `hubbub diff` marks its changes, `agreement` must have it, too, and perhaps
    `compiled`."""
    assert set(Registry.fields) == {
        *("app", "recipient", "lifetime_epsilon", "metrics", "max_identifying_bits", "expected_installs", "segments"),
        "together",
        "source",  # what it was read from
    }
    assert set(Metric.fields) == {
        *("name", "every", "shape", "noise", "accumulate", "segment", "sample"),  # in the hash
        *("why", "owner", "expires", "max_values", "keep_reports", "retention"),
        "grace",  # the collector's patience is no question to people
    }


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_file_and_checks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "metrics.json"
    fingerprint = Registry.load(EXAMPLE).fingerprint
    fours = " ".join(fingerprint[i : i + 4] for i in range(0, 32, 4))
    assert main(["compile", str(EXAMPLE), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 8 metrics, {fours}\n"
    assert out.read_bytes() == compiled_text(Registry.load(EXAMPLE)).encode("ascii")
    assert main(["compile", str(EXAMPLE), "--out", str(out), "--check"]) == 0
    assert capsys.readouterr().out == f"{out}: the same, {fours}\n"
    out.write_text(json.dumps(json.loads(out.read_text())))
    assert main(["compile", str(EXAMPLE), "--out", str(out), "--check"]) == 1
    assert capsys.readouterr().out == f"{out}: not what {EXAMPLE} compiles to, {fours}\n"
    out.unlink()
    assert main(["compile", str(EXAMPLE), "--out", str(out), "--check"]) == 1
    assert not out.exists()


def test_the_command_says_in_which_file_something_cannot_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "metrics.toml", tmp_path / "metrics.json"
    path.write_text(source("string"))
    monkeypatch.setattr(String, "port_facts", lambda self: None)
    assert main(["compile", str(path), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"hubbub compile: {path}: [metrics.it] kind must be one that clients")
    assert not out.exists()


def test_the_command_does_not_overwrite_the_registry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(source())
    assert main(["compile", str(path), "--out", str(tmp_path / "." / "metrics.toml")]) == 2
    assert capsys.readouterr().err == f"hubbub compile: --out must be another file than the registry, got {path}\n"
    assert path.read_text() == source()
