"""Settings: flags, variables, a file; and every problem is named with where it came from."""

import pytest

from hubbub.collector.settings import read_settings
from hubbub.protocol.invalid import Invalid


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
        "config file: port: port must be a whole number, got 'x'",
        "HUBBUB_SENDER_RATE: sender_rate must be a number, got '",
    ]
    with pytest.raises(Invalid, match="metrics must be given"):
        read_settings({}, {}, None)
    with pytest.raises(Invalid, match=r"port must be in \[0, 65535\], got 70000"):
        read_settings({"metrics": "x", "port": "70000"}, {}, None)
