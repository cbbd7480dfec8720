"""The top of a metrics.toml for tests: the lines that every registry needs before its metrics."""

from __future__ import annotations

RECIPIENT = 'recipient = { name = "Example", url = "https://telemetry.example.org" }\n'


def head(app: str, lifetime_epsilon: object) -> str:
    return f'app = "{app}"\n{RECIPIENT}lifetime_epsilon = {lifetime_epsilon}\n'
