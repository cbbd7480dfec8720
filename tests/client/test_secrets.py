"""No recorded value stands in clear anywhere in the state directory or in any log: every byte is searched."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.client import Client
from hubbub.client.state import State
from hubbub.protocol.bloom import canonical_text, digest
from tests.client.answering_server import Answer, stored
from tests.client.install import DAY, Install
from tests.client.processes import start_python
from tests.client.registries import metric, registry

TEXTS = ["https://clinic.example.org/results?patient=4711", "Søren Kierkegaard", "日本語のひみつ", "very long " * 300]
NUMBERS = [17.28394, 213, -5, 4_294_967_311, 0.30000000000000004]
CHOICES = ["aubergine", "persimmon", "quince"]
ASKS = registry(
    metric("page", "string", max_values=4),
    metric("name", "string", num_bits=1, num_cohorts=2, every="week"),
    metric("fruit", "choice", choices=f"[{', '.join(map(repr, CHOICES))}]", max_values=3),
    metric("time", "mean", high=3000),
    metric("size", "histogram", max_values=3),
    metric("delay", "range", every="week"),
    lifetime=100,
)


def every_byte(directory: Path) -> bytes:
    """Of all files, names included. Only when no client is open: reading would end SQLite's locks in this process."""
    return b"".join(
        str(path.name).encode() + (path.read_bytes() if path.is_file() else b"") for path in directory.rglob("*")
    )


def forms(value: object) -> Iterator[bytes]:
    """The ways in which a program might have written a value down."""
    text = str(value)
    for shown in {text, repr(value), ascii(value), text.upper(), text.lower()}:
        for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le"):
            yield shown.encode(encoding)
            yield shown.encode(encoding).hex().encode()
    if isinstance(value, str):
        for number in digest(value):
            for order in ("little", "big"):
                yield number.to_bytes(8, order)
                yield number.to_bytes(8, order).hex().encode()
            yield str(number).encode()
        yield canonical_text(value)[:12]


def long_enough(value: object) -> list[bytes]:
    """Short forms turn up by chance; from six bytes on, in some 100 kB, hardly: 1e5 x 2**-48 = 4e-10 each."""
    return [form for form in forms(value) if len(form) >= 6]


@pytest.fixture
def life(install: Install, caplog: pytest.LogCaptureFixture) -> Install:
    """Days on which all of it was recorded, some of it wrongly, with a server that fails and one that does not."""
    caplog.set_level(logging.DEBUG)
    client = install.agreed(ASKS)
    for day, text in enumerate(TEXTS):
        for wrong in ("time", "size", "fruit"):
            client.record(wrong, text)
        client.record("page", NUMBERS[day])
        client.record("pages", text)
        client.record("page", text)
        client.record("name", text)
        client.record("fruit", CHOICES[day % len(CHOICES)])
        for number in NUMBERS:
            client.record("time", number)
            client.record("size", number)
            client.record("delay", number)
        install.days(1)
        install.server.answer = lambda body: Answer(500, body)
        client.flush()
        if day == 1:
            client.close()
            client = install.client()
    return install


@pytest.mark.parametrize("value", [*TEXTS, 17.28394, 4_294_967_311], ids=lambda value: ascii(value)[:20])
def test_no_value_is_found_in_the_state_while_the_app_lives_or_after_it(life: Install, value: object) -> None:
    sought = long_enough(value)
    assert len(sought) > 4
    for _ in range(2):
        # A process that still runs has a log beside the file; one that closed has folded it in.
        life.close()
        content = every_byte(life.directory)
        assert len(content) > 4096
        assert [form for form in sought if form in content] == []
        life.client().record("page", TEXTS[0])


def test_no_value_is_found_beside_a_state_that_was_never_closed(install: Install, tmp_path: Path) -> None:
    toml = tmp_path / "metrics.toml"
    toml.write_text(ASKS.source)
    install.agreed(ASKS).close()
    script = (
        "import sys; from hubbub.client import Client\n"
        "toml, state, now, *texts = sys.argv[1:]\n"
        "client = Client(toml, state_dir=state, endpoint='http://127.0.0.1:9', clock=lambda: float(now))\n"
        "client.record('page', texts[0]); client.record('name', texts[1]); print('recorded'); sys.stdin.read()"
    )
    process = start_python(script, toml, install.directory, install.now, *TEXTS[:2])
    assert process.stdout.readline() == "recorded\n"
    process.kill()
    process.communicate()
    assert (install.directory / "state.db-wal").stat().st_size > 0
    content = every_byte(install.directory)
    assert [form for text in TEXTS[:2] for form in long_enough(text) if form in content] == []


