"""State lives where the platform keeps state, readable by its owner alone; where it would not last, nothing is sent."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from hubbub.client.state_dir import WOULD_NOT_LAST, in_container, state_directory
from tests.client.install import Install
from tests.client.processes import run_unprivileged
from tests.client.registries import metric, source
from tests.systems import needs_posix_modes, needs_posix_paths, needs_posix_users

APP = "org.example.editor"


@needs_posix_paths
@pytest.mark.parametrize(
    ("platform", "environ", "place"),
    [
        ("linux", {"HOME": "/home/ada"}, "/home/ada/.local/state/hubbub/org.example.editor"),
        ("linux", {"HOME": "/home/ada", "XDG_STATE_HOME": "/var/ada"}, "/var/ada/hubbub/org.example.editor"),
        ("linux", {"HOME": "/home/ada", "XDG_STATE_HOME": ""}, "/home/ada/.local/state/hubbub/org.example.editor"),
        ("darwin", {"HOME": "/Users/ada"}, "/Users/ada/Library/Application Support/hubbub/org.example.editor"),
        ("win32", {"LOCALAPPDATA": "/C/ada/Local"}, "/C/ada/Local/hubbub/org.example.editor"),
        ("win32", {"USERPROFILE": "/C/ada"}, "/C/ada/AppData/Local/hubbub/org.example.editor"),
        ("linux", {"HOME": "/home/ada", "HUBBUB_STATE": "/srv"}, "/srv/org.example.editor"),
        ("darwin", {"HOME": "/Users/ada", "HUBBUB_STATE": "/srv"}, "/srv/org.example.editor"),
    ],
)
def test_state_lives_at_the_platforms_place_unless_another_is_given(monkeypatch, platform, environ, place) -> None:
    monkeypatch.setattr("hubbub.client.state_dir.sys.platform", platform)
    assert state_directory(APP, environ) == place
    assert state_directory(APP, environ, Path("/given")) == "/given"


def test_a_client_uses_the_place_that_the_environment_names(install: Install, environment, tmp_path: Path) -> None:
    environment.setenv("HUBBUB_STATE", str(tmp_path / "states"))
    client = install.client(state_dir=None)
    client.consent(True)
    assert client.status().state_directory == str(tmp_path / "states" / APP)
    assert (tmp_path / "states" / APP / "state.db").exists()


@needs_posix_modes
def test_the_directory_is_0700_and_every_file_in_it_0600_whatever_the_umask(install: Install) -> None:
    before = os.umask(0)
    try:
        client = install.agreed()
        client.record("dark_theme", True)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in install.directory.iterdir()}
        assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
        assert stat.S_IMODE(install.directory.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_directory_is_its_owners_alone_from_its_first_moment(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no other moment: there a new folder with just this mode is its owner's, and one with any other mode
    is open to whomever the folder above it is."""
    modes, make = [], os.makedirs

    def makedirs(name: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        modes.append(mode)
        make(name, mode, exist_ok)

    monkeypatch.setattr(os, "makedirs", makedirs)
    install.agreed()
    assert modes == [0o700]


@needs_posix_modes
def test_a_directory_that_was_open_to_others_is_closed_to_them(install: Install) -> None:
    install.directory.mkdir(mode=0o755)
    install.agreed()
    assert stat.S_IMODE(install.directory.stat().st_mode) == 0o700


def test_one_file_is_all_that_stays(install: Install) -> None:
    install.agreed().close()
    assert [path.name for path in install.directory.iterdir()] == ["state.db"]


# --- containers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "environ", "inside"),
    [
        (None, {}, False),
        (".dockerenv", {}, True),
        ("run/.containerenv", {}, True),
        (None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        (None, {"container": "podman"}, True),
    ],
)
def test_a_container_is_known_by_its_marks(tmp_path: Path, file: str | None, environ: dict, inside: bool) -> None:
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert in_container(environ, tmp_path) is inside


def test_a_container_without_an_explicit_directory_is_off_and_stores_nothing(install, environment, tmp_path) -> None:
    environment.setenv("container", "podman")
    environment.setenv("HOME", str(tmp_path / "home"))
    environment.delenv("XDG_STATE_HOME", raising=False)
    client = install.client(state_dir=None)
    client.consent(True)
    client.record("dark_theme", True)
    assert client.mode == "off"
    assert client.status().rule == WOULD_NOT_LAST
    assert not (tmp_path / "home").exists()


def test_a_container_with_an_explicit_directory_is_like_any_other_place(install, environment, tmp_path) -> None:
    environment.setenv("container", "podman")
    assert install.agreed().mode == "on"
    environment.setenv("HUBBUB_STATE", str(tmp_path / "volume"))
    assert install.agreed(state_dir=None).mode == "on"


@needs_posix_users
def test_a_user_without_a_home_is_off_with_the_reason(install: Install, environment: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "USERPROFILE", "XDG_STATE_HOME"):
        environment.delenv(name, raising=False)
    environment.setattr("pwd.getpwuid", nobody)
    client = install.client(state_dir=None)
    client.consent(True)
    client.record("dark_theme", True)
    client.forget()
    client.close()
    assert client.mode == "off"
    assert client.status().rule == "no home directory is known, and no state directory was given"


# --- places that cannot be written ----------------------------------------------------------------------------------

AN_APP = """
import json, logging, sys
logging.disable()
from hubbub.client import Client
toml, state, now = sys.argv[1:]
with Client(toml, state_dir=state, endpoint="http://127.0.0.1:9", clock=lambda: float(now)) as client:
    client.consent(True)
    client.record("dark_theme", True)
    client.flush()
    print(json.dumps([client.mode, client.status().rule]))
"""


def run_app(install: Install, directory: Path) -> tuple[str, str]:
    toml = install.directory.parent / "metrics.toml"
    toml.write_text(source(metric("dark_theme")))
    mode, rule = run_unprivileged(AN_APP, toml, directory, install.now)
    return mode, rule


@needs_posix_modes
def test_a_directory_that_cannot_be_made_means_off(install: Install, tmp_path: Path) -> None:
    (tmp_path / "sealed").mkdir(mode=0o555)
    place = tmp_path / "sealed" / "state"
    assert run_app(install, place) == ("off", f"the answer could not be kept: {place}: Permission denied")


@needs_posix_modes
def test_a_directory_below_a_file_means_off(install: Install, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "state"
    assert run_app(install, place) == ("off", f"the answer could not be kept: {place}: Not a directory")


@needs_posix_modes
def test_a_state_that_became_read_only_means_off_and_keeps_what_it_holds(install: Install) -> None:
    client = install.agreed()
    client.record("dark_theme", True)
    client.close()
    before = (install.directory / "state.db").read_bytes()
    (install.directory / "state.db").chmod(0o400)
    install.directory.chmod(0o500)
    mode, rule = run_app(install, install.directory)
    assert mode == "off"
    assert rule.endswith(f"{install.directory / 'state.db'}: attempt to write a readonly database")
    assert (install.directory / "state.db").read_bytes() == before


@needs_posix_modes
def test_a_corrupt_state_that_cannot_be_set_aside_means_off(install: Install) -> None:
    install.directory.mkdir()
    (install.directory / "state.db").write_bytes(b"no database at all" * 500)
    install.directory.chmod(0o500)
    mode, rule = run_app(install, install.directory)
    assert mode == "off"
    assert "corrupt (file is not a database) and could not be set aside (Permission denied)" in rule
    install.directory.chmod(0o700)
    shutil.rmtree(install.directory)


@needs_posix_modes
def test_a_file_that_cannot_be_read_means_off(install: Install) -> None:
    install.agreed().close()
    (install.directory / "state.db").chmod(0)
    mode, rule = run_app(install, install.directory)
    assert (mode, "unable to open database file" in rule) == ("off", True), rule


def test_the_state_is_made_only_when_there_is_something_to_keep(install: Install) -> None:
    with install.client() as client:
        client.status()
        client.preview()
    assert not install.directory.exists()
