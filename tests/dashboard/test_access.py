"""Who may look, with what, and what never leaves: tokens, sessions, names, forms, headers."""

from __future__ import annotations

import asyncio
import re

import pytest
from aiohttp import FormData
from aiohttp.test_utils import TestClient

from hubbub.dashboard.access import HEADERS
from hubbub.dashboard.poller import POLLER
from hubbub.protocol.refusal import STATUS
from hubbub.simulations.demo.people import CANDIDATES
from tests.dashboard.kit import (
    EVERY,
    TOKEN,
    ToldCollector,
    post,
    read_again,
    sample,
    text_of,
    visiting,
    words,
    write_samples,
)

pytestmark = pytest.mark.anyio
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def list_of(content: bytes, name: str = "mine.txt") -> FormData:
    form = FormData(quote_fields=False)
    form.add_field("file", content, filename=name, content_type="text/plain")
    return form


async def test_the_token_is_asked_for_once_and_kept_out_of_sight() -> None:
    async with ToldCollector().running() as url, visiting(url) as client:
        answer = await client.get("/", allow_redirects=False)
        assert (answer.status, answer.headers["Location"]) == (303, "/token")
        assert 'type="password"' in await text_of(client, "/token")
        wrong = await post(client, "/token", data={"token": "wrong"})
        assert wrong.status == 401
        assert "does not accept this token" in await wrong.text()
        right = await post(client, "/token", data={"token": f" {TOKEN}\n"})
        assert (right.status, right.headers["Location"]) == (303, "/")
        cookie = right.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Max-Age" not in cookie
        pages = [await text_of(client, path) for path in ("/", "/metric/dark_theme", "/metric/homepage")]
        for text in (*pages, cookie, str(right.headers)):
            assert TOKEN not in text


async def test_a_visitor_without_a_session_sees_nothing() -> None:
    """Also when somebody else has signed in, and also of files, pictures and events."""

    async with ToldCollector().running() as url, visiting(url) as client:
        await post(client, "/token", data={"token": TOKEN})
        client.session.cookie_jar.clear()
        for path in ("/", "/metric/dark_theme", "/metric/dark_theme/dark_theme.csv"):
            answer = await client.get(path, allow_redirects=False)
            assert (answer.status, answer.headers["Location"]) == (303, "/token")
            assert "dark_theme" not in await answer.text()
        assert (await client.get("/events")).status == 401
        assert "org.example" not in await text_of(client, "/token")
        assert (await post(client, "/metric/homepage/candidates", data=list_of(b"a"))).status == 303


async def test_a_program_shows_its_token_in_each_request_and_gets_no_session() -> None:
    """Also where nobody has signed in; a wrong one gets words and no page to sign in on."""
    file, right = "/metric/dark_theme/dark_theme.csv?epoch=all", {"Authorization": f"Bearer {TOKEN}"}
    collector = ToldCollector()
    async with collector.running() as url, visiting(url) as client:
        answer = await client.get(file, headers=right)
        assert (answer.status, "Set-Cookie" in answer.headers) == (200, False)
        assert (await answer.text()).startswith("metric,segment,epochs,value,")
        assert (await client.get(file, allow_redirects=False)).status == 303
        for wrong in ("Bearer wrong", "Bearer ", f"Basic {TOKEN}", "Bearer \x80"):
            answer = await client.get(file, headers={"Authorization": wrong}, allow_redirects=False)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), wrong
            assert await answer.text() == "The collector does not accept this token.\n"
        assert (await post(client, "/metric/homepage/candidates", data=list_of(b"a"))).status == 303  # no session
        collector.token = "another"
        await read_again(client)
        assert (await client.get(file, headers=right, allow_redirects=False)).status == 401
        collector.down = True
        assert (await client.get(file, headers=right, allow_redirects=False)).status == 503


