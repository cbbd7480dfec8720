"""Settings: flags, variables, a file; and every problem is named with where it came from."""

import os
import re

import pytest

from hubbub.collector.settings import read_settings, unknown_variables
from hubbub.protocol.invalid import Invalid
from tests.collector.kit import REGISTRY_TOML, ROOT, run_command


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path):
    config = tmp_path / "collector.toml"
    config.write_text('metrics = "a.toml"\nport = 1\nhost = "a"\nproxies = ["10.0.0.0/8"]\n')
    settings = read_settings({"port": "3"}, {"HUBBUB_PORT": "2", "HUBBUB_HOST": "b"}, config)
    assert (settings.port, settings.host, str(settings.metrics)) == (3, "b", "a.toml")
    config.write_text('metrics = "a.toml"\nprot = 1\nport = "x"\n')
    with pytest.raises(Invalid) as caught:
        read_settings({}, {"HUBBUB_SENDER_RATE": "fast"}, config)
    assert [problem[:55] for problem in caught.value.problems] == [
        "config file: prot: no such setting; there are metrics, ",
        "config file: port: port must be a whole number such as ",
        "HUBBUB_SENDER_RATE: sender_rate must be a number such a",
    ]
    assert read_settings({"metrics": "a.toml"}, {}, None).min_reports == 20  # single installs are protected by default
    with pytest.raises(Invalid, match="min_reports must be at least 0, got -1"):
        read_settings({"metrics": "a.toml", "min_reports": "-1"}, {}, None)
    with pytest.raises(Invalid, match="metrics must be given"):
        read_settings({}, {}, None)
    with pytest.raises(Invalid, match=r"port must be in \[0, 65535\], got 70000"):
        read_settings({"metrics": "x", "port": "70000"}, {}, None)


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_and_without_its_value(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY_TOML)
    given = {"HUBBUB_MIN_FREE_BYTE": "secret", "HUBBUB_MODE": "test", "HUBBUB_METRICS": str(tmp_path / "metrics.toml")}
    done = run_command("collect", "--check", "--port", 0, "--data", tmp_path / "data", env={**os.environ, **given})
    assert done.returncode == 0
    words = "HUBBUB_MIN_FREE_BYTE is set, but hubbub has no such variable; did you mean HUBBUB_MIN_FREE_BYTES?"
    assert done.stderr.count("HUBBUB_") == words.count("HUBBUB_")
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert unknown_variables({"HUBBUB_XYZ": "", "OTHER": ""}) == ["HUBBUB_XYZ is set, but hubbub has no such variable"]


def test_every_variable_that_code_or_tests_read_is_known():
    """Those that this file makes up are not."""
    folders = ("client", "collector", "analysis", "simulations", "tests", "tools")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "test_settings.py"]
    used = {name for path in sources for name in re.findall(r"\bHUBBUB_[A-Z_]*[A-Z]\b", path.read_text())}
    assert {"HUBBUB_TOKEN", "HUBBUB_STATE", "HUBBUB_NEED_BROWSER"} <= used
    assert unknown_variables(dict.fromkeys(used, "")) == []
