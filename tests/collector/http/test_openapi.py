"""The OpenAPI document and the running server agree: every answer it gives is one the document has.

A small reader of JSON Schema suffices for the document's own schemas. (Where schemathesis is installed, run it too:
`schemathesis run http://HOST:PORT/v1/openapi.json -H "Authorization: Bearer TOKEN"`.)
"""

import json
import re
import time
from random import Random

import pytest

from hubbub.protocol.wire import MEDIA_TYPE, MEDIA_TYPE_JSON, pack, to_json
from tests.collector.kit import REGISTRY, Collector, random_batch
from tests.torture.fuzz import bodies


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    flags = ("--sender-rate", "1e6", "--sender-burst", "1000000")
    with Collector(tmp_path_factory.mktemp("openapi"), *flags) as running:
        yield running


@pytest.fixture(scope="module")
def document(collector):
    return json.loads(collector.request("GET", "/v1/openapi.json")[2])


def resolve(document, schema):
    while "$ref" in schema:
        part = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        schema = part
    return schema


KINDS = {"object": dict, "array": list, "string": str, "integer": int}


def wrong(document, schema, value, where="answer"):
    """What of a value the schema does not allow, or None."""
    schema = resolve(document, schema)
    unknown = set(schema) - {"type", "properties", "required", "additionalProperties", "items", "enum", "const"}
    assert unknown <= {"pattern", "minimum", "minLength", "minItems", "examples", "format"}, unknown
    if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
        return f"{where}: {value!r}"
    if "type" in schema and not isinstance(value, KINDS[schema["type"]]):
        return f"{where}: {value!r} is no {schema['type']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where}: {value!r} does not match"
    if ("minimum" in schema and value < schema["minimum"]) or len(str(value)) < schema.get("minLength", 0):
        return f"{where}: {value!r} is too small"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        missing = set(schema.get("required", ())) - set(value)
        extra = set(value) - set(properties) if schema.get("additionalProperties") is False else set()
        if missing or extra:
            return f"{where}: missing {missing}, unexpected {extra}"
        items = [(properties[key], item, f"{where}.{key}") for key, item in value.items() if key in properties]
    else:
        items = [(schema["items"], item, where) for item in value] if isinstance(value, list) else []
    return next((found for found in (wrong(document, *item) for item in items) if found), None)


def check(document, method, path, answer):
    status, headers, body = answer
    operation = document["paths"][path.partition("?")[0]][method.lower()]
    assert str(status) in operation["responses"], (method, path, status, body)
    described = resolve(document, operation["responses"][str(status)])
    media_type = headers["Content-Type"].partition(";")[0]
    schema = described["content"][media_type]["schema"]
    value = body.decode() if media_type.startswith("text/") else json.loads(body)
    assert wrong(document, schema, value) is None
    return status


def test_every_get_answers_as_the_document_says(collector, document):
    random = Random(1)
    collector.send(random_batch(random, list(REGISTRY), time.time()))
    read = {"Authorization": f"Bearer {collector.token}"}
    for path, methods in document["paths"].items():
        if "get" in methods:
            assert check(document, "GET", path, collector.request("GET", path, **read)) == 200
            status = 401 if "security" in methods["get"] else 200
            assert check(document, "GET", path, collector.request("GET", path)) == status
    for query in (
        "?metric=homepage",
        "?from=2026-11",
        "?to=2026-W47",
        "?metric=x",
        "?from=x",
        "?from=",
        "?a=b",
        "?metric=%ff",
    ):
        check(document, "GET", "/v1/tallies" + query, collector.request("GET", "/v1/tallies" + query, **read))


def test_every_post_answers_as_the_document_says(collector, document):
    statuses = set()
    relay = {"Authorization": f"Bearer {collector.relay_token()}"}
    source = bodies(Random(2))
    for number in range(400):
        body, media_type, encoding = next(source)
        headers = {"Content_Type": media_type} | ({"Content_Encoding": encoding} if encoding else {})
        path = "/v1/relay" if number % 2 else "/v1/reports"
        answer = collector.request("POST", path, body, **headers, **(relay if number % 4 == 1 else {}))
        statuses.add(check(document, "POST", path, answer))
    assert {200, 400, 401, 404, 415, 422} <= statuses


def test_the_document_describes_the_batches_that_clients_send(document):
    batch = random_batch(Random(3), list(REGISTRY), time.time())
    assert wrong(document, {"$ref": "#/components/schemas/Batch"}, to_json(batch)) is None
    assert wrong(document, {"$ref": "#/components/schemas/Batch"}, {**to_json(batch), "more": 1})
    content = document["paths"]["/v1/reports"]["post"]["requestBody"]["content"]
    assert set(content) == {MEDIA_TYPE, MEDIA_TYPE_JSON}
    assert pack(batch)


def test_every_route_is_in_the_document_and_every_path_of_the_document_is_there(collector, document):
    listed = json.loads(collector.request("GET", "/nowhere")[2])["detail"].removeprefix("path must be one of ")
    assert set(listed.split(", ")) == set(document["paths"])
