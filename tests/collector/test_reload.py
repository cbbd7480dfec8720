"""SIGHUP: a running collector takes up new files; a bad one is refused in its log, and the old one stays in force."""

import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from random import Random

import pytest

from hubbub.collector.catalog import Catalog
from hubbub.protocol.registry import Registry
from tests.collector.kit import REGISTRY_TOML, Collector, random_batch

EXTRA = """
[metrics.plugins]
kind = "flag"
every = "day"
why = "To test"
owner = "test@example.org"
expires = 2099-01-01
epsilon_one_report = 1.0
epsilon_permanent = 3.0
max_values = 2
"""
LARGER = Registry.parse(REGISTRY_TOML + EXTRA)


def reload(collector):
    """Tell it, and wait for what it says to that."""
    before = len(notices(collector))
    collector.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    while len(notices(collector)) == before:
        assert time.monotonic() < deadline, "it said nothing"
        time.sleep(0.02)
    return notices(collector)[-1]


def notices(collector):
    whole = collector.log_path.read_text().rpartition("\n")[0]
    return [notice for notice in map(json.loads, whole.splitlines()) if "reload" in notice["message"]]


@pytest.mark.usefixtures("each_store")
def test_a_new_metric_is_counted_at_once_and_still_after_a_crash(tmp_path):
    batch = random_batch(Random(1), list(LARGER), time.time())
    with Collector(tmp_path, "--checkpoint-seconds", "0.05") as collector:
        assert collector.send(batch)[1]["type"] == "urn:hubbub:problem:metric-unknown"
        for seed in range(20):  # so that checkpoints are being written meanwhile
            collector.send(random_batch(Random(100 + seed), list(LARGER)[:-1], time.time()))
        (tmp_path / "metrics.toml").write_text(REGISTRY_TOML + EXTRA)
        notice = reload(collector)
        assert (notice["level"], notice["message"], notice["metrics"]) == ("info", "reloaded", len(LARGER))
        assert collector.send(batch) == (200, {"status": "stored", "batch_id": batch.batch_id.hex()})
        assert collector.tallies()["plugins"].num_reports == 1
        assert len(json.loads(collector.request("GET", "/v1/metrics")[2])["metrics"]) == len(LARGER)
        collector.stop(signal.SIGKILL)
    with Collector(tmp_path) as again:
        assert again.tallies()["plugins"].num_reports == 1
        assert again.send(batch)[1]["status"] == "duplicate"


GROWING = """
[metrics.tongue]
kind = "choice"
every = "day"
why = "To test"
owner = "test@example.org"
expires = 2099-01-01
epsilon_one_report = 1.0
epsilon_permanent = 3.0
max_values = 2
choices = ["a", "b"]
reserve = 2
"""
NAMED = GROWING + 'named = ["c"]\n'


@pytest.mark.usefixtures("each_store")
def test_a_spare_place_that_is_named_is_named_in_counts_of_before_too(tmp_path):
    """At once for readers, who have an ETag of the same counts; after a crash, also by a collector whose registry is
    older; and the counts go on."""
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML + GROWING)
    growing, named = (Registry.parse(REGISTRY_TOML + asks) for asks in (GROWING, NAMED))
    first, second = (random_batch(Random(n), [asks["tongue"]], time.time()) for n, asks in ((1, growing), (2, named)))
    with Collector(tmp_path, "--checkpoint-seconds", "0.05") as collector:
        collector.send(first)
        assert collector.tallies()["tongue"].metric.shape.later_names == ()
        (tmp_path / "metrics.toml").write_text(REGISTRY_TOML + NAMED)
        assert reload(collector)["message"] == "reloaded"
        assert collector.tallies()["tongue"].metric.shape.later_names == ("c",)
        collector.send(second)
        assert collector.tallies()["tongue"].num_reports == 2
        collector.stop(signal.SIGKILL)
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML + GROWING)
    with Collector(tmp_path) as again:
        tally = again.tallies()["tongue"]
        assert (tally.num_reports, tally.metric.shape.later_names) == (2, ("c",))


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("", GROWING, NAMED), ("c",)),
        ((GROWING, NAMED), ("c",)),
        ((NAMED, GROWING), ("c",)),
        ((GROWING + 'named = ["d"]\n', NAMED + "grace = 3\n"), ("d",)),
    ],
    ids=["two older files", "the older file knows more", "the newer file knows more", "they disagree"],
)
def test_a_name_that_any_file_has_given_stays_and_the_newer_one_holds(files, names):
    current, *older = (Registry.parse(REGISTRY_TOML + asks) for asks in files)
    (found,) = (metric for metric in Catalog(current, tuple(older)).metrics if metric.name == "tongue")
    assert found.shape.later_names == names


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        ("nonsense", "not TOML"),
        (None, "No such file"),
        (
            REGISTRY_TOML.replace("grace = 6", "grace = 7", 1),
            "dark_theme: grace can only change with a restart, from 6 to 7",
        ),
    ],
)
def test_a_registry_that_cannot_be_used_is_refused_and_the_old_one_stays(tmp_path, registry, words):
    with Collector(tmp_path) as collector:
        if registry is None:
            (tmp_path / "metrics.toml").unlink()
        else:
            (tmp_path / "metrics.toml").write_text(registry)
        notice = reload(collector)
        assert (notice["level"], notice["message"]) == ("error", "the reload was refused; everything stays as it was")
        assert words in notice["problems"][0]
        assert collector.send(random_batch(Random(1), list(LARGER)[:-1], time.time()))[0] == 200
        (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)


def test_limits_are_taken_from_the_config_file_and_what_needs_a_restart_is_named(tmp_path):
    config = tmp_path / "collector.toml"
    config.write_text("sender_burst = 2\nsender_rate = 0.001\n")
    with Collector(tmp_path, "--config", str(config)) as collector:
        assert [collector.post(b"")[0] for _ in range(4)] == [400, 400, 429, 429]
        config.write_text("sender_burst = 1000\nsender_rate = 1e6\nmax_connections = 77\n")
        notice = reload(collector)
        assert (notice["level"], notice["need_a_restart"]) == ("info", ["max_connections"])
        assert [collector.post(b"")[0] for _ in range(4)] == [400] * 4
        config.write_text("sender_burst = 0\n")
        assert reload(collector)["problems"] == ["sender_burst must be at least 1, got 0"]
        assert collector.post(b"")[0] == 400


def test_tokens_are_read_again(tmp_path):
    with Collector(tmp_path) as collector:
        assert collector.get("/metrics")
        (collector.data / "tokens").write_text("")
        reload(collector)
        assert collector.request("GET", "/metrics", Authorization=f"Bearer {collector.token}")[0] == 401


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    with Collector(tmp_path, "--tls-certificate", str(certificate), "--tls-key", str(key)) as collector:
        assert served(collector) == ssl.PEM_cert_to_DER_cert(certificate.read_text())
        make_certificate(certificate, key)
        assert reload(collector)["message"] == "reloaded"
        renewed = certificate.read_text()
        assert served(collector) == ssl.PEM_cert_to_DER_cert(renewed)
        make_certificate(tmp_path / "other.pem", key)
        notice = reload(collector)
        assert notice["problems"] == [f"tls_key must be the key of tls_certificate, got {key}, the key of another"]
        assert served(collector) == ssl.PEM_cert_to_DER_cert(renewed)


def make_certificate(certificate, key):
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)


def served(collector):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", collector.port), timeout=30) as sock,
        context.wrap_socket(sock) as secured,
    ):
        return secured.getpeercert(binary_form=True)
