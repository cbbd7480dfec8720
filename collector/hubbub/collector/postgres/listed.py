"""Which databases are one store: each knows the store's name and its own number, the first how many there are.

A list that is another than the store's, or in another order, is refused before anything is done: batches would be
looked for where they are not, and counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from hubbub.collector.postgres.session import (
    Connection,
    Unreachable,
    check_server,
    check_version,
    connect,
    one,
    shown,
    translated,
)
from hubbub.collector.settings import databases_in
from hubbub.collector.storage.log import Damaged
from hubbub.protocol.invalid import Invalid, require


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    """A connection to one database. Raises `Invalid` with words for whatever goes wrong."""
    try:
        connection = connect(address)
    except Unreachable as error:
        raise Invalid([f"{shown(address)}: cannot be reached: {error}"]) from None
    try:
        check_server(connection)
        yield connection
    except psycopg.Error as error:
        words = str(translated(error, connection)).splitlines()[0]
        raise Invalid([f"{shown(address)}: {words}"]) from None
    except Damaged as error:
        raise Invalid([f"{shown(address)}: {error}"]) from None
    finally:
        connection.close()


@contextmanager
def opened(address: str) -> Iterator[Connection]:
    """A connection to one database of a store of this version."""
    with connected(address) as connection:
        check_version(connection)
        yield connection


def listed(store: str) -> list[str]:
    """The addresses that a `--store` names, once they are known to be all databases of one store, in their order."""
    addresses = databases_in(store)
    require(_broken_rules(addresses, [_part(address) for address in addresses]))
    return addresses


def _part(address: str) -> tuple[str, int, int]:
    with opened(address) as connection:
        store, number, databases = one(connection, "select store::text, number, databases from state")
        return store, number, databases


def _broken_rules(addresses: list[str], parts: list[tuple[str, int, int]]) -> Iterator[str]:
    first, _, databases = parts[0]
    for place, (address, (store, number, _)) in enumerate(zip(addresses, parts, strict=True)):
        if number != place:
            yield f"store: {shown(address)} is database {number + 1} of its store, got it in place {place + 1}"
        elif store != first:
            yield f"store: {shown(address)} belongs to another store than the first database"
    if parts[0][1] == 0 and len(addresses) != databases:
        words = f"store must name all databases of the store, {databases} in number, got {len(addresses)}"
        yield words + ("; `hubbub store add` gives it more" if len(addresses) > databases else "")
