"""An app that was started before does not parse its metrics.toml again, and asks exactly what the file says all the
same: whatever was changed, cut off or flipped in what is kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hubbub.client import Client, Registry, control
from hubbub.client.parsed import FILE, Parsed
from hubbub.protocol.registry import tables_of
from tests.client.install import Install
from tests.client.processes import run_python
from tests.client.registries import held, metric, source
from tests.systems import needs_posix_modes
from tests.vectors.registries import REGISTRIES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "metrics.toml"
EVERYTHING = source(
    metric("dark_theme"), metric("exports", "histogram", edges=[0, 0.5, 2]), held("language", "choice"), lifetime=60.5
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_text(EVERYTHING)
    return path


def started(install: Install, file: Path) -> Client:
    return install.client(file)  # type: ignore[arg-type]  # Client takes a path as well


def kept(install: Install) -> Path:
    return install.directory / FILE


def agreed(install: Install, file: Path) -> Registry:
    """Somebody agreed, and the app was started again. Returns what it asks."""
    started(install, file).consent(True)
    return started(install, file).registry


SECOND_START = """
import json, sys
from hubbub.client import Client
client = Client(sys.argv[1], endpoint="http://127.0.0.1:9", state_dir=sys.argv[2], environ={"HUBBUB_MODE": "on"})
print(json.dumps([client.mode, client.registry.fingerprint, "tomllib" in sys.modules]))
"""


def test_an_app_that_was_started_before_does_not_even_load_a_parser_of_toml(install: Install, file: Path) -> None:
    client = started(install, file)
    client.consent(True)
    asked = [run_python(SECOND_START, file, install.directory) for _ in range(2)]
    assert asked == [["on", client.registry.fingerprint, True], ["on", client.registry.fingerprint, False]]


@pytest.mark.parametrize("text", [EXAMPLE.read_text(), EVERYTHING, *REGISTRIES.values()])
def test_the_tables_that_are_kept_are_those_of_the_file(tmp_path: Path, text: str) -> None:
    environ = {"HUBBUB_STATE": str(tmp_path)}
    (tmp_path / Registry.parse(text).app).mkdir()
    first, second = Parsed(environ, None), Parsed(environ, None)
    assert first.tables(text) == tables_of(text)
    first.keep(str(tmp_path / Registry.parse(text).app))
    found = second._kept(text)
    assert repr(found) == repr(tables_of(text))  # types too: a decimal is a decimal, in the order of the file
    assert Registry.parse(text, second.tables) == Registry.parse(text)


def test_nothing_is_kept_before_somebody_agreed_nor_after_it_was_forgotten(install: Install, file: Path) -> None:
    started(install, file)
    assert not install.directory.exists()
    client = started(install, file)
    client.consent(False)
    started(install, file)
    assert not kept(install).exists()
    agreed(install, file)
    assert kept(install).exists()
    control.forget(client._state)
    assert [path.name for path in install.directory.iterdir() if "metrics" in path.name] == []


def test_it_is_forgotten_with_a_state_that_cannot_be_read_any_more(install: Install, file: Path) -> None:
    agreed(install, file)
    for client in install.clients:
        client.close()
    (install.directory / "state.db").write_bytes(b"no database at all" * 500)
    client = started(install, file)
    assert client.mode == "off"
    client.forget()
    assert not kept(install).exists()


def test_another_file_is_read_anew_and_kept_instead(install: Install, file: Path) -> None:
    agreed(install, file)
    before = kept(install).read_bytes()
    noisier = EVERYTHING.replace("epsilon_one_report = 1\n", "epsilon_one_report = 0.5\n")
    file.write_text(noisier)
    assert started(install, file).registry == Registry.parse(noisier) != Registry.parse(EVERYTHING)
    agreed(install, file)
    assert kept(install).read_bytes() != before
    file.write_text(EVERYTHING)
    assert started(install, file).registry == Registry.parse(EVERYTHING)


def test_no_flipped_bit_changes_what_is_asked(install: Install, file: Path) -> None:
    """Every byte of the file, one bit of it: among them the digits of an epsilon."""
    agreed(install, file)
    whole = kept(install).read_bytes()
    reader = Parsed({}, install.directory)
    assert reader._kept(EVERYTHING) is not None
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        kept(install).write_bytes(flipped)
        assert reader._kept(EVERYTHING) is None
    for length in range(0, len(whole), 16):
        kept(install).write_bytes(whole[:length])
        assert reader._kept(EVERYTHING) is None
    assert started(install, file).registry == Registry.parse(EVERYTHING)
    assert kept(install).read_bytes() == whole  # mended


def test_what_is_kept_of_one_app_is_not_taken_for_another(install: Install, file: Path) -> None:
    agreed(install, file)
    other = EVERYTHING.replace("org.example.editor", "org.example.viewer")
    assert Parsed({}, install.directory)._kept(other) is None


@needs_posix_modes
def test_the_file_is_its_owners_alone_and_nothing_is_left_beside_it(install: Install, file: Path) -> None:
    before = os.umask(0)
    try:
        agreed(install, file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept(install).stat().st_mode) == 0o600
    assert [path.name for path in install.directory.iterdir() if path.name.startswith("metrics")] == [FILE]


def test_where_it_cannot_be_written_the_app_starts_all_the_same(install: Install, file: Path) -> None:
    started(install, file).consent(True)
    kept(install).mkdir()  # nobody can write a file there, not even root
    client = started(install, file)
    assert (client.mode, client.registry) == ("on", Registry.parse(EVERYTHING))


def test_two_apps_that_write_over_each_other_are_both_read_right(install: Install, file: Path) -> None:
    """Two releases at once: what is left may be the beginning of the one and the end of the other."""
    agreed(install, file)
    one = kept(install).read_bytes()
    kept(install).unlink()
    file.write_text(EVERYTHING.replace("epsilon_one_report = 1\n", "epsilon_one_report = 0.5\n"))
    agreed(install, file)
    other = kept(install).read_bytes()
    for cut in range(0, len(one), 40):
        kept(install).write_bytes(one[:cut] + other[cut:])
        assert Parsed({}, install.directory).tables(EVERYTHING) == tables_of(EVERYTHING)


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        ("app = 'org.example.editor'  # the editor", True),
        ('  app="org.example.editor"', True),
        ('"app" = "org.example.editor"', False),
        ('app = """\norg.example.editor"""', False),
    ],
)
def test_an_app_may_be_named_in_any_way_that_toml_allows(tmp_path: Path, line: str, is_kept: bool) -> None:
    """Its state lies under its name; where that is not on a line by itself, the file is parsed each time."""
    text = EVERYTHING.replace('app = "org.example.editor"', line)
    place = tmp_path / "org.example.editor"
    place.mkdir()
    first = Parsed({"HUBBUB_STATE": str(tmp_path)}, None)
    assert Registry.parse(text, first.tables) == Registry.parse(EVERYTHING)
    first.keep(str(place))
    assert (place / FILE).exists() == is_kept
    assert (Parsed({"HUBBUB_STATE": str(tmp_path)}, None)._kept(text) is not None) == is_kept


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("app = ", "metrics.toml: not TOML: Invalid value"),
        ('app = "\0"', "metrics.toml: not TOML: Illegal character"),
        (EVERYTHING.replace("org.example.editor", "../editor"), "app must match .*, got '../editor'"),
    ],
)
def test_a_file_that_is_wrong_is_refused_as_ever(install: Install, file: Path, text: str, words: str) -> None:
    """Also where its name would be no name of a folder."""
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        install.client(file, state_dir=None)  # type: ignore[arg-type]
