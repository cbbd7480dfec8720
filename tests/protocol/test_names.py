"""Names and addresses are checked by hand: each function says what its pattern says."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.protocol import names

PATTERNS = {names.is_app: names.APP, names.is_metric: names.METRIC, names.is_retention: names.RETENTION}
ADDRESS = r"https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:([1-9][0-9]{0,4}))?(/[A-Za-z0-9._~-]+)*"

near_names = st.text(st.sampled_from("abyz0189AZ_.-~/:dwm é²٣\n"), max_size=6) | st.builds(
    lambda letter, length, end: letter * length + end,
    st.sampled_from("a0_"),
    st.integers(60, 66),
    st.sampled_from(["", "a", "-", "_", "\n"]),
)


@pytest.mark.parametrize("function", PATTERNS, ids=lambda function: function.__name__)
@given(text=near_names)
@example(text="a" * 64)
@example(text="a" * 65)
@example(text="9999y")
@example(text="10000y")
@example(text="y")
@example(text="01d")
def test_a_name_is_right_exactly_if_it_matches_its_pattern(function, text):
    assert function(text) == bool(re.fullmatch(PATTERNS[function], text))


@given(
    scheme=st.sampled_from(["https://", "http://", "HTTPS://", "https:/", "ftp://", ""]),
    host=st.sampled_from(["example.org", "127.0.0.1", "a", "", "-a", "a-", "Ä", "a_b", "user@a", "[::1]", "a.b."]),
    port=st.sampled_from(["", ":", ":1", ":65535", ":65536", ":99999", ":100000", ":0", ":080", ":٣", ":1:2"]),
    path=st.sampled_from(["", "/", "/a", "/A~b.c_d-e", "//a", "/a/", "/a?b", "/a#b", "/ä", "/a b", "/a\n"]),
)
def test_an_address_is_plain_exactly_if_it_matches_its_pattern(scheme, host, port, path):
    match = re.fullmatch(ADDRESS, scheme + host + port + path)
    plain = match is not None and int(match[4] or 1) <= 65535
    assert names.host_of(scheme + host + port + path) == (match[1] if plain else None)
