"""Everything that users need is found at one door, and nothing is loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hubbub.simulations


@pytest.mark.parametrize("name", hubbub.simulations.__all__)
def test_every_name_at_the_door_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(hubbub.simulations, name)
    assert found.__name__ == name
    assert found.__doc__


def test_the_door_promises_all_it_has() -> None:
    listed = [name for names in hubbub.simulations._MODULES.values() for name in names]
    assert sorted(listed) == sorted(hubbub.simulations.__all__) == sorted(dir(hubbub.simulations))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hubbub.simulations.nothing  # noqa: B018


def test_the_door_itself_loads_nothing() -> None:
    """Who wants a tally does not wait for the audit."""
    code = "import sys, hubbub.simulations; print(sorted(m for m in sys.modules if m in ('numpy', 'scipy', 'altair')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
