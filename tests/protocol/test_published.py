"""A registry's fingerprint: what changes it, who shows it, and that the collector is no witness."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest

from hubbub.command.main import main
from hubbub.command.table import SUBCOMMANDS
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import facts, in_fours, words
from hubbub.protocol.lint import warnings
from hubbub.protocol.published import fingerprints_in
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, registry, source

ASKS = registry()
TODAY = date(2026, 11, 17)


def test_the_fingerprint_is_a_hash_that_anybody_can_compute() -> None:
    metric = ASKS["it"]
    form = {
        "app": "org.example",
        "lifetime_epsilon": "60",
        "max_identifying_bits": 12,
        "metrics": [metric.terms_to_json()],
        "recipient": {"name": "Us", "url": "https://t.example.org"},
    }
    text = json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert ASKS.fingerprint == hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    assert facts(ASKS)["fingerprint"] == ASKS.fingerprint
    assert in_fours(ASKS.fingerprint) in " ".join(words(ASKS).split())


@pytest.mark.parametrize(
    "changes",
    [
        {"why": '"To sell"'},
        {"owner": '"them@example.org"'},
        {"recipient": '{ name = "Us", url = "https://t.example.org/me" }'},
        HISTORY,
        {"epsilon_one_report": "0.5"},
        {"lifetime_epsilon": "61"},
        {"max_identifying_bits": "13"},
    ],
    ids=str,
)
def test_whatever_people_agree_to_changes_it(changes: dict[str, str]) -> None:
    assert registry(**changes).fingerprint != ASKS.fingerprint


def test_comments_and_defaults_do_not_change_it() -> None:
    assert Registry.parse("# a comment\n" + source()).fingerprint == ASKS.fingerprint
    assert registry(grace="3", max_identifying_bits="12").fingerprint == ASKS.fingerprint


def packages(folder: Path) -> list[Path]:
    page = folder / "release.html"
    page.write_text(f"<p>Fingerprint: <code>{in_fours(ASKS.fingerprint)}</code></p>")
    plain = folder / "metrics.toml"
    plain.write_text(source())
    wheel = folder / "app.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("app/metrics.toml", source())
        archive.writestr("app/other.toml", "x = 1")
    packed = folder / "app.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        member = tarfile.TarInfo("app/metrics.toml")
        member.size = len(source())
        archive.addfile(member, io.BytesIO(source().encode()))
    return [page, plain, wheel, packed]


def test_verify_finds_it_on_a_page_and_in_a_package(tmp_path: Path, capsys) -> None:
    here = tmp_path / "metrics.toml"
    for path in packages(tmp_path):
        assert fingerprints_in(str(path), ASKS) == {ASKS.fingerprint}
        here.write_text(source())
        assert main(["verify", str(here), str(path)]) == 0
        assert capsys.readouterr().out == f"The same: {in_fours(ASKS.fingerprint)}\n"
    here.write_text(source("flag", {"why": '"To sell"'}))
    assert main(["verify", str(here), str(tmp_path / "app.whl")]) == 1
    assert capsys.readouterr().out.startswith("Not the same: ")


def test_verify_does_not_ask_the_collector() -> None:
    with pytest.raises(Invalid, match=r"must not be the collector's own address, t\.example\.org"):
        fingerprints_in("https://t.example.org/v1/metrics", ASKS)
    with pytest.raises(Invalid, match="must be a file or an https address"):
        fingerprints_in("http://example.org/", ASKS)
    with pytest.raises(Invalid, match="must be a file or an https address"):
        fingerprints_in("nowhere.html", ASKS)


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"lifetime_epsilon": "59"}, None),
        ({"lifetime_epsilon": "60"}, "lifetime_epsilon is 60: over a life, messages may make an observer practically"),
        ({"epsilon_permanent": "7.9"}, None),
        ({"epsilon_permanent": "8"}, "[metrics.it] epsilon_permanent is 8: messages about one kept answer make an"),
        (HISTORY, None),
        ({**HISTORY, "epsilon_history": "6"}, "[metrics.it] max_values is 4 and epsilon_history 6: 98.1 % of answers"),
        ({**HISTORY, "epsilon_history": "8", "max_values": "12"}, "[metrics.it] epsilon_history is 8: all answers"),
        ({"keep_reports": "true"}, "[metrics.it] keep_reports is true: the collector keeps every single message"),
        ({"expires": "2026-01-01"}, "[metrics.it] expires is 2026-01-01, which is past"),
        ({"expires": "2040-01-01"}, "[metrics.it] expires is 2040-01-01, more than five years away"),
    ],
)
def test_check_warns_in_words(changes: dict[str, str], doubt: str | None) -> None:
    found = warnings(registry(**{"lifetime_epsilon": "40", **changes}), TODAY)
    assert len(found) == (doubt is not None)
    assert doubt is None or found[0].startswith(doubt)


@pytest.mark.parametrize(("cohorts", "doubts"), [(1024, 0), (2048, 1)])
def test_check_warns_of_many_groups(cohorts: int, doubts: int) -> None:
    found = warnings(registry("string", lifetime_epsilon="40", num_cohorts=str(cohorts)), TODAY)
    assert [doubt.startswith(f"cohorts divide installs into {cohorts:,} groups") for doubt in found] == [True] * doubts


def test_check_says_so_by_its_exit_status(tmp_path: Path, capsys) -> None:
    right, doubtful, wrong = (tmp_path / name for name in ("right.toml", "doubtful.toml", "wrong.toml"))
    right.write_text(source("flag", {"lifetime_epsilon": "40", "expires": "2029-01-01"}))
    doubtful.write_text(source("flag", {"expires": "2029-01-01"}))
    wrong.write_text("app = 3")
    assert main(["check", str(right)]) == main(["check", "--strict", str(right)]) == main(["check", str(doubtful)]) == 0
    assert main(["check", "--strict", str(right), str(doubtful)]) == 1
    out = capsys.readouterr().out
    assert "warning: lifetime_epsilon is 60" in " ".join(out.split())
    assert main(["check", str(wrong), str(right)]) == 2
    assert "right.toml: right, 1 metric" in capsys.readouterr().out  # the others are looked at all the same


def test_the_hook_for_pre_commit_runs_a_command_that_is_there_on_files_of_that_name() -> None:
    text = (Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    keys = dict(line[2:].split(": ", 1) for line in text.splitlines())
    program, command = keys["entry"].split()
    assert (keys["id"], program, keys["language"]) == ("hubbub-check", "hubbub", "python")
    assert command in SUBCOMMANDS
    assert [bool(re.search(keys["files"], path)) for path in ("metrics.toml", "a/metrics.toml", "a/xmetrics.toml")] == [
        True,
        True,
        False,
    ]