def test_which_declared_choice_was_recorded_is_not_seen_in_the_state(install: Install) -> None:
    """The choices themselves stand there, in the registry that was agreed to: as often after a record as before."""
    client = install.agreed(ASKS)
    client.close()
    before = every_byte(install.directory)
    client = install.client()
    client.record("fruit", "quince")
    client.close()
    after = every_byte(install.directory)
    for choice in CHOICES:
        assert after.count(choice.encode()) == before.count(choice.encode()) > 0
        assert [form for form in long_enough(choice) if form in after and form not in before] == []


def test_no_value_is_found_in_any_log(life: Install, caplog: pytest.LogCaptureFixture) -> None:
    life.close()
    records = [*caplog.get_records("setup"), *caplog.records]
    assert len(records) >= 5
    written = "\n".join(f"{record.getMessage()} {vars(record)}" for record in records)
    for value in [*TEXTS, *NUMBERS[:1], *CHOICES]:
        assert str(value) not in written
        assert ascii(value)[1:-1] not in written


def test_no_value_is_found_in_any_message(life: Install) -> None:
    sent = b"".join(life.server.bodies)
    assert len(sent) > 100
    assert [form for value in [*TEXTS, *CHOICES] for form in long_enough(value) if form in sent] == []


# --- what was sent, declined or deleted ---------------------------------------------------------------------------


@pytest.fixture
def careless_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite as most are built: it leaves deleted rows in the file. Some distributions build theirs otherwise, where
    a client that forgot to ask would go unnoticed."""
    connect = sqlite3.connect

    def careless(*arguments: object, **options: object) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.execute("PRAGMA secure_delete = OFF")
        return db

    monkeypatch.setattr(sqlite3, "connect", careless)


def long_message(install: Install) -> Client:
    """A client with one message that is due, whose bits are far too many to turn up by chance."""
    client = install.agreed(registry(metric("page", "string", num_bits=2048)))
    client.record("page", TEXTS[0])
    install.days(1)
    client.flush(timeout=0)  # made, and no time to send it
    return client


def the_bits(client: Client) -> bytes:
    (message,) = (message for message in client.preview() if message.body)
    return message.body[-200:]


def closed(install: Install, client: Client) -> bytes:
    """Every byte that stays when the app has ended: the log beside the file is folded in, and gone."""
    client.close()
    content = every_byte(install.directory)
    assert b"state.db-wal" not in content
    return content


@pytest.mark.usefixtures("careless_sqlite")
def test_a_message_that_was_sent_is_overwritten(install: Install) -> None:
    client = long_message(install)
    bits = the_bits(client)
    install.server.answer = lambda body: Answer(500)
    assert bits in closed(install, client)  # while it waits, it is there to be found
    install.server.answer = stored
    install.now += 60
    client = install.client(send_delay=lambda span: 90 * DAY)
    assert client.flush()
    assert bits in install.server.bodies[-1]
    assert bits not in closed(install, client)


@pytest.mark.usefixtures("careless_sqlite")
def test_what_was_made_and_not_sent_is_overwritten_by_a_no(install: Install) -> None:
    client = long_message(install)
    client.record("page", TEXTS[1])
    (making,) = (message for message in client.preview() if not message.body)
    sought = [the_bits(client), bytes.fromhex(making.reports[0]["bits"])[:200]]
    client._state.close()  # as a fork would: what was made is in the file now, not only in the log beside it
    client.consent(False)
    content = closed(install, client)
    assert [bits for bits in sought if bits in content] == []


@pytest.mark.usefixtures("careless_sqlite")
def test_a_row_that_is_deleted_is_overwritten_in_the_file(tmp_path: Path) -> None:
    state, secret = State(tmp_path), b"a recognisable row " * 20
    with state.transaction() as db:
        db.execute("INSERT INTO memos VALUES (x'00', 'metric', 0, ?)", (secret,))
        db.execute("INSERT INTO memos VALUES (x'01', 'metric', 1, x'02')")  # so that the page stays in use
    state.close()
    assert secret in every_byte(tmp_path)
    with state.transaction() as db:
        db.execute("DELETE FROM memos WHERE slot = 0")
    state.close()
    assert secret[:40] not in every_byte(tmp_path)


def test_the_search_would_find_a_value_that_was_written(tmp_path: Path) -> None:
    for number, form in enumerate(long_enough(TEXTS[1])):
        (tmp_path / str(number)).write_bytes(b"\0" * 99 + form + b"\0" * 99)
    content = every_byte(tmp_path)
    assert all(form in content for form in long_enough(TEXTS[1]))
