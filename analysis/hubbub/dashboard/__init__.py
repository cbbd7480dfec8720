"""The analyst's page: estimates with intervals in a browser, live, from a collector or from tally files.

    from hubbub.dashboard import Settings, make_app

    app = make_app(Settings(source=("examples/tallies/language.json",)))

`Settings` says where the numbers come from and who may look; `make_app` makes an aiohttp application of it, for
`aiohttp.web.run_app` or a place in an application of your own. Importing this package imports neither aiohttp nor
numpy; using its names does.
"""

from typing import TYPE_CHECKING

from hubbub.protocol.door import door

if TYPE_CHECKING:
    from hubbub.dashboard.app import make_app
    from hubbub.dashboard.settings import Settings

__all__ = ["Settings", "make_app"]

__getattr__, __dir__ = door(
    __name__,
    {
        "Settings": "hubbub.dashboard.settings",
        "make_app": "hubbub.dashboard.app",
    },
)
