"""One connection to a collector for many messages: a new one for each takes longer than all the rest of a message."""

from __future__ import annotations

import http.client
from typing import Self
from urllib.parse import urlsplit

from hubbub.client import Answer
from hubbub.client.upload import PATH
from hubbub.protocol.wire import MEDIA_TYPE


class KeptConnection:
    """`post` is a `Transport`. For a collector on this machine that nobody else talks to: nothing is tried twice."""

    def __init__(self, endpoint: str) -> None:
        place = urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)

    def post(self, endpoint: str, body: bytes, timeout: float, /) -> Answer:
        try:
            self._connection.request("POST", PATH, body, {"Content-Type": MEDIA_TYPE})
            answer = self._connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.headers))
        except BaseException:
            self._connection.close()  # the next message opens another
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
