"""One collector process from start to stop: open the store, listen, and on SIGTERM stop, drain, save, exit 0."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from aiohttp import web

from hubbub.collector.catalog import Catalog
from hubbub.collector.commit import SHARED_GATHER, Committer, Committing
from hubbub.collector.database import shared_store
from hubbub.collector.http.aiohttp_check import check_answers, check_names
from hubbub.collector.http.app import App
from hubbub.collector.http.connections import Server
from hubbub.collector.http.file_watch import NO_FILES, FileWatch
from hubbub.collector.http.known_headers import QuickServer
from hubbub.collector.http.limits import Limits
from hubbub.collector.http.tls import expiry, tls_context
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.refusal_log import RefusalLog
from hubbub.collector.reload import Reloader
from hubbub.collector.settings import Settings
from hubbub.collector.spread import Database, SpreadCommitter
from hubbub.collector.stopped import StoppedMetrics
from hubbub.collector.storage.data_dir import DataDir
from hubbub.collector.storage.embedded import EmbeddedStore
from hubbub.collector.storage.log import Damaged, DiskFull
from hubbub.collector.storage.store import Notice, Store
from hubbub.collector.tokens import Tokens
from hubbub.protocol.invalid import Invalid, not_listening

_STORE_FAILED = 1  # exit status
_SHUTDOWN_SECONDS = 1.0  # for what aiohttp itself still has to close, once all requests are answered


def serve(
    settings: Settings,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.time,
    *,
    accept_clock: bool = False,
    on_terminal: bool = False,
    reread: Callable[[], Settings] | None = None,
) -> int:
    """Run a collector until it is told to stop. Raises `Invalid` or OSError at once if it cannot start.

    `on_terminal`: what it says is read by a person and kept nowhere, so that the first token may be shown. `reread`
    gives the settings anew when SIGHUP comes; without it they are the same, and only files are read again.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    check_aiohttp()
    catalog = Catalog.load(settings.metrics, settings.older_metrics, settings.rehearsal)
    context = tls_context(settings)
    own_metrics = CollectorMetrics(certificate_expiry=expiry(context, settings.tls_certificate))
    with _opened(settings, catalog, own_metrics, clock, accept_clock) as stores, _event_loop() as runner:
        return runner.run(_serve(settings, catalog, stores, context, own_metrics, say, on_terminal, reread))


@contextmanager
def _opened(
    settings: Settings,
    catalog: Catalog,
    own_metrics: CollectorMetrics,
    clock: Callable[[], float],
    accept_clock: bool,
) -> Iterator[Sequence[Store]]:
    """The store that the settings name; of one in several databases each, the first before all others."""
    if settings.store != "embedded":
        shared: list[Database] = shared_store().open_all(catalog, settings, own_metrics, accept=accept_clock)
        try:
            yield shared
        finally:
            for database in shared:
                database.close()
        return
    data_dir = DataDir(settings.data)
    try:
        data_dir.keep_apart(settings.rehearsal)
        try:
            store = EmbeddedStore(data_dir, catalog, clock, settings, own_metrics, accept_clock=accept_clock)
        except Damaged as error:
            raise Invalid([f"the data directory is damaged; restore a backup, or `hubbub repair`. {error}"]) from None
        except DiskFull as error:
            raise Invalid([f"{settings.data}: {error}"]) from None
        try:
            yield [store]
        finally:
            store.close()
    finally:
        data_dir.close()


def check_aiohttp() -> None:
    """Raise `Invalid` if the installed aiohttp is not one the collector works with."""
    check_names()
    with _event_loop() as runner:
        runner.run(check_answers())


