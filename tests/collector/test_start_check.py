"""`hubbub collect --check` says whether a start would succeed, and changes nothing."""

import os
import socket
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from tests.collector.certificates import make_certificate, needs_openssl
from tests.collector.kit import REGISTRY_TOML, Collector, run_command


@pytest.fixture
def check(tmp_path):
    """Runs the check; its exit status and what it said. Whatever it was given is as it was before."""
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(REGISTRY_TOML)

    def run(*flags):
        before = everything(tmp_path)
        port = () if "--port" in flags else ("--port", "0")
        done = run_command("collect", "--check", "--metrics", metrics, *flags, *port, cwd=tmp_path, timeout=120)
        assert "Traceback" not in done.stderr
        assert everything(tmp_path) == before
        return done.returncode, done.stdout + done.stderr

    return run


def everything(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_start_that_would_succeed(check, tmp_path):
    expected = f"{tmp_path / 'metrics.toml'}: 8 metrics; 8 definitions are counted\n"
    assert check() == (0, expected)
    assert check("--data", str(tmp_path / "not" / "yet")) == (0, expected)
    with Collector(tmp_path) as running:
        pass
    assert check("--data", str(running.data)) == (0, expected)


def test_a_port_that_is_taken_is_named(check):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        status, words = check("--port", port)
        assert (status, f"port {port} of 127.0.0.1 cannot be listened on: Address already in use" in words) == (2, True)
    assert check("--port", port)[0] == 0


def test_an_address_that_is_not_ours_is_named(check):
    status, words = check("--host", "192.0.2.1")
    assert (status, "of 192.0.2.1 cannot be listened on" in words) == (2, True)
    status, words = check("--host", "no-such-host.invalid")
    assert (status, "host must be an address of this machine, got 'no-such-host.invalid'" in words) == (2, True)


def test_data_that_is_a_file_is_named(check, tmp_path):
    (tmp_path / "file").write_text("")
    status, words = check("--data", str(tmp_path / "file"))
    assert (status, f"data must be a directory, got {tmp_path / 'file'}" in words) == (2, True)
    status, words = check("--data", str(tmp_path / "file" / "below"))
    assert (status, f"below: {tmp_path / 'file'} is a file" in words) == (2, True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_data_that_cannot_be_written_to_is_named(check, tmp_path):
    status, words = check("--data", "/proc/self")
    assert (status, "data must be writable, got /proc/self" in words) == (2, True)
    if os.getuid():
        (tmp_path / "closed").mkdir(mode=0o500)
        assert "data must be writable" in check("--data", str(tmp_path / "closed"))[1]


def test_a_store_that_this_hubbub_cannot_read_is_named(check, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    database = sqlite3.connect(data / "store.sqlite")
    database.execute("create table other (x)")
    assert "got another program's database" in check("--data", str(data))[1]
    database.execute("pragma user_version = 999")
    database.close()
    status, words = check("--data", str(data))
    assert (status, "schema version must be " in words, "got 999; run the hubbub that wrote" in words) == (
        2,
        True,
        True,
    )
    (data / "store.sqlite").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    status, words = check("--data", str(data))
    assert (status, "must be a collector's checkpoint" in words) == (2, True)


def test_beside_the_running_collector_the_rest_is_checked(check, tmp_path):
    with Collector(tmp_path) as running:
        flags = ("--data", str(running.data), "--port", str(running.port))
        command = ("collect", "--check", "--metrics", tmp_path / "metrics.toml", *flags)
        done = run_command(*command)
        assert done.returncode == 0
        words = f"{running.data}: in use by a running collector; its port and directory were not checked"
        assert words in done.stdout.splitlines()
        (tmp_path / "metrics.toml").write_text("nonsense")
        assert run_command(*command).returncode == 2


@needs_openssl
class TestCertificates:
    @pytest.fixture
    def made(self, tmp_path):
        return partial(make_certificate, tmp_path)

    def test_one_that_is_valid_today_passes(self, check, made):
        certificate, key = made("good", "20200101000000Z", "20990101000000Z")
        assert check("--tls-certificate", str(certificate), "--tls-key", str(key))[0] == 0

    @pytest.mark.parametrize(
        ("dates", "words"),
        [
            (("20200101000000Z", "20200201000000Z"), "has expired"),
            (("20980101000000Z", "20990101000000Z"), "is not valid yet"),
        ],
    )
    def test_one_that_is_not_is_named(self, check, made, dates, words):
        certificate, key = made("bad", *dates)
        status, said = check("--tls-certificate", str(certificate), "--tls-key", str(key))
        assert (status, f"tls_certificate {certificate} {words}" in said) == (2, True)

    def test_the_key_of_another_is_named(self, check, made):
        certificate, _ = made("one", "20200101000000Z", "20990101000000Z")
        _, key = made("two", "20200101000000Z", "20990101000000Z")
        status, said = check("--tls-certificate", str(certificate), "--tls-key", str(key))
        assert (status, f"tls_key must be the key of tls_certificate, got {key}" in said) == (2, True)
