"""Runs one of the collector's commands as a process: `python launch.py collect --metrics ...`."""

import argparse
import sys

from hubbub.collector import commands
from hubbub.protocol.invalid import Invalid


def main() -> int:
    name = sys.argv[1]
    parser = argparse.ArgumentParser(prog=f"hubbub {name}")
    getattr(commands, f"add_{name}")(parser)
    try:
        return getattr(commands, f"run_{name}")(parser.parse_args(sys.argv[2:]))
    except (Invalid, OSError) as error:
        print(f"hubbub {name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