async def test_signing_out_forgets_the_token() -> None:
    async with ToldCollector().running() as url, visiting(url) as client:
        await post(client, "/token", data={"token": TOKEN})
        assert "Sign out" in await text_of(client, "/")
        await post(client, "/sign-out")
        assert not client.app_[POLLER].has_token
        assert client.app_[POLLER].snapshot is None
        assert (await client.get("/", allow_redirects=False)).status == 303


async def test_a_token_that_was_taken_back_lets_nobody_in() -> None:
    told = ToldCollector()
    async with told.running() as url, visiting(url) as client:
        await post(client, "/token", data={"token": TOKEN})
        await text_of(client, "/")
        told.token = "another"
        await read_again(client)
        assert (await client.get("/", allow_redirects=False)).status == 303
        assert (await client.get("/metric/dark_theme", allow_redirects=False)).status == 303
        await post(client, "/token", data={"token": "another"})
        assert "Metrics" in await text_of(client, "/")


async def sign_in(client: TestClient, token: str) -> dict[str, str]:
    """Sign in; the header by which a browser would be known from then on."""
    answer = await post(client, "/token", data={"token": token})
    assert answer.status == 303
    client.session.cookie_jar.clear()
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


@pytest.mark.parametrize("first", ["alice", "bob"])
async def test_a_session_ends_with_the_token_it_was_opened_with_and_no_other_does(first: str) -> None:
    told = ToldCollector()
    told.other_tokens = {"alices-token", "bobs-token"}
    given = {"token": TOKEN, "host": "0.0.0.0", "origin": "https://stats.example.org"} if first == "bob" else {}
    there = {"Host": "stats.example.org", "Origin": "https://stats.example.org"} if given else {}
    async with told.running() as url, visiting(url, **given) as client:
        client.session.headers.update(there)
        visitors = {}
        for name in sorted(("alice", "bob"), key=lambda name: name != first):
            visitors[name] = await sign_in(client, f"{name}s-token")
        for headers in visitors.values():
            assert (await client.get("/", headers=headers, allow_redirects=False)).status == 200
        async with client.get("/events", headers=visitors["alice"]) as events:
            told.other_tokens.remove("alices-token")
            await read_again(client)
            assert b"event: closed" in await events.read(), "an open page is told"
        for path in ("/", "/metric/dark_theme", "/metric/dark_theme/dark_theme.csv"):
            assert (await client.get(path, headers=visitors["alice"], allow_redirects=False)).status == 303
            assert (await client.get(path, headers=visitors["bob"], allow_redirects=False)).status == 200
        told.other_tokens.add("alices-token")
        await read_again(client)
        answer = await client.get("/", headers=visitors["alice"], allow_redirects=False)
        assert answer.status == 303, "what is over stays over"


async def test_a_collector_that_cannot_be_asked_ends_no_session() -> None:
    told = ToldCollector()
    told.other_tokens = {"alices-token"}
    async with told.running() as url, visiting(url) as client:
        visitors = [await sign_in(client, token) for token in (TOKEN, "alices-token")]
        told.down = True
        await read_again(client)
        for headers in visitors:
            assert (await client.get("/", headers=headers, allow_redirects=False)).status == 200


async def test_a_dashboard_that_was_given_the_token_asks_nobody_on_its_own_machine() -> None:
    async with ToldCollector().running() as url, visiting(url, token=TOKEN) as client:
        page = await text_of(client, "/")
    assert "org.example.editor.demo" in page
    assert "Decide whether the light theme stays" in page, "the registry's purpose stands with its metric"
    assert TOKEN not in page


async def test_a_public_page_is_read_only_and_needs_no_token() -> None:
    async with (
        ToldCollector().running() as url,
        visiting(url, token=TOKEN, public=True, host="0.0.0.0", candidates=CANDIDATES) as client,
    ):
        page = await text_of(client, "/")
        assert "Reports counted" not in page, "how the collector is doing is its operator's"
        assert url not in page
        metric = await text_of(client, "/metric/homepage")
        assert "10 candidates" in metric
        assert 'type="file"' not in metric
        assert 'method="post"' not in page + metric
        for path in ("/token", "/metric/homepage/candidates", "/metric/homepage/forget-candidates", "/sign-out"):
            assert (await post(client, path, data={"token": TOKEN})).status == 405
        assert (await client.get("/metric/homepage/homepage.csv")).status == 200


