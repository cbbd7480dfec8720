"""A client in an event loop: it goes on whatever a server does."""

from __future__ import annotations

import asyncio
import threading

from hubbub.client import Client
from tests.client.answering_server import Answer, stored
from tests.client.install import DAY, Install
from tests.client.processes import PATIENCE


def test_an_event_loop_goes_on_while_a_server_hangs(install: Install) -> None:
    asked, answer_now = threading.Event(), threading.Event()
    waited = []

    def answer(body: bytes) -> Answer:
        asked.set()
        waited.append(answer_now.wait(PATIENCE))  # for the loop, which must not be waiting for this
        return stored(body)

    install.server.answer = answer
    client = install.agreed()
    install.days(1)

    async def app() -> bool:
        flushing = asyncio.ensure_future(client.aflush(timeout=PATIENCE))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        answer_now.set()
        return await flushing

    assert asyncio.run(app())
    assert waited == [True]


def test_aflush_sends_what_is_due(install: Install) -> None:
    client: Client = install.agreed()
    install.days(1)
    assert asyncio.run(client.aflush())
    assert [report.epoch * DAY for report in install.arrived()] == [install.now // DAY * DAY - DAY]
