"""The audit passes what is right and catches what is wrong: each defect that was planted, by the claim it breaks.

Quick forms draw from a seed, so they are the same in every run; that a defect is caught is not luck of that seed: the
law of the bound under the defect is worked out, and must cross the verdict's line with a probability above 0.999. The
proofs at the end are of full size; the one without a defect draws from the operating system, as the client does.
"""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from scipy import stats

from hubbub.client import Registry
from hubbub.client.identity import cohort_of
from hubbub.client.respond import respond
from hubbub.protocol.invalid import Invalid
from hubbub.simulations.audit import run as audit_run
from hubbub.simulations.audit.draws import DrawAudit
from hubbub.simulations.audit.evidence import ALPHA, STRAY, Chances, bound_expected
from hubbub.simulations.audit.run import Audit, audit_registry
from hubbub.simulations.audit.scores import MEMO, score_law
from hubbub.simulations.audit.transcripts import RUNS, ClientAudit, _joint, _View, run_times
from tests.registry_head import head
from tests.simulations.audit import planted

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "metrics.toml"
SURE = 0.999
TERMS = 'why = "w"\nowner = "o"\nexpires = 2090-01-01\nevery = "week"\n'


def registry(**metrics: str) -> Registry:
    tables = "".join(f"[metrics.{name}]\n{TERMS}{keys}\n" for name, keys in metrics.items())
    return Registry.parse(head("audited", 100) + tables)


def flag(one_report: float = 1, permanent: float = 2, extra: str = "") -> str:
    return (
        f'kind = "flag"\nepsilon_one_report = {one_report}\nepsilon_permanent = {permanent}\nmax_values = 2\n{extra}\n'
    )


CHOICE = 'kind = "choice"\nchoices = ["a", "b", "c"]\nepsilon_one_report = 1\nepsilon_permanent = 2\nmax_values = 2'
STRING = (
    'kind = "string"\nnum_bits = 16\nnum_hashes = 2\nnum_cohorts = 4\nprob_f = 0.5\nprob_p = 0.25\nprob_q = 0.75\n'
    "max_values = 1"
)


def failing(audit) -> set[tuple[str, str]]:
    return {(finding.metric, finding.what) for finding in audit.failures}


def power(right: Chances, wrong: Chances, claim: float, trials: int, tests: int) -> float:
    """How likely a defect crosses the nearest of the verdict's lines, its bound being about normal."""
    alpha = ALPHA / tests
    mean, deviation = bound_expected(wrong, (trials, trials), alpha)
    expected, spread = bound_expected(right, (trials, trials), alpha)
    return float(stats.norm.cdf(max(mean - claim, abs(mean - expected) - STRAY * spread) / deviation))


# --- what is right ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_all() -> Audit:
    """All six kinds, in the draws and in whole clients."""
    return audit_registry(Registry.load(EXAMPLE), trials=12_000, random=Random(1).randbytes)


def test_all_kinds_pass(of_all: Audit) -> None:
    assert of_all.failures == []
    asked = set(Registry.load(EXAMPLE).metrics)
    assert {finding.metric for finding in of_all.findings} == asked
    assert {finding.what for finding in of_all.findings} >= {
        "permanent response",
        "one report",
        "7 reports",
        "client, 7 reports",
        "client, presence",
        *(f"client, together with {name}" for name in list(Registry.load(EXAMPLE).metrics)[:-1]),
    }


def test_what_is_enumerated_is_what_is_claimed(of_all: Audit) -> None:
    drawn = [finding for finding in of_all.findings if not finding.what.startswith("client")]
    assert len(drawn) == DrawAudit.tests * len(Registry.load(EXAMPLE))
    for finding in drawn:
        assert finding.exact == pytest.approx(finding.claim, abs=2e-6)  # both rounded up to six decimals


def test_the_tests_of_a_run_are_counted_before_it_is_drawn(of_all: Audit) -> None:
    asks = Registry.load(EXAMPLE)
    assert len(of_all.findings) == DrawAudit.tests * len(asks) + ClientAudit.tests_of(asks)


@pytest.mark.usefixtures("findings_alone")
def test_an_app_is_run_once_in_each_of_seven_epochs_of_every_cadence() -> None:
    cadences = ("day", "week", "month", "once")
    asks = registry(**{every: flag().replace("max_values = 2", "max_values = 1") for every in cadences})
    asks = Registry.parse(
        asks.source.replace(f"[metrics.{cadences[0]}]\n{TERMS}", f"[metrics.day]\n{TERMS.replace('week', 'day')}")
        .replace(f"[metrics.month]\n{TERMS}", f"[metrics.month]\n{TERMS.replace('week', 'month')}")
        .replace(f"[metrics.once]\n{TERMS}", f"[metrics.once]\n{TERMS.replace('week', 'once')}")
    )
    assert audit_registry(asks, trials=10_000, installs=160, random=Random(4).randbytes).failures == []
    views = {metric.name: _View(metric, run_times(asks)) for metric in asks}
    assert [views[every].reports for every in cadences] == [RUNS, RUNS, RUNS, 1]


