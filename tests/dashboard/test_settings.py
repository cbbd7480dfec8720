"""`hubbub dashboard` as a command: what it refuses, what it prints, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from argparse import ArgumentParser
from pathlib import Path

import pytest

from hubbub.dashboard.commands import add_dashboard, given_candidates, run_dashboard
from hubbub.dashboard.settings import Settings
from hubbub.protocol.invalid import Invalid
from tests import forked
from tests.dashboard.kit import write_samples
from tests.interrupts import interruptible

FOLDER = Path(__file__).parents[2] / "analysis" / "hubbub" / "dashboard"
DASHBOARD = [sys.executable, "-m", "hubbub.command", "dashboard", "--no-browser"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"source": ()}, "--from must name a collector's address or at least one tally file"),
        ({"source": ("http://a", "b.json")}, "--from must be one collector's address or tally files, got 2"),
        ({"source": ("http://",)}, "--from must be an address such as https://telemetry.example.org, got 'http://'"),
        ({"source": ("http://u:secret@a",)}, "--from must not hold a name or password"),
        ({"source": ("http://a:99999",)}, "--from must be an address such as"),
        ({"source": ("a",), "port": 65536}, "--port must be in [0, 65535], got 65536"),
        ({"source": ("a",), "every": 0.1}, "--every must be in [0.2, 3600] seconds, got 0.1"),
        ({"source": ("a",), "origin": "stats"}, "--origin must be an address such as"),
        ({"source": ("a",), "token": "t"}, "a token is for a collector's address; tally files need none"),
        ({"source": ("http://a",), "public": True}, "--public needs the collector's read token"),
        ({"source": ("a",), "host": "0.0.0.0"}, "--host must be a loopback address, got '0.0.0.0'"),
    ],
)
def test_a_wrong_setting_is_refused_in_words(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        Settings(**settings)
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)


def test_beyond_this_machine_every_visitor_shows_a_token_unless_the_page_is_public() -> None:
    there = {"source": ("http://a",), "token": "t"}
    assert not Settings(**there).asks_for_token
    assert Settings(**there, host="0.0.0.0").asks_for_token
    assert not Settings(**there, host="0.0.0.0", public=True).asks_for_token
    assert Settings(source=("http://a",)).asks_for_token
    assert not Settings(source=("a.json",)).asks_for_token


def test_the_token_is_not_in_what_a_traceback_shows() -> None:
    assert "hidden" not in repr(Settings(source=("http://a",), token="hidden"))


def run(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    words = ["dashboard", "--no-browser", *map(str, arguments)]
    return forked.run(words, ["hubbub.dashboard.commands", "hubbub.dashboard.app"], env={**os.environ, **environ})


def test_it_serves_until_it_is_told_to_stop(tmp_path) -> None:
    paths = write_samples(tmp_path, days=1)
    with interruptible([*DASHBOARD, "--from", *paths, "--port", "0"]) as process:
        greeting = process.stdout.readline()
        url = greeting.split()[2]
        assert greeting == f"Dashboard on {url} (for this machine only). Ctrl-C stops it.\n"
        page = urllib.request.urlopen(url, timeout=30).read().decode()
        assert "dark_theme" in page
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url + "nothing", timeout=30)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=300)
    assert (process.returncode, out, errors) == (0, "", ""), "nothing is said about a request"


def test_mistakes_end_it_in_one_sentence(tmp_path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run("--from", *write_samples(tmp_path, days=1), "--port", taken.getsockname()[1])
    assert done.returncode == 2
    assert done.stderr.startswith("hubbub dashboard: ")
    assert "got 127.0.0.1 and " in done.stderr
    assert "address already in use; --port takes another, 0 any that is free" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "empty").write_text("\n")
    done = run("--from", "http://127.0.0.1:9", "--token-file", tmp_path / "empty")
    assert (done.returncode, done.stderr) == (
        2,
        f"hubbub dashboard: {tmp_path / 'empty'}: must hold a token and nothing else\n",
    )
    done = run("--from", tmp_path / "mistyped.json", "--port", "0")
    told = f"--from must name a collector's address or tally files that are there, got {tmp_path / 'mistyped.json'}"
    assert (done.returncode, done.stderr) == (2, f"hubbub dashboard: {told}\n")


def test_the_token_cannot_be_given_on_the_command_line() -> None:
    """Every user of a machine can read the arguments of its processes."""
    help_text = run("--help").stdout
    assert "--token-file" in help_text
    assert "--token " not in help_text
    assert "HUBBUB_TOKEN" in help_text


@pytest.mark.parametrize("before", [None, " secret "])
def test_the_token_is_not_in_the_environment_while_it_serves_and_is_back_afterwards(monkeypatch, before) -> None:
    """Also where a file gives another one, or none is needed: a browser that is opened inherits the environment."""
    monkeypatch.delenv("HUBBUB_TOKEN", raising=False)
    if before is not None:
        monkeypatch.setenv("HUBBUB_TOKEN", before)
    seen: list[object] = []

    def served(settings: Settings) -> None:
        seen.append((settings.token, os.environ.get("HUBBUB_TOKEN")))
        raise KeyboardInterrupt

    monkeypatch.setattr("hubbub.dashboard.commands._missing", served)
    parser = ArgumentParser()
    add_dashboard(parser)
    with pytest.raises(KeyboardInterrupt):
        run_dashboard(parser.parse_args(["--from", "http://127.0.0.1:9"]))
    assert seen == [(before and "secret", None)]
    assert os.environ.get("HUBBUB_TOKEN") == before


def test_no_file_of_the_dashboard_is_long() -> None:
    paths = [path for path in FOLDER.rglob("*") if path.suffix in (".py", ".html", ".js", ".css")]
    assert len(paths) > 40
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in paths) <= 300


def test_the_package_exports_what_users_need_and_imports_little() -> None:
    program = """
