"""A yes is to what was really done when it was given: another release of hubbub, too, asks again if it asks more."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.client import Registry
from hubbub.client.state import State
from hubbub.protocol import metric as metrics
from hubbub.protocol.channel import Noise
from hubbub.protocol.kinds.flag import Flag
from hubbub.protocol.kinds.mean import Mean
from hubbub.protocol.shape import Shape
from tests.client.install import Install
from tests.client.registries import metric, registry, source

ASKS = source(metric("dark_theme"), metric("minutes", "mean"))
DIFFERENTLY = "asked anew and differently by another release of hubbub"


def scaled(kind: type[Shape], factor: int | Fraction):
    """What a release does that finds other noise for the same epsilons."""
    best = kind.best_noise

    def noise(self: Shape, one_report: Fraction, permanent: Fraction, once: bool) -> Noise:
        return best(self, one_report * factor, permanent * factor, once)

    return noise


UPGRADES = {
    "a larger epsilon": (Flag, "best_noise", scaled(Flag, 2), "dark_theme"),
    "a smaller epsilon, on top of what was told": (Flag, "best_noise", scaled(Flag, Fraction(1, 2)), "dark_theme"),
    "another mechanism": (Mean, "suited", lambda self, *_: self.replace(points=5), "minutes"),
}


@pytest.mark.parametrize("upgrade", UPGRADES)
def test_an_upgrade_of_hubbub_that_does_something_else_with_the_same_file_asks_again(
    install: Install, monkeypatch: pytest.MonkeyPatch, upgrade: str
) -> None:
    with install.agreed(Registry.parse(ASKS)) as client:
        client.record("dark_theme", True)
        assert (client.mode, client.should_ask) == ("on", False)
    kind, name, changed, asked = UPGRADES[upgrade]
    monkeypatch.setattr(kind, name, changed)
    client = install.client(Registry.parse(ASKS))
    assert (client.mode, client.reason, client.should_ask) == ("local", "asks_more", True)
    again = f"the app asks more than you agreed to, so you must be asked again: {asked}: {DIFFERENTLY}"
    assert client.status().rule == again
    install.days(3)
    client.flush()
    assert install.server.connections == 0  # what was made before the upgrade is gone, too
    client.consent(True)
    assert (client.mode, client.should_ask) == ("on", False)
    install.days(1)
    client.record(asked, 1)
    install.days(1)
    client.flush()
    assert client.status().counts["made"] > 1  # the new definition has slots of its own
    assert {report.metric.name for report in install.arrived()} == {"dark_theme", "minutes"}


def test_a_comment_in_the_file_does_not_hide_it(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install.agreed(Registry.parse(ASKS)).close()
    assert install.client(Registry.parse(ASKS + "# mended\n")).mode == "on"
    monkeypatch.setattr(Flag, "best_noise", scaled(Flag, 2))
    assert install.client(Registry.parse(ASKS + "# again\n")).reason == "asks_more"


def test_an_upgrade_of_hubbub_that_asks_the_same_or_less_does_not(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install.agreed(Registry.parse(ASKS)).close()
    monkeypatch.setattr("hubbub.protocol.label.how_often", lambda metric: "now and then")
    assert not install.client(Registry.parse(ASKS)).should_ask  # another word on the label
    monkeypatch.setitem(metrics.Metric.defaults, "retention", "1y")
    assert Registry.parse(ASKS).fingerprint != install.registry.fingerprint
    client = install.client(Registry.parse(ASKS))
    assert (client.mode, client.should_ask) == ("on", False)
    monkeypatch.setitem(metrics.Metric.defaults, "retention", "3y")
    assert install.client(Registry.parse(ASKS)).should_ask


def test_a_file_that_can_no_longer_be_read_does_not_matter_where_the_new_one_asks_no_more(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install.agreed(Registry.parse(ASKS)).close()
    state = State(install.directory)
    with state.transaction() as db:
        db.execute("UPDATE meta SET value = 'an old form' WHERE name = 'agreed'")
    state.close()
    assert install.client(registry(metric("dark_theme"))).mode == "on"
    client = install.client(registry(metric("dark_theme", why='"Another"')))
    assert client.status().rule.endswith(f"so you must be asked again: dark_theme: {DIFFERENTLY}")


def test_where_it_was_not_kept_what_a_yes_was_to_people_are_asked_again(install: Install) -> None:
    install.agreed(Registry.parse(ASKS)).close()
    state = State(install.directory)
    with state.transaction() as db:
        db.execute("DELETE FROM meta WHERE name IN ('agreed_to', 'fingerprint')")
    state.close()
    client = install.client()
    assert client.should_ask
    assert client.status().rule == (
        "an earlier release did not keep what exactly you agreed to, so you must be asked again"
    )
