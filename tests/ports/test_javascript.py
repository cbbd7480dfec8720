"""A client in JavaScript, written from the pages alone: it passes the vectors it needs, behaves as the contract says,
and what it sends is counted by a real collector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hubbub.command.main import main
from hubbub.protocol.tally_files import fetch_tallies
from hubbub.simulations.server import running_collector
from tests.chance import assert_binomial, power
from tests.registry_head import head

PORT = Path(__file__).parent / "javascript"
NODE = shutil.which("node")
INSTALLS = 40
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed here: the port in JavaScript is not run")

REGISTRY = head("org.example.port", 100) + '[segments]\nrelease = ["1.0"]\n'
QUESTIONS = {
    "theme": ('kind = "flag"', True),
    "language": ('kind = "choice"\nchoices = ["c", "go", "rust"]', "go"),
    "page": ('kind = "string"\nnum_bits = 32\nnum_hashes = 1\nnum_cohorts = 4', "https://example.org/"),
    "startup": ('kind = "mean"\nlow = 0\nhigh = 30\nabsent = 0', 12.5),
    "size": ('kind = "histogram"\nedges = [0, 1, 10]\nbuckets_per_report = 1', 0.3),
    "latency": ('kind = "range"\nlow = 0\nhigh = 16\nnum_leaves = 16\nbranching = 4', 3),
    "theme_language": ('kind = "cross"\nof = ["theme", "language"]', None),
    "features": ('kind = "set"\nitems = ["a", "b", "c"]', ["a", "b"]),
}
TERMS = """every = "day"
why = "To learn"
owner = "us@example.org"
expires = 2099-01-01
max_values = 2
epsilon_one_report = 4
epsilon_permanent = 6
"""


def node(*arguments: str, zone: str = "UTC") -> str:
    assert NODE is not None
    done = subprocess.run(
        [NODE, *arguments], cwd=PORT, capture_output=True, text=True, env={**os.environ, "TZ": zone}, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_it_passes_the_vectors_of_the_wire_format_in_any_time_zone(zone: str) -> None:
    said = node("check.mjs", "bytes", zone=zone)
    assert "WRONG" not in said
    assert said.count("checked") == 9


def test_it_behaves_as_the_contract_says() -> None:
    said = node("check.mjs", "behaviour")
    scenarios = json.loads((PORT.parents[1] / "vectors" / "behaviour.json").read_text())
    assert said.splitlines() == [f"ok      {scenario['about']}" for scenario in scenarios]


def test_what_it_sends_is_counted_by_a_real_collector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics, compiled = tmp_path / "metrics.toml", tmp_path / "metrics.json"
    metrics.write_text(REGISTRY + "".join(f"[metrics.{name}]\n{q}\n{TERMS}" for name, (q, _) in QUESTIONS.items()))
    assert main(["compile", str(metrics), "--out", str(compiled)]) == 0
    values = {name: value for name, (_, value) in QUESTIONS.items() if value is not None}
    with running_collector(metrics, tmp_path / "data") as collector:
        said = node(
            *("send.mjs", str(compiled), collector.url, str(tmp_path / "states"), str(INSTALLS), json.dumps(values))
        )
        rows = [json.loads(line) for line in said.splitlines()]
        assert [row["counts"]["sent"] for row in rows] == [len(QUESTIONS)] * INSTALLS
        tallies = {tally.metric.name: tally for tally in fetch_tallies(collector.url, collector.token)}
    assert {name: tally.num_reports for name, tally in tallies.items()} == dict.fromkeys(QUESTIONS, INSTALLS)
    assert {tally.metric.segment for tally in tallies.values()} == {(("release", "other"),)}
    # Its chance is the system's, so no seed: the bounds are missed once in a million runs. All say yes to `theme`.
    yes = tallies["theme"].metric.noise.q_star
    assert_binomial(sum(counts.bit_counts[0][0] for counts in tallies["theme"].epochs.values()), INSTALLS, yes)
    assert power(INSTALLS, yes, 0.5) > 0.999  # bits that say nothing would be noticed


def compiled_vector(tmp_path: Path, **changes: object) -> tuple[Path, dict[str, object]]:
    """The first registry of the vectors, as a file."""
    (case, *_) = json.loads((PORT.parents[1] / "vectors" / "compiled.json").read_text())
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({**case["compiled"], "fingerprint": "", **changes}))
    return path, case["compiled"]


def program(path: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Runs lines that may use `registry` and `client(endpoint)`, whose state lies beside the registry."""
    assert NODE is not None
    known = f"""
        import {{ readRegistry }} from '{PORT}/registry.mjs';
        import {{ Client }} from '{PORT}/client.mjs';
        const registry = readRegistry('{path}');
        const place = {{ directory: '{path.parent}/state', environ: {{}} }};
        const client = (endpoint) => new Client(registry, {{ endpoint, ...place }});
    """
    return subprocess.run([NODE, "--input-type=module", "-e", known + lines], capture_output=True, text=True)


def test_a_registry_that_it_does_not_know_whole_is_refused(tmp_path: Path) -> None:
    _, registry = compiled_vector(tmp_path)
    strange = {**registry["metrics"][0], "encoding": {"form": "stars"}}  # type: ignore[index]
    for change, words in (
        ({"version": 2}, "must be hubbub.compiled, version 1, got hubbub.compiled, version 2"),
        ({"metrics": [strange]}, "a form unknown here: stars"),
        ({"metrics": [{**strange, "encoding": {"form": "flag", "most": 5}}]}, "a key unknown here: most"),
    ):
        path, _ = compiled_vector(tmp_path, **change)
        done = program(path, "")
        assert done.returncode == 1
        assert words in done.stderr


def test_with_a_damaged_state_it_is_off_and_leaves_the_state_as_it_is(tmp_path: Path) -> None:
    path, _ = compiled_vector(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text('{"answer": "yes", ')
    lines = """
        const mine = client('https://telemetry.example.org');
        mine.consent(true);
        mine.record('theme', true);
        await mine.flush();
        await mine.close();
        console.log(mine.mode);
    """
    done = program(path, lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "off\n", "")
    assert (tmp_path / "state" / "state.json").read_text() == '{"answer": "yes", '


def test_without_a_yes_it_stores_nothing(tmp_path: Path) -> None:
    path, _ = compiled_vector(tmp_path)
    lines = """
        const mine = client('http://127.0.0.1:9');
        mine.record('theme', true);
        await mine.flush();
        await mine.close();
        console.log(mine.mode, mine.reason);
    """
    done = program(path, lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "local not_asked\n", "")
    assert list((tmp_path / "state").iterdir()) == []
