"""What a Markdown page shows: commands, Python, data. Nothing is run here.

The conventions, which CONTRIBUTING.md tells a writer:

* a line `$ command` is run, and the lines below it are what it must print;
* a block of commands without `$` is run line by line, and each must succeed;
* `...` within shown output stands for anything in that line; alone on a line, for any number of lines;
* a `python` block is run after those before it on the page; a `text` block right below is what it must print;
* a block whose first line is a comment with nothing but a file name is saved as that file, not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("console", "sh", "shell", "bash")
DATA = ("toml", "json", "text", "ini", "html", "yaml", "csv", "diff")
_PROGRAMS = (
    "hubbub make python python3 pip pytest curl git cd mkdir cp mv rm cat ls head export docker systemctl sudo nginx "
    "kubectl apt-get echo printf seq sqlite3 jupyter"
)
PROGRAMS = frozenset(_PROGRAMS.split())
"""What a line of a plain block begins with if it is a command. A list, because what is installed differs by machine."""
_OTHERS = (
    "awk bash brew bzip2 caddy cargo chmod chown cmp conda cut dd diff dnf du env find gcc go grep gunzip gzip "
    "htop id jq journalctl kill kubectl ln lsof mypy nc node npm openssl perl ping pipx podman poetry ps psql "
    "pyenv rsync ruff scp screen sed service sh sort ssh su tail tar tee tmux touch tox tr uname uniq unzip uv "
    "uvx vi virtualenv watch wc wget xargs xdg-open yum zip zsh"
)
OTHER_PROGRAMS = frozenset(_OTHERS.split())
"""Well-known programs that no page shows yet: one that does must name them above, so that they are run."""
_FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)")
_OUTLINE = re.compile(r"\s{3,}\S")


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it stands on a page. `language` is empty for indented blocks and for fences without one."""

    page: str
    line: int
    language: str
    text: str
    follows: bool  # right below the block before it, with nothing in between

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file_name(self) -> str | None:
        found = _FILE_NAME.fullmatch(self.text.partition("\n")[0].rstrip())
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: `kind` is command, python, save or data. `shown` is the output the page shows, if any."""

    kind: str
    place: str
    text: str
    shown: str | None = None
    language: str = ""


def pages() -> list[str]:
    """Every page that is shown to somebody, by its path; a page that is added is found by itself."""
    patterns = ("docs/*.md", "*.md", "[a-z]*/README.md", "tests/vectors/README.md")
    return sorted({path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)})


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[Block] = []
    end = -1
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.map:
            language = token.info.split()[0] if token.info.strip() else ""
            lines = text.splitlines()[end : token.map[0]] if end >= 0 else ["x"]
            found.append(Block(page, token.map[0] + 1, language, token.content, not any(map(str.strip, lines))))
            end = token.map[1]
    return found


def steps(page: str) -> list[Step]:
    """All that a page asks to be done, in its order."""
    found: list[Step] = []
    for block in blocks(page):
        if block.language == "text" and block.follows and found and found[-1].kind == "python":
            before = found.pop()
            found.append(Step("python", before.place, before.text, block.text))
        elif block.file_name and block.language not in SHELLS:
            found.append(Step("save", block.place, block.text, language=block.file_name))
        elif block.language == "python":
            found.append(Step("python", block.place, block.text))
        elif block.language in SHELLS or (not block.language and _has_command(block.text)):
            found += _commands(block)
        elif block.language in DATA or not block.language:
            found.append(Step("data", block.place, block.text, language=block.language))
        else:
            raise AssertionError(f"{block.place}: a block must be one of {SHELLS + DATA}, got {block.language!r}")
    return found


def _has_command(text: str) -> bool:
    return any(_is_command(line) for line in text.splitlines())


def _is_command(line: str) -> bool:
    words = line.split()
    return bool(words) and (words[0] == "$" or words[0] in PROGRAMS)


def hidden_commands(step: Step) -> list[str]:
    """Lines of a plain block that is not run which begin with a program all the same."""
    if step.kind != "data" or step.language:
        return []
    lines = (line for line in step.text.splitlines() if line.strip() and line[0] != " ")
    return [line for line in lines if line.split()[0] in PROGRAMS | OTHER_PROGRAMS]


def _commands(block: Block) -> Iterator[Step]:
    if any(line.startswith("$ ") for line in block.text.splitlines()):
        yield from _with_output(block)
        return
    for number, line in _joined(block):
        if _is_command(line):
            # Words set apart by a gap explain the command.
            text = line.strip() if block.language else line.strip()[: _end(line.strip())]
            yield Step("command", f"{block.page}:{number}", text)
        elif block.language and line.strip() and not line.lstrip().startswith("#"):
            raise AssertionError(f"{block.page}:{number}: neither a command nor a comment: {line!r}")


def _end(line: str) -> int:
    found = _OUTLINE.search(line)
    return found.start() if found else len(line)


def _with_output(block: Block) -> Iterator[Step]:
    command, place, output = "", "", list[str]()
    for number, line in _joined(block):
        if line.startswith("$ "):
            if command:
                yield Step("command", place, command, "\n".join(output))
            command, place, output = line[2:].strip(), f"{block.page}:{number}", []
        elif command:
            output.append(line)
        elif line.strip():
            raise AssertionError(f"{block.page}:{number}: output before any command: {line!r}")
    yield Step("command", place, command, "\n".join(output))


def _joined(block: Block) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that ends in a backslash goes on in the next."""
    start = block.line + (1 if block.language or not _indented(block) else 0)
    pending, first = "", start
    for number, line in enumerate(block.text.splitlines(), start):
        if not pending:
            first = number
        if line.endswith("\\") and (pending or _is_command(line)):
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""


def _indented(block: Block) -> bool:
    line = (ROOT / block.page).read_text(encoding="utf-8").splitlines()[block.line - 1]
    return not line.lstrip().startswith(("```", "~~~"))
