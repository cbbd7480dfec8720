"""Counts the lines, words or characters of files: a command-line tool with telemetry.

    python count_words.py --unit lines *.md

It asks once, when somebody sits in front of it. `--no-telemetry` is a no for this run, `hubbub off` one for good.
"""

import json
import os
import sys
from pathlib import Path

import click

from hubbub.client import Client

__version__ = "1.1"
QUESTION = "May this tool count, with noise added on this machine, how it is used?"
COUNTS = {"lines": lambda text: len(text.splitlines()), "words": lambda text: len(text.split()), "characters": len}


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--unit", type=click.Choice(list(COUNTS)), default="words", show_default=True)
@click.option("--total", is_flag=True, help="Only the sum of all files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-telemetry", is_flag=True, help="Record nothing in this run.")
@click.version_option(__version__)
def main(files: tuple[Path, ...], unit: str, total: bool, as_json: bool, no_telemetry: bool) -> None:
    """Count the words of FILES."""
    telemetry = start_telemetry("off" if no_telemetry else os.environ.get("HUBBUB_MODE", ""))
    telemetry.record("unit", unit)
    telemetry.add("files", len(files))
    for feature, used in (("total", total), ("json", as_json)):
        if used:
            telemetry.record("features", feature)

    found = {str(path): COUNTS[unit](path.read_text(errors="replace")) for path in files}
    if total:
        found = {"total": sum(found.values())}
    click.echo(json.dumps(found) if as_json else "\n".join(f"{number:8} {name}" for name, number in found.items()))


def start_telemetry(mode: str) -> Client:
    """As early as possible: what is due from days before leaves now, whatever this run does."""
    telemetry = Client(
        Path(__file__).with_name("metrics.toml"),
        endpoint=os.environ.get("COUNT_WORDS_COLLECTOR", "https://telemetry.example.org"),
        segments={"release": __version__},
        environ={**os.environ, "HUBBUB_MODE": mode},
    )
    if telemetry.should_ask and sys.stdin.isatty():  # nobody has answered yet, or more is asked than was agreed to
        telemetry.consent(click.confirm(QUESTION, default=False, err=True))
    return telemetry


if __name__ == "__main__":
    main()
