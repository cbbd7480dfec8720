"""Off, local or on, and which rule decided. Pure: the environment is an argument.

The most restrictive rule wins. `off` makes and sends nothing; `local` lets an app show what would be sent, and stores,
charges and sends nothing either; `on` reports. Nobody is `on` without having said so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

MODES = ("off", "local", "on")
"""From the most restrictive to the least."""


class Decision(NamedTuple):
    """A mode, and the rule that led to it, in words."""

    mode: str
    rule: str


def most_restrictive(rules: Iterable[Decision]) -> Decision:
    """The effective mode: of equally strict rules the first decides."""
    return min(rules, key=lambda decision: MODES.index(decision.mode))


def decisions(environ: Mapping[str, str], answer: str | None, test_run: bool = False) -> Iterator[Decision]:
    """What every rule says by itself. `answer` is what the person said: "yes", "no", or None for not yet."""
    yield {
        "yes": Decision("on", "you agreed"),
        "no": Decision("off", "you declined"),
    }.get(answer or "", Decision("local", "nobody has been asked yet"))
    if _is_set(environ.get("DO_NOT_TRACK")):
        yield Decision("off", "the environment variable DO_NOT_TRACK is set")
    wanted = environ.get("HUBBUB_MODE", "")
    if wanted in MODES:
        yield Decision(wanted, f"the environment variable HUBBUB_MODE is {wanted!r}")
    elif wanted:
        yield Decision("off", f"the environment variable HUBBUB_MODE must be off, local or on, got {wanted!r}")
    if test_run:
        yield Decision("local", "this looks like a test run or CI, and HUBBUB_MODE is not 'on'")


def is_test_run(environ: Mapping[str, str], modules: Container[str]) -> bool:
    """Whether this looks like pytest or CI, which must leave nothing behind. HUBBUB_MODE=on says that it is meant."""
    looks_so = "pytest" in modules or "PYTEST_CURRENT_TEST" in environ or _is_set(environ.get("CI"))
    return looks_so and environ.get("HUBBUB_MODE") != "on"


def _is_set(value: str | None) -> bool:
    return (value or "").strip().lower() not in ("", "0", "false")
