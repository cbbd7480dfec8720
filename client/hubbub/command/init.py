"""`hubbub init`: a registry to edit and an app of a few lines, in a directory of their own."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib.resources import files
from pathlib import Path

from hubbub.protocol.invalid import Invalid
from hubbub.protocol.names import APP, is_app
from hubbub.protocol.registry import Registry

_EXAMPLE = "org.example.editor"
_APP = '''\
"""An app with telemetry. Run it with: python app.py"""

from pathlib import Path

from hubbub.client import Client

metrics = Path(__file__).with_name("metrics.toml")  # beside this file, wherever the app is started from
telemetry = Client(metrics, endpoint="http://127.0.0.1:8787", segments={"release": "2.1"})


def use(dark, exports, features):
    telemetry.record("dark_theme", dark)  # an answer
    for _ in range(exports):
        telemetry.add("exports")  # a count: as often as it happens
    for feature in features:
        telemetry.record("features", feature)  # a set: whichever is used


def rehearse(user):
    """One day of one pretend user, for `hubbub rehearse app.py`: write here what you expect of yours."""
    chance, today = user.habits.random(), user.today
    use(dark=chance < 0.6, exports=today.choice([0, 0, 1, 4]), features=["macros"] if chance < 0.3 else [])


if __name__ == "__main__":
    use(dark=True, exports=1, features=["macros"])
    print(f"Telemetry is {telemetry.mode}, because {telemetry.status().rule}.")
'''


def add_init(parser: ArgumentParser) -> None:
    parser.epilog = "example:\n  hubbub init my-app --app org.example.my-app"
    parser.add_argument("directory", metavar="DIR", help="where the files go; made if it is not there")
    parser.add_argument("--app", metavar="NAME", default=_EXAMPLE, help=f"what the app is called (default {_EXAMPLE})")


def run_init(arguments: Namespace) -> int:
    if not is_app(arguments.app):
        raise Invalid([f"--app must match {APP}, got {arguments.app!r}"])
    directory = Path(arguments.directory)
    source = files("hubbub.command").joinpath("starter", "metrics.toml").read_text(encoding="utf-8")
    source = source.replace("examples/metrics.toml", "metrics.toml").replace(_EXAMPLE, arguments.app, 1)
    wanted = {directory / "metrics.toml": source, directory / "app.py": _APP}
    Registry.parse(source)  # what a newcomer starts from must be right
    for path in wanted:
        if path.exists():
            raise Invalid([f"{path} must not be there yet: nothing is overwritten"])
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
        print(path)
    print(_next_steps(directory, arguments.app))
    return 0


def _next_steps(directory: Path, app: str) -> str:
    steps = [
        ("hubbub label metrics.toml", "what this asks, in plain words"),
        ("hubbub rehearse app.py --no-browser", "a crowd of pretend users, and what you would see"),
        ("hubbub collect --metrics metrics.toml", "a collector on this machine (another terminal)"),
        ("python app.py", "says that nobody has been asked yet"),
        (f"hubbub on --app {app} --metrics metrics.toml", "agree; reporting starts with the next day, week or month"),
        ("python app.py", "on: reports leave when their day, week or month is over"),
        (f"hubbub peek dark_theme yes --app {app}", "every bit of it that would leave"),
    ]
    width = max(len(command) for command, _ in steps)
    lines = [f"  cd {directory}", *(f"  {command:<{width}}  {words}" for command, words in steps)]
    return "\nNow:\n" + "\n".join(lines)
