"""Tokens allow what their role says, and only their hashes are kept."""

import pytest

from hubbub.collector.http.tokens import Tokens, new_token
from hubbub.protocol.invalid import Invalid


def test_tokens_allow_their_role_only_and_can_be_taken_away(tmp_path):
    path, now = tmp_path / "tokens", 0.0
    read, relay = new_token(path, "read", "analyst"), new_token(path, "relay", "gateway")
    tokens = Tokens(path, lambda: now)
    assert [tokens.allow(token, role) for token in (read, relay, "") for role in ("read", "relay")] == [
        True, False, False, True, False, False,
    ]  # fmt: skip
    path.write_text(path.read_text().splitlines()[1] + "\n")
    now = 2.0
    assert not tokens.allow(read, "read")
    assert tokens.allow(relay, "relay")
    path.write_text("nonsense\n")
    with pytest.raises(Invalid, match=r"line 1 must be `read\|relay NAME SHA256`"):
        Tokens(path)
    with pytest.raises(Invalid, match="role must be one of read, relay, got 'write'"):
        new_token(path, "write", "x")
