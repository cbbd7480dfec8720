"""`hubbub dashboard`: one process, from the first page to Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aiohttp import web

from hubbub.analysis.candidates_file import read_candidates
from hubbub.analysis.commands.decode import add_candidates
from hubbub.dashboard.app import make_app
from hubbub.dashboard.candidates import CandidateList
from hubbub.dashboard.settings import Settings
from hubbub.protocol.arguments import number, whole
from hubbub.protocol.invalid import Invalid, not_listening, require


def add_dashboard(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The read token of a collector is asked for in the browser, once; for use without a person it is taken from "
        "HUBBUB_TOKEN or --token-file.\n\n"
        "examples:\n"
        "  hubbub dashboard --from http://127.0.0.1:8787\n"
        "  hubbub dashboard --from tallies/*.json --candidates homepage=domains.txt\n"
        "  hubbub dashboard --from https://telemetry.example.org --token-file token --public --host 0.0.0.0"
    )
    plain = Settings(source=("x",))
    parser.add_argument(
        "--from", dest="source", metavar="URL|TALLY", nargs="+", required=True, help="a running collector, or tallies"
    )
    parser.add_argument("--token-file", metavar="FILE", help="a file with the collector's read token; or HUBBUB_TOKEN")
    parser.add_argument("--trust", metavar="FILE", help="certificates to trust, for a collector with https")
    add_candidates(parser)
    parser.add_argument("--merge", action="store_true", help="add up tally files that hold the same epoch")
    parser.add_argument("--public", action="store_true", help="let anybody look, and nobody change anything")
    parser.add_argument("--host", default=plain.host, help=f"the address to listen on (default {plain.host})")
    listen = f"the port to listen on; 0 takes a free one (default {plain.port})"
    parser.add_argument("--port", type=whole, default=plain.port, help=listen)
    parser.add_argument("--origin", metavar="URL", help="the address that visitors type, behind a proxy")
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=number,
        default=plain.every,
        help=f"how often to look (default {plain.every:g})",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")


def run_dashboard(arguments: Namespace) -> int:
    with taken_from_environment("HUBBUB_TOKEN") as token:
        return _run(arguments, token)


@contextmanager
def taken_from_environment(name: str) -> Iterator[str]:
    """The variable's value, which is not in the environment meanwhile: the browser that is opened, and whatever is
    started from it, would inherit the token."""
    value = os.environ.pop(name, None)
    try:
        yield value or ""
    finally:
        if value is not None:
            os.environ[name] = value


def _run(arguments: Namespace, given_token: str) -> int:
    settings = Settings(
        source=tuple(arguments.source),
        token=_token(arguments, given_token),
        trust=Path(arguments.trust) if arguments.trust else None,
        candidates=tuple(arguments.candidates),
        merge=arguments.merge,
        public=arguments.public,
        host=arguments.host,
        port=arguments.port,
        origin=arguments.origin,
        every=arguments.every,
    )
    require(_missing(settings))
    asyncio.run(_serve(settings, browser=not arguments.no_browser and sys.stdout.isatty()))
    return 0


def _missing(settings: Settings) -> Iterator[str]:
    """A file that is mistyped is told at once; one that goes away later is waited for."""
    for path in settings.source if settings.url is None else ():
        if not Path(path).exists():
            yield f"--from must name a collector's address or tally files that are there, got {path}"


def _token(arguments: Namespace, given: str) -> str | None:
    """From a file or the environment (`given`); never from the command line, which every user of the machine can
    read."""
    if not arguments.source[0].startswith(("http://", "https://")):
        return None
    if arguments.token_file:
        token = Path(arguments.token_file).read_text(encoding="utf-8").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise Invalid([f"{arguments.token_file}: must hold a token and nothing else"])
        return token
    return given.strip() or None


async def _serve(settings: Settings, *, browser: bool) -> None:
    app = make_app(settings, given_candidates(settings.candidates))
    quiet = logging.getLogger("hubbub.dashboard")
    quiet.disabled = True  # aiohttp's lines would name the address of a visitor who left
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5, logger=quiet)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
        except OSError as error:
            raise Invalid([not_listening(settings.host, settings.port, error)]) from None
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # Windows has Ctrl-C as an exception
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
        url = f"http://{_shown_host(settings.host)}:{runner.addresses[0][1]}/"
        for line in _greeting(settings, url):
            print(line, flush=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, url)
        await stop.wait()
    finally:
        await runner.cleanup()


def given_candidates(given: tuple[str, ...]) -> dict[str, CandidateList]:
    """Candidate files by metric, "" for all. Which metrics there will be is not known yet."""
    found = {}
    for item in given:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():
            name, path = "", item
        found[name] = CandidateList(tuple(read_candidates(path)), f"from {Path(path).name}")
    return found


def _greeting(settings: Settings, url: str) -> list[str]:
    whom = (
        "anybody may look"
        if settings.public
        else "it asks for the collector's read token"
        if settings.asks_for_token
        else "for this machine only"
    )
    return [f"Dashboard on {url} ({whom}). Ctrl-C stops it."]


def _shown_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
