"""`hubbub completion`: a script for the shell, made from the table of commands."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hubbub.command.table import SUBCOMMANDS

_BASH = """\
_hubbub() {{
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{names}" -- "${{COMP_WORDS[1]}}"))
    else
        COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
    fi
}}
complete -o filenames -F _hubbub hubbub"""

_ZSH = """\
#compdef hubbub
_hubbub() {{
    local -a commands=({described})
    if (( CURRENT == 2 )); then _describe command commands; else _files; fi
}}
compdef _hubbub hubbub"""

_FISH = """\
complete -c hubbub -n __fish_use_subcommand -f"""

SHELLS = ("bash", "zsh", "fish")


def add_completion(parser: ArgumentParser) -> None:
    folder = "~/.local/share/bash-completion/completions"
    parser.epilog = f"example:\n  mkdir -p {folder}\n  hubbub completion bash > {folder}/hubbub"
    parser.add_argument("shell", choices=SHELLS, help="whose script to print")


def run_completion(arguments: Namespace) -> int:
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """What the shell is to evaluate."""
    match shell:
        case "bash":
            return _BASH.format(names=" ".join(SUBCOMMANDS))
        case "zsh":
            return _ZSH.format(described=" ".join(f"'{name}:{_quoted(c.help)}'" for name, c in SUBCOMMANDS.items()))
        case _:
            lines = [
                f"complete -c hubbub -n __fish_use_subcommand -f -a {name} -d '{_quoted(command.help)}'"
                for name, command in SUBCOMMANDS.items()
            ]
            return "\n".join([_FISH, *lines])


def _quoted(text: str) -> str:
    return text.replace("'", "").replace(":", ",")
