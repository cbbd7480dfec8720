"""Alert rules, Prometheus's configuration and the Grafana dashboard ask only what a real collector tells."""

import http.client
import json
import re
import shutil
import ssl
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from tests.collector.certificates import make_certificate, needs_openssl
from tests.collector.kit import ROOT, Collector

DEPLOY = ROOT / "collector" / "deploy"
CASES = Path(__file__).with_name("alerts_test.yml")
OF_PROMETHEUS_ITSELF = {"up"}
_SELECTOR = re.compile(r"\b(up|(?:hubbub|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'([a-z]+)\s*(=|!=|=~|!~)\s*"([^"]*)"')

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool, which comes with Debian's package prometheus"
)


def alerts():
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard():
    return json.loads((DEPLOY / "grafana.json").read_text())


def panel_queries():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def variable_queries():
    return [item["query"]["query"] for item in dashboard()["templating"]["list"] if item["type"] == "query"]


class SecuredCollector(Collector):
    """A collector that ends TLS itself."""

    def connect(self, timeout=30):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The names of all series of a collector that has just started, each with its labels."""
    folder = tmp_path_factory.mktemp("watched")
    certificate, key = make_certificate(folder, "valid", "20200101000000Z", "20990101000000Z")
    with SecuredCollector(folder, "--tls-certificate", str(certificate), "--tls-key", str(key)) as collector:
        lines = collector.get("/metrics").decode().splitlines()
    found: dict[str, dict[str, set[str]]] = {}
    for name, labels in (re.match(r"([a-z_]+)(?:\{(.*)\})? ", line).groups() for line in lines if line[0] != "#"):
        values = found.setdefault(name, {})
        for label, _, value in _MATCHER.findall(labels or ""):
            values.setdefault(label, set()).add(value)
    found["hubbub_store_reachable"] = {}  # of a shared store alone: tests/collector/postgres/test_several.py reads it
    return found


@needs_openssl
@pytest.mark.parametrize(
    "query", [*(rule["expr"] for rule in alerts().values()), *panel_queries(), *variable_queries()]
)
def test_every_name_and_label_that_is_asked_for_is_told(told, query):
    selectors = [match for match in _SELECTOR.findall(query) if match[0] not in OF_PROMETHEUS_ITSELF]
    assert selectors or query.startswith("up")
    for name, matchers in selectors:
        assert name in told, f"no collector tells {name}"
        for label, _, wanted in _MATCHER.findall(matchers):
            if label not in ("job", "instance"):  # which Prometheus adds
                assert set(wanted.split("|")) <= told[name][label], f"{name} never has {label}={wanted}"


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_quiet():
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    fires = {case["alertname"] for case in cases if case["exp_alerts"]}
    quiet = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert fires == quiet == set(alerts())


def test_every_alert_is_explained_to_the_operator():
    section = (ROOT / "docs" / "operator.md").read_text().split("\n### Alerts\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(Hubbub\w+)` \|", section, re.MULTILINE) == list(alerts())


@needs_promtool
def test_promtool_finds_that_each_alert_fires_and_keeps_quiet_when_it_should():
    run_promtool("test", "rules", str(CASES))


@needs_promtool
def test_promtool_takes_the_configuration_with_its_rules(tmp_path):
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "token").touch()
    assert f"{len(alerts())} rules found" in run_promtool("check", "config", str(tmp_path / "prometheus.yml"))


@needs_promtool
def test_the_dashboards_queries_are_prometheus_own_language(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "1m").replace("$instance", ".*")}
        for number, query in enumerate(panel_queries())
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in run_promtool("check", "rules", str(tmp_path / "rules.yml"))


def run_promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_dashboards_panels_say_what_they_show_and_do_not_overlap():
    panels = dashboard()["panels"]
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        apart = any(
            a[place] + a[size] <= b[place] for a, b in ((one, other), (other, one)) for place, size in ("xw", "yh")
        )
        assert apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
