"""The registry: every key and rule, each with its sentence; all mistakes at once; the same on any day."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from tests.protocol.toml import HISTORY, SHAPES, TERMS, problems_of, registry, source
from tests.registry_head import head

F = Fraction
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "metrics.toml"
RAPPOR = {"epsilon_one_report": None, "epsilon_permanent": None, "prob_f": "0.5", "prob_p": "0.5", "prob_q": "0.75"}


# --- what loads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SHAPES)
def test_a_metric_of_each_kind_loads_with_its_terms(kind: str) -> None:
    metric = registry(kind)["it"]
    assert metric.shape.form == kind
    assert (metric.why, metric.owner, metric.expires, metric.every) == (
        "To learn",
        "us@example.org",
        date(2028, 1, 1),
        "week",
    )
    assert (metric.max_values, metric.hold, metric.keep_reports, metric.retention, metric.grace) == (
        2,
        None,
        False,
        "2y",
        3,
    )


def test_optional_keys_are_read() -> None:
    metric = registry(**HISTORY, keep_reports="true", retention='"90d"', grace="5", absent="true")["it"]
    assert (metric.hold, metric.keep_reports, metric.retention, metric.grace) == (13, True, "90d", 5)
    assert metric.retention_days == 90
    assert metric.shape.absent is True
    assert registry("mean", unit='"s"')["it"].shape.unit == "s"
    assert registry("choice", absent='"b"')["it"].shape.absent == "b"


def test_numbers_are_exact_decimals_and_never_floats() -> None:
    shape = registry("mean", low="0.1", high="0.3", absent='"1/7"')["it"].shape
    assert (shape.low, shape.high, shape.absent) == (F(1, 10), F(3, 10), F(1, 7))
    assert registry("histogram", edges="[0.1, 0.2, 0.3]")["it"].shape.edges == (F(1, 10), F(1, 5), F(3, 10))
    assert registry(lifetime_epsilon="4.000000000000000000000001").lifetime_epsilon == 4 + F(1, 10**24)
    assert registry("mean", low="-1e-3", high="1_000.5")["it"].shape.low == F(-1, 1000)


def test_fractions_state_probabilities_that_decimals_cannot() -> None:
    thirds = registry(**{**RAPPOR, "prob_f": '"1/3"', "prob_p": '"1/7"', "prob_q": '"2/3"'})["it"]
    assert abs(thirds.noise.instantaneous.probabilities[0] - F(2, 3)) < F(1, 2**24)


def test_a_metric_asked_once_has_one_answer_without_saying_so() -> None:
    assert registry(every='"once"', max_values=None)["it"].max_values == 1


WEEKLY = ["dark_theme", "language", "file_size", "latency", "exports", "features"]


def test_the_metrics_of_a_registry_are_found_by_name_and_cadence() -> None:
    found = Registry.load(EXAMPLE)
    assert [metric.name for metric in found] == list(found.metrics)
    assert len(found) == 8
    assert found.cadences == ("day", "week", "month")
    assert [metric.name for metric in found.with_cadence("week")] == WEEKLY
    with pytest.raises(KeyError, match=r"homepge' is no metric of org.example.editor; did you mean homepage"):
        found["homepge"]


def test_epsilons_add_up_over_a_batch_and_over_a_life() -> None:
    found = Registry.load(EXAMPLE)
    assert found.epsilon_one_epoch("week") == sum(m.epsilon_one_report for m in found if m.every == "week")
    assert found.epsilon_lifetime == sum(m.max_values * m.epsilon_permanent for m in found)
    assert found.epsilon_lifetime <= found.lifetime_epsilon


def test_which_histories_the_lifetime_bound_compares_is_known() -> None:
    assert not registry()["it"].whole_history
    assert registry(**HISTORY)["it"].whole_history
    assert registry(max_values="1")["it"].whole_history
    assert registry(every='"once"', max_values="1")["it"].whole_history


# --- the date does not matter -------------------------------------------------------------------------------------


def test_an_expired_metric_loads() -> None:
    assert registry(expires="1999-12-31")["it"].expires == date(1999, 12, 31)


def test_loading_reads_no_clock() -> None:
    """In a fresh interpreter in which every clock raises."""
    script = """
import datetime, sys, time
def forbidden(*_):
    raise RuntimeError("a clock was read")
for name in ("time", "time_ns", "monotonic", "gmtime", "localtime", "strftime"):
    setattr(time, name, forbidden)
class Date(datetime.date):
    today = forbidden
class DateTime(datetime.datetime):
    today = now = utcnow = forbidden
datetime.date, datetime.datetime = Date, DateTime
try:
    datetime.date.today()
except RuntimeError:
    pass
