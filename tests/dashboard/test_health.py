"""What the dashboard reads from a collector's /metrics."""

from hubbub.dashboard.health import parse_health


def test_a_reason_for_which_nothing_was_refused_is_no_refusal():
    text = 'hubbub_rejects_total{reason="malformed"} 0\nhubbub_rejects_total{reason="too-large"} 3\n'
    assert parse_health(text).refused == {"too-large": 3}
