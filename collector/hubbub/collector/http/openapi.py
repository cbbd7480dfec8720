"""The collector's OpenAPI document, the one it serves itself. A test holds the running server to it."""

from __future__ import annotations

from hubbub.protocol.refusal import PROBLEM_MEDIA_TYPE, PROBLEM_PREFIX, STATUS
from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON

Document = dict[str, object]

_HEX = {"type": "string", "pattern": "^[0-9a-f]+$"}
_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_REGISTRY = ["app", "fingerprint", "metrics", "together", "label", "label_in_words"]
_COUNTS: Document = {"type": "array", "items": {"type": "integer", "minimum": 0}}


def document() -> Document:
    """OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hubbub collector",
            "version": "1",
            "description": "Counts reports noised on the device. A 200 means durable and counted exactly once.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/v1/reports": {"post": _post("send one batch of an install", token=False)},
            "/v1/relay": {"post": _post("send a batch of many reports per metric, as gateways do", token=True)},
            "/v1/tallies": {"get": _tallies("everything acknowledged so far, as tallies", "Tallies")},
            "/v1/pairs": {"get": _tallies("of it, what came together: pair tallies of [together]", "Pairs")},
            "/v1/metrics": {"get": _get("the public registry and its label", "Registry")},
            "/v1/openapi.json": {"get": _get("this document", None)},
            "/privacy": {"get": _page("the page for the people who are asked", "text/html")},
            "/privacy.css": {"get": _page("its style", "text/css")},
            "/metrics": {"get": _text("counts and latencies for Prometheus", token=True)},
            "/healthz": {"get": _text("whether the process lives")},
            "/readyz": {"get": {**_text("whether batches are taken"), **_ready()}},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Batch": _batch(),
                "Stored": _stored(),
                "Problem": _problem_schema(),
                "Tallies": _tallies_schema(),
                "Pairs": _pairs_schema(),
                "Registry": {"type": "object", "required": _REGISTRY},
            },
            "responses": {"Problem": _content("refused, with the reason in words", PROBLEM_MEDIA_TYPE, "Problem")},
        },
    }


def _post(summary: str, token: bool) -> Document:
    statuses = sorted({*STATUS.values(), 408, 500, *([401] if token else [])})
    operation: Document = {
        "summary": summary,
        "parameters": [
            {"name": "Content-Encoding", "in": "header", "schema": {"type": "string", "enum": ["gzip", "deflate"]}}
        ],
        "requestBody": {
            "required": True,
            "content": {
                MEDIA_TYPE_JSON: {"schema": {"$ref": "#/components/schemas/Batch"}},
                MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": {"200": _content("durable and counted", "application/json", "Stored")}
        | {str(status): {"$ref": "#/components/responses/Problem"} for status in statuses},
    }
    return operation | ({"security": [{"token": []}]} if token else {})


def _tallies(summary: str, schema: str) -> Document:
    period = {"type": "string", "examples": ["2026-11-16", "2026-W47", "2026-11"]}
    return {
        "summary": summary,
        "security": [{"token": []}],
        "parameters": [
            {"name": "metric", "in": "query", "schema": {"type": "string"}, "description": "a name or a hash"},
            {"name": "from", "in": "query", "schema": period, "description": "the first period"},
            {"name": "to", "in": "query", "schema": period, "description": "the last period"},
            {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}, "description": "an ETag"},
        ],
        "responses": {"200": _content(schema.lower(), "application/json", schema)}
        | {"304": {"description": "nothing has changed since the answer with this ETag"}}
        | _problems(400, 401, 404, 500, 503),
    }


def _get(summary: str, schema: str | None) -> Document:
    return {"summary": summary, "responses": {"200": _content(summary, "application/json", schema)} | _problems(500)}


def _text(summary: str, token: bool = False) -> Document:
    answer = {"description": summary, "content": {"text/plain": {"schema": {"type": "string"}}}}
    statuses = (500, 401) if token else (500,)
    operation: Document = {"summary": summary, "responses": {"200": answer} | _problems(*statuses)}
    return operation | ({"security": [{"token": []}]} if token else {})


def _page(description: str, media_type: str) -> Document:
    answer = {"description": description, "content": {media_type: {"schema": {"type": "string"}}}}
    return {"responses": {"200": answer} | _problems(500)}


def _ready() -> Document:
    answer = {"description": "taking batches", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {"responses": {"200": answer} | _problems(500, 503)}


def _problems(*statuses: int) -> Document:
    return {str(status): {"$ref": "#/components/responses/Problem"} for status in statuses}


def _content(description: str, media_type: str, schema: str | None) -> Document:
    described: Document = {"$ref": f"#/components/schemas/{schema}"} if schema else {"type": "object"}
    return {"description": description, "content": {media_type: {"schema": described}}}


def _batch() -> Document:
    report = {
        "metric": {"type": "string"},
        "metric_hash": _ID,
        "epoch": {"type": "integer"},
        "cohort": {"type": "integer", "minimum": 0},
        "bits": _HEX,
    }
    return _closed(
        {
            "version": {"const": 1},
            "batch_id": _ID,
            "reports": {"type": "array", "minItems": 1, "items": _closed(report)},
        }
    )


def _stored() -> Document:
    return _closed({"status": {"enum": ["stored", "duplicate"]}, "batch_id": _ID})


def _problem_schema() -> Document:
    types = [PROBLEM_PREFIX + reason for reason in STATUS]
    return _closed(
        {
            "type": {"enum": [*types, "about:blank"]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "minLength": 1},
        }
    )


def _tallies_schema() -> Document:
    epoch = {"epoch": {"type": "integer"}, "num_reports": _COUNTS, "bit_counts": _list_of(_COUNTS)}
    tally = {
        "format": {"const": "hubbub.tally"},
        "version": {"const": 1},
        "metric_hash": _ID,
        "metric": {"type": "object"},
        "epochs": _list_of(_closed(epoch)),
    }
    return _closed({"tallies": _list_of(_closed(tally)), "withheld": _withheld()})


def _pairs_schema() -> Document:
    rows = _list_of(_COUNTS)
    epoch = {
        "epoch": {"type": "integer"},
        "num_batches": _COUNTS,
        "first": rows,
        "second": rows,
        "both": _list_of(rows),
    }
    tally = {
        "format": {"const": "hubbub.pair_tally"},
        "version": {"const": 1},
        "pair_hash": _ID,
        "pair": {"type": "object", "required": ["name", "metrics"]},
        "epochs": _list_of(_closed(epoch)),
    }
    return _closed({"pairs": _list_of(_closed(tally)), "withheld": _withheld()})


def _withheld() -> Document:
    withheld: Document = {
        "metric": {"type": "string"},
        "metric_hash": _ID,
        "epoch": {"type": "integer"},
        "num_reports": {"type": "integer", "minimum": 1},
        "min_reports": {"type": "integer", "minimum": 1},
    }
    return _list_of(_closed(withheld))


def _list_of(items: Document) -> Document:
    return {"type": "array", "items": items}


def _closed(properties: Document) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
