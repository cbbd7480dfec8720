"""What the application holds, each under a key that knows its type."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

from hubbub.dashboard.access import Sessions
from hubbub.dashboard.assets import Assets
from hubbub.dashboard.decode_jobs import Decodings
from hubbub.dashboard.page_cache import Painted
from hubbub.dashboard.poller import Watch
from hubbub.dashboard.query import Board
from hubbub.dashboard.settings import Settings

SETTINGS = web.AppKey("settings", Settings)
SESSIONS = web.AppKey("sessions", Sessions)
BOARD = web.AppKey("board", Board)
DECODINGS = web.AppKey("decodings", Decodings)
ASSETS = web.AppKey("assets", Assets)
PAINTED = web.AppKey("painted", Painted)
PAINTER = web.AppKey("painter", ThreadPoolExecutor)
WATCH = web.AppKey("watch", Watch)
