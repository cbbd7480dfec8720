"""An app that ends while its client uses TLS ends in order, and does not wait for the network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.client.tls import Ended, TlsUse
from tests.client.answering_server import HANG, AnsweringServer
from tests.client.install import Install
from tests.client.processes import run_python
from tests.systems import needs_fork

AN_APP_THAT_ENDS = """
import ssl, sys, threading
from hubbub.client import Client, client, timer
registry, state, endpoint, now, moment, patience = sys.argv[1:]
client.EXIT_PATIENCE, timer.TIMEOUT = float(patience), 1e6
reached = threading.Event()
method = getattr(ssl.SSLContext, moment)
setattr(ssl.SSLContext, moment, lambda *args, **more: (reached.set(), method(*args, **more))[1])
telemetry = Client(registry, state_dir=state, endpoint=endpoint, clock=lambda: float(now), send_delay=lambda span: 0)
assert reached.wait(60)
"""
"""It ends as soon as its thread has come to a moment of its use of TLS."""

FOR_EVER = 1e5
CERTIFICATES = 4_000
"""So many take OpenSSL a few tenths of a second to read: time enough for an app to end meanwhile."""


@pytest.fixture
def ending(install: Install, certificate: Path, tmp_path: Path):
    """Lets an app end that has a message which is due."""
    install.agreed().close()
    install.days(1)
    toml = tmp_path / "metrics.toml"
    toml.write_text(install.registry.source)
    trusted = tmp_path / "trusted.crt"

    def end(url: str, moment: str, patience: float, copies: int = 1) -> None:
        trusted.write_bytes(Path(f"{certificate}.crt").read_bytes() * copies)
        run_python(
            AN_APP_THAT_ENDS, toml, install.directory, url, install.now, moment, patience, SSL_CERT_FILE=str(trusted)
        )

    return end


@pytest.fixture
def hanging(certificate: Path) -> Iterator[AnsweringServer]:
    with AnsweringServer(lambda body: HANG, certificate=certificate) as server:
        yield server


@pytest.fixture
def mute() -> Iterator[str]:
    """The address of a server that says nothing, not even hello."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("_time", range(3))
def test_an_app_can_end_while_certificates_are_read(install: Install, ending, mute: str, _time: int) -> None:
    """OpenSSL's tables are freed at the end; who still read them would bring the process down (signal 11)."""
    ending(mute, "set_default_verify_paths", 0.01, CERTIFICATES)
    assert install.client().status().batches_waiting == 1


def test_an_app_that_ends_does_not_wait_for_a_server_that_says_nothing(install: Install, ending, mute: str) -> None:
    ending(mute, "wrap_socket", 0.5)
    assert install.client().status().failures == 1
    install.days(1)
    ending(mute, "wrap_socket", FOR_EVER)  # where the last attempt failed it is not waited for at all


def test_an_app_that_ends_does_not_wait_for_an_answer(install: Install, ending, hanging: AnsweringServer) -> None:
    ending(hanging.url, "wrap_socket", 2)
    assert len(hanging.received) == 1
    status = install.client().status()
    assert (status.failures, status.batches_waiting) == (1, 1)


# --- the account of who is inside -----------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_the_end_waits_for_work_and_cuts_off_connections(pair) -> None:
    use, working, may_go = TlsUse(), threading.Event(), threading.Event()
    ours, _ = pair
    happened = []

    def work() -> None:
        with use.without_connection():
            working.set()
            may_go.wait()
            happened.append("worked")

    def wait() -> None:
        use.on(ours)
        happened.append(ours.recv(1))  # for ever
        use.leave()

    threads = [threading.Thread(target=work), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    working.wait()
    while len(use._inside) < 2:
        time.sleep(0.001)
    use.end(0)  # no patience: only the connection is gone
    threads[1].join()
    assert happened == [b""]
    may_go.set()
    use.end(60)
    assert happened == [b"", "worked"]
    threads[0].join()


def test_after_the_end_nobody_comes_in(pair) -> None:
    use = TlsUse()
    use.end(0)
    with pytest.raises(Ended):
        use.on(pair[0])
    with pytest.raises(Ended), use.without_connection():
        pytest.fail("it was let in")


def test_leaving_closes_the_copy_of_the_connection(pair) -> None:
    use = TlsUse()
    ours, theirs = pair
    use.on(ours)
    ours.close()
    theirs.settimeout(0)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)  # a copy is still open
    use.leave()
    use.leave()  # twice does no harm
    theirs.settimeout(60)
    assert theirs.recv(1) == b""


A_FORK_MEANWHILE = """
import os, threading, time, warnings
from hubbub.client import tls, Client
warnings.simplefilter("ignore")  # newer Pythons warn of such a fork
inside, over = threading.Event(), threading.Event()

def work():
    with tls.in_use.without_connection():
        inside.set()
        over.wait()

thread = threading.Thread(target=work)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    tls.in_use.end(1e5)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
"""


@needs_fork
def test_a_child_does_not_wait_for_its_parents_threads() -> None:
    assert run_python(A_FORK_MEANWHILE) == 7
