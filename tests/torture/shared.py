"""Two collectors on one PostgreSQL or several, tormented under load: what the oracle says in the end must be nothing.

Between collectors and each database stands a proxy that can do the worst: pass a statement on, wait until it is
committed, and cut both sides before the answer. Nobody then knows whether the batches are stored.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from hubbub.collector.postgres.administration import create_store
from tests.collector import kit
from tests.collector.kit import Collector
from tests.postgres_server import Server
from tests.torture.oracle import FLAGS, Oracle

_BATCHES = b"HUBB"  # how every batch begins: a statement that has one takes batches


class Proxy:
    """Passes everything on between collectors and the database, until it is told to cut or to swallow."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._armed = threading.Event()
        self._swallowing = threading.Event()
        self.cuts = 0
        self._ended = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut_an_answer(self) -> None:
        """The next batches are stored, and nobody is told. Returns when that has been done."""
        before, deadline = self.cuts, time.monotonic() + 60
        self._armed.set()
        while self.cuts == before:
            assert time.monotonic() < deadline, "no batches came for a minute"
            time.sleep(0.005)

    def swallow(self) -> None:
        """A black hole: connections stay open, new ones are taken, and nothing ever comes out on the other side."""
        self._swallowing.set()

    def pass_on_again(self) -> None:
        """New connections work. One that has lost a byte stays dead: its two ends would not understand each other."""
        self._swallowing.clear()

    def close(self) -> None:
        self._ended = True
        self._listener.close()
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=[near], daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._target), 5) as far:
            for sock in (near, far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with selectors.DefaultSelector() as selector:
                selector.register(near, selectors.EVENT_READ, far)
                selector.register(far, selectors.EVENT_READ, near)
                doomed = lost = False
                while True:
                    for key, _ in selector.select():
                        data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                        if not data:
                            return
                        if lost or self._swallowing.is_set():
                            lost = True
                            continue
                        if key.fileobj is near and _BATCHES in data and self._armed.is_set():
                            self._armed.clear()
                            doomed = True
                        if doomed and key.fileobj is far:  # the server answers: it has committed
                            self.cuts += 1
                            return
                        key.data.sendall(data)


class Torment:
    """The collectors, the databases, and what can happen to them. `server` and `proxy` are of the one chosen last."""

    def __init__(
        self,
        folder: Path,
        template: Path,
        seed: int,
        launch: Path | None,
        envs: list[dict[str, str]] | None,
        databases: int,
        registries: list[str] | None,
        patience: float,
    ) -> None:
        self.random = Random(seed)
        self.oracle = Oracle(senders=16, seed=seed, patience=patience)
        self.servers = [Server().make(template).start() for _ in range(databases)]
        self.proxies = [Proxy(server.port) for server in self.servers]
        self.choose_database(0)
        addresses = [server.new_database() for server in self.servers]
        token = create_store(",".join(addresses), None)
        self._options = [{} if launch is None else {"launch": launch, "env": env} for env in envs or [{}, {}]]
        self._address = ",".join(
            address.replace(f":{server.port}/", f":{proxy.port}/")
            for address, server, proxy in zip(addresses, self.servers, self.proxies, strict=True)
        )
        self._folders = [folder / "a", folder / "b"]
        for number, place in enumerate(self._folders):
            place.mkdir()
            (place / "metrics.toml").write_text(kit.PAIRED_TOML if registries is None else registries[number])
            (place / "token").write_text(token)
            (place / "store").write_text(self._address)
        self.collectors = [self._start(number) for number in range(2)]
        self._set_ports()
        self.counts: dict[str, int] = {}

    def choose_database(self, number: int) -> None:
        self.server, self.proxy = self.servers[number], self.proxies[number]

    def _start(self, number: int) -> Collector:
        kit.new_store = lambda: (self._address, "")
        try:
            return Collector(self._folders[number], *FLAGS, **self._options[number])
        finally:
            kit.new_store = None

    def _set_ports(self) -> None:
        self.oracle.ports = tuple(collector.port for collector in self.collectors)

    def event(self) -> None:
        """One thing goes wrong, after another batch was stored: before that, nothing would be tested."""
        self.oracle.wait_for_another()
        time.sleep(self.random.uniform(0.02, 0.2))
        self.choose_database(self.random.randrange(len(self.servers)))
        chosen = self.random.choices(
            [self.kill_collector, self.cut, self.end_backends, self.crash_backend, self.stop_server, self.kill_server]
            + [self.lose_server] * (len(self.servers) > 1),
            weights=[4, 6, 3, 1, 1, 1] + [3] * (len(self.servers) > 1),
        )[0]
        chosen()
        self.counts[chosen.__name__] = self.counts.get(chosen.__name__, 0) + 1

    def kill_collector(self) -> None:
        number = self.random.randrange(2)
        self.collectors[number].stop(signal.SIGKILL)
        self.collectors[number] = self._start(number)
        self._set_ports()

    def cut(self) -> None:
        self.proxy.cut_an_answer()

    def end_backends(self) -> None:
        self.server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hubbub'")

    def crash_backend(self) -> None:
        """kill -9 of one backend: the server ends all others and recovers."""
        rows = self.server.sql("select pid from pg_stat_activity where application_name = 'hubbub'")
        with suppress(ProcessLookupError):
            os.kill(self.random.choice(rows)[0], signal.SIGKILL)
        time.sleep(0.1)  # else the server may seem ready because it has not noticed
        self.server.wait_until_ready()

    def stop_server(self) -> None:
        self.server.stop(signal.SIGQUIT)
        self.server.start()

    def kill_server(self) -> None:
        self.server.stop(signal.SIGKILL)
        self.server.start()

    def lose_server(self) -> None:
        """One of several is away: what belongs to the others is stored all the same.

        Not for long: soon each sender has a batch that belongs to the one that is away, and waits with it.
        """
        before = self.oracle.answers["stored"]
        self.server.stop(signal.SIGKILL)
        self.oracle.wait_for_another(before)
        self.server.start()

    def freeze_collector(self, seconds: float = 0.5) -> None:
        """It may have a group under way; whatever it holds, the other one goes on."""
        number = self.random.randrange(2)
        self.collectors[number].process.send_signal(signal.SIGSTOP)
        try:
            self.oracle.wait_for_another()
            time.sleep(seconds)
            self.oracle.wait_for_another()
        finally:
            self.collectors[number].process.send_signal(signal.SIGCONT)

    def freeze_backend(self, seconds: float = 0.5) -> None:
        """It may hold whatever the server has locked inside, so that nobody goes on before it does."""
        rows = self.server.sql("select pid from pg_stat_activity where application_name = 'hubbub'")
        pid = self.random.choice(rows)[0]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)

    def black_hole(self) -> None:
        """Until both collectors have given up waiting."""
        self.proxy.swallow()
        deadline = time.monotonic() + 120
        while any(collector.request("GET", "/readyz")[0] == 200 for collector in self.collectors):
            assert time.monotonic() < deadline, "a collector waits for ever"
            time.sleep(0.05)
        self.proxy.pass_on_again()
        self.oracle.wait_for_another()

    def end(self) -> list[str]:
        """Let everything be acknowledged; what is wrong with the counts, as any of the collectors shows them."""
        self.oracle.finish()
        self.ids = [server.sql("select count(*) from hubbub.ids", "test_1")[0][0] for server in self.servers]
        return self.oracle.verdict(self.random.choice(self.collectors))

    def close(self) -> None:
        self.oracle.finish(give_up=True)
        for collector in self.collectors:
            collector.stop(signal.SIGKILL)
        for proxy, server in zip(self.proxies, self.servers, strict=True):
            proxy.close()
            server.remove()


def torment(
    folder: Path,
    template: Path,
    events: int,
    seed: int,
    launch: Path | None = None,
    envs: list[dict[str, str]] | None = None,
    what: Callable[[Torment], None] = Torment.event,
    batches: int = 0,
    databases: int = 1,
    registries: list[str] | None = None,
    patience: float = Oracle.patience,
) -> tuple[list[str], Torment]:
    """So many events under load, and at least so many batches; what the oracle says in the end."""
    torn = Torment(folder, template, seed, launch, envs, databases, registries, patience)
    try:
        torn.oracle.start()
        for _ in range(events):
            what(torn)
        while len(torn.oracle.batches) < batches:
            torn.oracle.wait_for_another()
        return torn.end(), torn
    finally:
        torn.close()
