"""The command `hubbub store`: make, look after, and fill a store that several collectors share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hubbub.collector.postgres.administration import add_databases, check_store, create_store, migrate_store, status_of
from hubbub.collector.postgres.importing import import_store
from hubbub.collector.postgres.session import shown
from hubbub.collector.settings import databases_in
from hubbub.protocol.invalid import Invalid, plural


def add_store(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The address is libpq's: several hosts, sslmode, services and passfiles work; a password in it is refused.\n"
        "\nexamples:\n"
        "  hubbub store create --store postgresql://owner@db.example/hubbub --role collector\n"
        "  hubbub store import --store postgresql://owner@db.example/hubbub --data /var/lib/hubbub\n"
        "  hubbub store status --store service=hubbub\n"
        "  hubbub store add --store service=first,service=second,service=third"
    )
    parser.add_argument(
        "action",
        choices=["create", "migrate", "check", "import", "status", "add"],
        help="make the tables; bring them to this version; verify every row; move a folder's store in; show how it is; "
        "spread it over more databases, the last of those named",
    )
    parser.add_argument(
        "--store", metavar="URL", required=True, help="a postgresql:// address, or several with commas between"
    )
    parser.add_argument(
        "--role", metavar="NAME", help="for create and add: a role that may count and read, and no more"
    )
    parser.add_argument("--data", metavar="DIR", help="for import: the directory of a collector that is not running")


def run_store(arguments: Namespace) -> int:
    if (arguments.data is None) is (arguments.action == "import"):
        raise Invalid(["--data must be given to `hubbub store import`, and to no other action"])
    if arguments.role is not None and arguments.action not in ("create", "add"):
        raise Invalid(["--role is for `hubbub store create` and `hubbub store add` alone"])
    store = arguments.store
    place = "; ".join(shown(address) for address in databases_in(store))
    match arguments.action:
        case "create":
            token = create_store(store, arguments.role)
            print(f"{place}: made")
            print(f"Read token, shown this once:  {token}")
        case "migrate":
            for where, before, now in migrate_store(store):
                print(f"{where}: schema version {now}" + (f", was {before}" if before != now else ", as it was"))
        case "check":
            print("\n".join(check_store(store)))
            print(f"{place}: no damage found")
        case "import":
            print(f"{place}: {plural(import_store(store, Path(arguments.data)), 'report')} imported")
            print(f"Collectors must not use {arguments.data} any more: what they counted there would be in no store.")
        case "add":
            print(f"{place}: {add_databases(store, arguments.role)} databases")
            print("Start collectors anew with the whole list: until then they refuse batches of newer epochs.")
        case _:
            print("\n".join(status_of(store)))
    return 0
