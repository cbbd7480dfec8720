"""Asks for consent in a window of tkinter: once, and again when a new release asks more.

    python tkinter_dialog.py

Call `ask` when the window is there, and from a menu entry (`again=True`), so that the answer can be changed.
"""

import os
import tkinter
from pathlib import Path
from tkinter import messagebox

from hubbub.client import Client
from hubbub.protocol.label import short


def ask(telemetry: Client, again: bool = False) -> None:
    """The text is made from the registry: what is asked, why, and who gets it."""
    if telemetry.should_ask or again:
        telemetry.consent(messagebox.askyesno("May this app count how it is used?", short(telemetry.registry)))


def main() -> None:
    telemetry = Client(
        Path(__file__).parents[1] / "metrics.toml",
        endpoint=os.environ.get("EDITOR_COLLECTOR", "https://telemetry.example.org"),
        segments={"release": "2.1"},
    )
    window = tkinter.Tk()
    tkinter.Button(window, text="Telemetry ...", command=lambda: ask(telemetry, again=True)).pack()
    window.after_idle(ask, telemetry)
    window.mainloop()


if __name__ == "__main__":
    main()
