"""The door of a package: its public names, each loaded when it is first asked for (PEP 562).

    __all__ = ["Tally", "read_tallies"]
    __getattr__, __dir__ = door(
        __name__, {"Tally": "hubbub.protocol.tally", "read_tallies": "hubbub.protocol.tally_files"}
    )

Importing a package then costs nothing of what is behind it: an app that embeds the client loads no decoder, and the
help of a command loads no numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def door(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package whose public names live in these modules."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = loaded(modules[name], name)
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: sorted(modules)


def loaded(module: str, name: str) -> Any:
    """The object of this name in a module. The module is imported as an `import` statement would: loading `importlib`
    first would cost an app's start as much as two modules of ours."""
    __import__(module)
    return getattr(sys.modules[module], name)
