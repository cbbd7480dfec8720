"""Any callable can be audited, and mistakes in asking for it are answered in words."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from functools import partial
from math import exp, log
from random import Random

import numpy as np
import pytest

from hubbub.protocol.invalid import Invalid
from hubbub.simulations.audit import command
from hubbub.simulations.audit.any_callable import as_rows, load
from hubbub.simulations.audit.command import add_audit, run_audit
from hubbub.simulations.audit.run import audit_callable, audit_registry, table
from tests.simulations.audit.test_audit import flag, registry

CHANCE = Random(20_261_116)


def warner(value: bool) -> int:
    """Randomized response with epsilon ln 3."""
    return int(value if CHANCE.random() < 0.75 else not value)


def unary(value: int) -> list[int]:
    """Eight bits, each kept with probability 3/4: epsilon 2 ln 3."""
    return [int((i == value) == (CHANCE.random() < 0.75)) for i in range(8)]


def never_clearing(value: int) -> int:
    return 1 << value | sum((CHANCE.random() < 0.25) << i for i in range(8))


def of_changing_length(value: int) -> str:
    return "01" * CHANCE.randrange(1, 3)


def test_a_true_claim_passes_and_is_nearly_reached() -> None:
    audit = audit_callable(warner, (True, False), log(3), trials=40_000)
    assert audit.passed
    assert max(finding.bound for finding in audit.findings) > log(3) - 0.15


def test_a_claim_that_is_too_low_fails() -> None:
    audit = audit_callable(warner, (True, False), 0.8, trials=40_000)
    assert [finding.failure for finding in audit.failures]
    assert "more than claimed" in table(audit)


def test_many_bits_are_told_apart_by_the_two_that_differ() -> None:
    audit = audit_callable(unary, (1, 6), 2 * log(3), trials=60_000)
    assert audit.passed
    assert max(finding.bound for finding in audit.findings) > 2 * log(3) - 0.4
    assert not audit_callable(unary, (1, 6), 1.5, trials=60_000).passed


def test_a_library_that_never_clears_bits_fails_any_claim() -> None:
    audit = audit_callable(never_clearing, (1, 6), 6.0, trials=100_000)
    assert not audit.passed
    assert max(finding.bound for finding in audit.findings) > 7


@pytest.mark.parametrize(
    ("outputs", "rows"),
    [
        ([True, False], [[1], [0]]),
        ([5, 0], [[1, 0, 1, 0, 0, 0, 0, 0], [0] * 8]),
        ([b"\x01", b"\x80"], [[1, 0, 0, 0, 0, 0, 0, 0], [0] * 7 + [1]]),
        (["01", "10"], [[0, 1], [1, 0]]),
        ([np.array([1, 0]), np.array([0, 1])], [[1, 0], [0, 1]]),
        ([(True, False)], [[1, 0]]),
    ],
)
def test_outputs_are_understood_in_many_forms(outputs, rows) -> None:
    assert as_rows(outputs).tolist() == rows


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ([-1], "must be at least 0, got -1"),
        ([[0, 2]], "bits must be 0 or 1"),
        ([[0], [0, 1]], "every output must have as many bits"),
        ([b"a", b"ab"], "as many bytes"),
        ([1.5], "must be a number, bytes or a sequence of bits, got float"),
    ],
)
def test_outputs_that_are_no_bits_are_refused(outputs, words) -> None:
    with pytest.raises(Invalid, match=words):
        as_rows(outputs)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("json", "must be package.module:callable"),
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("json:no_such_name", "no attribute 'no_such_name'"),
        ("json:__name__", "must be callable, got str"),
    ],
)
def test_what_is_no_callable_is_refused(path: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        load(path)


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    add_audit(parser)
    return run_audit(parser.parse_args(arguments))


HERE = "tests.simulations.audit.test_any_callable"


def test_the_command_says_by_its_exit_status_whether_the_claim_stands(capsys) -> None:
    common = ("--module", f"{HERE}:warner", "--values", "true", "false", "--trials", "2e4")
    assert run(*common, "--epsilon", "1.1") == 0
    assert "All 2 tests pass" in capsys.readouterr().out
    assert run(*common, "--epsilon", "0.5", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert found["findings"][0]["claim"] == 0.5
    assert exp(found["findings"][0]["bound"]) > exp(0.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give either a METRICS.TOML or --module"),
        (("x.toml", "--module", "a:b"), "give either"),
        (("--module", "json:dumps"), "--module needs --epsilon and --values"),
        (("x.toml", "--epsilon", "1"), "--epsilon is for --module"),
        (("--module", "json:dumps", "--epsilon", "1", "--values", "1", "2", "--installs", "9"), "--installs is for"),
        (("--module", "json:dumps", "--epsilon", "-1", "--values", "1", "2"), "epsilon must be a number of at least 0"),
        (
            ("--module", "json:dumps", "--epsilon", "1", "--values", "1", "2", "--trials", "10"),
            "trials must be at least",
        ),
    ],
)
def test_wrong_use_is_answered_in_words(arguments, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        run(*arguments)


def test_the_command_audits_a_registry(tmp_path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws from the operating system, and then a true client fails once in 5,000 runs; here from a seed."""
    monkeypatch.setattr(command, "audit_registry", partial(audit_registry, random=Random(13).randbytes))
    path = tmp_path / "metrics.toml"
    path.write_text(registry(asked=flag()).source)
    assert run(str(path), "--trials", "10000", "--installs", "0") == 0
    printed = capsys.readouterr().out
    assert "permanent response" in printed
    assert "All 6 tests pass" in printed
