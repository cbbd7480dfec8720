"""An aiohttp that lacks what the collector needs is refused in words, before a directory is made or a port opened."""

import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest
from aiohttp import StreamReader, web

from hubbub.collector.http.acknowledgement import FinishedResponse
from hubbub.collector.serve import check_aiohttp, serve
from hubbub.collector.settings import Settings
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import LAUNCH, REGISTRY_TOML, ROOT

ADVICE = "which the collector needs; versions 3.10 to 3.14 are known to work: pip install 'aiohttp>=3.10,<4'"


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    return Settings(metrics=tmp_path / "metrics.toml", data=tmp_path / "data", port=0)


def refusal(settings):
    """Why a collector does not start. It must not have come as far as its directory, which it makes before the port."""
    printed = []
    with pytest.raises(Invalid) as caught:
        serve(settings, say=printed.append)
    assert not settings.data.exists()
    assert printed == []
    (problem,) = caught.value.problems
    return problem


def test_the_installed_version_is_usable():
    check_aiohttp()


@pytest.mark.parametrize(
    ("owner", "name"), [(web.Server, "connection_lost"), (web.BaseRequest, "protocol"), (StreamReader, "read_nowait")]
)
def test_a_missing_attribute_is_named(settings, monkeypatch, owner, name):
    monkeypatch.delattr(owner, name)
    assert refusal(settings) == f"aiohttp {version('aiohttp')} lacks {owner.__name__}.{name}, {ADVICE}"


def test_a_missing_option_is_named(settings, monkeypatch):
    def without_lingering(
        self, manager, *, loop, access_log=None, logger=None, keepalive_timeout=1.0, auto_decompress=True
    ):
        raise AssertionError("no connection is made with options that are not there")

    monkeypatch.setattr(web.RequestHandler, "__init__", without_lingering)
    expected = f"aiohttp {version('aiohttp')} lacks the option lingering_time of RequestHandler, {ADVICE}"
    assert refusal(settings) == expected


def test_an_aiohttp_that_asks_more_of_an_answer_than_it_has_is_noticed_before_the_first_request(settings, monkeypatch):
    monkeypatch.delattr(FinishedResponse, "keep_alive")
    expected = f"aiohttp {version('aiohttp')} does not send the collector's answers; it asks an answer for keep_alive"
    assert refusal(settings) == f"{expected}, {ADVICE}"


def test_the_command_says_so_too_and_so_does_its_check(settings, tmp_path):
    launch = tmp_path / "without.py"
    launch.write_text(
        f"import runpy\nfrom aiohttp import web\ndel web.Server.connection_lost\n"
        f"runpy.run_path({str(LAUNCH)!r}, run_name='__main__')\n"
    )
    for flags in ([], ["--check"]):
        command = [sys.executable, str(launch), "collect", "--metrics", str(settings.metrics), *flags]
        done = subprocess.run(
            [*command, "--data", str(settings.data), "--port", "0"], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "lacks Server.connection_lost, which the collector needs" in done.stderr
        assert not settings.data.exists()


def test_the_advice_is_what_both_extras_ask_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = [line for extra in ("collector", "dashboard") for line in extras[extra] if line.startswith("aiohttp")]
    assert [f"pip install '{line}'" in ADVICE for line in asked] == [True, True]
