"""The operator's log: sentences for people, JSON lines for machines, and of a bug only where it happened."""

import io
import json

from hubbub.collector.operator_log import OperatorLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_sentences_and_a_pipe_gets_json():
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        OperatorLog(stream, lambda: 0.0).warning("the disk is nearly full", min_free_bytes=5)
    assert terminal.getvalue() == "00:00:00 warning: the disk is nearly full  min_free_bytes=5\n"
    assert json.loads(pipe.getvalue()) == {
        "time": "1970-01-01T00:00:00Z",
        "level": "warning",
        "message": "the disk is nearly full",
        "min_free_bytes": 5,
    }


def test_a_bug_is_told_by_its_place_not_by_what_was_in_it():
    stream = io.StringIO()
    try:
        raise ValueError("secret bytes of a sender")
    except ValueError as error:
        OperatorLog(stream, lambda: 0.0).bug(error)
    assert "secret" not in stream.getvalue()
    assert "test_operator_log.py" in json.loads(stream.getvalue())["places"][0]
