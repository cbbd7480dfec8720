"""The machine of the database is lost: with a synchronous standby nothing that was acknowledged goes with it.

And how collectors find and trust a server: several hosts, TLS, a passfile.
"""

import os
import shutil
import signal
import time

import pytest

from hubbub.collector.postgres.administration import create_store, status_of
from hubbub.collector.postgres.session import connect, one
from hubbub.protocol.invalid import Invalid
from tests.collector import kit
from tests.collector.certificates import make_certificate, needs_openssl
from tests.collector.kit import Collector
from tests.postgres_server import Server
from tests.torture.oracle import FLAGS, Oracle

ALWAYS = ("20200101000000Z", "20490101000000Z")


def follow(primary: Server, standby: Server) -> None:
    """From now on every commit waits for the standby."""
    standby.start()
    primary.sql("alter system set synchronous_standby_names = '*'")
    primary.sql("select pg_reload_conf()")
    deadline = time.monotonic() + 60
    while primary.sql("select sync_state from pg_stat_replication") != [("sync",)]:
        assert time.monotonic() < deadline, "the standby never followed"
        time.sleep(0.02)


def test_a_promoted_standby_has_all_that_was_acknowledged_and_collectors_go_on(
    postgres_template, tmp_path, monkeypatch
):
    primary = Server().make(postgres_template).start()
    standby = primary.standby()
    try:
        follow(primary, standby)
        address = primary.new_database()
        token = create_store(address, None)
        hosts = address.replace(f":{primary.port}/", f":{primary.port},127.0.0.1:{standby.port}/")
        monkeypatch.setattr(kit, "new_store", lambda: (hosts, token))
        (tmp_path / "b").mkdir()
        with Collector(tmp_path, *FLAGS) as one_collector, Collector(tmp_path / "b", *FLAGS) as other:
            oracle = Oracle(senders=8, seed=7, ports=(one_collector.port, other.port))
            oracle.start()
            try:
                for _ in range(5):
                    oracle.wait_for_another()
                primary.stop(signal.SIGKILL)
                standby.promote()
                for _ in range(5):
                    oracle.wait_for_another()
            finally:
                oracle.finish()
            assert oracle.verdict(other) == []
            assert oracle.answers["none"] + oracle.answers["duplicate"] > 0
    finally:
        standby.remove()
        primary.remove()


@needs_openssl
def test_a_server_is_trusted_by_its_certificate_and_trusts_by_a_passfile(postgres_template, tmp_path):
    server = Server().make(postgres_template)
    try:
        if not server.run("postgres", "-D", server.data, "-C", "ssl_library").stdout.strip():
            pytest.skip("this PostgreSQL was built without TLS")
        certificate, key = make_certificate(server.folder, "server", *ALWAYS)
        for path in (certificate, key):
            path.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(path, "nobody", "nogroup")
        with (server.data / "postgresql.conf").open("a") as file:
            file.write(f"ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n")
        rules = (server.data / "pg_hba.conf").read_text()
        server.start()
        server.sql("create role guarded login superuser password 'a long secret'")
        (server.data / "pg_hba.conf").write_text(f"hostssl all guarded all scram-sha-256\n{rules}")
        server.sql("select pg_reload_conf()")
        passfile = tmp_path / "pass"
        passfile.write_text("127.0.0.1:*:*:guarded:a long secret\n")
        passfile.chmod(0o600)
        plain = server.new_database().replace("owner@", "guarded@")
        trusting = f"{plain}?sslmode=verify-ca&sslrootcert={certificate}"
        with pytest.raises(Invalid, match=r"cannot be reached: .*password"):
            status_of(trusting)
        address = f"{trusting}&passfile={passfile}"
        create_store(address, None)
        server.sql("alter role guarded set synchronous_commit = local")
        connection = connect(address)
        assert one(connection, "select ssl from pg_stat_ssl where pid = pg_backend_pid()") == (True,)
        assert one(connection, "show synchronous_commit") == ("on",), "or a commit would not wait for a standby"
        connection.close()
        other, _ = make_certificate(tmp_path, "other", *ALWAYS)
        with pytest.raises(Invalid, match=r"cannot be reached: .*certificate"):
            status_of(f"{plain}?sslmode=verify-ca&sslrootcert={other}&passfile={passfile}")
    finally:
        server.remove()
