"""The real client lives through every scenario of behaviour.json: the same messages at the same moments, the same
modes, accounts and counts after every step. A second implementation of the contract derived what is expected."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from hubbub.client import Answer, Client, Registry
from hubbub.client.control import pending
from hubbub.client.recorder import Withdrawn
from hubbub.client.respond import RandomDraws
from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.channel import PRECISION, SubsetChannel, Units
from tests.protocol.test_vectors import value_of, vectors

SCENARIOS = vectors("behaviour")
REGISTRIES = {case["about"]: Registry.parse(case["toml"]) for case in vectors("compiled")}
COUNTED = ("made", "absent", "clamped", "overflowed", "expired", "sent")


class Scripted(RandomDraws):
    """Fresh noise as the scenario has it, in its order; what is drawn by key is left to the key."""

    def __init__(self, numbers: Iterator[list[int]]) -> None:
        super().__init__(bytes)
        self._numbers = numbers

    def number(self, units: Units, width: int) -> int:
        (number,) = next(self._numbers)
        return number

    def subset(self, channel: SubsetChannel, sent: int) -> int:
        raise AssertionError("a subset is never drawn afresh")

    def digits(self, units: Units, width: int, sent: int) -> bytes:
        numbers = next(self._numbers)
        assert len(numbers) == width
        words = (sum((number >> digit & 1) << i for i, number in enumerate(numbers)) for digit in range(PRECISION))
        return b"".join(word.to_bytes((width + 7) // 8, "little") for word in words)


class World:
    """One install in virtual time. `Client` without its thread: timers come when they wanted to."""

    def __init__(self, scenario: Any, directory: Path) -> None:
        self.scenario, self.directory = scenario, directory
        self.now, self.wake = float(scenario["steps"][0]["at"]), float("inf")
        self.client: Client | None = None
        self.sent: list[dict[str, Any]] = []
        self.timed = {
            (row["draw"], row["every"], row["epoch"], row["attempt"]): row["numbers"][0]
            for row in scenario["draws"]
            if row["draw"] != "bits"
        }
        self.fresh = iter([row["numbers"] for row in scenario["draws"] if row["draw"] == "bits"])
        lives = ((bytes.fromhex(life["key"]), int(life["number"])) for life in scenario["identities"])
        self.chance = iter([part for key, number in lives for part in (key, (number << 2).to_bytes(8, "little"))])
        self.draws = Scripted(self.fresh)

    def timing(self, purpose: str, every: str, epoch: int, attempt: int) -> bytes:
        draw = "later" if purpose == "pause" and attempt < 0 else purpose
        number = self.timed.pop((draw, every, epoch, abs(attempt)))  # none is drawn twice
        return bytes.fromhex(number) if purpose == "id" else number.to_bytes(16, "little")

    def random(self, size: int) -> bytes:
        drawn: bytes = next(self.chance)
        assert len(drawn) == size
        return drawn

    def post(self, endpoint: str, body: bytes, timeout: float) -> Answer:
        answer = self.scenario["messages"][len(self.sent)]["answer"]
        self.sent.append({"at": self.now, "body": body.hex(), "answer": answer})
        if "fails" in answer:
            raise ConnectionRefusedError
        text = answer["body"].replace("{batch_id}", body[8:24].hex())
        return Answer(answer["status"], text.encode(), answer["headers"])

    def pass_until(self, moment: float) -> None:
        while self.wake <= moment:
            self.now = max(self.now, self.wake)
            self.step()
        self.now = moment

    def step(self) -> None:
        assert self.client is not None
        self.wake = float("inf")
        if self.client.mode == "on":
            try:
                self.wake = self.client._timer.step()
            except Withdrawn as error:
                self.client._told_by_timer(error)

    def act(self, step: Any) -> None:
        match step["do"]:
            case "start":
                self.begin(step)
            case "stop":
                self.running.close()
                self.client, self.wake = None, float("inf")
            case "consent":
                self.running.consent(step["agreed"])
            case "forget":
                self.running.forget()
            case "record":
                self.running.record(step["metric"], value_of(step["value"]))
            case "add":
                self.running.add(step["metric"], value_of(step["value"]))
            case "sleep":
                self.wake += step["until"] - step["at"]
            case "copy":
                shutil.copytree(self.directory, self.directory.with_name("copy"))
                self.directory = self.directory.with_name("copy")
        if step["do"] in ("start", "consent", "forget"):
            self.step()

    @property
    def running(self) -> Client:
        assert self.client is not None
        return self.client

    def begin(self, step: Any) -> None:
        self.client = Client(
            REGISTRIES[step["registry"]],
            endpoint=step["endpoint"],
            segments=step["segments"],
            state_dir=self.directory,
            environ={**step["environ"], "HUBBUB_MODE": "on"},
            post=self.post,
            clock=lambda: self.now,
            random=self.random,
            draws=self.draws,
            timing=self.timing,
        )

    def seen(self) -> dict[str, Any]:
        status = self.running.status()
        waiting = [row for row in pending(self.running._state, None) if row.not_before is not None]
        return {
            "mode": self.running.mode,
            "reason": self.running.reason,
            "spent": round(status.epsilon_spent * 1_000_000),
            "set_aside": round(status.epsilon_set_aside * 1_000_000),
            "waiting": [[row.every, parse_epoch(row.every, row.epoch), row.not_before] for row in waiting],
            "counts": {
                name: number
                for name, number in status.counts.items()
                if number and (name in COUNTED or name.startswith("dropped_"))
            },
        }


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["about"] for scenario in SCENARIOS])
def test_the_client_behaves_as_the_contract_says(scenario: Any, tmp_path: Path) -> None:
    world = World(scenario, tmp_path / "state")
    with patch("hubbub.client.timers.run"):
        for number, step in enumerate(scenario["steps"]):
            if step["do"] == "clock":
                world.now = step["at"]
            else:
                world.pass_until(step["at"])
            world.act(step)
            if "then" in step:
                assert world.seen() == step["then"], (number, step)
        if world.client is not None:
            world.client.close()
    assert world.sent == scenario["messages"]
    assert not world.timed, "every moment and id of the scenario is drawn"
    assert next(world.fresh, None) is None, "and all of its noise"


def test_every_rule_of_the_contract_has_a_scenario_or_stands_among_those_that_have_none() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "client-contract.md").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([0-9]+\.[0-9]) ", page, re.MULTILINE))
    shown = {rule for scenario in SCENARIOS for rule in scenario["rules"]}
    (without,) = re.findall(r"^No scenario shows rules (.*): they are about", page, re.MULTILINE)
    assert rules - shown == set(re.findall(r"[0-9]+\.[0-9]", without))
    assert shown <= rules
