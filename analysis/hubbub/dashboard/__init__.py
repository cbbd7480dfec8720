"""The analyst's page: estimates with intervals in a browser, live, from a collector or from tally files.

    from aiohttp import web
    from hubbub.dashboard import Settings, make_app

    web.run_app(make_app(Settings(source=("http://127.0.0.1:8787",))), host="127.0.0.1", port=8788)

`Settings` says where the numbers come from and who may look; `make_app` makes an aiohttp application of it. Importing
this package imports neither aiohttp nor numpy; using its names does.
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
