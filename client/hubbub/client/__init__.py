"""The thing apps embed: noise made once, kept for life, under a budget. Most apps need `Client` alone.

    from hubbub.client import Client

    telemetry = Client("metrics.toml", endpoint="https://telemetry.example.org")
    telemetry.consent(True)  # once, when the person agrees
    telemetry.record("dark_theme", True)  # anywhere, any time, from any thread or process

A name is loaded when it is first asked for.
"""

from hubbub.protocol.door import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.client import Client
    from hubbub.client.consent import Decision
    from hubbub.client.control import Pending, Status
    from hubbub.client.upload import Answer
    from hubbub.client.vocabulary import Transport
    from hubbub.protocol.invalid import Invalid
    from hubbub.protocol.registry import Registry

__all__ = ["Answer", "Client", "Decision", "Invalid", "Pending", "Registry", "Status", "Transport"]

__getattr__, __dir__ = door(
    __name__,
    {
        "Answer": "hubbub.client.upload",
        "Client": "hubbub.client.client",
        "Decision": "hubbub.client.consent",
        "Invalid": "hubbub.protocol.invalid",
        "Pending": "hubbub.client.control",
        "Registry": "hubbub.protocol.registry",
        "Status": "hubbub.client.control",
        "Transport": "hubbub.client.vocabulary",
    },
)
