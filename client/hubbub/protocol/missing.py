"""What to do where a module is not there: install an extra, or turn to a system that has it. No app loads this."""

from __future__ import annotations

import sys

WORKS_EVERYWHERE = (
    "apps with hubbub.client, and `hubbub export --url`, `plan`, `decode` and `dashboard`, work here, too"
)


def needed(error: ImportError, extra: str) -> str:
    """The end of a sentence that begins with who needs the module; `extra` is what brings it, unless Python should."""
    name = error.name or "a module"
    if name.partition(".")[0] in sys.stdlib_module_names:
        return (
            f"needs {name}, a part of Python that this system does not have: collectors run on Linux and macOS, "
            f"on Windows in WSL or in a container; {WORKS_EVERYWHERE}"
        )
    return f"needs {name}, which a bare install leaves out: pip install 'hubbub[{extra}]'"
