"""One install of an app in a test: its state directory, its clock, its chance, its collector. Clients come and go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from hubbub.client import Client, Registry
from hubbub.client.client import _clients
from hubbub.protocol.report import Report, by_short_hash
from hubbub.protocol.wire import unpack
from tests.client.answering_server import AnsweringServer
from tests.client.registries import metric, registry

DAY = 86_400
START = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
"""A Monday at noon: the week begins, the month does not."""


class Install:
    """Time stands still until it is told to pass, and a message leaves as soon as its epoch is over."""

    def __init__(self, directory: Path, server: AnsweringServer) -> None:
        self.directory = directory
        self.server = server
        self.now = START
        self.chance = Random(20_261_116).randbytes
        self.registry = registry(metric("dark_theme"))
        self.clients: list[Client] = []

    def client(self, asks: Registry | None = None, **options: Any) -> Client:
        """A run of the app begins."""
        if asks is not None:
            self.registry = asks
        given = {
            "endpoint": self.server.url,
            "state_dir": self.directory,
            "background": False,
            "clock": lambda: self.now,
            "send_delay": lambda span: 0.0,
            "random": self.chance,
            **options,
        }
        client = Client(self.registry, **given)
        self.clients.append(client)
        return client

    def agreed(self, asks: Registry | None = None, **options: Any) -> Client:
        """A client whose person said yes yesterday, so that it reports from today on."""
        client = self.client(asks, **options)
        client.consent(True)
        self.days(1)
        return client

    def with_message(self, **options: Any) -> Client:
        """A client of a person who agreed, with one message that is due."""
        client = self.agreed(**options)
        client.record("dark_theme", True)
        self.days(1)
        return client

    def days(self, number: float = 1) -> None:
        """The app runs on, in silence: its timer looks every day. (No thread is in the way of these tests.)"""
        while number > 1:
            self.days(1)
            number -= 1
        self.now += number * DAY
        self.look()

    def asleep(self, days: float) -> None:
        """The machine is, or the clock is set: nobody looks meanwhile."""
        self.now += days * DAY

    def look(self) -> None:
        """What the timer of every open client does every 15 minutes."""
        for client in self.clients:
            if client in _clients and client.mode == "on":
                with client._never_raising():
                    client._timer.look()

    def arrived(self, *known: Registry) -> list[Report]:
        """All reports that the server was sent, in order, those sent again included."""
        return reports_in(self.server.bodies, *(known or [self.registry]))

    def close(self) -> None:
        for client in self.clients:
            client.close()


def reports_in(bodies: Iterable[bytes], *known: Registry) -> list[Report]:
    definitions = by_short_hash(found for asks in known for found in asks.in_all_segments())
    return [report for body in bodies for report in unpack(body, definitions).reports]
