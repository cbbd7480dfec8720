"""Rate limits: a sender has a bucket under a name that lasts an hour, and proxies are believed only if named."""

import json
import socket

import pytest

from hubbub.collector.http.limits import Limits, address_behind, sender_of
from hubbub.collector.settings import read_settings
from hubbub.protocol.wire import MEDIA_TYPE
from tests.collector.kit import Collector


def test_a_sender_over_its_rate_is_told_when_to_come_back(tmp_path):
    with Collector(tmp_path, "--sender-rate", "0.01", "--sender-burst", "3") as collector:
        answers = [collector.request("POST", "/v1/reports", b"", Content_Type=MEDIA_TYPE) for _ in range(5)]
        assert [status for status, _, _ in answers] == [400, 400, 400, 429, 429]
        assert 30 <= int(answers[-1][1]["Retry-After"]) <= 120
        assert json.loads(answers[-1][2])["type"] == "urn:hubbub:problem:rate-limited"


def test_buckets_refill_and_the_key_rotates():
    now = 0.0
    limits = Limits(1.0, 2, lambda: now)
    sender = limits.name("192.0.2.1")
    assert [limits.allows(sender) for _ in range(3)] == [True, True, False]
    now = 1.0
    assert [limits.allows(sender) for _ in range(2)] == [True, False]
    key = limits.key
    now = 3700.0
    assert limits.allows(sender)
    assert limits.key != key
    assert limits.name("192.0.2.1") != sender


def test_ipv6_senders_are_their_64_and_an_ipv4_sender_is_the_same_however_it_is_written():
    assert sender_of("2001:db8::1") == sender_of("2001:db8::2") != sender_of("2001:db8:0:1::1")
    assert sender_of("fe80::1%eth0") == sender_of("fe80::2%eth1")
    assert sender_of("::ffff:192.0.2.1") == sender_of("192.0.2.1") == sender_of("192.0.2.1:5678")
    assert sender_of("::ffff:192.0.2.1") != sender_of("::ffff:192.0.2.2"), "one bucket for all of IPv4"


@pytest.fixture
def proxies():
    return read_settings({"metrics": "x", "proxies": "10.0.0.0/8,fd00::/8"}, {}, None).proxies


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        ("192.0.2.9", ["198.51.100.1"], "192.0.2.9"),
        ("10.0.0.1", ["203.0.113.5, 198.51.100.1, 10.2.3.4"], "198.51.100.1"),
        ("10.0.0.1", ["not an address"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.5", "198.51.100.1"], "198.51.100.1"),  # the first line is the sender's own
        ("10.0.0.1", ["203.0.113.5", "198.51.100.1", "10.2.3.4"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.5, ", "198.51.100.1:4711"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),  # a socket for both families names its peers so
        ("10.0.0.1", ["198.51.100.1, ::ffff:10.2.3.4"], "198.51.100.1"),
        ("10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["[2001:db8::7]:4711, [fd00::2]:80"], "2001:db8::7"),
        ("10.0.0.1", ["[2001:db8::7]"], "2001:db8::7"),
        ("10.0.0.1", ["198.51.100.1,"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, [::1"], "10.0.0.1"),
    ],
)
def test_a_proxy_is_believed_only_if_named_and_only_about_who_asked_it(proxies, peer, forwarded, sender):
    assert address_behind(peer, forwarded, proxies) == sender


def test_a_made_up_first_line_does_not_get_around_the_limit_and_no_address_is_written_down(tmp_path):
    flags = ("--sender-rate", "0.01", "--sender-burst", "5", "--proxies", "127.0.0.1/32")
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: 0\r\n"
    statuses = []
    with Collector(tmp_path, *flags) as collector:
        for number in range(40):
            lines = f"X-Forwarded-For: 203.0.113.{number}\r\nX-Forwarded-For: 198.51.100.77:{1000 + number}\r\n"
            with socket.create_connection(("127.0.0.1", collector.port), timeout=30) as sock:
                sock.sendall((head + lines + "Connection: close\r\n\r\n").encode())
                statuses.append(int(sock.makefile("rb").readline().split()[1]))
    assert statuses == [400] * 5 + [429] * 35
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for address in ("203.0.113.7", "198.51.100.77"):
        assert address.encode() not in kept
        assert socket.inet_aton(address) not in kept
