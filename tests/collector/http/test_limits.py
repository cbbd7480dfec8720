"""Rate limits: a sender has a bucket under a name that lasts an hour, and proxies are believed only if named."""

import json

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


def test_ipv6_senders_are_their_64_and_proxies_are_believed_only_if_named():
    assert sender_of("2001:db8::1") == sender_of("2001:db8::2") != sender_of("2001:db8:0:1::1")
    proxies = read_settings({"metrics": "x", "proxies": "10.0.0.0/8"}, {}, None).proxies
    assert address_behind("192.0.2.9", "198.51.100.1", proxies) == "192.0.2.9"
    assert address_behind("10.0.0.1", "203.0.113.5, 198.51.100.1, 10.2.3.4", proxies) == "198.51.100.1"
    assert address_behind("10.0.0.1", "not an address", proxies) == "10.0.0.1"
    assert address_behind("10.0.0.1", None, proxies) == "10.0.0.1"
