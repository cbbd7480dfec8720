"""Where an app's state lives on this machine, and whether it would last there.

State that does not last must send nothing: an install that forgets its memos answers afresh and can be averaged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from os.path import dirname, exists, expanduser, join  # not pathlib, which costs an app's start as much as sqlite3

from hubbub.protocol.names import is_app

WOULD_NOT_LAST = (
    "this is a container, and no state directory was given that would outlive it (HUBBUB_STATE=DIR names one)"
)


def state_directory(app: str, environ: Mapping[str, str], given: str | os.PathLike[str] | None = None) -> str:
    """The directory of one app: the one given, $HUBBUB_STATE/<app>, or the platform's place for state. Raises OSError
    where the platform has none, because the user has no home."""
    if given is not None:
        return os.fspath(given)
    if environ.get("HUBBUB_STATE"):
        return join(environ["HUBBUB_STATE"], app)
    home = _home(environ)
    if sys.platform == "win32":
        return join(environ.get("LOCALAPPDATA") or join(home, "AppData", "Local"), "hubbub", app)
    if sys.platform == "darwin":
        return join(home, "Library", "Application Support", "hubbub", app)
    return join(environ.get("XDG_STATE_HOME") or join(home, ".local", "state"), "hubbub", app)


def known_apps(environ: Mapping[str, str]) -> list[str]:
    """The apps that keep a state in the usual place of this machine."""
    place = dirname(state_directory("app", environ))
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return []
    return [name for name in names if is_app(name) and any(file[:5] == "state" for file in _files(join(place, name)))]


def _files(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # no folder, or not ours
        return []


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or environ.get("USERPROFILE") or expanduser("~")
    if home == "~":
        raise OSError("no home directory is known, and no state directory was given")
    return home


def is_explicit(environ: Mapping[str, str], given: str | os.PathLike[str] | None) -> bool:
    """Whether somebody chose the place, and so knows that it lasts."""
    return given is not None or bool(environ.get("HUBBUB_STATE"))


def in_container(environ: Mapping[str, str], root: str | os.PathLike[str] = "/") -> bool:
    """Whether this process lives in a container, whose files usually die with it."""
    return (
        exists(join(root, ".dockerenv"))
        or exists(join(root, "run", ".containerenv"))
        or bool(environ.get("KUBERNETES_SERVICE_HOST"))
        or bool(environ.get("container"))
    )


def machine_id() -> str:
    """What the system calls this machine; empty where it has no such name. Stays on the machine."""
    if sys.platform == "win32":
        return _windows_machine_guid()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError):
            continue
    return ""


def _windows_machine_guid() -> str:
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
            return str(winreg.QueryValueEx(key, "MachineGuid")[0])
    except OSError:
        return ""
