"""Runs a command as the installed script does: `python launch.py collect --metrics ...`."""

import sys

from hubbub.command.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
