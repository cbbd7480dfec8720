"""Tokens allow what their role says, only their hashes are kept, and taking one away always works."""

import io
import json
import threading

import pytest

from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.tokens import Tokens, new_token, read_tokens, revoke_tokens
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.tally_files import fetch_tallies
from tests.collector.kit import Collector, run_command


class Watched:
    """A tokens file, the collector's view of it, a clock, and what the operator was told."""

    def __init__(self, folder):
        self.path = folder / "tokens"
        self.now = 0.0
        self._stream = io.StringIO()

    def open(self):
        return Tokens(lambda: read_tokens(self.path), OperatorLog(self._stream), lambda: self.now)

    @property
    def notices(self):
        return [json.loads(line)["message"] for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path)


def test_tokens_allow_their_role_only_and_can_be_taken_away(watched):
    path = watched.path
    read, relay = new_token(path, "read", "analyst"), new_token(path, "relay", "gateway")
    tokens = watched.open()
    assert [tokens.allow(token, role) for token in (read, relay, "") for role in ("read", "relay")] == [
        True, False, False, True, False, False,
    ]  # fmt: skip
    path.write_text(path.read_text().splitlines()[1] + "\n")
    watched.now = 2.0
    assert not tokens.allow(read, "read")
    assert tokens.allow(relay, "relay")
    with pytest.raises(Invalid, match="role must be one of read, relay, got 'write'"):
        new_token(path, "write", "x")
    assert watched.notices == []


@pytest.mark.parametrize("left_over", [b"", b"\n", b"  \t\n", b"# alice left in May\n", b"nonsense\n", b"\xff\xfe\n"])
def test_taking_a_line_away_works_whatever_else_stays(watched, left_over):
    taken, kept = new_token(watched.path, "read", "alice"), new_token(watched.path, "read", "bob")
    tokens = watched.open()
    watched.path.write_bytes(left_over + watched.path.read_bytes().splitlines(keepends=True)[1])
    watched.now = 2.0
    assert not tokens.allow(taken, "read")
    assert tokens.allow(kept, "read")


def test_a_bad_line_is_reported_once_by_its_number_and_never_shown(watched):
    watched.path.write_text("# who may read\n\n")
    read = new_token(watched.path, "read", "analyst")
    with watched.path.open("a") as file:
        file.write(f"{read}\n")  # the token itself, by mistake
    tokens = watched.open()
    for watched.now in (2.0, 4.0, 6.0):
        assert tokens.allow(read, "read")
    (notice,) = watched.notices
    assert notice == "tokens: line 4 is ignored; it must be `read|relay NAME SHA256`, a comment after #, or blank"


def test_a_file_that_cannot_be_read_is_reported_once_and_changes_nothing(watched):
    read = new_token(watched.path, "read", "analyst")
    tokens = watched.open()
    content = watched.path.read_bytes()
    watched.path.unlink()
    watched.path.mkdir()
    for watched.now in (2.0, 4.0):
        assert tokens.allow(read, "read")
    assert watched.notices == ["the tokens file cannot be read; the tokens read last stay valid"]
    watched.path.rmdir()
    watched.path.write_bytes(content.replace(b"read", b"relay"))
    watched.now = 6.0
    assert not tokens.allow(read, "read")


def test_a_new_token_never_looks_like_an_option(watched, monkeypatch):
    drawn = iter(["-abc", "--x", "a-b"])
    monkeypatch.setattr("hubbub.collector.tokens.secrets.token_urlsafe", lambda size: next(drawn))
    assert new_token(watched.path, "read", "somebody") == "a-b"


def test_a_new_token_never_runs_into_a_line_written_by_hand(watched):
    watched.path.write_text("# no newline at the end")
    read = new_token(watched.path, "read", "analyst")
    assert watched.open().allow(read, "read")


def test_revoking_keeps_every_other_line_and_the_modes(watched):
    for name in ("alice", "bob", "alice"):
        new_token(watched.path, "read", name)
    lines = watched.path.read_text().splitlines()
    watched.path.write_text("\n".join(["# ours", lines[0] + "  # laptop", "?", lines[1], "", lines[2]]))
    assert revoke_tokens(watched.path, "alice") == 2
    assert watched.path.read_text().splitlines() == ["# ours", "?", lines[1], ""]
    assert watched.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in watched.path.parent.iterdir()] == ["tokens"]
    with pytest.raises(Invalid, match="NAME must be a token's, got 'alice'; there are: bob"):
        revoke_tokens(watched.path, "alice")


def test_tokens_made_while_others_are_revoked_are_never_lost(watched):
    names = [f"old{number}" for number in range(40)]
    for name in names:
        new_token(watched.path, "read", name)
    maker = threading.Thread(target=lambda: [new_token(watched.path, "relay", "new") for _ in range(40)])
    maker.start()
    for name in names:
        revoke_tokens(watched.path, name)
    maker.join()
    assert [token.name for token in read_tokens(watched.path)[0]] == ["new"] * 40


def command(*arguments):
    done = run_command("token", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_the_command_lists_and_revokes_beside_a_running_collector(tmp_path):
    with Collector(tmp_path) as collector:
        data = ("--data", str(collector.data))
        url = f"http://127.0.0.1:{collector.port}"
        alice = command("new", *data, "--name", "alice")[1].strip()
        with (collector.data / "tokens").open("a") as file:
            file.write("\n# for the night shift\n")
        status, listed, _ = command("list", *data)
        assert status == 0
        assert [line.split()[:2] for line in listed.splitlines()] == [
            ["name", "role"],
            ["first", "read"],
            ["alice", "read"],
        ]
        hashes = [token.digest.hex() for token in read_tokens(collector.data / "tokens")[0]]
        assert not any(secret in listed for secret in (alice, collector.token, *hashes))
        collector.wait_for_token(alice)
        assert command("revoke", "alice", *data)[:2] == (0, "1 token named alice revoked\n")
        collector.wait_for_token(alice, accepted=False)
        with pytest.raises(Invalid, match="401 the token was not accepted; it must be one that may read"):
            fetch_tallies(url, alice)
        fetch_tallies(url, collector.token)
        status, _, said = command("revoke", *data)
        assert (status, "NAME must be given" in said) == (2, True)
