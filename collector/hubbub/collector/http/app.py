"""The HTTP face: who may ask what, and how answers read. Every request gets words; none can make a 500.

Built on aiohttp's low-level server and a table of routes: an application with middlewares costs about as much as
counting a batch does. Nothing here is written down about a request; refusals are counted by reason, that is all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from aiohttp import HttpVersion11, web
from multidict import CIMultiDictProxy

from hubbub.collector.commit import Committing
from hubbub.collector.http.acknowledgement import Acknowledgements, as_bytes
from hubbub.collector.http.acknowledgement import body as acknowledgement_body
from hubbub.collector.http.connections import SERVER, Connection, Handler
from hubbub.collector.http.known_headers import KnownHead, QuickConnection
from hubbub.collector.http.limits import Limits, address_behind, retry_after
from hubbub.collector.http.openapi import document
from hubbub.collector.http.privacy import STYLE, PrivacyPages
from hubbub.collector.http.reads import Reads, TooManyReads
from hubbub.collector.intake import Arrival, Intake, inflate
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.process_metrics import ProcessMetrics
from hubbub.collector.settings import Settings
from hubbub.collector.storage.store import Store, Verdict
from hubbub.collector.tally_text import Sort
from hubbub.collector.tokens import Role, Tokens
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.label import facts, words
from hubbub.protocol.refusal import LATER, PROBLEM_MEDIA_TYPE, Refused
from hubbub.protocol.registry import Registry
from hubbub.protocol.tally_files import Wanted
from hubbub.protocol.wire import BATCH_ID

_JSON = "application/json"
_FOR_ANY_PAGE = {"Access-Control-Allow-Origin": "*"}  # what is public anyway may be read by scripts of any origin


class Problem(Exception):
    """An answer other than 200 that says nothing about a batch: RFC 9457 with no type of its own."""

    def __init__(self, status: int, title: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class App:
    """Answers requests. `draining` is set when the process has been told to stop."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        store: Store,
        intake: Intake,
        committer: Committing,
        limits: Limits,
        tokens: Tokens,
        own_metrics: CollectorMetrics,
        operator_log: OperatorLog,
    ) -> None:
        self._settings = settings
        self._store = store
        self._intake = intake
        self._committer = committer
        self._limits = limits
        self._tokens = tokens
        self._own_metrics = own_metrics
        self._process_metrics = ProcessMetrics()
        self._operator_log = operator_log
        self._registry, self._privacy = _registry_document(registry), PrivacyPages(registry)
        self._acknowledgements = Acknowledgements()
        self._reads = Reads(committer)
        self._reading_bytes = 0
        self.draining = False
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/reports": {"POST": self._post_reports, "OPTIONS": self._preflight},
            "/v1/relay": {"POST": self._post_relay},
            "/v1/tallies": {"GET": self._get_tallies},
            "/v1/pairs": {"GET": self._get_pairs},
            "/v1/metrics": {"GET": self._get_metrics},
            "/v1/openapi.json": {"GET": self._get_openapi},
            "/privacy": {"GET": self._get_privacy},
            STYLE: {"GET": self._get_style},
            "/metrics": {"GET": self._get_prometheus},
            "/healthz": {"GET": self._get_healthz},
            "/readyz": {"GET": self._get_readyz},
        }

    def change(self, settings: Settings, registry: Registry, intake: Intake) -> None:
        """Answer under other settings and another registry from now on."""
        self._settings, self._intake, self._registry = settings, intake, _registry_document(registry)
        self._privacy = PrivacyPages(registry)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin_request()
        answer = await self._answer(request, connection)
        if isinstance(answer, web.StreamResponse):  # finished answers have their headers
            answer.headers["Server"] = SERVER  # or aiohttp would tell its version and Python's
        return answer

    async def _answer(self, request: web.BaseRequest, connection: Connection) -> web.StreamResponse:
        try:
            return await self._route(request)(request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  # refused, or a bug of ours
            answer = self._in_words(error)
            return self._with_cors(request, answer) if self._settings.origins else answer
        finally:
            connection.busy = False

    def _route(self, request: web.BaseRequest) -> Handler:
        path = request.raw_path.partition("?")[0]
        methods = self._routes.get(path)
        if methods is None:
            raise Problem(404, "Not found", f"path must be one of {', '.join(self._routes)}")
        method = "GET" if request.method == "HEAD" else request.method
        handler = methods.get(method)
        if handler is None:
            allowed = ", ".join(methods)
            raise Problem(405, "Method not allowed", f"method must be one of {allowed}", Allow=allowed)
        return handler

    # -- writing

    def _post_reports(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        return self._store_batch(request, self._admit(request.protocol, request.headers, relayed=False), relayed=False)

    def _post_relay(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        return self._store_batch(request, self._admit(request.protocol, request.headers, relayed=True), relayed=True)

    def _admit(self, connection: object, headers: CIMultiDictProxy[str], relayed: bool) -> int:
        """How large a body may be that this sender brings; raises if it may bring none."""
        assert isinstance(connection, Connection)
        if relayed:
            self._authorize(headers, "relay")
            return self._settings.max_relay_bytes
        if not self._limits.allows(self._sender(connection, headers)):
            raise Refused("rate-limited", "too many requests from one sender")
        return self._settings.max_batch_bytes

    async def _store_batch(self, request: web.BaseRequest, limit: int, relayed: bool) -> web.StreamResponse:
        if self.draining:
            raise Refused("draining", "the collector is stopping")
        content = request.content
        if content.is_eof():  # it came with the headers, as small bodies do
            body = content.read_nowait()
            if len(body) > limit:
                raise _too_large(limit, len(body))
        else:
            body = await self._body_still_arriving(request, limit)
        arrival = self._read(body, request.headers, limit, relayed)
        verdict = Verdict.STORED if arrival.is_empty else await self._committer.submit(arrival)
        self._judge(arrival, verdict)
        if request.version == HttpVersion11 and request.keep_alive and not self._settings.origins:
            return self._acknowledgements.answer(verdict, arrival.message[BATCH_ID])
        answer = web.Response(body=acknowledgement_body(verdict, arrival.message[BATCH_ID]), content_type=_JSON)
        return self._with_cors(request, answer) if self._settings.origins else answer

    def answer_known(self, connection: QuickConnection, head: KnownHead, body: bytes) -> bool:
        """Begin to answer a batch whose headers came before, just as `_store_batch` would; False if that must do it."""
        if self.draining or self._settings.origins:
            return False
        try:
            relayed = self._routes[head.path.partition("?")[0]]["POST"] == self._post_relay
            limit = self._admit(connection, head.headers, relayed)
            if len(body) > limit:
                raise _too_large(limit, len(body))
            arrival = self._read(body, head.headers, limit, relayed)
            if arrival.is_empty:
                self._finish_known(connection, arrival, lambda: Verdict.STORED)
            else:
                waiter = self._committer.submit(arrival)
                waiter.add_done_callback(lambda done: self._finish_known(connection, arrival, done.result))
        except Exception as error:  # noqa: BLE001  # refused, or a bug of ours
            self._finish_refused(connection, error)
        return True

    def _finish_known(self, connection: QuickConnection, arrival: Arrival, verdict_of: Callable[[], Verdict]) -> None:
        try:
            verdict = verdict_of()
            self._judge(arrival, verdict)
        except Exception as error:  # noqa: BLE001  # likewise
            self._finish_refused(connection, error)
        else:
            connection.finish(self._acknowledgements.text(verdict, arrival.message[BATCH_ID]))

    def _finish_refused(self, connection: QuickConnection, error: Exception) -> None:
        answer = self._in_words(error)
        connection.finish(as_bytes(answer), close=answer.keep_alive is False)

    def _read(self, body: bytes, headers: CIMultiDictProxy[str], limit: int, relayed: bool) -> Arrival:
        encoding = headers.get("Content-Encoding")
        if encoding is not None:
            body = inflate(body, encoding, limit)
        return self._intake.read(body, headers.get("Content-Type", ""), relayed)

    def _judge(self, arrival: Arrival, verdict: Verdict) -> None:
        """Count what was acknowledged; raises `Refused` for what was not."""
        if verdict is Verdict.ID_REUSED:
            raise Refused("id-reused", f"batch_id {arrival.message[BATCH_ID].hex()} has come before with another body")
        if verdict is Verdict.EPOCH_CLOSED:
            raise Refused("epoch-closed", "the epoch closed while the batch was on its way")
        if verdict is Verdict.STORED:
            self._own_metrics.stored += 1
            self._own_metrics.reports += 0 if arrival.is_empty else arrival.layout.num_reports
            self._own_metrics.stopped_reports += arrival.num_stopped
            self._own_metrics.unpaired += arrival.layout.unpaired and not arrival.is_empty
        else:
            self._own_metrics.duplicates += 1

    async def _body_still_arriving(self, request: web.BaseRequest, limit: int) -> bytes:
        if request.content_length is not None and request.content_length > limit:
            raise _too_large(limit, request.content_length)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.request_seconds):
                while not request.content.at_eof():
                    part = await request.content.readany()
                    parts.append(part)
                    size += len(part)
                    self._reading_bytes += len(part)
                    if size > limit:
                        raise _too_large(limit, size)
                    if self._reading_bytes > self._settings.max_reading_bytes:
                        raise Refused("queue-full", "too many batches are being received")
        except (Refused, ConnectionError):
            raise
        except TimeoutError:
            seconds = f"{self._settings.request_seconds:g}"
            raise Problem(408, "Too slow", f"a body must arrive within {seconds} seconds", Connection="close") from None
        except Exception as error:  # noqa: BLE001  # aiohttp raises many kinds of error for broken chunks
            raise Refused("malformed", f"the body cannot be read: {type(error).__name__}") from None
        finally:
            self._reading_bytes -= size
        return b"".join(parts)

    def _sender(self, connection: Connection, headers: CIMultiDictProxy[str]) -> bytes:
        if self._settings.proxies:
            forwarded = headers.getall("X-Forwarded-For", [])
            return self._limits.name(address_behind(connection.remote, forwarded, self._settings.proxies))
        if connection.sender_key is not self._limits.key:
            connection.sender, connection.sender_key = self._limits.name(connection.remote), self._limits.key
        return connection.sender

    async def _preflight(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = self._with_cors(request, web.Response(status=204))
        if "Access-Control-Allow-Origin" in answer.headers:
            answer.headers["Access-Control-Allow-Methods"] = "POST"
            answer.headers["Access-Control-Allow-Headers"] = "Content-Type, Content-Encoding"
            answer.headers["Access-Control-Max-Age"] = "86400"
        return answer

    def _with_cors(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        answer.headers["Vary"] = "Origin"
        origin = request.headers.get("Origin")
        if origin in self._settings.origins:
            answer.headers["Access-Control-Allow-Origin"] = str(origin)
            answer.headers["Access-Control-Expose-Headers"] = "Retry-After"
        return answer

    # -- reading

    def _get_tallies(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        return self._get_counts(request, "tallies")

    def _get_pairs(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        return self._get_counts(request, "pairs")

    async def _get_counts(self, request: web.BaseRequest, key: Sort) -> web.StreamResponse:
        self._authorize(request.headers, "read")
        query = parse_qs(request.raw_path.partition("?")[2], keep_blank_values=True)
        unknown = sorted(query.keys() - {"metric", "from", "to"})
        if unknown:
            raise Problem(400, "Bad request", f"the query may have metric, from and to, got {unknown[0][:40]!a}")
        try:
            wanted = Wanted(*(query[name][-1] if name in query else None for name in ("metric", "from", "to")))
        except Invalid as error:
            raise Problem(400, "Bad request", str(error)) from None
        known = {name for metric in self._store.definitions.values() for name in (metric.name, metric.metric_hash)}
        if wanted.metric is not None and wanted.metric not in known:
            raise Problem(404, "Not found", f"metric must be one counted here, got {wanted.metric[:80]!a}")
        try:
            return await self._reads.answer(request, wanted, key)
        except TooManyReads:
            self._own_metrics.refused["too-many-reads"] += 1
            detail = "large downloads of tallies are made two at a time, and none ended in time; ask again, or for less"
            raise Problem(503, "Busy", detail, Retry_After=str(retry_after("too-many-reads"))) from None

    async def _get_metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=self._registry, content_type=_JSON, headers=_FOR_ANY_PAGE)

    async def _get_privacy(self, request: web.BaseRequest) -> web.StreamResponse:
        return self._privacy.page(request)

    async def _get_style(self, request: web.BaseRequest) -> web.StreamResponse:
        return self._privacy.style()

    async def _get_openapi(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=json.dumps(document(), indent=1), content_type=_JSON, headers=_FOR_ANY_PAGE)

    async def _get_prometheus(self, request: web.BaseRequest) -> web.StreamResponse:
        self._authorize(request.headers, "read")
        gauges = {
            "ready": float(self._why_not_ready() is None),
            "clock_believed": float(self._store.clock_accepts),
            **self._committer.gauges(),
        }
        text = self._own_metrics.text(gauges) + self._process_metrics.text()
        return web.Response(text=text, content_type="text/plain")

    async def _get_healthz(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _get_readyz(self, request: web.BaseRequest) -> web.StreamResponse:
        why_not = self._why_not_ready()
        if why_not is not None:
            raise Problem(503, "Not ready", why_not)
        return web.Response(text="ready\n")

    def _why_not_ready(self) -> str | None:
        if self.draining:
            return "the collector is stopping"
        refusal = self._committer.refusal()
        return None if refusal is None else refusal.detail

    # -- saying no

    def _authorize(self, headers: CIMultiDictProxy[str], role: Role) -> None:
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            detail = f"needs the header `Authorization: Bearer` with a token that may {role}; see `hubbub token new`"
        elif not self._tokens.allow(token, role):
            detail = f"the token was not accepted; it must be one that may {role}; see `hubbub token list`"
        else:
            return
        self._own_metrics.refused["unauthorized"] += 1
        raise Problem(401, "Unauthorized", detail, WWW_Authenticate="Bearer")

    def _in_words(self, error: Exception) -> web.Response:
        match error:
            case Refused():
                return self._refusal(error)
            case Problem():
                return _problem(error)
        self._operator_log.bug(error)
        self._own_metrics.refused["internal"] += 1
        return _problem(Problem(500, "Internal error", "something is wrong here, not with the request"))

    def _refusal(self, refused: Refused) -> web.Response:
        self._own_metrics.refused[refused.reason] += 1
        answer = web.Response(
            text=json.dumps(refused.to_json()), status=refused.status, content_type=PROBLEM_MEDIA_TYPE
        )
        if refused.reason in LATER and refused.reason != "metric-unknown":
            answer.headers["Retry-After"] = str(retry_after(refused.reason))
        if refused.reason in ("too-large", "draining"):
            answer.force_close()  # the rest of the body is not worth reading
        return answer


def _problem(problem: Problem) -> web.Response:
    document = {"type": "about:blank", "title": problem.title, "status": problem.status, "detail": problem.detail}
    return web.Response(
        text=json.dumps(document), status=problem.status, content_type=PROBLEM_MEDIA_TYPE, headers=problem.headers
    )


def _too_large(limit: int, size: int) -> Refused:
    return Refused("too-large", f"a body must have at most {limit} bytes, got {size}")


def _registry_document(registry: Registry) -> bytes:
    """The public registry and its label: what is asked, for anyone to read."""
    answer = {
        "app": registry.app,
        "fingerprint": registry.fingerprint,
        "metrics": [metric.terms_to_json() for metric in registry],
        "together": registry.pairs_by_name,
        "label": facts(registry),
        "label_in_words": words(registry),
    }
    return json.dumps(answer, ensure_ascii=False).encode()
