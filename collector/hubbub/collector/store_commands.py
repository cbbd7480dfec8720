"""The command `hubbub store`: make, look after, and fill a store that several collectors share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hubbub.collector.postgres.administration import check_store, create_store, migrate_store, status_of
from hubbub.collector.postgres.importing import import_store
from hubbub.collector.postgres.session import shown
from hubbub.protocol.invalid import Invalid, plural


def add_store(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The address is libpq's: several hosts, sslmode, services and passfiles work; a password in it is refused.\n"
        "\nexamples:\n"
        "  hubbub store create --store postgresql://owner@db.example/hubbub --role collector\n"
        "  hubbub store import --store postgresql://owner@db.example/hubbub --data /var/lib/hubbub\n"
        "  hubbub store status --store service=hubbub"
    )
    parser.add_argument(
        "action",
        choices=["create", "migrate", "check", "import", "status"],
        help="make the tables; bring them to this version; verify every row; move a folder's store in; show how it is",
    )
    parser.add_argument("--store", metavar="URL", required=True, help="a postgresql:// address")
    parser.add_argument("--role", metavar="NAME", help="for create: a role that may count and read, and no more")
    parser.add_argument("--data", metavar="DIR", help="for import: the directory of a collector that is not running")


def run_store(arguments: Namespace) -> int:
    if (arguments.data is None) is (arguments.action == "import"):
        raise Invalid(["--data must be given to `hubbub store import`, and to no other action"])
    if arguments.role is not None and arguments.action != "create":
        raise Invalid(["--role is for `hubbub store create` alone"])
    address = arguments.store
    match arguments.action:
        case "create":
            token = create_store(address, arguments.role)
            print(f"{shown(address)}: made")
            print(f"Read token, shown this once:  {token}")
        case "migrate":
            before, now = migrate_store(address)
            print(f"{shown(address)}: schema version {now}" + ("" if before != now else ", as it was"))
        case "check":
            print("\n".join(check_store(address)))
            print(f"{shown(address)}: no damage found")
        case "import":
            print(f"{shown(address)}: {plural(import_store(address, Path(arguments.data)), 'report')} imported")
            print(f"Collectors must not use {arguments.data} any more: what they counted there would be in no store.")
        case _:
            print("\n".join(status_of(address)))
    return 0
