"""`python -m hubbub.command` is `hubbub`, for where the script is not on the path."""

import sys

from hubbub.command.main import main

sys.exit(main())
