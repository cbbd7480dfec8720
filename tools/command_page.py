"""Writes docs/commands.md from the commands themselves: python tools/command_page.py > docs/commands.md

A test fails where the page and the commands differ, so no command and no option goes undocumented.
"""

import argparse
import importlib
from collections.abc import Iterator

from hubbub.command.table import SUBCOMMANDS

HEAD = """\
# The commands

Made by `python tools/command_page.py > docs/commands.md`; what stands here is what `hubbub COMMAND --help` says.

Exit status: 0 done; 1 done, and the answer is no; 2 wrong use or bad input, said in a sentence; 3 an extra is not
installed, or this system lacks a part of Python, and which; 130 interrupted. Commands without an extra work on a bare
`pip install hubbub`.
"""


def page() -> str:
    return "\n".join([HEAD, *(line for name in SUBCOMMANDS for line in section(name))])


def section(name: str) -> Iterator[str]:
    command = SUBCOMMANDS[name]
    parser = argparse.ArgumentParser(prog=f"hubbub {name}", add_help=False)
    module = importlib.import_module(command.module)
    getattr(module, f"add_{name.replace('-', '_')}")(parser)
    yield f"## hubbub {name}"
    yield ""
    extra = f" Needs `hubbub[{command.extra}]`." if command.extra else ""
    yield f"{command.help[0].upper()}{command.help[1:]}.{extra}"
    yield ""
    for action in parser._actions:
        yield f"* `{_spelling(action)}`: {(action.help or '').replace('%%', '%')}"
    yield ""
    if parser.epilog:
        yield "```"
        yield parser.epilog
        yield "```"
        yield ""


def _spelling(action: argparse.Action) -> str:
    shown = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    if isinstance(shown, tuple):
        shown = " ".join(shown)
    if not action.option_strings:
        return str(shown)
    takes = action.nargs != 0
    return f"{', '.join(action.option_strings)} {shown}" if takes else ", ".join(action.option_strings)


if __name__ == "__main__":
    print(page(), end="")