import sys
import hubbub.dashboard as dashboard
assert dashboard.__all__ == ["Settings", "make_app"] and set(dashboard.__all__) <= set(dir(dashboard))
assert not {"aiohttp", "jinja2", "numpy"} & set(sys.modules), "imported with the package"
from hubbub.dashboard import Settings
assert not {"aiohttp", "jinja2", "numpy"} & set(sys.modules), "imported with Settings"
from hubbub.dashboard import make_app
print(type(make_app(Settings(source=("t.json",)))))
try:
    dashboard.anything
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == (
        "",
        "<class 'aiohttp.web_app.Application'>\nmodule 'hubbub.dashboard' has no attribute 'anything'\n",
    )


def test_every_module_and_template_is_named_where_the_package_is_explained() -> None:
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8").partition("## The dashboard")[2]
    names = [path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__"]
    names += [path.name for path in FOLDER.glob("templates/*.html")]
    assert [name for name in sorted(names) if f"`{name}`" not in readme] == []


def test_every_command_of_the_page_is_understood(tmp_path, monkeypatch) -> None:
    """As docs/dashboard.md shows them, with a token file and tallies where they say."""
    (tmp_path / "tallies").mkdir()
    write_samples(tmp_path / "tallies", days=1)
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "domains.txt").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    served: list[Settings] = []

    async def serve(settings: Settings, *, browser: bool) -> None:
        given_candidates(settings.candidates)
        served.append(settings)

    monkeypatch.setattr("hubbub.dashboard.commands._serve", serve)
    lines = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text(encoding="utf-8").splitlines()
    commands = [line.split()[2:] for line in lines if line.startswith("    hubbub dashboard ")]
    for command in commands:
        parser = ArgumentParser()
        add_dashboard(parser)
        words = [path for word in command for path in (map(str, Path().glob(word)) if "*" in word else [word])]
        assert run_dashboard(parser.parse_args(words)) == 0
    assert len(served) == len(commands) == 5


def test_without_a_browser_its_tests_are_skipped_or_fail_as_asked(monkeypatch) -> None:
    from tests.dashboard.browser import running_browser

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("HUBBUB_NEED_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs a browser"), running_browser():
        pass
    monkeypatch.setenv("HUBBUB_NEED_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="HUBBUB_NEED_BROWSER is set"), running_browser():
        pass
