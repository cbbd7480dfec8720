"""The thing apps embed: noise made once, kept for life, under a budget. Most apps need `Client` alone.

from hubbub.client import Client

telemetry = Client("metrics.toml", endpoint="https://telemetry.example.org")
telemetry.consent(True)  # once, when the person agrees
telemetry.record("dark_theme", True)  # anywhere, any time, from any thread or process
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.client.client import Client
    from hubbub.client.consent import Decision
    from hubbub.client.control import Pending, Status
    from hubbub.client.upload import Answer, Transport
    from hubbub.protocol.invalid import Invalid
    from hubbub.protocol.registry import Registry

__all__ = ["Answer", "Client", "Decision", "Invalid", "Pending", "Registry", "Status", "Transport"]

_HOMES = {
    "Answer": "hubbub.client.upload",
    "Client": "hubbub.client.client",
    "Decision": "hubbub.client.consent",
    "Invalid": "hubbub.protocol.invalid",
    "Pending": "hubbub.client.control",
    "Registry": "hubbub.protocol.registry",
    "Status": "hubbub.client.control",
    "Transport": "hubbub.client.upload",
}
"""Where each public name lives. Imported when it is asked for: the `hubbub` command needs none of them."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = __import__(_HOMES[name], fromlist=[name])  # importlib would be one more import
    thing = globals()[name] = getattr(home, name)
    return thing


def __dir__() -> list[str]:
    return sorted(__all__)
