"""A collector that runs out of files says so, and not more than once a minute."""

import contextlib
import io
import json
import os
import resource
import socket
import time

from hubbub.collector.http.file_watch import FileWatch
from hubbub.collector.operator_log import OperatorLog
from tests.collector.kit import LAUNCH, Collector


def test_a_process_without_files_is_noticed_once_a_minute():
    seconds, stream = [0.0], io.StringIO()
    watch = FileWatch(OperatorLog(stream), lambda: seconds[-1])
    watch.look()
    assert stream.getvalue() == ""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        for second in (0.0, 1.0, 59.0, 60.0, 61.0):
            seconds.append(second)
            watch.look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    notices = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [notice["level"] for notice in notices] == ["warning"] * 2
    assert notices[0]["message"].startswith("no files left to open, so no connections can be accepted")
    assert notices[0]["limit"] == lowest


def wait_until_it_answers(collector):
    """It goes on as soon as it has seen that connections were closed."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionError):
            return collector.request("GET", "/healthz")
    raise AssertionError("it does not answer though there are files again")


def test_a_flood_of_connections_that_uses_up_the_files_is_logged_without_addresses(tmp_path):
    launch = tmp_path / "few_files.py"
    launch.write_text(
        "import resource, runpy\nresource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))\n"
        f"runpy.run_path({str(LAUNCH)!r}, run_name='__main__')\n"
    )
    with Collector(tmp_path, launch=launch) as collector, contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", collector.port), timeout=30))
        collector.wait_for_notice("no files left to open")
        stack.close()
        wait_until_it_answers(collector)
    log = collector.log_path.read_text()
    assert log.count("no files left") == 1
    assert "127.0.0.1" not in log
