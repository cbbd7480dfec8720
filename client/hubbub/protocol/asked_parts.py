"""What the label says of a question that is asked in part: of a part of all installs, or with room for more answers;
and its purpose, which people wrote, as a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from hubbub.protocol.invalid import plural
from hubbub.protocol.metric import Definition


def of_whom(metric: Definition) -> str:
    """Which installs hear a question that asks a sample."""
    return (
        f"Of {share_in_words(metric.sample)} installs, drawn by each device once and for ever. If yours is not among "
        "them, nothing is sent about this; if it is, all that follows holds in full."
    )


def share_in_words(share: Fraction) -> str:
    """`one in 10`, `3 in 20`."""
    return f"{'one' if share.numerator == 1 else f'{share.numerator:,}'} in {share.denominator:,}"


def room(spare: int) -> str:
    """How many answers may still come."""
    return (
        f"{plural(spare, 'more answer')} may be named later. You are then asked again; what was "
        "sent before, and how much it tells, stays as it is."
    )


def says_sampled(metrics: Iterable[Definition], bits: str) -> str:
    """What a sample shows of an install."""
    each = ", ".join(f"{metric.name}: {share_in_words(metric.sample)}" for metric in metrics)
    return (
        f"Some questions are asked of a part of all installs ({each}). Whether a device answers them shows whether it "
        f"was drawn ({bits} bits)."
    )


def as_sentence(text: str) -> str:
    """A purpose, as people wrote it, with a stop at its end if it has none of its own."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."
