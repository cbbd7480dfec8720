"""A client on a pretend machine has its time, place and network from there, and its noise from the chance given."""

from __future__ import annotations

from random import Random

import pytest

from hubbub.client import Client
from hubbub.protocol.cadence import DAY
from hubbub.simulations.pretend_machine import PretendMachine, keep_in, state_folder
from tests.simulations.test_fleet import NOW, REGISTRY


def lived(seed: int, mode: str = "on") -> tuple[str, list[bytes]]:
    """A day with a record, the day after, and what had left by then."""
    messages: list[bytes] = []
    with state_folder() as folder:
        machine = PretendMachine(state_dir=folder, now=NOW, post=keep_in(messages), random=Random(seed).randbytes)
        with Client(REGISTRY, **machine.for_client(mode)) as client:
            client.consent(True)
            machine.now += DAY
            client.record("features", "a")
            client.flush()
            machine.now += DAY
            assert messages == []
            client.flush()
            assert client.status().state_directory.startswith(folder)
            return client.mode, messages


def test_an_epoch_is_over_when_its_clock_says_so_and_chance_is_that_of_the_machine() -> None:
    first, again, other = lived(1), lived(1), lived(2)
    assert len(first[1]) == 1
    assert first == again != other


@pytest.mark.parametrize("mode", ["on", "off"])
def test_wishes_in_the_environment_around_it_are_not_meant_for_it(monkeypatch, mode: str) -> None:
    monkeypatch.setenv("HUBBUB_MODE", "on" if mode == "off" else "off")
    said, messages = lived(1, mode)
    assert (said, len(messages)) == (mode, 1 if mode == "on" else 0)
