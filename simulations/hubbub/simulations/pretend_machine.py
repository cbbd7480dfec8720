"""The machine on which a simulated install lives: where its state lies, what time it is, where its messages go and
where its chance comes from. The client on it is the real one, and knows no better."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubbub.client import Answer, Transport
from hubbub.client.upload import post as post_by_http
from hubbub.client.vocabulary import Random as RandomBytes
from hubbub.protocol.wire import BATCH_ID

NOWHERE = "http://127.0.0.1:9"
"""An endpoint of this machine that nobody listens on: for messages that a transport keeps."""

_MEMORY = Path("/dev/shm")  # noqa: S108  mkdtemp makes a directory of its own


@dataclass(slots=True, kw_only=True)
class PretendMachine:
    """Its clock stands still until `now` is set; a message leaves when the client is told to send."""

    state_dir: str
    now: float
    """Unix seconds."""
    endpoint: str = NOWHERE
    post: Transport = post_by_http
    random: RandomBytes = os.urandom

    def for_client(self, mode: str = "on") -> dict[str, Any]:
        """The arguments of a `Client` that lives on it. Installs here are nobody's: no wish in the environment around
        here, for telemetry or against it, is meant for them."""
        return {
            "endpoint": self.endpoint,
            "state_dir": self.state_dir,
            "background": False,
            "post": self.post,
            "environ": {"HUBBUB_MODE": mode},
            "clock": lambda: self.now,
            "send_delay": lambda span: 0.0,
            "random": self.random,
        }


def state_folder(within: str | None = None) -> tempfile.TemporaryDirectory[str]:
    """A place for the state of one install: in this folder, or in memory where there is such a place."""
    memory = str(_MEMORY) if _MEMORY.is_dir() else None
    return tempfile.TemporaryDirectory(prefix="hubbub-install-", dir=within or memory)


def keep_in(messages: list[bytes]) -> Transport:
    """A transport that keeps every message and acknowledges it as a collector would; nothing reaches a network."""

    def post(endpoint: str, body: bytes, timeout: float, /) -> Answer:
        messages.append(body)
        return Answer(200, json.dumps({"status": "stored", "batch_id": body[BATCH_ID].hex()}).encode())

    return post