async def test_a_name_that_was_pointed_here_is_not_answered(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        for host in ("evil.example", "evil.example:8788", "127.0.0.1.evil.example", "", "[::1", "localhost@evil"):
            answer = await client.get("/", headers={"Host": host})
            assert answer.status == 421, host
            assert "dark_theme" not in await answer.text()
        for host in ("localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"):
            assert (await client.get("/", headers={"Host": host})).status == 200, host


async def test_behind_a_proxy_only_the_address_visitors_type_is_answered() -> None:
    origin = "https://stats.example.org"
    async with ToldCollector().running() as url, visiting(url, origin=origin) as client:
        there = {"Host": "stats.example.org"}
        assert (await client.get("/token")).status == 421
        assert (await client.get("/token", headers=there)).status == 200
        form = {"data": {"token": TOKEN}, "allow_redirects": False}
        elsewhere = await client.post("/token", headers={**there, "Origin": "https://evil.example"}, **form)
        assert elsewhere.status == 403
        answer = await client.post("/token", headers={**there, "Origin": origin}, **form)
        assert answer.status == 303
        assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
async def test_a_form_from_elsewhere_is_refused(tmp_path, headers: dict[str, str]) -> None:
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        answer = await client.post("/metric/homepage/candidates", headers=headers, data=list_of(b"a\n"))
        assert answer.status == 403
        assert "No candidates yet" in await text_of(client, "/metric/homepage")


async def test_every_answer_keeps_the_page_to_itself(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        paths = ("/", "/metric/language", "/nothing", "/static/page.css", "/metric/language/language.csv", "/token")
        for path in paths:
            answer = await client.get(path, allow_redirects=False)
            assert answer.headers["Content-Security-Policy"] == POLICY, path
            assert HEADERS.items() <= dict(answer.headers).items(), path
            assert answer.headers["Server"] == "hubbub", "no versions"
            if "static" not in path:
                assert answer.headers.get("Cache-Control", "no-store") == "no-store"


async def test_no_page_names_another_place(tmp_path) -> None:
    """Everything that is loaded, and every form, is of this server; nothing is styled or scripted in the page."""
    async with visiting(*write_samples(tmp_path), candidates=CANDIDATES) as client:
        pages = [await text_of(client, path) for path in ("/", "/metric/homepage", "/metric/latency")]
    for page in pages:
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
            assert re.match(r"/(?!/)|#", address), address
        assert " style=" not in page
        assert not re.search(r"<[a-z]+ (?:[^>]* )?on[a-z]+=", page)
        assert len(re.findall("<script", page)) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"caf\xe9\n", "mine.txt: must be UTF-8, got a wrong byte at 3"),
        (b"\n\n", "mine.txt: at least one candidate is needed, got none"),
        (b"a\n" * 4, "mine.txt: at most 3 candidates, got 4"),
    ],
)
async def test_a_list_that_cannot_be_used_is_refused_in_words(
    tmp_path, monkeypatch, content: bytes, sentence: str
) -> None:
    monkeypatch.setattr("hubbub.analysis.candidates_file.MOST_CANDIDATES", 3)
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        answer = await post(client, "/metric/homepage/candidates", data=list_of(content))
        assert answer.status == 400
        assert sentence in words(await answer.text())


async def test_a_list_is_looked_for_and_forgotten(tmp_path) -> None:
    async with visiting(*write_samples(tmp_path, days=1)) as client:
        await post(client, "/metric/homepage/candidates", data=list_of("\n".join(CANDIDATES).encode(), "<b>.txt"))
        page = words(await text_of(client, "/metric/homepage"))
        assert "10 candidates, from <b>.txt, uploaded here." in page
        assert "https://news.example/ leads with" in page
        await post(client, "/metric/homepage/forget-candidates")
        assert "No candidates yet" in await text_of(client, "/metric/homepage")
        assert (await post(client, "/metric/language/candidates", data=list_of(b"a"))).status == 404


