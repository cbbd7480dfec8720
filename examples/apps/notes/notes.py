"""Notes in the browser, for one person on their own machine: a Flask app with telemetry.

    python notes.py        then open http://127.0.0.1:5000

The page asks until it is answered; the answer can be changed on it at any time.
"""

import os
from html import escape
from pathlib import Path

from flask import Flask, abort, redirect, request
from werkzeug.wrappers import Response

from hubbub.client import Client

__version__ = "0.3"
app = Flask(__name__)
notes: list[str] = []
telemetry = Client(
    Path(__file__).with_name("metrics.toml"),
    endpoint=os.environ.get("NOTES_COLLECTOR", "https://telemetry.example.org"),
    segments={"release": __version__},
)

PAGE = """<!doctype html><title>Notes</title>
<form method="post" action="/notes"><input name="text" aria-label="Note"> <button>Add</button></form>
<form action="/"><input name="search" aria-label="Search"> <button>Search</button></form>
<ul>{notes}</ul>
<form method="post" action="/telemetry">
May this app count, with noise added on this machine, how it is used? It is {mode}.
<button name="answer" value="yes">Yes</button> <button name="answer" value="no">No</button></form>"""


@app.before_request
def refuse_other_sites() -> None:
    """No other page may say yes for this person."""
    if request.method == "POST" and request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        abort(403)


@app.get("/")
def show() -> str:
    wanted = request.args.get("search", "")
    if wanted:
        telemetry.record("features", "search")
    found = [note for note in notes if wanted in note]
    telemetry.record("many_notes", len(notes) >= 3)
    return PAGE.format(notes="".join(f"<li>{escape(note)}</li>" for note in found), mode=telemetry.mode)


@app.post("/notes")
def add() -> Response:
    text = request.form["text"]
    notes.append(text)
    telemetry.add("notes_added")
    if "#" in text:
        telemetry.record("features", "tags")
    return redirect("/")


@app.post("/telemetry")
def answer() -> Response:
    telemetry.consent(request.form["answer"] == "yes")
    return redirect("/")


if __name__ == "__main__":
    app.run(port=int(os.environ.get("NOTES_PORT", "5000")))
