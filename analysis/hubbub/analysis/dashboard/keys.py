"""What the application holds, each under a key that knows its type."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

from hubbub.analysis.dashboard.access import Sessions
from hubbub.analysis.dashboard.assets import Assets
from hubbub.analysis.dashboard.board import Board
from hubbub.analysis.dashboard.decodings import Decodings
from hubbub.analysis.dashboard.painted import Painted
from hubbub.analysis.dashboard.settings import Settings
from hubbub.analysis.dashboard.watch import Watch

SETTINGS = web.AppKey("settings", Settings)
SESSIONS = web.AppKey("sessions", Sessions)
BOARD = web.AppKey("board", Board)
DECODINGS = web.AppKey("decodings", Decodings)
ASSETS = web.AppKey("assets", Assets)
PAINTED = web.AppKey("painted", Painted)
PAINTER = web.AppKey("painter", ThreadPoolExecutor)
WATCH = web.AppKey("watch", Watch)
