"""pgbouncer between collectors and the server, for real, in both of its modes: refused with words, by every command.

In transaction mode two statements of one connection may run in two server processes: settings would be lost, and with
them the timeouts that keep a stopped collector from holding up the others.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from hubbub.collector.postgres.listed import listed
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import REGISTRY_TOML, run_command
from tests.postgres_server import free_port

PROGRAM = os.environ.get("HUBBUB_TEST_PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs pgbouncer (Debian's package of that name)")


@pytest.fixture(params=["transaction", "session"])
def pooled(request, postgres):
    """The address of a new store by way of a pooler."""
    direct, _ = postgres.new_store()
    port, folder = free_port(), Path(postgres.folder) / f"bouncer-{request.param}"
    folder.mkdir()
    (folder / "users").write_text('"owner" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={postgres.port} user=owner\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\nauth_file = {folder}/users\n"
        f"pool_mode = {request.param}\nlogfile = {folder}/log\n"
    )
    who = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if who:
        for path in [folder, *folder.iterdir()]:
            shutil.chown(path, "nobody", "nogroup")
    process = subprocess.Popen([PROGRAM, "-q", str(folder / "pgbouncer.ini")], stderr=subprocess.DEVNULL, **who)
    address = direct.replace(f":{postgres.port}/", f":{port}/")
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(address).close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, "the pooler never answered"
                time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


def test_a_pooler_is_refused_with_words_by_collectors_and_commands(pooled, tmp_path):
    with pytest.raises(Invalid, match=r"a pooler such as pgbouncer stands between.*connect to the server itself"):
        listed(pooled)
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    flags = ("--metrics", tmp_path / "metrics.toml", "--port", "0", "--data", tmp_path / "data")
    said = run_command("collect", *flags, "--store", pooled)
    assert (said.returncode, "a pooler such as pgbouncer" in said.stderr) == (2, True), said.stderr
