"""Who receives an app's messages, and where: part of what people agree to.

An address is written in one way only, so that two of them are the same place exactly if they are the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from hubbub.protocol.names import host_of
from hubbub.protocol.value import Value


class Recipient(Value, kw_only=True):
    """Who runs the collector, and its address. A path in it is part of it: one for each person would be a name."""

    name: str  # who receives the messages, as people know them
    url: str  # the collector's address, https, without a slash at its end

    def _broken_rules(self) -> Iterator[str]:
        if not self.name.strip():
            yield "recipient.name must not be empty"
        if not self.url.startswith("https://") or host_of(self.url) is None or len(self.url) > 200:
            yield (
                "recipient.url must be an https address in lower case, without user, query, fragment or a slash at "
                f"its end, such as https://telemetry.example.org, got {self.url!r}"
            )

    def __str__(self) -> str:
        return f"{self.name} ({self.url})"
