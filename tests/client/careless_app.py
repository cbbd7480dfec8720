"""A process that uses the client as a careless app would, until it is killed: run by test_budget.py.

    python tests/client/careless_app.py DIRECTORY SEED CALLS NOW

Prints the virtual time after each call. Every message that leaves is appended to DIRECTORY/wire before it counts as
delivered. The process dies of SIGALRM at an arbitrary instruction, or of SIGKILL after its last call; it never closes
anything.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

from hubbub.client import Answer, Client, Registry
from tests.client.answering_server import stored
from tests.registry_head import head

DAY = 86_400
VALUES = [f"https://example.org/{i}" for i in range(12)]


def metric(name: str, epsilon: str, every: str, more: str) -> str:
    # Reports show the memo itself (one report may tell as much as all), so that the wire can be recounted.
    return (
        f'[metrics.{name}]\nkind = "string"\nnum_bits = 64\nnum_hashes = 1\nnum_cohorts = 4\nwhy = "w"\nowner = "o"\n'
        f'expires = 2099-01-01\nevery = "{every}"\n'
        f"epsilon_one_report = {epsilon}\nepsilon_permanent = {epsilon}\n{more}\n"
    )


def registries() -> list[Registry]:
    """Three releases: the second redefines a metric, the third adds one; both raise the limit, in vain."""
    page, link = (
        metric("page", "2.5", "day", "max_values = 4"),
        metric("link", "1.5", "week", "max_values = 3"),
    )
    again = metric("page", "2.0", "day", "max_values = 2")
    once = metric("install", "3.0", "once", "")
    sources = [("38", page + link), ("40", again + link), ("99", again + link + once)]
    return [Registry.parse(head("budget", limit) + metrics) for limit, metrics in sources]


def main(directory: Path, seed: int, calls: int, now: float) -> None:
    chance = random.Random(seed)
    wire = os.open(directory / "wire", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    release = chance.choice(registries()[: 1 + seed // 8])

    def post(endpoint: str, body: bytes, timeout: float) -> Answer:
        if chance.random() < 0.2:
            raise ConnectionRefusedError
        os.write(wire, len(body).to_bytes(4, "little") + body)
        return stored(body)

    client = Client(
        release,
        endpoint="http://127.0.0.1:9",
        state_dir=directory / "state",
        background=False,
        post=post,
        environ={"HUBBUB_MODE": "on"},
        clock=lambda: now,
        send_delay=lambda span: span * chance.random(),
    )
    client.consent(True)
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.02, 0.3))
    for _ in range(calls):
        now += chance.choice([0, 600, DAY / 4, DAY, 3 * DAY])
        match chance.randrange(40):
            case 0:
                client.consent(False)
                client.consent(True)
            case 1 if chance.random() < 0.01:
                client.forget()
                client.consent(True)
            case 2 | 3 | 4 | 5:
                client.flush()
            case _:
                client.record(chance.choice(list(release.metrics)), chance.choice(VALUES))
        print(now, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
