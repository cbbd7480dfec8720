"""The environment's proxies and certificates are honoured, the sender is a thread only while it has something to do."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.client import Client
from tests.client.answering_server import DRIP, HANG, Answer, AnsweringServer, stored
from tests.client.install import Install
from tests.client.processes import run_python


def with_message(install: Install, **options: object) -> Client:
    client = install.agreed(**options)
    client.record("dark_theme", True)
    install.days(1)
    return client


# --- proxies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_asked_for_the_whole_address(install: Install, environment, name: str) -> None:
    with AnsweringServer() as proxy:
        environment.setenv(name, proxy.url)
        client = with_message(install, endpoint="http://127.0.0.1:1/base")
        client.flush()
        assert [received.path for received in proxy.received] == ["http://127.0.0.1:1/base/v1/reports"]
        assert client.status().counts["sent"] == 1


def test_hosts_that_need_no_proxy_are_asked_directly(install: Install, environment) -> None:
    with AnsweringServer() as proxy:
        environment.setenv("http_proxy", proxy.url)
        environment.setenv("no_proxy", "127.0.0.1")
        with_message(install).flush()
        assert proxy.connections == 0
    assert len(install.server.bodies) == 1


# --- certificates ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that nobody but its maker trusts, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=hubbub "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {path} -out {path}.crt".split(),
        check=True,
        capture_output=True,
    )
    with path.open("ab") as pem:
        pem.write(Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def tls(certificate: Path, environment: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    environment.delenv("SSL_CERT_FILE", raising=False)
    environment.delenv("SSL_CERT_DIR", raising=False)
    with AnsweringServer(certificate=certificate) as server:
        yield server


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(install: Install, tls: AnsweringServer) -> None:
    client = with_message(install, endpoint=tls.url)
    client.flush()
    assert (client.status().batches_waiting, client.status().failures) == (1, 1)
    assert (tls.connections, tls.bodies) == (1, [])


def test_a_certificate_that_the_environment_trusts_is_trusted(install, tls, certificate, environment) -> None:
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = with_message(install, endpoint=tls.url)
    client.flush()
    assert client.status().counts["sent"] == len(tls.bodies) == 1


def test_a_trusted_certificate_of_another_host_is_refused(install, tls, certificate, environment) -> None:
    environment.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    client = with_message(install, endpoint=tls.url.replace("127.0.0.1", "localhost"))
    client.flush()
    assert (client.status().batches_waiting, tls.bodies) == (1, [])


# --- the thread -----------------------------------------------------------------------------------------------------


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hubbub-sender"]


def test_the_sender_is_a_daemon_thread_that_exists_only_while_something_is_due(install: Install) -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def answer(body: bytes) -> object:
        asked.set()
        answer_now.wait(30)
        return stored(body)

    install.server.answer = answer
    client = install.agreed(background=True)
    client.record("dark_theme", True)
    assert client.flush()
    assert senders() == []
    install.days(1)
    client.record("dark_theme", True)
    assert asked.wait(30)
    (thread,) = senders()
    assert thread.daemon
    client.record("dark_theme", True)
    assert senders() == [thread]
    answer_now.set()
    thread.join(30)
    assert senders() == []
    assert client.status().counts["sent"] == 1
    client.record("dark_theme", True)
    assert senders() == []


def test_record_does_not_wait_for_the_network(install: Install) -> None:
    install.server.answer = lambda body: HANG
    client = install.agreed(background=True)
    install.days(1)
    client.record("dark_theme", True)  # with a server that never answers, waiting would mean for ever
    (thread,) = senders()
    assert client.status().counts["made"] == 2
    install.server.over.set()
    thread.join(30)


def test_without_background_there_is_never_a_thread(install: Install) -> None:
    before = threading.active_count()
    seen = []
    install.server.answer = lambda body: seen.extend(senders()) or stored(body)
    client = with_message(install)
    client.record("dark_theme", True)
    assert install.server.connections == 0
    client.flush()
    assert len(install.server.bodies) == 1
    assert seen == []
    assert threading.active_count() <= before + 1  # the server's, which may still be closing its connection


def test_a_flush_waits_for_the_thread_at_most_so_long(install: Install) -> None:
    answer_now = threading.Event()
    waited = []

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        waited.append(answer_now.wait(60))
        return stored(body)

    client = with_message(install, background=True, post=post)
    assert not client.flush(timeout=0.05)  # were the thread waited for, it would end only after its own minute
    (thread,) = senders()
    answer_now.set()
    thread.join(60)
    assert waited == [True]
    assert client.flush(timeout=0.05)


def test_a_flush_waits_for_the_thread_until_it_has_sent(install: Install) -> None:
    asked, flushing = threading.Event(), threading.Event()

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        asked.set()
        flushing.wait(60)
        return stored(body)

    client = install.agreed(background=True, post=post)
    install.days(1)
    client.record("dark_theme", True)
    assert asked.wait(60)
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        flushing.set()  # the caller waits: only now may the answer come
        join(thread, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "join", joined)
        assert client.flush(timeout=60)
    assert client.status().counts["sent"] == 1


# --- leaving --------------------------------------------------------------------------------------------------------

FOR_EVER = 100_000
AN_APP_THAT_ENDS = """
import json, os, sys, time
from hubbub.client import Client, sender
from hubbub.client import client as module
registry, state, endpoint, now, patience, background, record = sys.argv[1:]
module.EXIT_PATIENCE, sender.TIMEOUT = float(patience), 1e6
telemetry = Client(registry, state_dir=state, endpoint=endpoint, clock=lambda: float(now), background=bool(background),
                   send_delay=lambda span: 0)
