"""Writes the versions that an environment holds, for constraints.txt:

    make clean test                                         # or another environment that all tests pass in
    .venv/bin/python tools/constraints.py > constraints.txt

Everything that is installed is named, the project itself left out, with no address and no hash: which index serves
a version is pip's business. A constraint asks for nothing; what another Python or system does not need it does not get.
"""

import re
from importlib.metadata import distributions

HEAD = """\
# The versions that the tests are known to pass with. Written by tools/constraints.py, used by tools/environment.py.
# `make newest` tests the newest of everything instead.
"""


def main() -> None:
    found = {canonical(found.name): found.version for found in distributions()}
    found.pop("hubbub", None)
    print(HEAD, end="")
    for name, version in sorted(found.items()):
        print(f"{name}=={version}")


def canonical(name: str) -> str:
    """As the packaging specifications compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
