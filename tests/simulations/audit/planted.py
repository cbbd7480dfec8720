"""Defects that an audit must catch, planted in the places where programmers would make them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.client import Client, epochs, memos, recorder
from hubbub.client.memos import Memo
from hubbub.client.respond import Response, draw_bits, draw_memo, permanent_response, respond
from hubbub.protocol.channel import UNITS, BitChannel, KaryChannel, Noise

# --- in the draw: stand-ins for `respond` -------------------------------------------------------------------------


def forgetting_its_memo(metric, mask, cohort, random, memo=None) -> Response:
    return respond(metric, mask, cohort, random)


def never_clearing_a_bit(metric, mask, cohort, random, memo=None) -> Response:
    if memo is None:
        memo = mask | draw_memo(metric, mask, cohort, random)
    return Response(memo, memo | draw_bits(metric, memo, cohort, random))


def with_channel_off(stage: str, by: Fraction):
    """The truth arrives with another probability than claimed, in one stage."""
    known: dict[str, object] = {}

    def answer(metric, mask, cohort, random, memo=None) -> Response:
        if metric.name not in known:
            known[metric.name] = off(metric, stage, by)
        return respond(known[metric.name], mask, cohort, random, memo)

    return answer


def off(metric, stage: str, by: Fraction):
    noise = metric.noise
    stages = {"permanent": noise.permanent, "instantaneous": noise.instantaneous}
    stages[stage] = _moved(stages[stage], Fraction(int(by * UNITS), UNITS))
    return metric.replace(noise=Noise(**stages))


def _moved(channel, by: Fraction):
    match channel:
        case BitChannel(when_one, when_zero):
            return BitChannel(when_one + by, when_zero)
        case KaryChannel(categories, _, other):
            other -= Fraction(int(by * UNITS) // (categories - 1), UNITS)
            return KaryChannel(categories, 1 - (categories - 1) * other, other)
    raise AssertionError


# --- in the client ------------------------------------------------------------------------------------------------


def clients_forget_their_memos(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn_afresh(db, who, metric, mask, draws) -> Memo:
        return Memo(permanent_response(metric, mask, who.cohort(metric), draws))

    monkeypatch.setattr(recorder, "find_or_draw", drawn_afresh)


def clients_share_memos_between_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(who, metric, cohort, mask) -> bytes:
        return who.keyed(b"memo", f"{cohort} {mask}".encode())

    monkeypatch.setattr(memos, "_fingerprint", fingerprint)


def clients_report_only_what_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    record, asked = Client.record, epochs._metrics_asked

    def only_if_true(self, name, value) -> None:
        if value is not False:
            record(self, name, value)

    monkeypatch.setattr(Client, "record", only_if_true)
    monkeypatch.setattr(
        epochs,
        "_metrics_asked",
        lambda maker, every, epoch: (m for m in asked(maker, every, epoch) if maker.has_report(m, epoch)),
    )
