"""Makes `.venv`, in which make runs everything. Needs nothing but Python 3.11 or newer.

Done before and nothing changed: returns at once. The stamp that says so is written last and names all that the
environment depends on, so one that was left half-made, or made for another pyproject.toml, Python or place, is made
anew. What pip is told by its own variables and files (an index, a proxy, a certificate) holds here as everywhere.

Written so that older Pythons can read it, too: they are told in words what they lack.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "made-by-make"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
INSTALLED = ("--editable", str(ROOT) + "[dev]")
OLDEST = (3, 11)


class Missing(Exception):
    """Something the user must install first, in one sentence."""


def main() -> int:
    try:
        check_version()
        if not is_made():
            make()
    except Missing as missing:
        print(f"hubbub: {missing}", file=sys.stderr)
        return 1
    return 0


def check_version() -> None:
    if sys.version_info < OLDEST:
        raise Missing(
            "Python {}.{} or newer is needed, but {} is {}.{}; name another one: make PYTHON=/path/to/python3".format(
                *OLDEST, sys.executable, *sys.version_info
            )
        )


def is_made() -> bool:
    # A link whose interpreter has gone exists no more.
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted()


def wanted() -> str:
    """All that the environment depends on."""
    parts = (
        (ROOT / "pyproject.toml").read_bytes(),
        Path(__file__).read_bytes(),
        sys.version.encode(),
        os.path.realpath(sys.base_prefix).encode(),
        str(ROOT).encode(),  # scripts and the editable install name it
    )
    return hashlib.blake2b(b"".join(hashlib.blake2b(part).digest() for part in parts)).hexdigest() + "\n"


def make() -> None:
    print("Making .venv with Python {}.{}.{} (a minute or two, once) ...".format(*sys.version_info), flush=True)
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    shutil.rmtree(str(VENV), ignore_errors=True)
    install = [*empty_environment(), "install", "-qq", "--disable-pip-version-check", "pip", *INSTALLED]
    if run(install).returncode:
        raise Missing("pip could not install the project into .venv: what it says above is the reason")
    unfinished = STAMP.with_suffix(".part")
    unfinished.write_text(wanted())
    unfinished.replace(STAMP)


def empty_environment() -> list:
    """Make `.venv` with nothing in it, and say how to call a pip that installs there."""
    if has("venv") and has("ensurepip") and made([sys.executable, "-m", "venv", str(VENV)]):
        return [str(PYTHON), "-m", "pip"]
    # Debian and Ubuntu leave ensurepip out. Any pip since 22.3 can install into an environment that has none.
    if has("venv") and made([sys.executable, "-m", "venv", "--without-pip", str(VENV)]):
        for pip in pips():
            reaching = [*pip, "--python", str(PYTHON)]
            if run([*reaching, "--version"], quiet=True).returncode == 0:
                return reaching
    if has("virtualenv") and made([sys.executable, "-m", "virtualenv", str(VENV)]):
        return [str(PYTHON), "-m", "pip"]
    raise Missing(
        "{} cannot make a virtual environment; install the system package python{}.{}-venv (that is its name on "
        "Debian and Ubuntu: apt-get install python{}.{}-venv) and run make again".format(
            sys.executable, *sys.version_info[:2], *sys.version_info[:2]
        )
    )


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def made(command: list) -> bool:
    shutil.rmtree(str(VENV), ignore_errors=True)
    return run(command, quiet=True).returncode == 0


def pips() -> list:
    """Every pip there may be: this Python's own, then those of others on the path."""
    others = ["pip3", "pip", "python3", "python", *(f"python3.{minor}" for minor in range(11, 20))]
    found = [[sys.executable, "-m", "pip"]] if has("pip") else []
    for name in others:
        path = shutil.which(name)
        if path:
            found.append([path] if name.startswith("pip") else [path, "-m", "pip"])
    return found


def run(command: list, quiet: bool = False) -> subprocess.CompletedProcess:
    # These would send what is installed elsewhere, or bring in another Python's modules.
    elsewhere = ("PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, env=environment, stdout=output, stderr=output)


if __name__ == "__main__":
    sys.exit(main())