else:
    raise SystemExit("the clock was not forbidden")
from hubbub.protocol.registry import Registry
print(len(Registry.load(sys.argv[1])))
"""
    done = subprocess.run([sys.executable, "-c", script, EXAMPLE], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("8\n", "")


# --- every rule has its sentence ----------------------------------------------------------------------------------


def _rules() -> Iterator[tuple[str, dict[str, str | None], list[str]]]:
    """The blocks of registry_rules.txt: a kind, what is changed, the sentences that must follow."""
    text = (Path(__file__).parent / "registry_rules.txt").read_text(encoding="utf-8")
    for block in re.split(r"\n\n+", text):
        first, *sentences = [line for line in block.splitlines() if not line.startswith("#")] or [""]
        kind, _, changes = first.partition(": ")
        pairs = (change.partition(" = ") for change in changes.split(" ;; "))
        if kind:
            changed = {key.removeprefix("-"): value or None for key, _, value in pairs}
            yield kind, changed, [sentence.strip() for sentence in sentences]


RULES = list(_rules())


@pytest.mark.parametrize(("kind", "changes", "sentences"), RULES, ids=[" ".join(rule[2])[:70] for rule in RULES])
def test_a_broken_rule_names_the_field_the_rule_and_the_value(
    kind: str, changes: dict[str, str | None], sentences: list[str]
) -> None:
    assert problems_of(source(kind, changes)) == sentences


@pytest.mark.parametrize("kind", SHAPES)
def test_every_key_of_every_kind_is_checked_for_its_type(kind: str) -> None:
    """A table is no value of any key, and each key says so."""
    for key in [*TERMS, *SHAPES[kind], "hold", "epsilon_history", "accumulate", "keep_reports", "retention", "grace"]:
        (problem,) = problems_of(source(kind, {key: "{}"}))
        assert problem.startswith(f"{key} must be "), problem
        assert problem.endswith("got a table of 0")


def test_a_metric_is_named_like_a_variable() -> None:
    text = source().replace("metrics.it", 'metrics."It\\u001b"')
    assert problems_of(text) == [r"[metrics.'It\x1b'] a metric's name must match [a-z][a-z0-9_]{0,63}, got 'It\x1b'"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("metrics = 3", "metrics must hold tables such as [metrics.dark_theme] and nothing else, got 3"),
        ("[metrics]\nit = 3", "metrics must hold tables such as [metrics.dark_theme] and nothing else, got 3"),
        ("[metrics]", "metrics must hold at least one metric, got none"),
        ("", "metrics is missing"),
        (
            "colour = 1\n[metrics]\nit = 3",
            "colour is not a key that is known here; known keys are app, expected_installs, lifetime_epsilon, "
            "max_identifying_bits, metrics, recipient, segments, together",
        ),
    ],
)
def test_a_registry_without_metrics_is_refused(text: str, sentence: str) -> None:
    assert sentence in problems_of(head("a", 1) + text)


NOT_TOML = [
    "app = ",
    "[",
    "a = 1\na = 2",
    "x = 2026-13-01",
    "x = " + "[" * 5000,
    "x = " + "1" * 5000,
    "x = 1e" + "9" * 30,
]


@pytest.mark.parametrize("text", NOT_TOML)
def test_what_is_not_toml_is_refused_in_words(text: str) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith("not TOML: ")


def test_a_file_that_is_not_utf_8_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_bytes(b'app = "\xff"')
    with pytest.raises(Invalid, match="must be UTF-8, got a wrong byte at 7"):
        Registry.load(path)


def test_a_file_that_windows_marked_as_utf_8_is_read_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    source = EXAMPLE.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + source)
    assert Registry.load(path).fingerprint == Registry.load(EXAMPLE).fingerprint


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Registry.load(tmp_path / "none.toml")


# --- all mistakes at once -----------------------------------------------------------------------------------------


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(
        """
