"""Tallies from files, folders and collectors: what is read, and the words for what cannot be."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from hubbub.protocol import Definition, Invalid, Tally, fetch_tallies, read_tallies, write_tallies
from hubbub.protocol.cadence import parse_epoch
from hubbub.protocol.tally import Counts
from hubbub.protocol.tally_files import Wanted, tallies_to_json
from tests.protocol.toml import registry

FLAG, OTHER = (Definition.from_json(registry("flag", **keys)["it"].to_json()) for keys in ({}, {"absent": "true"}))


def tally(metric=FLAG, **epochs: int) -> Tally:
    return Tally(metric, {int(name[1:]): Counts((number,), ((number // 2,),)) for name, number in epochs.items()})


@contextmanager
def answering(status: int, body: str, asked: list[tuple[str, str]] | None = None) -> Iterator[str]:
    """A server that always answers so, and notes the address and the token that it was asked with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# --- files --------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_again_file_by_file_and_as_a_folder(tmp_path: Path) -> None:
    found = [tally(e1=10), tally(OTHER, e1=4)]
    paths = write_tallies(found, tmp_path / "out")
    hashes = sorted(metric.metric_hash[:8] for metric in (FLAG, OTHER))
    assert sorted(path.name for path in paths) == [f"it-{name}.json" for name in hashes]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"it-{name}.json" for name in hashes]
    by_hash = {t.metric.metric_hash: t for t in found}
    for places in (paths, [tmp_path / "out"], [str(tmp_path / "out")]):
        assert {t.metric.metric_hash: t for t in read_tallies(*places)} == by_hash
    (alone,) = write_tallies(found[:1], tmp_path / "alone")
    assert alone.name == "it.json"


def test_epochs_of_several_files_are_one_tally(tmp_path: Path) -> None:
    write_tallies([tally(e1=10)], tmp_path / "a")
    write_tallies([tally(e2=6)], tmp_path / "b")
    (both,) = read_tallies(tmp_path / "a", tmp_path / "b")
    assert both == tally(e1=10, e2=6)


def test_an_epoch_that_comes_twice_is_added_only_if_asked_for(tmp_path: Path) -> None:
    (path,) = write_tallies([tally(e1=10)], tmp_path)
    with pytest.raises(Invalid) as caught:
        read_tallies(path, path)
    how = "--merge (in Python, merge=True) adds such files up"
    assert str(caught.value) == f"{path}: epoch 1 of it was read before; {how}"
    assert read_tallies(path, path, merge=True) == [tally(e1=20)]


def test_a_file_or_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        read_tallies(tmp_path)
    assert str(caught.value) == f"{tmp_path}: a folder must hold tally files, got none that ends in .json"
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(Invalid) as caught:
        read_tallies(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'wrong.json'}: not a tally: format must be 'hubbub.tally'")
    with pytest.raises(FileNotFoundError):
        read_tallies(tmp_path / "nothing.json")


# --- over HTTP ----------------------------------------------------------------------------------------------------


def test_a_collectors_address_is_asked_with_the_token_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    with answering(200, tallies_to_json([tally(e1=10)]), asked) as url:
        assert read_tallies(url, token="mine") == [tally(e1=10)]
        monkeypatch.setenv("HUBBUB_TOKEN", "theirs")
        assert read_tallies(url + "/v1/tallies") == [tally(e1=10)]
        wanted = Wanted("it", "2026-W40", "2026-W47")
        assert fetch_tallies(url + "/", "mine", wanted) == [tally(e1=10)]
    assert [token for _, token in asked] == ["Bearer mine", "Bearer theirs", "Bearer mine"]
    assert {urlsplit(path).path for path, _ in asked} == {"/v1/tallies"}
    assert parse_qs(urlsplit(asked[2][0]).query) == {"metric": ["it"], "from": ["2026-W40"], "to": ["2026-W47"]}
    assert parse_qs(urlsplit(asked[0][0]).query) == {}


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, json.dumps({"detail": "needs a token"}), "401 needs a token"),
        (502, "<html>", "502 without a reason"),
        (200, "<html>", "must answer with JSON"),
        (200, "[]", "must answer with tallies"),
        (200, '{"tallies": {}}', "must answer with tallies"),
        (
            200,
            '{"tallies": [], "withheld": [{"metric": "it"}]}',
            "withheld must be a list of objects with exactly the keys metric, metric_hash, epoch, num_reports, "
            "min_reports",
        ),
        (
            200,
            '{"tallies": [], "withheld": [{"metric": "it", "metric_hash": "0", "epoch": 1, "num_reports": true, '
            '"min_reports": 20}]}',
            "num_reports of what is withheld must be a whole number, got True",
        ),
        (200, '{"tallies": [{}]}', "not a tally: format must be 'hubbub.tally', got None"),
    ],
)
def test_what_a_collector_says_instead_is_told_with_its_address(status: int, body: str, words: str) -> None:
    with answering(status, body) as url, pytest.raises(Invalid) as caught:
        read_tallies(url, token="t")
    assert str(caught.value) == f"{url}: {words}"


def test_an_address_where_nobody_is_or_of_another_kind_is_told() -> None:
    with answering(200, "") as url:
        pass  # and gone
    with pytest.raises(Invalid, match=r"^http://127\.0\.0\.1:\d+: "):
        fetch_tallies(url, "t")
    with pytest.raises(Invalid) as caught:
        fetch_tallies("ftp://example.org", "t")
    assert str(caught.value) == "url must begin with http:// or https://, got 'ftp://example.org'"


# --- which of them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "given"), [("from", (None, "2026-13")), ("to", (None, None, "yesterday"))])
def test_a_period_that_is_none_is_told_with_its_field(field: str, given: tuple[str | None, ...]) -> None:
    with pytest.raises(Invalid) as caught:
        Wanted(*given)
    form = "must be a day, week or month such as 2026-11-16, 2026-W47 or 2026-11"
    assert str(caught.value) == f"{field} {form}, got {given[-1]!r}"


def test_periods_hold_both_their_ends_whatever_the_cadence() -> None:
    week = registry("flag", every='"week"')["it"]
    first, last = (parse_epoch("week", text) for text in ("2026-W40", "2026-W44"))
    wanted = Wanted(None, "2026-10", "2026-10")
    assert [epoch for epoch in range(first - 2, last + 3) if wanted.has(week, epoch)] == list(range(first, last + 1))
    assert Wanted("it").has(week, first)
    assert Wanted(week.metric_hash).has(week, first)
    assert not Wanted("other").has(week, first)