def _event_loop() -> asyncio.Runner:
    """uvloop's where it is installed, as it costs less for each request; else Python's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _serve(
    settings: Settings,
    catalog: Catalog,
    stores: Sequence[Store],
    context: ssl.SSLContext | None,
    own_metrics: CollectorMetrics,
    say: Callable[[str], None],
    on_terminal: bool,
    reread: Callable[[], Settings] | None,
) -> int:
    operator_log = OperatorLog()
    store = stores[0]
    tokens = Tokens(store.tokens, operator_log)
    events = _Events(operator_log)
    files = FileWatch(operator_log)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: _loop_error(operator_log, files, context))
    committer = _committer(stores, settings, own_metrics, events)
    limits = Limits(settings.sender_rate, settings.sender_burst, time.monotonic)
    stopped = StoppedMetrics(store.stopped, operator_log)
    intake = Intake(catalog, store.now, store.sealed, lambda: store.day, stopped.names)
    app = App(settings, catalog.registry, store, intake, committer, limits, tokens, own_metrics, operator_log)
    reloader = Reloader(
        reread=reread or (lambda: settings),
        settings=settings,
        context=context,
        app=app,
        store=store,
        committer=committer,
        limits=limits,
        tokens=tokens,
        own_metrics=own_metrics,
        stopped=stopped,
        operator_log=operator_log,
    )
    _tune_garbage_collector()
    runner, port = await _listen(app, settings, context, own_metrics)
    refusals = RefusalLog(own_metrics, operator_log)
    watching = [asyncio.create_task(files.run()), asyncio.create_task(refusals.run())]
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, events.stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, events.reload.set)
    reloading = asyncio.create_task(_reload_when_told(events, reloader))
    first_token = store.first_token()  # only now: a start that fails on its port must not leave a token in a log
    if first_token is not None:
        say(_hand_out(first_token, settings.data, on_terminal))
        tokens.reload()
    place = "; ".join(store.place for store in stores)
    for line in _greeting(settings, port, place, tls=context is not None):
        say(line)
    operator_log.info("collecting", app=catalog.registry.app, metrics=len(catalog.metrics), port=port)
    await events.stop.wait()
    for task in (*watching, reloading):
        task.cancel()
    app.draining = True
    operator_log.info("stopping")
    await _finish_requests(runner, settings.drain_seconds)
    await committer.drain()
    refusals.tell()
    return _last_words(events, own_metrics, operator_log)


def _committer(
    stores: Sequence[Store], settings: Settings, own_metrics: CollectorMetrics, events: _Events
) -> Committing:
    if len(stores) == 1:
        gather = 0.0 if settings.store == "embedded" else SHARED_GATHER
        return Committer(stores[0], settings, own_metrics, events, gather)
    return SpreadCommitter(cast("Sequence[Database]", stores), settings, own_metrics, events)


def _last_words(events: _Events, own_metrics: CollectorMetrics, operator_log: OperatorLog) -> int:
    """The exit status, once everything is saved, and what the operator is told of it."""
    if events.failure is not None:
        error = f"{type(events.failure).__name__}: {events.failure}"
        operator_log.error("the store failed; nothing acknowledged is lost", error=error)
        return _STORE_FAILED
    operator_log.info("stopped", reports=own_metrics.reports)
    return 0


class _Events:
    """What the committer reports: written to the operator's log; the loss of the store stops the process."""

    def __init__(self, operator_log: OperatorLog) -> None:
        self._operator_log = operator_log
        self.stop = asyncio.Event()
        self.reload = asyncio.Event()
        self.failure: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        self.failure = error
        self.stop.set()

    def notify(self, notice: Notice) -> None:
        getattr(self._operator_log, notice.level)(notice.words, **notice.facts)


async def _reload_when_told(events: _Events, reloader: Reloader) -> None:
    while True:
        await events.reload.wait()
        events.reload.clear()
        await reloader.reload()


async def _finish_requests(runner: web.ServerRunner, seconds: float) -> None:
    """Stop accepting, answer what is on its way.

    Requests that were under way are waited for before aiohttp is told to shut down: from then on it reads no more, and
    a body that is still arriving would be left without an answer. New requests on open connections get 503 meanwhile.
    """
    for site in list(runner.sites):
        await site.stop()
    assert isinstance(runner.server, Server)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while runner.server.busy:
                await asyncio.sleep(0.02)
    await runner.cleanup()


async def _listen(
    app: App, settings: Settings, context: ssl.SSLContext | None, own_metrics: CollectorMetrics
) -> tuple[web.ServerRunner, int]:
    _allow_many_files()
    ordinary = app.handle, settings.max_connections, settings.request_seconds, own_metrics
    server = QuickServer(app.answer_known, *ordinary) if settings.known_headers else Server(*ordinary)
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    shared_port = settings.workers > 1 or None
    site = web.TCPSite(runner, settings.host, settings.port, ssl_context=context, backlog=1024, reuse_port=shared_port)
    try:
        await site.start()
    except OSError as error:
        raise Invalid([not_listening(settings.host, settings.port, error)]) from None
    port: int = runner.addresses[0][1]
    return runner, port


def _loop_error(operator_log: OperatorLog, files: FileWatch, context: dict[str, object]) -> None:
    """What the event loop complains of. Broken connections are not worth a line, and theirs would have addresses."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in NO_FILES:
        files.report()
    elif isinstance(error, BaseException) and not isinstance(error, OSError):
        operator_log.bug(error)


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _tune_garbage_collector() -> None:
    """What has been loaded stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _hand_out(token: str, folder: Path, on_terminal: bool) -> str:
    """The line that says what the first read token is, or where. A log is no place for a token."""
    path = folder.resolve() / "first-token"
    if on_terminal:
        return f"Read token, shown this once:  {token}"
    path.unlink(missing_ok=True)  # it may have been left by an earlier start, with other rights
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
    return f"Read token, in a file that only this user can read:  {path}"


def _greeting(settings: Settings, port: int, place: str, tls: bool) -> list[str]:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{'https' if tls else 'http'}://{host}:{port}"
    rehearsal = ["A rehearsal: counts are shown at once, limits are raised, the last 60 epochs are open."]
    return [
        *(rehearsal if settings.rehearsal else ()),
        f"Collecting on {url}",
        f"  reports   {url}/v1/reports      where clients send; their endpoint is {url}",
        f"  registry  {url}/v1/metrics      public: what is asked, and the label",
        f"  privacy   {url}/privacy         public: the same as a page for the people who are asked",
        f"  tallies   {url}/v1/tallies      needs a read token",
        f"  data      {place}",
    ]