async def test_a_collector_that_goes_leaves_its_last_numbers_and_comes_back() -> None:
    told = ToldCollector()
    async with told.running() as url, visiting(url, token=TOKEN) as client:
        assert "Live" in words(await text_of(client, "/"))
        told.down = True
        await read_again(client)
        page = words(await text_of(client, "/"))
        assert "The collector cannot be read: it answers with status 503." in page
        assert "Showing the last data received, 00:00:00 UTC; retrying automatically." in page
        assert "Active installs, 4 November 2026 4,000" in page
        told.down = False
        told.tallies["dark_theme"] = sample(told.tallies["dark_theme"].metric, 3)
        await read_again(client)
        page = words(await text_of(client, "/"))
        assert "cannot be read" not in page
        assert "Active installs, 5 November 2026 4,000" in page


async def test_a_collector_that_was_never_there_is_said_to_be_missing() -> None:
    async with visiting("http://127.0.0.1:9", token=TOKEN) as client:
        page = words(await text_of(client, "/", 503))
        assert "No numbers to show" in page
        assert "The collector cannot be read: nothing listens at that address." in page
    async with visiting("http://127.0.0.1:9") as client:
        answer = await post(client, "/token", data={"token": TOKEN})
        assert answer.status == 503
        assert "nothing listens at that address. The token was not kept." in words(await answer.text())


async def test_tallies_are_fetched_only_when_something_was_counted_and_nothing_while_nobody_looks() -> None:
    told = ToldCollector()
    async with told.running() as url, visiting(url, token=TOKEN, read=False) as client:
        await asyncio.sleep(2.5 * EVERY)  # one that asked while nobody looks would have asked twice
        assert told.asked == []
        for _ in range(3):
            await read_again(client)
            await text_of(client, "/")
        assert told.asked.count("/metrics") == 3
        assert told.asked.count("/v1/tallies") == 1


async def test_metrics_that_nobody_has_answered_are_listed() -> None:
    async with ToldCollector({}).running() as url, visiting(url, token=TOKEN) as client:
        page = words(await text_of(client, "/"))
        assert page.count("Collecting no reports for a finished day yet First numbers on Thursday, 5 November") == 6
        assert "Collecting: no answers yet." in words(await text_of(client, "/metric/homepage"))


async def test_what_the_collector_withholds_is_said_in_plain_words() -> None:
    told = ToldCollector()
    told.tallies = {"dark_theme": told.tallies["dark_theme"]}
    told.withheld = [
        {"metric": name, "metric_hash": "0" * 32, "epoch": 1, "num_reports": number, "min_reports": 20}
        for name, number in (("dark_theme", 7), ("homepage", 3))
    ]
    why = "withheld: the collector shows new reports of a day, week or month only when there are at least 20 of them."
    async with told.running() as url, visiting(url, token=TOKEN) as client:
        page = words(await text_of(client, "/"))
        assert "Too few reports fewer than 20 in this day" in page
        assert "This is a courtesy; what protects people is the noise. under 20 reports" in page
        assert f"7 reports {why}" in words(await text_of(client, "/metric/dark_theme"))
        alone = words(await text_of(client, "/metric/homepage"))
        assert f"Too few reports. 3 reports {why}" in alone
        assert "no answers yet" not in alone


async def test_how_the_collector_is_doing_stands_on_the_overview() -> None:
    async with ToldCollector().running() as url, visiting(url, token=TOKEN) as client:
        page = words(await text_of(client, "/"))
    assert "Reports counted 48,000" in page
    assert "Disk 50 GB free" in page
    assert "not a batch at all: rubbish, or another program 25" in page


def test_every_reason_to_refuse_has_words() -> None:
    from hubbub.dashboard.health import WHY_REFUSED

    assert set(STATUS) | {"unauthorized", "too-many-reads", "internal"} == set(WHY_REFUSED)
