"""Pages are escaped, whole, and made only where the packages for it are there: a missing one is named at once."""

from __future__ import annotations

import sys

import pytest

from hubbub.simulations.html_page import html_page
from tests.simulations.command import hubbub

PAGE = {
    "app": "<script>alert(1)</script>",
    "crowd": "3 simulated installs",
    "scorecard": [],
    "metrics": [],
    "command": "hubbub simulate 'a&b'",
    "repeatable": "",
}


def test_what_a_registry_says_is_shown_and_never_obeyed() -> None:
    text = html_page("hubbub.simulations.simulate", "simulation", PAGE)
    assert "<script" not in text
    assert "<h1>What &lt;script&gt;alert(1)&lt;/script&gt; would see</h1>" in text
    assert "a&amp;b" in text


def test_a_name_that_is_missing_is_an_error_and_no_empty_place() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="'repeatable' is undefined"):
        html_page("hubbub.simulations.simulate", "simulation", {k: v for k, v in PAGE.items() if k != "repeatable"})


@pytest.mark.parametrize("command", [("simulate", "examples/metrics.toml"), ("experiments", "dbitflip")])
@pytest.mark.parametrize(
    ("package", "extra"), [("jinja2", "dashboard"), ("altair", "charts"), ("vl_convert", "charts")]
)
def test_a_missing_package_is_named_before_the_work_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path, command: tuple[str, str], package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    done = hubbub(*command, "--report", str(tmp_path / "page.html"))
    assert done.returncode == 2
    assert f"needs {package}, which is not installed: pip install 'hubbub[{extra}]'" in done.stderr
    assert done.stdout == ""
