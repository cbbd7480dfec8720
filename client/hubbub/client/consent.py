"""Off, local or on, and which rule decided. Pure: the environment and what the person said are arguments.

The most restrictive rule wins. `off` makes and sends nothing; `local` lets an app show what would be sent, and stores,
charges and sends nothing either; `on` reports. Nobody is `on` without having said so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress

from hubbub.client.facts import Facts
from hubbub.client.upload import is_this_machine
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry
from hubbub.protocol.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hubbub.client.vocabulary import Mode, Reason, Said

MODES: tuple[Mode, ...] = ("off", "local", "on")
"""From the most restrictive to the least."""

_BY_NAME: Mapping[str, Mode] = {mode: mode for mode in MODES}

ASK: tuple[Reason, ...] = ("not_asked", "asks_more")
"""The reasons for which a person is to be asked."""


class Decision(Value):
    """A mode, and the rule that led to it."""

    mode: Mode
    """`off`, `local` or `on`."""
    rule: str
    """The rule, in words for the person: "you agreed"."""
    reason: Reason = "unusable"
    """The same as a word that programs may rely on."""


def most_restrictive(rules: Iterable[Decision]) -> Decision:
    """The effective mode: of equally strict rules the first decides."""
    return min(rules, key=lambda decision: MODES.index(decision.mode))


def decisions(environ: Mapping[str, str], answer: Said | None, test_run: bool = False) -> Iterator[Decision]:
    """What every rule says by itself. `answer` is what the person said; None: nobody has been asked yet."""
    match answer:
        case "yes":
            yield Decision("on", "you agreed", "agreed")
        case "no":
            yield Decision("off", "you declined", "declined")
        case _:
            yield Decision("local", "nobody has been asked yet", "not_asked")
    if _is_set(environ.get("DO_NOT_TRACK")):
        yield Decision("off", "the environment variable DO_NOT_TRACK is set", "do_not_track")
    wanted = environ.get("HUBBUB_MODE", "")
    mode = _BY_NAME.get(wanted)
    if mode is not None:
        yield Decision(mode, f"the environment variable HUBBUB_MODE is {wanted!r}", "environment")
    elif wanted:
        must = f"the environment variable HUBBUB_MODE must be off, local or on, got {wanted!r}"
        yield Decision("off", must, "environment")
    if test_run:
        yield Decision("local", "this looks like a test run or CI, and HUBBUB_MODE is not 'on'", "test_run")


def lapsed(facts: Facts, registry: Registry | None) -> Decision | None:
    """Why the person's yes no longer holds: the app now asks more. None if it holds, or if there was none.

    What was agreed to is what was really done then, kept beside the yes, and not its metrics.toml as it is read now:
    another release of hubbub may make other noise of the same file.
    """
    if facts.answer != "yes" or registry is None or facts.fingerprint == registry.fingerprint:
        return None
    key = facts.agreed_to, registry.fingerprint
    found = _found.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        if len(_found) >= 8:
            _found.clear()
        found = _found[key] = _lapse(facts.agreed, facts.agreed_to, registry)
    return found


_UNKNOWN = Decision("off", "not looked at yet")
_found: dict[tuple[str, str], Decision | None] = {}
"""By what was agreed to and what is asked: a client whose app asks less than before would else compare both with every
record."""


def _lapse(agreed: str, agreed_to: str, registry: Registry) -> Decision | None:
    if not agreed_to:
        unknown = "an earlier release did not keep what exactly you agreed to, so you must be asked again"
        return Decision("local", unknown, "asks_more")
    import json  # here and below, because only an upgrade needs them

    from hubbub.protocol.agreement import agreement, beyond

    more = next(beyond(json.loads(agreed_to), agreement(registry)), None)
    if more is None:
        return None
    again = f"the app asks more than you agreed to, so you must be asked again: {_in_words(more, agreed, registry)}"
    return Decision("local", again, "asks_more")


def _in_words(key: str, agreed: str, registry: Registry) -> str:
    from hubbub.protocol.changes import asks_more

    with suppress(Invalid):  # the old file, which this release may not read any more
        for change in asks_more(Registry.parse(agreed), registry):
            return str(change)
    # The file says nothing new, so that it is hubbub that does.
    head, _, rest = key.partition(".")
    what = rest.partition(".")[0] if head == "metrics" else key
    return f"{what}: asked anew and differently by another release of hubbub"


def wrong_endpoint(endpoint: str | None, registry: Registry) -> Decision | None:
    """Why nothing may be sent there. A yes is to one recipient: messages go to its address, path included, or, for
    tests, to this machine."""
    if endpoint is None:
        return Decision("local", "the app gave no endpoint to send to", "no_endpoint")
    recipient = registry.recipient
    if endpoint.removesuffix("/") == recipient.url or is_this_machine(endpoint):
        return None
    elsewhere = f"the app would send to {endpoint}, and messages go to {recipient} only"
    return Decision("local", elsewhere, "wrong_endpoint")


def sent_for_a_test(endpoint: str | None, registry: Registry) -> str:
    """Why what is sent is no real telemetry; empty if it is, or if nothing is sent."""
    if endpoint is None or endpoint.removesuffix("/") == registry.recipient.url or not is_this_machine(endpoint):
        return ""
    return f"messages go to this machine, {endpoint}, and not to {registry.recipient}"


def is_test_run(environ: Mapping[str, str], modules: Container[str]) -> bool:
    """Whether this looks like pytest or CI, which must leave nothing behind. HUBBUB_MODE=on says that it is meant."""
    looks_so = "pytest" in modules or "PYTEST_CURRENT_TEST" in environ or _is_set(environ.get("CI"))
    return looks_so and environ.get("HUBBUB_MODE") != "on"


def _is_set(value: str | None) -> bool:
    return (value or "").strip().lower() not in ("", "0", "false")