app = "No"
recipient = { name = "", url = "http://t.example.org", colour = "red" }
lifetime_epsilon = 1
color = "red"
[metrics.a]
kind = "mean"
why = " "
owner = "o"
expires = "soon"
every = "hour"
epsilon_one_report = 3
epsilon_permanent = 2
max_values = 0
low = 5
high = 1
[metrics.b]
kind = "flog"
owner = 3
epsilon_permanent = 99
grace = -1
[metrics.c]
kind = "flag"
why = "w"
owner = "o"
expires = 2028-01-01
every = "week"
epsilon_one_report = 1
epsilon_permanent = 2
max_values = 1
""",
        encoding="utf-8",
    )
    with pytest.raises(Invalid) as caught:
        Registry.load(path)
    problems = [problem.removeprefix(f"{path}: ") for problem in caught.value.problems]
    assert sorted(problems) == sorted(
        [
            "color is not a key that is known here; known keys are app, expected_installs, lifetime_epsilon, "
            "max_identifying_bits, metrics, recipient, segments, together",
            "app must match [a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?, got 'No'",
            "recipient.colour is not a key that is known here; known keys are name, url",
            "recipient.name must not be empty",
            "recipient.url must be an https address in lower case, without user, query, fragment or a slash at its "
            "end, such as https://telemetry.example.org, got 'http://t.example.org'",
            "lifetime_epsilon must be at least 2, the sum of max_values x epsilon_permanent = 1 x 2 (c), got 1",
            "[metrics.a] expires must be a date such as 2028-01-01, without quotes, got 'soon'",
            "[metrics.a] absent is missing",
            "[metrics.a] why must not be empty",
            "[metrics.a] every must be one of once, day, week, month, got 'hour'",
            "[metrics.a] epsilon_one_report must be at most epsilon_permanent=2, got 3",
            "[metrics.a] max_values must be at least 1, got 0",
            "[metrics.b] kind must be one of flag, choice, string, mean, histogram, range, set, cross, got 'flog'; "
            "did you mean flag?",
            "[metrics.b] owner must be a text, got 3",
            "[metrics.b] every is missing",
            "[metrics.b] expires is missing",
            "[metrics.b] max_values is missing",
            "[metrics.b] why is missing",
            "[metrics.b] grace must be in [0, 60] epochs, got -1",
            "[metrics.b] the noise must be given either by epsilon_one_report and epsilon_permanent or by prob_f, "
            "prob_p, prob_q, got epsilon_permanent",
        ]
    )


def test_every_broken_rule_of_a_shape_is_reported_at_once() -> None:
    assert problems_of(source("string", {"num_bits": "0", "num_hashes": "0", "num_cohorts": "3", "grace": "99"})) == [
        "num_bits must be in [1, 65536], got 0",
        "num_hashes must be in [1, num_bits=0], and at most 64, got 0",
        "num_cohorts must be a power of two in [1, 65536], got 3",
        "grace must be in [0, 60] epochs, got 99",
    ]


# --- hostile input ------------------------------------------------------------------------------------------------

PLAIN = st.characters(blacklist_categories=["Cs"], blacklist_characters='\\"\n\r')
TOKENS = st.one_of(
    st.integers().map(str),
    st.integers(0, 10**40).map(hex),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.text(PLAIN, max_size=8).map('"{}"'.format),
    st.sampled_from(["true", "false", "[]", "{}", "[[1], 2]", "2026-11-16", "07:32:00", "nan", "-inf", '"1/3"']),
)


@pytest.mark.parametrize("kind", SHAPES)
@given(data=st.data())
def test_any_value_of_any_key_loads_or_is_refused(kind: str, data: st.DataObject) -> None:
    keys = [*TERMS, *SHAPES[kind], "hold", "epsilon_history", "grace", "retention", "unit", "absent", "prob_f"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), TOKENS, min_size=1, max_size=4))
    for problem in problems_of(source(kind, changes)):
        assert problem.isprintable()
        assert len(problem) < 500


@given(st.text(max_size=60))
def test_any_text_is_a_registry_or_refused(text: str) -> None:
    assert problems_of(text)


def test_a_registry_has_fewer_metrics_than_a_message_has_room_for() -> None:
    from hubbub.protocol.registry import MAX_METRICS
    from hubbub.protocol.report import MAX_BLOCKS

    keys = """kind = "flag"
why = "w"
owner = "o"
expires = 2099-01-01
every = "day"
epsilon_one_report = 0.01
epsilon_permanent = 0.01
max_values = 1
"""
    tables = "".join(f"[metrics.m{i}]\n{keys}" for i in range(MAX_METRICS + 1))
    assert problems_of(head("a", 100) + tables) == ["metrics must hold at most 1000, got 1001"]
    assert MAX_METRICS < MAX_BLOCKS


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        ({"prob_f": "0.99999988079071044921875"}, True),  # 1 - 2**-23
        ({"prob_f": "0.999999940395355224609375"}, False),  # 1 - 2**-24
        ({"prob_p": "0.74999988079071044921875"}, True),  # 2**-23 below prob_q
        ({"prob_p": "0.749999940395355224609375"}, False),
    ],
)
def test_noise_may_come_as_near_to_pure_noise_as_24_binary_digits_can_say(changes, is_right):
    found = problems_of(source("string", {**RAPPOR, "max_values": "1", **changes}))
    assert [problem.partition(" ")[0] for problem in found] == ([] if is_right else [*changes])
