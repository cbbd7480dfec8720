"""The Caddyfile under collector/deploy, run by Caddy itself in front of a real collector, over TLS."""

import http.client
import os
import shutil
import ssl
import subprocess
import time
from random import Random

import pytest

from hubbub.protocol.wire import MEDIA_TYPE, pack
from tests.collector.kit import REGISTRY, Collector, random_batch
from tests.collector.test_deploy import DEPLOY, free_port

pytestmark = pytest.mark.skipif(shutil.which("caddy") is None, reason="needs caddy, a package of Debian's")

# So that a test opens no other port, asks nobody for a certificate and leaves the system's list of authorities alone.
FOR_THE_TEST = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tdefault_bind 127.0.0.1\n"


class Caddy:
    """Caddy with the example, but for where it listens and whom it asks. Its own authority signs for localhost."""

    def __init__(self, folder, upstream):
        self.port = free_port()
        example = (DEPLOY / "Caddyfile").read_text()
        assert example.count("\n{\n") == 1
        (folder / "Caddyfile").write_text(example.replace("\n{\n", "\n" + FOR_THE_TEST))
        self.log_path = folder / "caddy.log"
        places = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")],
                stderr=log,
                env={
                    **os.environ,
                    **places,
                    "SITE": f"https://localhost:{self.port}",
                    "COLLECTOR": f"127.0.0.1:{upstream}",
                },
            )
        self._root = folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    def __enter__(self):
        deadline = time.monotonic() + 120
        while not self._answers():
            assert time.monotonic() < deadline, self.log_path.read_text()
            time.sleep(0.05)
        return self

    def _answers(self):
        try:
            return self.request("GET", "/healthz")
        except OSError:  # it does not listen yet, or has no certificate yet
            return None

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, method, path, body=None, **headers):
        context = ssl.create_default_context(cafile=str(self._root))
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=60)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, seed, **headers):
        body = pack(random_batch(Random(seed), list(REGISTRY), time.time()))
        return self.request("POST", "/v1/reports", body, Content_Type=MEDIA_TYPE, **headers)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caddy")
    flags = ("--proxies", "127.0.0.1/32", "--sender-rate", "0.01", "--sender-burst", "4")
    with Collector(folder, *flags) as collector, Caddy(folder, collector.port) as caddy:
        yield collector, caddy


def test_senders_are_told_apart_by_what_caddy_says_not_by_what_they_claim(running):
    _, caddy = running
    statuses = [caddy.post(seed, X_Forwarded_For=f"203.0.113.{seed}")[0] for seed in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]


def test_what_is_not_for_the_public_is_not_there(running):
    collector, caddy = running
    token = {"Authorization": f"Bearer {collector.token}"}
    assert [caddy.request("GET", path, **token)[0] for path in ("/v1/metrics", "/v1/tallies", "/healthz")] == [200] * 3
    assert [caddy.request("GET", path, **token)[0] for path in ("/metrics", "/readyz", "/")] == [404] * 3


def test_the_largest_body_that_a_collector_takes_passes_and_a_larger_one_does_not(running):
    collector, caddy = running
    flags = {"Content_Type": MEDIA_TYPE, "Authorization": f"Bearer {collector.relay_token()}"}
    largest = bytes(8 << 20)
    status, answer = caddy.request("POST", "/v1/relay", largest, **flags)
    assert (status, b"urn:hubbub:problem:malformed" in answer) == (400, True), "the collector has read it all"
    try:
        refused = caddy.request("POST", "/v1/relay", largest + b"!", **flags)[0]
    except OSError:  # it hung up while the rest was on its way
        refused = 413
    assert refused in (413, 502)


def test_no_address_is_written_down_even_when_the_collector_is_gone(tmp_path):
    with Caddy(tmp_path, upstream=free_port()) as caddy:
        assert caddy.post(1, User_Agent="tell-tale")[0] in (502, 503), "503 once Caddy has noticed"
    assert "127.0.0.1" not in caddy.log_path.read_text().replace("127.0.0.1:" + str(caddy.port), "")
    assert "tell-tale" not in caddy.log_path.read_text()
