"""Writes the versions that an environment holds, for constraints.txt:

    make clean test                                         # or another environment that all tests pass in
    .venv/bin/python tools/constraints.py > constraints.txt

Everything that is installed is named, but for the project itself and what Python brings; with no address and no hash:
which index serves a version is pip's business. A constraint asks for nothing, so what another Python or system does not
need it does not get.
"""

import re
from importlib.metadata import distributions

OF_PYTHON = ("pip", "setuptools", "wheel")
"""Each Python brings its own, and those of an older one may not run on it."""
HEAD = """\
# The versions that the tests are known to pass with. Written by tools/constraints.py, used by tools/environment.py.
# `make newest` tests the newest of everything instead.
"""


def main() -> None:
    found = {canonical(found.name): found.version for found in distributions()}
    for name in ("hubbub", *OF_PYTHON):
        found.pop(name, None)
    print(HEAD, end="")
    for name, version in sorted(found.items()):
        print(f"{name}=={version}")


def canonical(name: str) -> str:
    """As the packaging specifications compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
