"""Makes the environment in which make runs everything. Needs nothing but Python 3.11 or newer.

    python3 tools/environment.py [--venv .venv] [--extra dev] [--newest]

Without `--newest` it holds the versions of constraints.txt; `--extra` is the extra of pyproject.toml that it gets.

Done before and nothing changed: returns at once. The stamp that says so is written last and names all that the
environment depends on, so one that was left half-made, or made for other files, another Python or place, is made
anew. What pip is told by its own variables and files (an index, a proxy, a certificate) holds here as everywhere.

Written so that older Pythons can read it, too: they are told in words what they lack.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = (3, 11)


class Missing(Exception):
    """Something the user must install first, in one sentence."""


class Environment:
    """One environment: where it is, and what it is to hold."""

    def __init__(self, name: str, extra: str, newest: bool) -> None:
        self.name = name
        self.folder = ROOT / name
        self.stamp = self.folder / "made-by-make"
        self.python = self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.extra = extra
        self.newest = newest

    def is_made(self) -> bool:
        # A link whose interpreter has gone exists no more.
        return self.python.exists() and self.stamp.exists() and self.stamp.read_text() == self.wanted()

    def wanted(self) -> str:
        """All that the environment depends on."""
        parts = (
            (ROOT / "pyproject.toml").read_bytes(),
            b"newest" if self.newest else CONSTRAINTS.read_bytes(),
            self.extra.encode(),
            Path(__file__).read_bytes(),
            sys.version.encode(),
            os.path.realpath(sys.base_prefix).encode(),
            str(ROOT).encode(),  # scripts and the editable install name it
            str(self.folder).encode(),
        )
        return hashlib.blake2b(b"".join(hashlib.blake2b(part).digest() for part in parts)).hexdigest() + "\n"

    def make(self) -> None:
        said = "Making {} with Python {}.{}.{} (a minute or two, once) ..."
        print(said.format(self.name, *sys.version_info), flush=True)
        if self.folder.is_symlink() or self.folder.is_file():
            self.folder.unlink()
        if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / "pyvenv.cfg").exists():
            raise Missing(f"{self.name} holds something else than an environment: name another folder, or remove it")
        # Compiling everything takes a minute, and nobody ever imports most of it: Python compiles what it imports.
        quietly = ["-qq", "--disable-pip-version-check", "--no-compile"]
        constraints = [] if self.newest else ["--constraint", str(CONSTRAINTS)]
        project = ["--editable", f"{ROOT}[{self.extra}]"]
        # First a new pip: one of some years ago takes longer to rule out the versions that do not fit than to install.
        newer = [*self.emptied(), "install", *quietly, *constraints, "--upgrade", "pip"]
        install = [str(self.python), "-m", "pip", "install", *quietly, *constraints, *project]
        if run(newer).returncode or run(install).returncode:
            raise Missing(f"pip could not install the project into {self.name}: what it says above is the reason")
        unfinished = self.stamp.with_suffix(".part")
        unfinished.write_text(self.wanted())
        unfinished.replace(self.stamp)

    def emptied(self) -> list:
        """Make it with nothing in it, and say how to call a pip that installs there."""
        # Any pip since 22.3 can install into an environment that has none, which is made in a moment; ensurepip takes
        # five seconds, and Debian and Ubuntu leave it out.
        if has("venv") and self.made_by("venv", "--without-pip"):
            own = [sys.executable, "-m", "pip"]
            if has("pip") and self.is_reached_by(own):
                return self.from_outside(own)
            if has("ensurepip") and self.made_by("venv"):
                return [str(self.python), "-m", "pip"]
            self.made_by("venv", "--without-pip")  # ensurepip may have stopped half-way
            for pip in pips():
                if self.is_reached_by(pip):
                    return self.from_outside(pip)
        if has("virtualenv") and self.made_by("virtualenv"):
            return [str(self.python), "-m", "pip"]
        raise Missing(
            "{} cannot make a virtual environment; install the system package python{}.{}-venv (that is its name on "
            "Debian and Ubuntu: apt-get install python{}.{}-venv) and run make again".format(
                sys.executable, *sys.version_info[:2], *sys.version_info[:2]
            )
        )

    def is_reached_by(self, pip: list) -> bool:
        return run([*self.from_outside(pip), "--version"], quiet=True).returncode == 0

    def from_outside(self, pip: list) -> list:
        return [*pip, "--python", str(self.python)]

    def made_by(self, module: str, *options: str) -> bool:
        shutil.rmtree(str(self.folder), ignore_errors=True)
        return run([sys.executable, "-m", module, *options, str(self.folder)], quiet=True).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the environment in which make runs everything.")
    parser.add_argument("--venv", default=".venv", help="its folder, in the checkout unless it begins at the root")
    parser.add_argument("--extra", default="dev", help="the extra of pyproject.toml that it gets")
    parser.add_argument("--newest", action="store_true", help="the newest of everything, whatever constraints.txt says")
    asked = parser.parse_args()
    try:
        check_version()
        environment = Environment(asked.venv, asked.extra, asked.newest)
        if not environment.is_made():
            environment.make()
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


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def pips() -> list:
    """Every pip of others that is on the path."""
    found = []
    for name in ["pip3", "pip", "python3", "python", *(f"python3.{minor}" for minor in range(11, 20))]:
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