if record:
    telemetry.record("dark_theme", True)
begin = time.monotonic()
telemetry.close()
print(time.monotonic() - begin)
"""


@pytest.fixture
def ending(install: Install):
    """Lets an app end that has a message which is due; returns for how many seconds its end took. One that waits for
    what never comes is found out: a process that hangs fails the test."""
    client = install.agreed(send_delay=lambda span: span)
    client.close()
    install.days(1)
    (install.directory.parent / "metrics.toml").write_text(install.registry.source)

    def end(patience: float, background: bool = True, record: bool = False) -> float:
        arguments = ("x" if background else "", "x" if record else "")
        toml = install.directory.parent / "metrics.toml"
        url = install.server.url
        return run_python(AN_APP_THAT_ENDS, toml, install.directory, url, install.now, patience, *arguments)

    return end


@pytest.mark.parametrize("background", [True, False])
def test_the_end_of_an_app_waits_two_seconds_for_a_server_that_hangs(install: Install, ending, background) -> None:
    install.server.answer = lambda body: HANG
    assert ending(patience=2, background=background, record=background) >= 1.9
    assert install.server.connections == 1
    assert install.client().status().failures == 1


def test_the_end_of_an_app_waits_no_longer_for_an_answer_that_drips(install: Install, ending) -> None:
    install.server.answer = lambda body: DRIP  # no single wait ever times out
    ending(patience=0.5)
    assert install.client().status().batches_waiting == 1


def test_the_end_of_an_app_does_not_wait_where_the_last_attempt_failed(install: Install, ending) -> None:
    install.server.answer = lambda body: HANG
    ending(patience=0.1)
    install.days(1)
    ending(patience=FOR_EVER, record=True)  # though a message is due, and a sender hangs on it


def test_the_end_of_an_app_does_not_wait_where_nothing_is_due(install: Install, ending) -> None:
    ending(patience=60)
    assert install.server.connections == 1
    install.server.answer = lambda body: HANG
    ending(patience=FOR_EVER, record=True)
    assert install.server.connections == 1


def test_the_end_of_an_app_sends_what_is_due(install: Install, ending) -> None:
    ending(patience=60)
    assert len(install.arrived()) == 1


def test_an_app_that_never_closes_its_client_sends_at_exit(install: Install, ending) -> None:
    script = AN_APP_THAT_ENDS.replace("telemetry.close()", "")
    toml = install.directory.parent / "metrics.toml"
    run_python(script, toml, install.directory, install.server.url, install.now, 60, "x", "x")
    assert len(install.arrived()) == 1


def test_counts_that_were_not_yet_saved_are_saved_at_the_end(install: Install) -> None:
    with install.agreed() as client:
        for _ in range(5):
            client.record("dark_theme", True)
    assert install.client().status().counts == {"made": 1, "repeated": 4}


def test_a_client_can_be_closed_twice_and_used_again(install: Install) -> None:
    client = install.agreed()
    client.close()
    client.close()
    client.record("dark_theme", True)
    assert client.status().counts["made"] == 1
