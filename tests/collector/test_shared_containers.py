"""The examples with several collectors: compose-shared.yaml, kubernetes-shared.yaml, and Caddy before two of them.

As far as shows without a container: every command parses, every variable is read, roles, ports and networks agree; the
database's script and the commands run against a real PostgreSQL, and the Caddyfile by Caddy itself.
"""

import os
import re
import shutil
import subprocess
import time
from argparse import ArgumentParser

import pytest
import yaml

from hubbub.collector.postgres.session import VERSION
from hubbub.collector.settings import DEFAULTS, unknown_variables
from hubbub.collector.store_commands import add_store
from tests.collector import kit
from tests.collector.kit import REGISTRY_TOML, Collector, run_command
from tests.collector.test_caddy import Caddy
from tests.collector.test_containers import ENVIRONMENT, USER, needs, run, tool
from tests.collector.test_deploy import DEPLOY

LIMITLESS = ("--sender-rate", "1e6", "--sender-burst", "1000000")
COMPOSE = yaml.safe_load((DEPLOY / "compose-shared.yaml").read_text())
SERVICES = COMPOSE["services"]
JOB, SERVICE, BUDGET, DEPLOYMENT = yaml.safe_load_all((DEPLOY / "kubernetes-shared.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
(MAKER,) = JOB["spec"]["template"]["spec"]["containers"]
IN_THE_POD = {item["name"]: item.get("value", "") for item in CONTAINER["env"]}


@pytest.mark.parametrize("variables", [SERVICES["first"]["environment"], IN_THE_POD])
def test_every_variable_is_one_that_is_read_and_no_password_stands_in_an_address(variables):
    assert unknown_variables(variables) == []
    assert re.match(r"postgresql://collector@[^:]+$", variables["HUBBUB_STORE"].partition("?")[0])
    assert "PGPASSWORD" in variables


@pytest.mark.parametrize("words", [SERVICES["setup"]["command"], MAKER["args"]])
def test_the_store_is_made_by_its_owner_for_the_role_that_collectors_have(words):
    parser = ArgumentParser()
    add_store(parser)
    parsed = parser.parse_args(words[1:])
    assert (words[0], parsed.action, parsed.role) == ("store", "create", "collector")
    for counting in (SERVICES["first"]["environment"]["HUBBUB_STORE"], IN_THE_POD["HUBBUB_STORE"]):
        if counting.split("@")[1] == parsed.store.split("@")[1]:
            assert parsed.store == counting.replace("//collector@", "//owner@")
            return
    raise AssertionError(f"no collector uses {parsed.store}")


def test_in_compose_caddy_alone_is_reached_from_elsewhere_and_the_database_by_collectors_alone():
    ports = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert {name: found for name, found in ports.items() if found} == {"caddy": ["80:80", "443:443"]}
    assert COMPOSE["networks"]["store"] == {"internal": True}
    inside = {name for name, service in SERVICES.items() if "store" in service["networks"]}
    assert inside == {"first", "second", "setup", "database"}
    (config,) = COMPOSE["networks"]["inside"]["ipam"]["config"]
    assert SERVICES["first"]["environment"]["HUBBUB_PROXIES"] == config["subnet"]
    upstreams = SERVICES["caddy"]["environment"]["COLLECTOR"].split()
    assert upstreams == [f"first:{DEFAULTS['port']}", f"second:{DEFAULTS['port']}"]
    for service in SERVICES.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_collectors_in_both_are_two_that_can_be_replaced_one_at_a_time():
    assert SERVICES["first"] == SERVICES["second"]
    assert (DEPLOYMENT["spec"]["replicas"], BUDGET["spec"]["minAvailable"]) == (2, 1)
    assert DEPLOYMENT["spec"]["strategy"] == {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert labels == SERVICE["spec"]["selector"] == BUDGET["spec"]["selector"]["matchLabels"]
    assert SERVICE["spec"]["ports"] == [{"name": "http", "port": DEFAULTS["port"], "targetPort": "http"}]
    in_time = 2 * DEFAULTS["drain_seconds"]
    assert POD["terminationGracePeriodSeconds"] > in_time
    assert int(SERVICES["first"]["stop_grace_period"].rstrip("s")) > in_time
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert POD["securityContext"].items() >= {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}.items()
    assert JOB["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == USER
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {"data": ENVIRONMENT["HUBBUB_DATA"], "registry": "/etc/hubbub"}
    for container in (CONTAINER, MAKER):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_what_the_examples_do_works_on_a_real_server(postgres, tmp_path):
    """The role's script, the command that makes the store, a start with the collector's variables, a check of them."""
    address = postgres.new_database()
    postgres.sql("drop role if exists collector")
    variables = {
        "POSTGRES_USER": "owner", "POSTGRES_DB": address.rpartition("/")[2], "COLLECTOR_PASSWORD": "it's 'secret",
        "PGHOST": "127.0.0.1", "PGPORT": str(postgres.port),
    }  # fmt: skip
    script = ["sh", str(DEPLOY / "database-role.sh")]
    path = f"{postgres._binaries}:{os.environ['PATH']}"
    subprocess.run(script, env={**os.environ, **variables, "PATH": path}, check=True)
    assert postgres.sql("select rolcanlogin, rolsuper from pg_roles where rolname = 'collector'") == [(True, False)]
    words = [address if "://" in word else word for word in SERVICES["setup"]["command"]]
    assert "Read token, shown this once" in run_command(*words).stdout
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    inside = {
        **SERVICES["first"]["environment"], "HUBBUB_STORE": address.replace("//owner@", "//collector@"),
        "HUBBUB_METRICS": str(tmp_path / "metrics.toml"), "HUBBUB_DATA": str(tmp_path / "data"), "HUBBUB_PORT": "0",
    }  # fmt: skip
    said = run_command("collect", "--check", env={**os.environ, **inside})
    assert (said.returncode, f"schema version {VERSION}" in said.stdout) == (0, True), said.stderr


@pytest.mark.skipif(shutil.which("caddy") is None, reason="needs caddy, a package of Debian's")
def test_behind_caddy_one_of_two_collectors_may_stop(postgres, tmp_path, monkeypatch):
    store = postgres.new_store()
    monkeypatch.setattr(kit, "new_store", lambda: store)
    for name in ("a", "b", "caddy"):
        (tmp_path / name).mkdir()
    with (
        Collector(tmp_path / "a", *LIMITLESS) as first,
        Collector(tmp_path / "b", *LIMITLESS) as second,
        Caddy(tmp_path / "caddy", f"{first.port} 127.0.0.1:{second.port}") as caddy,
    ):
        assert {caddy.post(seed)[0] for seed in range(10)} == {200}
        first.stop()
        deadline = time.monotonic() + 60
        while {caddy.post(seed)[0] for seed in range(16)} != {200}:
            assert time.monotonic() < deadline, "Caddy never noticed that one has stopped"
        assert second.tallies()["dark_theme"].num_reports == 16


@needs("kubernetes-validate", "kubernetes-validate")
def test_kubernetes_schemas_take_the_manifest():
    assert run(tool("kubernetes-validate"), "--strict", str(DEPLOY / "kubernetes-shared.yaml")).count(" passed ") == 4


@needs("check-jsonschema", "check-jsonschema")
def test_the_compose_specification_takes_the_file():
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose-shared.yaml"))
