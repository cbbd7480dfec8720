"""The files under collector/deploy: nginx runs as its example says, systemd takes the unit."""

import json
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from random import Random

import pytest

from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, ROOT, Collector, random_batch

DEPLOY = ROOT / "collector" / "deploy"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.skipif(None in (shutil.which("nginx"), shutil.which("openssl")), reason="needs nginx and openssl")
def test_behind_nginx_batches_are_stored_and_senders_are_told_apart_by_what_nginx_says(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 "
        f"-keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    flags = ("--proxies", "127.0.0.1/32", "--sender-rate", "0.01", "--sender-burst", "4")
    with Collector(tmp_path, *flags) as collector:
        port = free_port()
        process = start_nginx(tmp_path, collector.port, port, certificate, key)
        try:
            context = ssl.create_default_context(cafile=str(certificate))
            answers = [post(port, context, seed, {"X-Forwarded-For": f"203.0.113.{seed}"}) for seed in range(6)]
            # All six come from one address, whatever they claim: the fifth is over the limit.
            assert [status for status, _ in answers] == [200, 200, 200, 200, 429, 429]
            assert answers[0][1]["status"] == "stored"
        finally:
            process.terminate()
            process.wait()


def start_nginx(folder: Path, upstream: int, port: int, certificate: Path, key: Path) -> subprocess.Popen:
    example = (DEPLOY / "nginx.conf").read_text()
    example = example.replace("127.0.0.1:8787", f"127.0.0.1:{upstream}").replace(
        "listen 443", f"listen 127.0.0.1:{port}"
    )
    example = re.sub(r"/etc/ssl/\S+\.pem", str(certificate), example)
    example = re.sub(r"/etc/ssl/\S+\.key", str(key), example)
    example = example.replace("/var/log/nginx/hubbub-error.log", str(folder / "error.log"))
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "main.conf"
    top = f"daemon off; pid {folder}/nginx.pid; error_log {folder}/main.log; events {{}}\n"
    main.write_text(f"{top}http {{ {places}\n{example}\n}}\n")
    command = [shutil.which("nginx"), "-p", str(folder), "-c", str(main)]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    process = subprocess.Popen(command)
    for _ in range(100):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    raise AssertionError((folder / "main.log").read_text())


def post(port, context, seed, headers):
    body = pack(random_batch(Random(seed), list(REGISTRY), time.time()))
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/v1/reports", body, {"Content-Type": MEDIA_TYPE, **headers}
    )
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit_and_finds_it_well_shut(tmp_path):
    unit = tmp_path / "hubbub-collector.service"
    unit.write_text((DEPLOY / "hubbub-collector.service").read_text().replace("/opt/hubbub/bin/hubbub", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if unit.name in line]) == (0, [])
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit)], capture_output=True, text=True
    )
    assert rated.returncode == 0, rated.stdout
