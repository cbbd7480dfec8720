"""Pairs on the device: people are asked anew and told, and nothing else changes, not a byte that leaves."""

from __future__ import annotations

import json

from tests.client.install import Install
from tests.client.processes import hubbub
from tests.client.registries import metric, registry
from tests.client.test_segments import ASKS

TOGETHER = '[together.theme_page]\nmetrics = ["dark_theme", "page"]\n'
WITHOUT, WITH = registry(*ASKS), registry(*ASKS, TOGETHER)


def test_a_new_pair_lapses_the_yes_and_its_end_does_not(install: Install) -> None:
    install.agreed(WITHOUT).close()
    client = install.client(WITH)
    assert client.mode == "local"
    asked = "the app asks more than you agreed to, so you must be asked again: theme_page: new: dark_theme and page"
    assert client.status().rule.startswith(asked)
    client.consent(True)
    assert client.mode == "on"
    client.close()
    assert install.client(WITHOUT).mode == "on"


def test_status_tells_what_is_counted_in_pairs_as_agreed_to(install: Install) -> None:
    client = install.agreed(WITH)
    assert client.status().together == {"theme_page": ["dark_theme", "page"]}
    client.close()
    printed = hubbub("status", "--state", str(install.directory)).stdout
    assert "in pairs        dark_theme with page: the collector also counts which answers come together" in printed
    shown = json.loads(hubbub("status", "--state", str(install.directory), "--json").stdout)
    assert shown["together"] == {"theme_page": ["dark_theme", "page"]}
    other = Install(install.directory.parent / "other", install.server)
    assert other.agreed(registry(metric("dark_theme"))).status().together == {}
    other.close()


def test_not_a_byte_that_leaves_depends_on_pairs(tmp_path, environment, server) -> None:
    """Two installs with the same chance and the same answers, one under a registry with a pair."""
    sent = []
    for asks in (WITHOUT, WITH):
        before = len(server.bodies)
        install = Install(tmp_path / asks.fingerprint, server)
        install.agreed(asks).close()
        for value in (True, False, True):
            client = install.client(asks)
            client.record("dark_theme", value)
            client.record("page", f"https://{value}.example")
            client.flush()
            client.close()
            install.asleep(1)
        install.client(asks).flush()
        install.close()
        sent.append(server.bodies[before:])
    assert len(sent[0]) == 3
    assert sent[0] == sent[1]