def test_the_real_respond_is_what_is_audited_unless_told_otherwise() -> None:
    """A stand-in that only counts its calls sees all of them, and passes, because it is the real one within."""
    calls = 0

    def counting(*arguments):
        nonlocal calls
        calls += 1
        return respond(*arguments)

    asks = registry(asked=flag())
    audit = audit_registry(asks, trials=10_000, installs=0, answer=counting, random=Random(12).randbytes)
    assert audit.failures == []
    assert calls == 10_000 + 6 * 1_000


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.fixture
def findings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what an audit tries besides, which has tests of its own: test_departures.py and test_promises.py."""
    monkeypatch.setattr(audit_run, "watch_departures", lambda *_, **__: ())
    monkeypatch.setattr(audit_run, "promises", lambda *_: ())


STAGES = [("permanent", MEMO), ("instantaneous", 1)]
SLIPS = [Fraction(1, 50), Fraction(-1, 50)]


@pytest.mark.parametrize("by", SLIPS)
@pytest.mark.parametrize(("stage", "reports"), STAGES)
def test_a_flag_whose_channel_is_off_by_one_fiftieth_is_caught(stage: str, reports: int, by: Fraction) -> None:
    assert_a_slip_is_caught(flag(), stage, reports, by)


def test_a_choice_whose_channel_is_off_by_one_fiftieth_is_caught() -> None:
    assert_a_slip_is_caught(CHOICE, *STAGES[0], SLIPS[0])


@pytest.mark.proof
@pytest.mark.parametrize("by", SLIPS)
@pytest.mark.parametrize(("stage", "reports"), STAGES)
def test_every_slip_of_a_choice_by_one_fiftieth_is_caught(stage: str, reports: int, by: Fraction) -> None:
    assert_a_slip_is_caught(CHOICE, stage, reports, by)


def assert_a_slip_is_caught(keys: str, stage: str, reports: int, by: Fraction) -> None:
    least = (150_000, 300_000) if keys is CHOICE else (40_000, 100_000)
    trials, asks = least[reports != MEMO], registry(asked=keys)
    audit = audit_registry(
        asks, trials=trials, installs=0, answer=planted.with_channel_off(stage, by), random=Random(5).randbytes
    )
    what = "permanent response" if reports == MEMO else "one report"
    assert ("asked", what) in failing(audit)
    wrong = planted.off(asks["asked"], stage, by)
    powers = []
    for event in DrawAudit(asks["asked"], trials, ALPHA / DrawAudit.tests).events:
        if event.reports == reports:
            moved = score_law(wrong.noise, 1, int(keys is CHOICE), reports)
            there = event.law.scores >= event.threshold
            one, other = (moved.one, moved.other) if event.toward == 0 else (moved.other[::-1], moved.one[::-1])
            claim = float(asks["asked"].epsilon_permanent if reports == MEMO else asks["asked"].epsilon_one_report)
            happens = Chances(one[there].sum(), other[there].sum())
            powers.append(power(event.chances, happens, claim, trials // 2, DrawAudit.tests))
    assert max(powers) > SURE


def test_a_memo_that_respond_does_not_keep_is_caught() -> None:
    audit = audit_registry(
        registry(asked=flag()),
        trials=20_000,
        installs=0,
        answer=planted.forgetting_its_memo,
        random=Random(6).randbytes,
    )
    assert failing(audit) == {("asked", "7 reports")}
    assert min(finding.bound for finding in audit.failures) > 2.1
    _assert_fresh_memos_show(registry(asked=flag())["asked"], 1_000, DrawAudit.tests)


@pytest.mark.usefixtures("findings_alone")
def test_a_memo_that_the_client_does_not_keep_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.clients_forget_their_memos(monkeypatch)
    asks, installs = registry(asked=flag(1.98, 2)), 200
    audit = audit_registry(asks, trials=10_000, installs=installs, random=Random(7).randbytes)
    assert failing(audit) == {("asked", "client, 7 reports")}
    _assert_fresh_memos_show(asks["asked"], installs * 2 // 5, DrawAudit.tests + ClientAudit.tests_of(asks))


def _assert_fresh_memos_show(metric, trials: int, tests: int) -> None:
    """With fresh memos the ones among seven reports are binomial with q* and p*."""
    law = score_law(metric.noise, 1, 0, 7)
    threshold = law.sharpest(trials, ALPHA / tests)
    least = next(ones for ones in range(8) if law.table[ones] >= threshold)
    fresh = Chances(
        *(float(stats.binom.sf(least - 1, 7, float(p))) for p in (metric.noise.q_star, metric.noise.p_star))
    )
    right = law.reaches(threshold)
    assert power(right, fresh, float(metric.epsilon_after(7)), trials, tests) > SURE


@pytest.mark.usefixtures("findings_alone")
def test_a_memo_shared_between_two_metrics_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.clients_share_memos_between_metrics(monkeypatch)
    asks, installs = registry(first=flag(1.5, 1.6), second=flag(1.5, 1.6)), 500
    audit = audit_registry(asks, trials=10_000, installs=installs, random=Random(8).randbytes)
    assert ("second", "client, together with first") in failing(audit)
    # Power: where both values are alike, one memo makes all fourteen reports, and hardly looks like both values.
    tests = 2 * DrawAudit.tests + ClientAudit.tests_of(asks)
    noise = asks["first"].noise
    law = score_law(noise, 1, 0, RUNS)
    threshold = law.sharpest(installs // 2, ALPHA / tests)
    least = next(ones for ones in range(RUNS + 1) if law.table[ones] >= threshold)
    a1, a0 = (float(p) for p in noise.permanent.probabilities)
    looks_true = [float(stats.binom.sf(least - 1, RUNS, float(p))) for p in noise.instantaneous.probabilities]
    looks_false = [float(stats.binom.cdf(RUNS - least, RUNS, float(p))) for p in noise.instantaneous.probabilities]
    both = [true * false for true, false in zip(looks_true, looks_false, strict=True)]
    right = law.reaches(threshold)
    wrong = Chances(right.one**2, a0 * both[0] + (1 - a0) * both[1])
    assert a1 == pytest.approx(1 - a0)
    cell = int(installs * (7 / 8 / 2 + 1 / 8 / 3) ** 2)
    assert power(right, wrong, float(asks["second"].epsilon_after(RUNS)), cell, tests) > SURE


@pytest.mark.parametrize("keys", [flag(), STRING], ids=["flag", "string"])
def test_a_mask_that_never_clears_bits_is_caught(keys: str) -> None:
    """Its epsilon is infinite: one event is impossible under one of the values, so all trials miss it."""
    audit = audit_registry(
        registry(asked=keys),
        trials=20_000,
        installs=0,
        answer=planted.never_clearing_a_bit,
        random=Random(9).randbytes,
    )
    assert ("asked", "permanent response") in failing(audit)
    assert ("asked", "one report") in failing(audit)
    assert any("more than claimed" in str(finding.failure) for finding in audit.failures)


@pytest.mark.usefixtures("findings_alone")
def test_a_report_made_only_when_a_flag_is_true_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.clients_report_only_what_is_true(monkeypatch)
    audit = audit_registry(registry(asked=flag()), trials=10_000, installs=160, random=Random(10).randbytes)
    presence = [finding for finding in audit.failures if finding.what == "client, presence"]
    assert {finding.pair for finding in presence} >= {"first value against second", "recorded against not recorded"}
    assert all("claimed 0.000" in str(finding.failure) for finding in presence if finding.bound > 0)


# --- what it refuses ----------------------------------------------------------------------------------------------


def test_too_few_trials_and_installs_are_refused_in_words() -> None:
    asks = registry(asked=flag())
    with pytest.raises(Invalid, match="trials must be at least 10000, got 9999"):
        audit_registry(asks, trials=9_999)
    with pytest.raises(Invalid, match="installs must be 0 or at least 160, got 7"):
        audit_registry(asks, trials=10_000, installs=7)


def test_a_registry_that_expired_long_ago_is_refused_in_words() -> None:
    with pytest.raises(Invalid, match="an audit needs 7 months before the first metric expires"):
        run_times(Registry.parse(registry(asked=flag()).source.replace("2090-01-01", "1970-03-01")))


# --- the full form ------------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_a_million_trials_for_each_metric_of_the_example(figure) -> None:
    """Draws from the operating system: a true client fails this with the probability that the audit itself states."""
    started = time.process_time()
    asked = Registry.load(EXAMPLE)
    audit = audit_registry(asked)
    seconds = time.process_time() - started
    figure(f"audit of all {len(asked)} metrics", f"{len(audit.findings)} tests, {seconds:.0f} s of CPU")
    for finding in audit.findings:
        if not finding.what.startswith("client"):
            figure(
                f"{finding.metric}, {finding.what}, {finding.pair}",
                f"claimed {finding.claim:.4f}, shown {finding.bound:.4f}, expected {finding.expected:.4f}",
            )
    assert audit.failures == []
    assert seconds < 300


@pytest.mark.proof
@pytest.mark.parametrize("by", [Fraction(1, 50), Fraction(-1, 50)])
@pytest.mark.parametrize("stage", ["permanent", "instantaneous"])
def test_a_channel_off_by_one_fiftieth_is_caught_in_every_kind(figure, stage: str, by: Fraction) -> None:
    defect = planted.with_channel_off(stage, by)
    asked = Registry.load(EXAMPLE)
    audit = audit_registry(asked, installs=0, answer=defect, random=Random(20).randbytes)
    caught = {finding.metric for finding in audit.failures}
    in_all = f"{len(audit.failures)} tests fail, in {len(caught)} of {len(asked)} metrics"
    figure(f"{stage} channel off by {float(by)}", in_all)
    assert caught == set(asked.metrics)


@pytest.mark.proof
@pytest.mark.parametrize("answer", [planted.forgetting_its_memo, planted.never_clearing_a_bit])
def test_draws_with_a_defect_are_caught_in_every_kind(figure, answer) -> None:
    asked = Registry.load(EXAMPLE)
    audit = audit_registry(asked, trials=200_000, installs=0, answer=answer, random=Random(21).randbytes)
    caught = {finding.metric for finding in audit.failures}
    figure(answer.__name__, f"{len(audit.failures)} tests fail, in {len(caught)} of {len(asked)} metrics")
    assert caught == set(asked.metrics)


@pytest.mark.proof
@pytest.mark.parametrize(
    "plant",
    [
        planted.clients_forget_their_memos,
        planted.clients_share_memos_between_metrics,
        planted.clients_report_only_what_is_true,
    ],
)
def test_clients_with_a_defect_are_caught(figure, plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    asks = registry(first=flag(1, 2), second=flag(1, 2))
    audit = audit_registry(asks, trials=10_000, installs=6_000, random=Random(22).randbytes)
    figure(plant.__name__, ", ".join(sorted({finding.what for finding in audit.failures})))
    assert audit.failures


def test_what_two_metrics_show_together_goes_by_pieces_of_one_line() -> None:
    """Histograms of three and of five buckets: summed along a fine walk of the line, as the client places installs."""
    kind = 'kind = "histogram"\nbuckets_per_report = 1\nepsilon_one_report = 1\nepsilon_permanent = 2\nmax_values = 1\n'
    asks = registry(few=f"{kind}edges = [0, 1, 2, 3]\n", more=f"{kind}edges = [0, 1, 2, 3, 4, 5]\n")
    a, b = (_View(metric, run_times(asks)) for metric in asks)
    for view in (a, b):
        view.fix_thresholds(1000, 1e-6)
    of_a, of_b = a.by_cohort(0, a.thresholds[0])[:, 0], b.by_cohort(1, b.thresholds[1])
    walk = [(cohort_of(place * 2**62 // 1800, 3), cohort_of(place * 2**62 // 1800, 5)) for place in range(1, 1800, 2)]
    summed = sum(of_a[one] * of_b[other] for one, other in walk) / len(walk)
    joint = _joint(a, b, 1)
    assert (joint.one, joint.other) == pytest.approx(tuple(summed))
    by_remainder = sum(of_a[n % 3] * of_b[n % 5] for n in range(15)) / 15  # as it was
    assert tuple(by_remainder) != pytest.approx(tuple(summed))


CROSSED = 'kind = "cross"\nof = ["a", "b"]\nepsilon_one_report = 1\nepsilon_permanent = 2\nmax_values = 2'


def test_a_cross_is_audited_by_what_its_factors_recorded() -> None:
    """Its transcripts are compared where both factors had their first value and where both had their second. That one
    metric stays while the other changes can be asked of the two factors, not of one and the cross."""
    asked = registry(a=flag(), b=flag(), both=CROSSED)
    clients = ClientAudit(asked, 40, 1e-6)
    for _ in clients.run(Random(20).randbytes):
        pass
    found = clients.findings()
    assert len(found) == ClientAudit.tests_of(asked) == 3 * 6 + 2
    assert [finding.failure for finding in found if finding.failure] == []
    of_cross = [finding for finding in found if finding.metric == "both"]
    assert {finding.what for finding in of_cross} == {"client, 7 reports", "client, presence"}
    assert {(f.metric, f.what) for f in found if "together" in f.what} == {("b", "client, together with a")}
    compared = of_cross[0].seen  # of 40 installs, 35 of which record both: about a quarter each way
    assert compared.trials_of_one + compared.trials_of_other > 8
