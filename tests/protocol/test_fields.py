"""Single values of a registry: what is read, and how anything else is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hubbub.protocol.fields import number, text, whole_number


@pytest.mark.parametrize("raw", [0, -1, 2**63 - 1, -(2**63) + 1])
def test_a_whole_number_has_at_most_63_bits(raw: int) -> None:
    assert whole_number(raw) == raw


@pytest.mark.parametrize(("raw", "shown"), [(2**63, str(2**63)), (2**70, "a number of 71 bits"), (True, "True")])
def test_any_other_is_refused_with_its_value(raw: object, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^must be a whole number of at most 63 bits, got {shown}$"):
        whole_number(raw)


def test_a_number_is_exact() -> None:
    assert number(Decimal("0.1")) * 10 == 1
    assert number("1/3") * 3 == 1


@pytest.mark.parametrize("raw", ["\x1b[2J", "\ud800", "caf\u00e9 \udfff", "\x7f", "\x9f"])
def test_a_text_that_a_terminal_would_obey_or_utf_8_cannot_say_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="without control characters or lone surrogates"):
        text(raw)
    assert text("caf\u00e9 \U0001f600") == "caf\u00e9 \U0001f600"
