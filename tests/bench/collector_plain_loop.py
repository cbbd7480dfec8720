"""A collector on asyncio's own event loop, as where uvloop is not installed: `collector_plain_loop.py collect ...`."""

import sys

sys.modules["uvloop"] = None  # importing it now fails as if it were not there

from hubbub.command.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
