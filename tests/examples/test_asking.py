"""The snippet for tkinter asks once, asks again when more is asked, and can be asked for. Nothing is drawn here: what
would be shown is caught, so that it runs without a screen."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from hubbub.client import Client, Registry

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("tkinter")


def test_a_window_asks_once_and_again_when_a_release_asks_more(tmp_path: Path, monkeypatch) -> None:
    shown: list[tuple[str, str]] = []
    answers = [True, False, True]

    def askyesno(title: str, message: str) -> bool:
        shown.append((title, message))
        return answers[len(shown) - 1]

    monkeypatch.setattr("tkinter.messagebox.askyesno", askyesno)
    ask = runpy.run_path(str(EXAMPLES / "asking" / "tkinter_dialog.py"))["ask"]
    registry = Registry.load(EXAMPLES / "metrics.toml")

    def started(source: str) -> Client:
        return Client(
            Registry.parse(source),
            endpoint=registry.recipient.url,
            state_dir=tmp_path,
            environ={"HUBBUB_MODE": "on"},
            background=False,
        )

    with started(registry.source) as telemetry:
        assert telemetry.reason == "not_asked"
        ask(telemetry)
        ask(telemetry)
        assert (telemetry.mode, len(shown)) == ("on", 1)
    assert shown[0][0].endswith("?")
    assert "Example Foundation" in shown[0][1]
    more = registry.source.replace("Decide whether the light theme", "Sell what you like, and decide whether it")
    with started(more) as telemetry:
        assert telemetry.reason == "asks_more"
        ask(telemetry)
        assert (telemetry.mode, len(shown)) == ("off", 2)
        ask(telemetry)
        ask(telemetry, again=True)
        assert (telemetry.mode, len(shown)) == ("on", 3)
